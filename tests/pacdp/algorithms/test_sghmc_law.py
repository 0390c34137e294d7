"""SGHMC on a quadratic: position and velocity are jointly Gaussian, and known at every step."""

import numpy as np
import pytest
import torch
from affine import KEPT, REJECTED, Law, blocks, plant, smallest, states
from toys import Quadratic

from pacdp.algorithms import SGHMC, build, sghmc
from pacdp.chains import NOISE, Keys

MATRIX = np.array([[0.8, 0.3], [0.3, 1.4]])
TARGET = np.array([-0.7, 0.4])
START = np.array([1.5, -0.5])
SETTINGS = {
    "underdamped": SGHMC(tau=10.0, step_size=0.1, friction=0.1, base_std=0.7),
    "decaying": SGHMC(tau=40.0, step_size=0.3, decay=0.5, friction=0.3, base_std=0.5),
    "all friction": SGHMC(tau=4.0, step_size=0.05, friction=1.0, base_std=2.0),
}


def next_law(law: Law, settings: SGHMC, potential: Quadratic, step: int) -> Law:
    """Of (w, v): v ← (1 - a) v - h (A (w - t) + noise g + w/(τ σ²)) + √(2 a h/τ) ξ, w ← w + v."""
    h, friction, tau = settings.step_size * step**-settings.decay, settings.friction, settings.tau
    a, one, zero = potential.matrix, np.eye(potential.dim), np.zeros((2, 2))
    kick = np.block([[one, zero], [-h * (a + one / (tau * settings.base_std**2)), (1 - friction) * one]])
    noise = (2 * friction * h / tau + (h * potential.noise) ** 2) * one
    kicked = law.moved(kick, np.concatenate([np.zeros(2), h * a @ potential.target]),
                       np.block([[zero, zero], [zero, noise]]))  # fmt: skip
    return kicked.moved(np.block([[one, one], [zero, one]]))


def joint(state: sghmc.State) -> torch.Tensor:
    return torch.cat([blocks(state.weights, 2), blocks(state.velocity, 2)], dim=1)


def worst(settings: SGHMC, potential: Quadratic, *, steps: int = 12) -> float:
    """The smallest p-value along a run; after one step w - start = v, so that the joint law has a density from two."""
    law, found = Law(np.concatenate([START, np.zeros(2)]), np.zeros((4, 4))), 1.0
    for step, state in states(build(settings, potential), Keys.derive(range(100)), START, steps=steps, copies=200):
        law = next_law(law, settings, potential, step)
        part, draws = (law, joint(state)) if step > 1 else (law.of(slice(2, 4)), blocks(state.velocity, 2))
        found = min(found, smallest(draws, part))
    return found


@pytest.mark.parametrize("noise", [0.0, 0.6], ids=["exact", "noisy"])
@pytest.mark.parametrize("name", SETTINGS)
def test_every_step_has_its_exact_joint_law(name: str, noise: float) -> None:
    assert worst(SETTINGS[name], Quadratic(MATRIX, TARGET, noise=noise)) > KEPT


@pytest.mark.parametrize("factor", [0.95, 1.05])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_noise_scale_wrong_by_a_twentieth_is_noticed(
    name: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, sghmc, stream=NOISE, factor=factor)
    assert worst(SETTINGS[name], Quadratic(MATRIX, TARGET)) < REJECTED


def test_chains_of_one_batch_obey_each_its_own_settings() -> None:
    potential, every = Quadratic(MATRIX, TARGET), list(SETTINGS.values())
    law = [Law(np.concatenate([START, np.zeros(2)]), np.zeros((4, 4))) for _ in every]
    for step, state in states(build(every, potential), Keys.derive(range(3)), START, steps=8, copies=20_000):
        draws = joint(state).reshape(3, -1, 4)
        for k, settings in enumerate(every):
            law[k] = next_law(law[k], settings, potential, step)
            if step > 1:
                assert smallest(draws[k], law[k]) > KEPT
                assert smallest(draws[k], Law(law[k].mean, 1.05**2 * law[k].covariance)) < REJECTED


def test_small_steps_reach_the_gibbs_distribution_with_its_base_measure() -> None:
    """w has covariance (τA + 1/σ²)⁻¹, v has h/τ and they are uncorrelated, up to order √h at a fixed friction rate."""
    tau, base_std = 5.0, 0.5
    covariance = np.linalg.inv(tau * MATRIX + np.eye(2) / base_std**2)
    errors = []
    for root in (0.1, 0.05):
        settings = SGHMC(tau=tau, step_size=root**2, friction=root, base_std=base_std)
        law = Law(np.concatenate([START, np.zeros(2)]), np.zeros((4, 4)))
        for step in range(1, 4000):
            law = next_law(law, settings, Quadratic(MATRIX, TARGET), step)
        np.testing.assert_allclose(law.mean[:2], covariance @ (tau * MATRIX @ TARGET), rtol=1e-6)
        errors.append(np.abs(law.covariance[:2, :2] - covariance).max() / np.abs(covariance).max())
        assert np.abs(law.covariance[2:, 2:] * tau / root**2 - np.eye(2)).max() < root
    assert errors[1] < 0.6 * errors[0] < 0.05


def test_a_chain_starts_at_rest() -> None:
    sampler = build(SETTINGS["underdamped"], Quadratic(MATRIX, TARGET))
    assert torch.count_nonzero(sampler.init(torch.ones(2, 4)).velocity) == 0
