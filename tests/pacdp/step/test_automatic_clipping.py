"""Automatic clipping: g_i C/(‖g_i‖ + γ) in every way to a sum, and nobody longer than C."""

import pytest
import torch
from clipped_networks import CLIP, KNOWN, flat, rows, slowly
from private_toys import cnn, cross_entropy, mlp, private
from test_clipped_sums import EVERYONE, NOBODY, N, by_example, by_person
from torch.nn import Linear, Sequential
from torch.testing import assert_close
from torch.utils.data import TensorDataset

import pacdp.opacus.ghost
import pacdp.step.clip
import pacdp.step.gradients
from pacdp.opacus.ghost import GhostSums
from pacdp.private import Units
from pacdp.step.clip import clip_factors
from pacdp.step.mechanism import MODES
from pacdp.step.units import trained
from tests.marks import every_case, parametrize

HOW = {"clipping": "automatic"}


def by_ghosts(module, inputs, targets, *, loss=cross_entropy, clip_norm=CLIP, **options):
    units = Units.group(TensorDataset(inputs, targets), None)
    return GhostSums(module.train(), units, loss, clip_norm=clip_norm, **options)


def in_the_paper(module, inputs, targets):
    """The formula, example by example, in double precision."""
    found, _ = slowly(module, inputs, targets, clip_norm=1e30)
    return found * (CLIP / (found.norm(dim=1, keepdim=True) + 0.01))


def everywhere(patch, factors):
    for place in (pacdp.step.clip, pacdp.step.gradients, pacdp.opacus.ghost):
        patch.setattr(place, "clip_factors", factors)


def furthest(summer, module, inputs, targets):
    """How far the sum of some examples, whose gradients are small and large, is from the formula's."""
    scaled = inputs * torch.logspace(-6, 3, N, dtype=inputs.dtype)[:, None]
    made = summer(module, scaled, targets, **HOW)
    expected = in_the_paper(module, scaled, targets)
    assert not flat(made(NOBODY, trained(module)).total).any()
    return max(
        float((flat(made(chosen, trained(module)).total) - expected[chosen].sum(0)).norm())
        for chosen in (EVERYONE, torch.tensor([0]), torch.tensor([7, 2, 11]))
    )


SUMMERS = {
    "reference": by_example,
    "ghost": by_ghosts,
    "by person": lambda *given, clipping: by_person(*given)._replace(clipping=clipping, vectorised=True),
}


@every_case("summer", SUMMERS.values(), ids=list(SUMMERS))
@parametrize("name", KNOWN)
def test_every_way_to_a_sum_is_the_formula(summer, name):
    module, (inputs, targets) = KNOWN[name]().double(), rows(N, dtype=torch.float64)
    assert furthest(summer, module, inputs, targets) < 1e-9


FAULTS = {
    "flat": lambda norms, clip, dtype=torch.float32, how="flat": clip_factors(norms, clip, dtype),
    "no stability": lambda norms, clip, dtype=torch.float32, how="flat": clip_factors(
        norms - 0.0099, clip, dtype, how
    ),
    "one factor for all": lambda norms, clip, dtype=torch.float32, how="flat": clip_factors(
        norms.mean().expand(len(norms)), clip, dtype, how
    ),
    "the scale forgotten": lambda *given: clip_factors(*given)._replace(scale=1.0),
}  # fmt: skip


@every_case("summer", SUMMERS.values(), ids=list(SUMMERS))
@every_case("fault", FAULTS)
def test_another_factor_is_noticed(summer, fault, monkeypatch):
    everywhere(monkeypatch, FAULTS[fault])
    assert furthest(summer, mlp().double(), *rows(N, dtype=torch.float64)) > 1e-3


def sums_of_huge_slopes():
    """An example whose slope is near the largest float and whose input near the smallest: its gradient has norm 3."""
    inputs, slopes = torch.ones(4, 1), torch.ones(4)
    inputs[1], slopes[1] = 1e-38, 3e38
    layer = Sequential(Linear(1, 1, bias=False))
    given = (layer, inputs, slopes)
    loss = {"loss": lambda outputs, targets: outputs[:, 0] * targets, "clip_norm": 100.0}
    for summer in (by_example, by_ghosts):
        made = summer(*given, **loss, **HOW)
        yield (
            float(flat(made(torch.tensor([0, 2, 3]), trained(layer)).total)),
            float(flat(made(torch.arange(4), trained(layer)).total)),
        )


def test_a_huge_slope_moves_the_sum_by_its_own_part_alone(monkeypatch):
    for without, whole in sums_of_huge_slopes():
        assert whole - without == pytest.approx(100.0 * 3.0 / 3.01, rel=1e-4)

    def at_once(*given):
        made = clip_factors(*given)
        return made._replace(factors=made.factors * made.scale, scale=1.0)

    everywhere(monkeypatch, at_once)
    assert not all(0.0 < whole - without <= 100.0 for without, whole in sums_of_huge_slopes())


@parametrize("network", [mlp, cnn])
@parametrize("mode", MODES)
def test_a_loop_of_one_s_own_has_the_trainer_s_sums(mode, network):
    inputs, targets = rows(N)
    numbers = {"noise_multiplier": 0.0, "expected_batch_size": 1.0, "lr": 1.0, "max_grad_norm": CLIP}
    module, optimizer, criterion, *_ = private(network(), mode=mode, **numbers, **HOW)
    before = flat(trained(module))
    criterion(module(inputs), targets).backward()
    optimizer.step()
    expected = in_the_paper(network(), inputs, targets).sum(0)
    assert_close(before - flat(trained(module)), expected, atol=2e-5, rtol=1e-4)
