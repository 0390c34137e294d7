"""Schedules multiply the settings' own step sizes, and one that leaves the numbers stops the run before the step."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from toys import Quadratic, keys_of

from pacdp import schedules
from pacdp.algorithms import PSGLD, SGD, SGHMC, SGLD, EntropySGD, entropy_sgd, psgld, sgd, sghmc, sgld
from pacdp.chains import Keys
from pacdp.objective import Estimate

MODULES = {
    "SGD": (sgd, SGD(step_size=0.2)),
    "SGLD": (sgld, SGLD(tau=10.0, step_size=0.2)),
    "pSGLD": (psgld, PSGLD(tau=10.0, step_size=0.2)),
    "SGHMC": (sghmc, SGHMC(tau=10.0, step_size=0.2)),
    "Entropy-SGLD": (entropy_sgd, EntropySGD(tau=10.0, outer_step_size=0.2, inner_steps=2)),
}


class Counting(Quadratic):
    calls = 0

    def estimate(self, weights: Tensor, keys: Keys, tick: int | Tensor) -> Estimate:
        self.calls += 1
        return super().estimate(weights, keys, tick)


def potential() -> Counting:
    return Counting(np.eye(1), np.zeros(1))


def test_polynomial_is_one_first_and_welling_and_tehs_later() -> None:
    schedule = schedules.polynomial(decay=0.55, offset=9.0)
    assert schedule(1) == 1.0
    assert schedule(11) == pytest.approx(2.0**-0.55, rel=1e-14)
    assert [schedules.polynomial(decay=0.5)(t) for t in (1, 4, 9)] == [1.0, 0.5, pytest.approx(1 / 3)]


def test_cyclical_restarts() -> None:
    schedule = schedules.cyclical(period=4)
    cycle = [0.5 * (math.cos(math.pi * k / 4) + 1) for k in range(4)]
    assert [schedule(t) for t in range(1, 13)] == 3 * cycle
    assert cycle[0] == 1.0
    assert min(cycle) > 0


def test_warm_up_grows_and_stays() -> None:
    assert [schedules.warm_up(steps=4)(t) for t in range(1, 7)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("make", [lambda n: schedules.cyclical(period=n), lambda n: schedules.warm_up(steps=n)])
@pytest.mark.parametrize("number", [0, -1])
def test_lengths_must_be_positive(make: Callable[[int], object], number: int) -> None:
    with pytest.raises(ValueError, match=f"> 0, got {number}"):
        make(number)


@pytest.mark.parametrize("name", MODULES)
def test_a_schedule_takes_the_place_of_the_decay(name: str) -> None:
    module, settings = MODULES[name]
    default = "outer_decay" if name == "Entropy-SGLD" else "decay"
    decaying = type(settings)(**{**{f: getattr(settings, f) for f in settings.__slots__}, default: 0.7})
    plain = module.build(decaying, potential())
    scheduled = module.build(decaying, potential(), step_size=schedules.polynomial(decay=0.7))
    other = module.build(decaying, potential(), step_size=schedules.polynomial(decay=0.5))
    start, keys = torch.ones(2, 3, dtype=torch.float64), keys_of(0, 1)
    ends = []
    for sampler in (plain, scheduled, other):
        state = sampler.init(start)
        for _ in range(5):
            state, _ = sampler.step(state, keys)
        ends.append(state.weights)
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-12, atol=1e-12)
    assert (ends[0] - ends[2]).abs().max() > 1e-3


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1e-9])
@pytest.mark.parametrize("name", MODULES)
def test_a_bad_number_stops_before_the_step_and_names_it(name: str, bad: float) -> None:
    module, settings = MODULES[name]
    source = potential()
    sampler, keys = module.build(settings, source, step_size=lambda t: bad if t == 4 else 1.0), keys_of(0)
    state = sampler.init(torch.ones(1, 3))
    for _ in range(3):
        state, _ = sampler.step(state, keys)
    calls, weights = source.calls, state.weights.clone()
    with pytest.raises(
        ValueError, match=r"the schedule gives the step size .* at step 4: expected a finite number >= 0"
    ):
        sampler.step(state, keys)
    assert source.calls == calls
    assert torch.equal(state.weights, weights)


@pytest.mark.parametrize("name", MODULES)
def test_a_step_of_zero_is_a_step(name: str) -> None:
    module, settings = MODULES[name]
    sampler = module.build(settings, potential(), step_size=lambda t: 0.0)
    start = torch.ones(1, 3)
    state, _ = sampler.step(sampler.init(start), keys_of(0))
    assert torch.equal(state.weights, start)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_a_bad_temperature_stops_before_the_step_and_names_it(bad: float) -> None:
    sampler = sgld.build(SGLD(tau=10.0), potential(), temperature=lambda t: bad if t == 2 else 1.0)
    state, _ = sampler.step(sampler.init(torch.ones(1, 3)), keys_of(0))
    with pytest.raises(ValueError, match=r"gives temperature = .* at step 2: expected a finite number > 0"):
        sampler.step(state, keys_of(0))


def test_the_sentence_names_the_number_that_is_bad() -> None:
    every = [SGLD(tau=10.0, step_size=0.1), SGLD(tau=10.0, step_size=1e300)]
    sampler = sgld.build(every, potential(), step_size=lambda t: 1e10)
    with pytest.raises(ValueError, match="step size inf at step 1"):
        sampler.step(sampler.init(torch.ones(2, 3)), keys_of(0, 1))
