"""Small steps reach the Gibbs distribution with its base measure: of the exact recursion, which the chains follow."""

import dataclasses

import numpy as np
import torch
from affine import KEPT, Law, smallest, states
from exact_laws import EXACT, KEYS, MATRIX, ONE, RULES, START, TARGET, beside, entropy_law, inner_law, sgld_law
from numpy.testing import assert_allclose
from scipy import linalg

from pacdp import schedules
from pacdp.algorithms import SGHMC, SGLD, EntropySGD, build
from tests.marks import parametrize

TAU, BASE_STD = 5.0, 0.5
COVARIANCE = np.linalg.inv(TAU * MATRIX + ONE / BASE_STD**2)
GIBBS = Law(COVARIANCE @ (TAU * MATRIX @ TARGET), COVARIANCE)


SMALL_STEPS = {
    "SGLD": lambda h: SGLD(tau=TAU, step_size=h, base_std=BASE_STD),
    "SGHMC": lambda h: SGHMC(tau=TAU, step_size=h**2, friction=h, base_std=BASE_STD),
}


@parametrize(("name", "order"), [("SGLD", 1), ("SGHMC", 2)])
def test_it_is_reached_with_a_bias_of_the_order_of_the_time_of_a_step_or_of_its_square(name, order):
    errors = []
    for h in (0.1, 0.05):
        settings = SMALL_STEPS[name](h)
        rule = RULES[type(settings)]
        law = rule.first
        for step in range(1, 4000):
            law = rule.moved(law, settings, EXACT, step)
        assert_allclose(law.mean[:2], GIBBS.mean, rtol=1e-9)
        errors.append(np.abs(law.covariance[:2, :2] - COVARIANCE).max())
    assert 1.8 < (errors[0] / errors[1]) ** (1 / order) < 2.2
    assert errors[1] < 0.2 * COVARIANCE.max()
    if name == "SGHMC":
        assert np.abs(law.covariance[2:, 2:] * TAU / settings.step_size - ONE).max() < h
    else:
        *_, (draws, _) = beside(settings, steps=100)
        assert smallest(draws, law) > KEPT


LONG = EntropySGD(tau=4.0, gamma=0.8, beta=2.0, base_std=0.7, inner_steps=400, alpha=0.02, inner_step_size=0.2,
                  inner_decay=0.0, outer_step_size=0.04, outer_decay=0.0)  # fmt: skip


def local_gibbs(settings):
    """exp(βF(w)) N(w; 0, σ²): on a quadratic F(w) = const - τ/2 (w - t)' γA(A + γ)⁻¹ (w - t)."""
    curvature = settings.tau * settings.gamma * MATRIX @ np.linalg.inv(MATRIX + settings.gamma * ONE)
    covariance = np.linalg.inv(settings.beta * curvature + ONE / settings.base_std**2)
    return Law(settings.beta * covariance @ curvature @ TARGET, covariance)


@parametrize("base_std", [0.3, 0.7, 5.0])
def test_long_inner_loops_sample_the_local_entropy(base_std):
    settings = dataclasses.replace(LONG, base_std=base_std)
    zero, *units = (entropy_law(Law.at(point), settings, EXACT, 1) for point in (np.zeros(2), *ONE))
    move = np.stack([law.mean - zero.mean for law in units], axis=1)
    mean, covariance = (np.linalg.solve(ONE - move, zero.mean), linalg.solve_discrete_lyapunov(move, zero.covariance))
    exact = local_gibbs(settings)
    assert_allclose(mean, exact.mean, rtol=0.02, atol=0.01)
    away = np.abs(covariance - exact.covariance).max() / exact.covariance.max()
    assert away < 0.03
    for wrong in (dataclasses.replace(settings, beta=2.4), dataclasses.replace(settings, base_std=1.2 * base_std)):
        other = np.abs(local_gibbs(wrong).covariance - exact.covariance).max() / exact.covariance.max()
        assert other < 0.05 or other > 2 * away


def test_the_displacement_of_an_entropy_step_is_that_of_the_average():
    sampler = build(LONG, EXACT)
    _, info = sampler.step(sampler.init(torch.tensor(START).repeat(KEYS.count, 200)), KEYS)
    inner = inner_law(Law.at(START), LONG, EXACT).of(slice(2, 4))
    mean, found = (((inner.mean - START) ** 2).sum() + np.trace(inner.covariance), info.displacement.numpy() / 200)
    error = found.std(ddof=1) / KEYS.count**0.5
    assert abs(found.mean() - mean) < 4 * error < 0.04 * mean


def test_schedules_multiply_step_size_and_temperature():
    settings, law = SGLD(tau=40.0, step_size=0.3, base_std=0.5), Law.at(START)
    sampler = build(
        dataclasses.replace(settings, decay=schedules.cyclical(period=3), cooling=lambda t: 1 / (1 + t)), EXACT
    )
    for step, state in states(sampler, KEYS, START, steps=6, copies=200):
        h = settings.step_size * (1.0, 0.75, 0.25)[(step - 1) % 3]
        law = sgld_law(law, settings, EXACT, step, h=h, heat=1.0 + step)
        assert smallest(state.weights.reshape(-1, 2), law) > KEPT
