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
from pacdp.store.canonical import described, digest
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


def decaying(name, decay):
    """These settings with another decay of the step sizes."""
    return dataclasses.replace(SETTINGS[name], **{"outer_decay" if name == "Entropy-SGLD" else "decay": decay})


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
    ends = []
    for decay in (0.7, schedules.polynomial(decay=0.7), schedules.polynomial(decay=0.5)):
        sampler = build(decaying(name, decay), potential())
        state = sampler.init(torch.ones(2, 3, dtype=torch.float64))
        for _ in range(5):
            state, _ = sampler.step(state, keys_of(0, 1))
        ends.append(state.weights)
    assert_close(ends[0], ends[1], rtol=1e-12, atol=1e-12)
    assert (ends[0] - ends[2]).abs().max() > 1e-3


@each
def test_a_step_of_zero_is_a_step_and_a_bad_number_stops_before_the_step_and_names_it(name):
    for bad in (math.nan, math.inf, -1e-9):
        source = potential()
        sampler = build(decaying(name, lambda t, bad=bad: bad if t == 3 else 0.0), source)
        start, keys = torch.ones(1, 3), keys_of(0)
        state, _ = sampler.step(sampler.init(start), keys)
        state, _ = sampler.step(state, keys)
        calls = source.calls
        with refusal(r"step size .* at step 3: expected a finite number >= 0"):
            sampler.step(state, keys)
        assert source.calls == calls > 0
        assert equal(state.weights, start)


def test_schedules_are_shared_by_the_chains_of_a_batch_and_refused_with_kept_norms():
    schedule = schedules.warm_up(steps=4)
    both = build([SGLD(tau=tau, decay=schedule) for tau in (10.0, 20.0)], potential()).coefficients(1)
    assert both["rate"].tolist() == [0.05, 0.05]
    assert both["scale"].tolist() == near([0.1, math.sqrt(0.005)])
    with refusal("chains of one batch must agree on decay"):
        build([SGLD(tau=10.0, decay=schedule), SGLD(tau=10.0, decay=lambda t: 1.0)], potential())
    with refusal("chains of one batch must agree on decay"):
        build([SGLD(tau=10.0), SGLD(tau=10.0, decay=schedule)], potential())
    for name, one in SETTINGS.items():
        if "keep_norms" in {field.name for field in dataclasses.fields(one)}:
            with refusal("must be numbers with keep_norms"):
                build(dataclasses.replace(decaying(name, schedule), keep_norms=True), potential())


def test_a_chain_that_cools_by_a_schedule_has_no_stationary_law_and_no_json():
    cooled = SGLD(tau=10.0, cooling=lambda t: 1.0 + t)
    for one in (cooled, SGLD(tau=10.0, cooling=0.5)):
        assert "no stationary law" in one.target_privacy(oscillation=1.0, n=9, step=3).reason
    with refusal("JSON values only"):
        digest(described(cooled))
