"""Entropy-SG(L)D on a quadratic: inner average and outer chain are Gaussian, and known at every step."""

import dataclasses

import numpy as np
import pytest
import torch
from affine import KEPT, REJECTED, Law, blocks, plant, smallest, states
from scipy import linalg
from toys import Quadratic

from pacdp.algorithms import EntropySGD, build, entropy_sgd
from pacdp.chains import NOISE, OUTER_NOISE, Keys

MATRIX = np.array([[0.6, 0.2], [0.2, 1.1]])
TARGET = np.array([-2.0, 0.5])
START = np.array([1.5, 1.0])
KEYS = Keys.derive(range(100))
SETTINGS = {
    "sgld": EntropySGD(tau=20.0, outer_step_size=0.5, base_std=0.4, inner_steps=3),
    "sgd": EntropySGD(tau=20.0, outer_step_size=0.5, base_std=0.4, inner_steps=3, beta=None),
    "long": EntropySGD(tau=5.0, gamma=0.3, beta=4.0, outer_step_size=0.8, outer_decay=0.0, inner_steps=7, alpha=0.3,
                       inner_step_size=0.7, inner_decay=0.5),
    "no average": EntropySGD(tau=5.0, gamma=3.0, beta=None, outer_step_size=1.2, inner_steps=5, alpha=1.0,
                             inner_step_size=0.2),
    "one inner step": EntropySGD(tau=50.0, gamma=0.5, beta=0.5, outer_step_size=0.3, outer_decay=0.2, inner_steps=1),
}  # fmt: skip
D = 2
ONE, ZERO = np.eye(D), np.zeros((D, D))


def inner_law(centre: Law, settings: EntropySGD, potential: Quadratic) -> Law:
    """Of (w', μ, w) after the inner loop, for w of law ``centre``."""
    a, gamma, alpha = potential.matrix, settings.gamma, settings.alpha
    law = centre.moved(np.vstack([ONE, ONE, ONE]))
    for i in range(1, settings.inner_steps + 1):
        h = settings.inner_step_size / 2 * i**-settings.inner_decay
        move = np.block([[ONE - h * (a + gamma * ONE), ZERO, h * gamma * ONE], [ZERO, ONE, ZERO], [ZERO, ZERO, ONE]])
        noise = np.zeros((3 * D, 3 * D))
        noise[:D, :D] = (2 * h / settings.tau + (h * potential.noise) ** 2) * ONE
        law = law.moved(move, np.concatenate([h * a @ potential.target, np.zeros(2 * D)]), noise)
        law = law.moved(np.block([[ONE, ZERO, ZERO], [alpha * ONE, (1 - alpha) * ONE, ZERO], [ZERO, ZERO, ONE]]))
    return law


def next_law(law: Law, settings: EntropySGD, potential: Quadratic, step: int, *, sign: float = 1.0) -> Law:
    """w ← w + ½ η τγ (μ - w) - ½ (η/β) w/σ² + √(η/β) ξ; ``sign`` -1 is line 9 of Algorithm 1 as printed."""
    eta = settings.outer_step_size / (settings.gamma * settings.tau) * step**-settings.outer_decay
    pull = sign * 0.5 * eta * settings.tau * settings.gamma
    heat = 0.0 if settings.beta is None else 1 / settings.beta
    keep = 1 - pull - 0.5 * eta * heat / settings.base_std**2
    inner = inner_law(law, settings, potential)
    return inner.moved(np.hstack([ZERO, pull * ONE, keep * ONE]), 0.0, eta * heat * ONE)


def worst(settings: EntropySGD, potential: Quadratic, *, steps: int = 8) -> float:
    law, found = Law.at(START), 1.0
    for step, state in states(build(settings, potential), KEYS, START, steps=steps, copies=200):
        law = next_law(law, settings, potential, step)
        found = min(found, smallest(blocks(state.weights, D), law))
    return found


def inner_average(settings: EntropySGD, potential: Quadratic) -> torch.Tensor:
    """μ_L of the first outer step."""
    sampler, centre = build(settings, potential), torch.tensor(START).repeat(KEYS.count, 200)
    mean, _ = entropy_sgd.local_mean(potential, centre, sampler.coefficients(0), KEYS, 0)
    return blocks(mean, D)


@pytest.mark.parametrize("noise", [0.0, 0.6], ids=["exact", "noisy"])
@pytest.mark.parametrize("name", SETTINGS)
def test_the_inner_average_has_its_exact_law(name: str, noise: float) -> None:
    potential = Quadratic(MATRIX, TARGET, noise=noise)
    law = inner_law(Law.at(START), SETTINGS[name], potential).of(slice(D, 2 * D))
    assert smallest(inner_average(SETTINGS[name], potential), law) > KEPT


@pytest.mark.parametrize("noise", [0.0, 0.6], ids=["exact", "noisy"])
@pytest.mark.parametrize("name", SETTINGS)
def test_the_outer_chain_has_its_exact_law(name: str, noise: float) -> None:
    assert worst(SETTINGS[name], Quadratic(MATRIX, TARGET, noise=noise)) > KEPT


@pytest.mark.parametrize("factor", [0.95, 1.05])
@pytest.mark.parametrize("name", SETTINGS)
def test_an_inner_noise_wrong_by_a_twentieth_is_noticed(
    name: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, entropy_sgd, stream=NOISE, factor=factor)
    potential = Quadratic(MATRIX, TARGET)
    law = inner_law(Law.at(START), SETTINGS[name], potential).of(slice(D, 2 * D))
    assert smallest(inner_average(SETTINGS[name], potential), law) < REJECTED


@pytest.mark.parametrize("factor", [0.95, 1.05])
@pytest.mark.parametrize("name", ["sgld", "long", "one inner step"])
def test_an_outer_noise_wrong_by_a_twentieth_is_noticed(
    name: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, entropy_sgd, stream=OUTER_NOISE, factor=factor)
    assert worst(SETTINGS[name], Quadratic(MATRIX, TARGET)) < REJECTED


def test_the_printed_sign_is_noticed() -> None:
    potential, law = Quadratic(MATRIX, TARGET), Law.at(START)
    for step, state in states(build(SETTINGS["sgld"], potential), KEYS, START, steps=3, copies=200):
        law = next_law(law, SETTINGS["sgld"], potential, step, sign=-1.0)
        assert smallest(blocks(state.weights, D), law) < REJECTED


def test_chains_of_one_batch_obey_each_its_own_settings() -> None:
    every = [dataclasses.replace(SETTINGS[name], inner_steps=3) for name in SETTINGS]
    potential, law = Quadratic(MATRIX, TARGET, noise=0.3), [Law.at(START) for _ in every]
    keys = Keys.derive(range(len(every)))
    for step, state in states(build(every, potential), keys, START, steps=4, copies=20_000):
        for k, settings in enumerate(every):
            law[k] = next_law(law[k], settings, potential, step)
            draws = blocks(state.weights[k], D)
            assert smallest(draws, law[k]) > KEPT
            assert smallest(draws, Law(law[k].mean, 1.05**2 * law[k].covariance)) < REJECTED


def test_the_displacement_is_that_of_the_average() -> None:
    settings, potential = SETTINGS["long"], Quadratic(MATRIX, TARGET)
    sampler = build(settings, potential)
    _, info = sampler.step(sampler.init(torch.tensor(START).repeat(KEYS.count, 200)), KEYS)
    inner = inner_law(Law.at(START), settings, potential).of(slice(D, 2 * D))
    mean = ((inner.mean - START) ** 2).sum() + np.trace(inner.covariance)
    found = info.displacement / 200
    assert abs(float(found.mean()) - mean) < 4 * float(found.std()) / KEYS.count**0.5
    assert float(found.std()) / KEYS.count**0.5 < 0.01 * mean


def stationary(settings: EntropySGD, potential: Quadratic) -> Law:
    """The fixed point of the exact recursion at its first step size."""
    constant = dataclasses.replace(settings, outer_decay=0.0)
    zero, *units = (next_law(Law.at(point), constant, potential, 1) for point in (np.zeros(D), *ONE))
    move = np.stack([law.mean - zero.mean for law in units], axis=1)
    return Law(np.linalg.solve(ONE - move, zero.mean), linalg.solve_discrete_lyapunov(move, zero.covariance))


def gibbs(settings: EntropySGD) -> Law:
    """exp(βF(w)) N(w; 0, σ²): on a quadratic F(w) = const - τ/2 (w - t)' γA(A + γ)⁻¹ (w - t)."""
    curvature = settings.tau * settings.gamma * MATRIX @ np.linalg.inv(MATRIX + settings.gamma * ONE)
    covariance = np.linalg.inv(settings.beta * curvature + ONE / settings.base_std**2)
    return Law(settings.beta * covariance @ curvature @ TARGET, covariance)


LONG = EntropySGD(tau=4.0, gamma=0.8, beta=2.0, base_std=0.7, inner_steps=400, alpha=0.02, inner_step_size=0.2,
                  inner_decay=0.0, outer_step_size=0.05, outer_decay=0.0)  # fmt: skip


@pytest.mark.parametrize("base_std", [0.3, 0.7, 5.0])
def test_long_inner_loops_and_small_steps_sample_the_local_entropy_and_its_base_measure(base_std: float) -> None:
    """Of the exact recursion, which the chains are seen to follow."""
    settings = dataclasses.replace(LONG, base_std=base_std)
    found, exact = stationary(settings, Quadratic(MATRIX, TARGET)), gibbs(settings)
    np.testing.assert_allclose(found.mean, exact.mean, rtol=0.02, atol=0.01)
    np.testing.assert_allclose(found.covariance, exact.covariance, rtol=0.03, atol=0.03 * exact.covariance.max())
    for wrong in (dataclasses.replace(settings, beta=2.4), dataclasses.replace(settings, base_std=1.2 * base_std)):
        other = gibbs(wrong)
        if np.abs(other.covariance / exact.covariance - 1).max() > 0.1:
            with pytest.raises(AssertionError):
                np.testing.assert_allclose(found.covariance, other.covariance, rtol=0.03)


def test_the_chain_itself_reaches_that_law() -> None:
    settings = dataclasses.replace(LONG, inner_steps=60, alpha=0.1, outer_step_size=0.4)
    potential, exact, law = Quadratic(MATRIX, TARGET), gibbs(settings), Law.at(START)
    for step, state in states(build(settings, potential), Keys.derive(range(10)), START, steps=40, copies=2000):
        law, draws = next_law(law, settings, potential, step), blocks(state.weights, D)
    assert smallest(draws, law) > KEPT
    spread = np.cov(draws.numpy().T)
    np.testing.assert_allclose(spread, exact.covariance, rtol=0.15, atol=0.05 * exact.covariance.max())
    np.testing.assert_allclose(draws.numpy().mean(axis=0), exact.mean, rtol=0.05, atol=0.05)
