"""Automatic clipping: g_i C/(‖g_i‖ + γ) in every way to a sum, and nobody longer than C."""

import torch
from clipped_networks import CLIP, KNOWN, flat, rows, slowly
from private_toys import clipped_sum, cross_entropy, mlp
from test_clipped_sums import EVERYONE, NOBODY, N, by_example, by_person
from torch.nn import Linear, Sequential
from torch.testing import assert_close
from torch.utils.data import TensorDataset

import pacdp.step.clip
import pacdp.step.ghost
import pacdp.step.gradients
from pacdp.private import Units
from pacdp.step.clip import Clip, clip_factors
from pacdp.step.ghost import GhostSums
from pacdp.step.mechanism import MODES
from pacdp.step.units import Network, trained
from tests.marks import every_case, near, parametrize

HOW = {"clipping": "automatic"}


def by_ghosts(module, inputs, targets, *, loss=cross_entropy, clip_norm=CLIP, clipping="flat"):
    units = Units.group(TensorDataset(inputs, targets), None)
    return GhostSums(Network.of(module.train(), loss), units, Clip(clip_norm, rule=clipping))


def in_the_paper(module, inputs, targets):
    """The formula, example by example, in double precision."""
    found, _ = slowly(module, inputs, targets, clip_norm=1e30)
    return found * (CLIP / (found.norm(dim=1, keepdim=True) + 0.01))


def everywhere(patch, factors):
    for place in (pacdp.step.clip, pacdp.step.gradients, pacdp.step.ghost):
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
    "by person": lambda *given, clipping: by_person(*given, clipping=clipping)._replace(vectorised=True),
}


every_summer = every_case("summer", SUMMERS.values(), ids=list(SUMMERS))


@every_summer
@parametrize("name", KNOWN)
def test_every_way_to_a_sum_is_the_formula(summer, name):
    module, (inputs, targets) = KNOWN[name]().double(), rows(N, dtype=torch.float64)
    assert furthest(summer, module, inputs, targets) < 1e-9


def of_norms(change):
    return lambda norms, *given: clip_factors(change(norms), *given)


FAULTS = {
    "flat": lambda norms, clip, *dtype: clip_factors(norms, Clip(clip.norm), *dtype),
    "no stability": of_norms(lambda norms: norms - 0.0099),
    "one factor for all": of_norms(lambda norms: norms.mean().expand(len(norms))),
    "the scale forgotten": lambda *given: clip_factors(*given)._replace(scale=1.0),
}


@every_summer
@every_case("fault", FAULTS)
def test_another_factor_is_noticed(summer, fault, monkeypatch):
    everywhere(monkeypatch, FAULTS[fault])
    assert furthest(summer, mlp().double(), *rows(N, dtype=torch.float64)) > 1e-3


def moved_by_a_huge_slope(summer):
    """By how much: its slope is near the largest float, its input near the smallest, and its gradient 3 long."""
    inputs, slopes = torch.tensor([[1.0], [1e-38]]), torch.tensor([1.0, 3e38])
    layer = Sequential(Linear(1, 1, bias=False))
    made = summer(layer, inputs, slopes, loss=lambda outputs, y: outputs[:, 0] * y, clip_norm=100.0, **HOW)
    whole, without = (flat(made(chosen, trained(layer)).total) for chosen in (torch.arange(2), torch.arange(1)))
    return float(whole - without)


@parametrize("summer", [by_example, by_ghosts])
def test_a_huge_slope_moves_the_sum_by_its_own_part_alone(summer, monkeypatch):
    assert moved_by_a_huge_slope(summer) == near(100.0 * 3.0 / 3.01, rel=1e-4)

    def at_once(*given):
        made = clip_factors(*given)
        return made._replace(factors=made.factors * made.scale, scale=1.0)

    everywhere(monkeypatch, at_once)
    assert not 0.0 < moved_by_a_huge_slope(summer) <= 100.0


@parametrize("mode", MODES)
def test_a_loop_of_one_s_own_has_the_trainer_s_sums(mode):
    found, _ = clipped_sum(mlp(), *rows(N), mode=mode, **HOW)
    assert_close(found.double(), in_the_paper(mlp(), *rows(N)).sum(0), atol=2e-5, rtol=1e-4)
