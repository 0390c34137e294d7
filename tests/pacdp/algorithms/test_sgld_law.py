"""SGLD on a quadratic is a Gaussian whose mean and covariance are known at every step; the chains follow it."""

import numpy as np
import pytest
import torch
from affine import KEPT, REJECTED, Law, blocks, plant, smallest, states
from toys import Quadratic

from pacdp import schedules
from pacdp.algorithms import SGLD, build, sgld
from pacdp.chains import NOISE, Keys

MATRIX = np.array([[0.8, 0.3], [0.3, 1.4]])
TARGET = np.array([-0.7, 0.4])
START = np.array([1.5, -0.5])
SETTINGS = {
    "constant": SGLD(tau=40.0, step_size=0.3, base_std=0.5),
    "decaying": SGLD(tau=40.0, step_size=0.3, decay=0.6, base_std=0.5),
    "hot": SGLD(tau=4.0, step_size=0.1, base_std=2.0),
    "large steps": SGLD(tau=1000.0, step_size=0.9, decay=1.0, base_std=0.1),
}


def next_law(law: Law, settings: SGLD, potential: Quadratic, step: int, *, heat: float = 1.0, h: float = 0.0) -> Law:
    """w ← w - h (A (w - t) + noise g + w/(τ σ²)) + √(2h/τ) ξ."""
    h = h or settings.step_size * step**-settings.decay
    a, one = potential.matrix, np.eye(potential.dim)
    tau = settings.tau / heat
    matrix = one - h * (a + one / (tau * settings.base_std**2))
    return law.moved(matrix, h * a @ potential.target, (2 * h / tau + (h * potential.noise) ** 2) * one)


def worst(settings: SGLD, potential: Quadratic, keys: Keys, *, copies: int, steps: int = 12) -> float:
    """The smallest p-value along a run."""
    law, found = Law.at(START), 1.0
    for step, state in states(build(settings, potential), keys, START, steps=steps, copies=copies):
        law = next_law(law, settings, potential, step)
        found = min(found, smallest(blocks(state.weights, 2), law))
    return found


@pytest.mark.parametrize("noise", [0.0, 0.6], ids=["exact", "noisy"])
@pytest.mark.parametrize("name", SETTINGS)
def test_every_step_has_its_exact_law(name: str, noise: float) -> None:
    keys = Keys.derive(range(100))
    assert worst(SETTINGS[name], Quadratic(MATRIX, TARGET, noise=noise), keys, copies=200) > KEPT


@pytest.mark.parametrize("factor", [0.95, 1.05])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_noise_scale_wrong_by_a_twentieth_is_noticed(
    name: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, sgld, stream=NOISE, factor=factor)
    assert worst(SETTINGS[name], Quadratic(MATRIX, TARGET), Keys.derive(range(100)), copies=200) < REJECTED


def test_twenty_thousand_chains_have_the_law_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Across keys rather than across coordinates."""
    keys = Keys.derive([7] * 20_000, range(20_000))
    potential = Quadratic(MATRIX, TARGET, noise=0.6)
    assert worst(SETTINGS["decaying"], potential, keys, copies=1, steps=5) > KEPT
    plant(monkeypatch, sgld, stream=NOISE)
    assert worst(SETTINGS["decaying"], Quadratic(MATRIX, TARGET), keys, copies=1, steps=5) < REJECTED


def test_chains_of_one_batch_obey_each_its_own_settings() -> None:
    potential, every = Quadratic(MATRIX, TARGET, noise=0.3), list(SETTINGS.values())
    law = [Law.at(START) for _ in every]
    for step, state in states(build(every, potential), Keys.derive(range(4)), START, steps=8, copies=20_000):
        for k, settings in enumerate(every):
            law[k] = next_law(law[k], settings, potential, step)
            draws = blocks(state.weights[k], 2)
            assert smallest(draws, law[k]) > KEPT
            assert smallest(draws, Law(law[k].mean, 1.05**2 * law[k].covariance)) < REJECTED


def test_schedules_multiply_step_size_and_temperature() -> None:
    settings, potential = SETTINGS["decaying"], Quadratic(MATRIX, TARGET)
    sampler = sgld.build(settings, potential, step_size=schedules.cyclical(period=3), temperature=lambda t: 1 + t)
    law = Law.at(START)
    for step, state in states(sampler, Keys.derive(range(100)), START, steps=6, copies=200):
        h = settings.step_size * (1.0, 0.75, 0.25)[(step - 1) % 3]
        law = next_law(law, settings, potential, step, h=h, heat=1.0 + step)
        assert smallest(blocks(state.weights, 2), law) > KEPT


def test_small_steps_reach_the_gibbs_distribution_with_its_base_measure() -> None:
    """Of the exact recursion, which the chains are seen to follow: the bias of its stationary law is of order h."""
    potential, tau, base_std = Quadratic(MATRIX, TARGET), 5.0, 0.5
    precision = tau * MATRIX + np.eye(2) / base_std**2
    covariance = np.linalg.inv(precision)
    mean = covariance @ (tau * MATRIX @ TARGET)
    errors = []
    for h in (0.1, 0.05):
        settings, law = SGLD(tau=tau, step_size=h, base_std=base_std), Law.at(START)
        for step in range(1, 1000):
            law = next_law(law, settings, potential, step)
        np.testing.assert_allclose(law.mean, mean, rtol=1e-9)
        errors.append(np.abs(law.covariance - covariance).max() / np.abs(covariance).max())
    assert 1.8 < errors[0] / errors[1] < 2.2
    settings = SGLD(tau=tau, step_size=0.05, base_std=base_std)
    *_, (_, last) = states(build(settings, potential), Keys.derive(range(100)), START, steps=100, copies=200)
    assert smallest(blocks(last.weights, 2), law) > KEPT
    assert not torch.equal(last.weights[0], last.weights[1])
