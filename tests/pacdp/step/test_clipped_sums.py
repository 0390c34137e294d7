"""The reference's clipped sums, against autograd of one example at a time."""

import copy
import math

import torch
from clipped_networks import CLIP, KINDS, Scaled, drawing, flat, rows, slowly
from private_toys import cnn, cross_entropy, mlp
from torch import equal
from torch.testing import assert_close
from torch.utils.data import Subset, TensorDataset

from pacdp.layers.random import random_state, rewind
from pacdp.private import Units, bayesian, with_example_dropout
from pacdp.step.clip import Clip
from pacdp.step.sums import Reference, runs_at_once
from pacdp.step.units import Network, summed_gradient, trained
from tests.marks import every_case, parametrize
from tests.pacdp.same import identical, left_alone
from tests.pacdp.toys import seeded

N = 12
EVERYONE, NOBODY = torch.arange(N), torch.zeros(0, dtype=torch.int64)


def by_example(module, inputs, targets, *, loss=cross_entropy, clip_norm=CLIP, clipping="flat", **options):
    units = Units.group(TensorDataset(inputs, targets), None)
    reference = Reference(Network.of(module, loss), units, Clip(clip_norm, rule=clipping))
    at_once = runs_at_once(reference, units, trained(module))
    return reference._replace(**{"vectorised": at_once, **options})


def by_person(module, inputs, targets, *, clip_norm=CLIP, clipping="flat"):
    """Each with one record, which means the same."""
    units = Units.group(TensorDataset(inputs, targets), EVERYONE)
    clip = Clip(clip_norm, rule=clipping)
    return Reference(Network.of(module, cross_entropy), units, clip, summed_gradient, vectorised=False)


@every_case("name", KINDS)
def test_the_reference_is_autograd_of_one_example_at_a_time(name):
    """In parts of any size, for some of the data in any order, and at the weights that are given, not the module's."""
    module = KINDS[name]().double()
    inputs, targets = rows(N, dtype=torch.float64)
    targets = targets % module(inputs[:1]).shape[1]
    moved = copy.deepcopy(module)
    with torch.no_grad():
        for p in moved.parameters():
            if p.requires_grad:
                p.mul_(1.3).add_(0.05)
    for clip_norm in (CLIP, 1e6):
        expected, finite = slowly(moved, inputs, targets, clip_norm=clip_norm)
        assert finite.all()
        assert bool((expected.norm(dim=1) > 0.999 * clip_norm).any()) == (clip_norm == CLIP)
        parts = (None, 5, 1) if clip_norm == CLIP else (5,)
        summers = [by_example(module, inputs, targets, clip_norm=clip_norm, most=most) for most in parts]
        if clip_norm == CLIP:
            summers.append(by_person(module, inputs, targets, clip_norm=clip_norm))
        for summer in summers:
            for chosen in (EVERYONE, torch.tensor([7, 2, 11]), NOBODY):
                made = summer(chosen, trained(moved))
                assert_close(flat(made.total), expected[chosen].sum(0), atol=1e-9, rtol=1e-10)
                assert list(made.total) == list(trained(module))
                assert made.nonfinite == 0


@parametrize("value", [math.nan, -math.inf])
@parametrize("build", [mlp, cnn, Scaled])
def test_what_is_no_number_counts_as_nothing(build, value):
    module = build().double()
    inputs, targets = rows(N, dtype=torch.float64)
    inputs[3], inputs[8, 1] = value, value
    expected, finite = slowly(module, inputs, targets)
    assert (~finite).sum() == 2
    for vectorised in (True, False):
        summer = by_example(module, inputs, targets, vectorised=vectorised)
        made = summer(EVERYONE, trained(module))
        assert_close(flat(made.total), expected.sum(0), atol=1e-10, rtol=1e-9)
        assert made.nonfinite == (~finite).sum()


RANDOM = {
    "masks": lambda: with_example_dropout(drawing(), generator=seeded(4)),
    "torch's dropout": drawing,
    "drawn weights": lambda: bayesian(mlp(), initial_std=0.3, generator=seeded(4)),
    "drawn kernels": lambda: bayesian(cnn(), initial_std=0.3, generator=seeded(4)),
}


@every_case("name", RANDOM)
def test_random_layers_draw_for_each_example_in_turn(name):
    """From the same generators the slow twin draws the same numbers, and the mean over draws is clipped, not each."""
    for draws in (1, 3):
        module = RANDOM[name]().double().train()
        inputs, targets = rows(N, dtype=torch.float64)
        summer, before = by_example(module, inputs, targets, draws=draws), random_state(module)
        made = flat(summer(EVERYONE, trained(module)).total)
        rewind(module, before)
        expected, _ = slowly(module, inputs, targets, draws=draws)
        rewind(module, before)
        assert_close(made, expected.sum(0), atol=1e-11, rtol=1e-10)
        again, other = (flat(summer(EVERYONE, trained(module)).total) for _ in range(2))
        assert equal(again, made)
        assert not equal(other, made)
        assert float(flat(summer(NOBODY, trained(module)).total).abs().max()) == 0.0


@every_case("name", ["mlp", "branches", *RANDOM])
def test_the_generators_and_the_module_are_left_alone_by_the_trial(name):
    module = {**KINDS, **RANDOM}[name]()
    state = random_state(module)
    with left_alone(module):
        assert by_example(module, *rows(N)).vectorised == (name == "mlp")
    after = random_state(module)
    assert equal(state.cpu, after.cpu)
    assert identical(state.layers, after.layers)


def test_data_sets_of_any_kind_give_the_same_sum():
    module, examples = mlp(), rows(N)
    exact = by_example(module, *examples)
    other = exact._replace(units=Units.group(Subset(TensorDataset(*examples), range(N)), None))
    chosen = torch.tensor([0, 4, 9])
    assert equal(flat(exact(chosen, trained(module)).total), flat(other(chosen, trained(module)).total))
