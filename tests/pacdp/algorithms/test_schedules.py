"""Schedules multiply the settings' own step sizes, and one that leaves the numbers stops the run before the step."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from exact_laws import Counting
from torch import equal
from torch.testing import assert_close
from toys import keys_of

from pacdp import schedules
from pacdp.algorithms import PSGLD, SGD, SGHMC, SGLD, EntropySGD, build
from tests.marks import near, parametrize, refusal

SETTINGS = {
    "SGD": SGD(step_size=0.2),
    "SGLD": SGLD(tau=10.0, step_size=0.2),
    "pSGLD": PSGLD(tau=10.0, step_size=0.2),
    "SGHMC": SGHMC(tau=10.0, step_size=0.2),
    "Entropy-SGLD": EntropySGD(tau=10.0, outer_step_size=0.2, inner_steps=2),
}
each = parametrize("name", SETTINGS)
pytestmark = pytest.mark.every_case


def potential():
    return Counting(np.eye(1), np.zeros(1))


def test_schedules_are_their_formulas():
    schedule = schedules.polynomial(decay=0.55, offset=9.0)
    assert schedule(1) == 1.0
    assert schedule(11) == near(2.0**-0.55, rel=1e-14)
    assert [schedules.polynomial(decay=0.5)(t) for t in (1, 4, 9)] == [1.0, 0.5, near(1 / 3)]
    cycle = [0.5 * (math.cos(math.pi * k / 4) + 1) for k in range(4)]
    assert [schedules.cyclical(period=4)(t) for t in range(1, 13)] == 3 * cycle
    assert [schedules.warm_up(steps=4)(t) for t in range(1, 7)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


@each
def test_a_schedule_takes_the_place_of_the_decay(name):
    settings = SETTINGS[name]
    decaying = dataclasses.replace(settings, **{"outer_decay" if name == "Entropy-SGLD" else "decay": 0.7})
    scheduled, other = (
        build(decaying, potential(), step_size=schedules.polynomial(decay=decay)) for decay in (0.7, 0.5)
    )
    ends = []
    for sampler in (build(decaying, potential()), scheduled, other):
        state = sampler.init(torch.ones(2, 3, dtype=torch.float64))
        for _ in range(5):
            state, _ = sampler.step(state, keys_of(0, 1))
        ends.append(state.weights)
    assert_close(ends[0], ends[1], rtol=1e-12, atol=1e-12)
    assert (ends[0] - ends[2]).abs().max() > 1e-3


@each
def test_a_step_of_zero_is_a_step_and_a_bad_number_stops_before_the_step_and_names_it(name):
    settings = SETTINGS[name]
    for bad in (math.nan, math.inf, -1e-9):
        source = potential()
        sampler = build(settings, source, step_size=lambda t, bad=bad: bad if t == 3 else 0.0)
        start, keys = torch.ones(1, 3), keys_of(0)
        state, _ = sampler.step(sampler.init(start), keys)
        state, _ = sampler.step(state, keys)
        calls = source.calls
        with refusal(r"step size .* at step 3: expected a finite number >= 0"):
            sampler.step(state, keys)
        assert source.calls == calls > 0
        assert equal(state.weights, start)


def test_a_schedule_that_an_algorithm_does_not_take_is_refused_before_the_first_step():
    with pytest.raises(TypeError, match="temperature"):
        build(SETTINGS["SGHMC"], potential(), temperature=schedules.warm_up(steps=4))
    for one in SETTINGS.values():
        if "keep_norms" in {field.name for field in dataclasses.fields(one)}:
            with refusal("step_size and temperature must be left out with keep_norms"):
                build(dataclasses.replace(one, keep_norms=True), potential(), step_size=schedules.warm_up(steps=4))
