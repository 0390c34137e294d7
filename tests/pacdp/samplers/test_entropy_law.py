"""On a quadratic every sampler's law is Gaussian at every step, and known: the chains must follow it."""

import math
from collections.abc import Iterator

import pytest
import torch
from toys import Quadratic, assert_gaussian, mean_pvalue, seeded, variance_pvalue

from pacdp.samplers import SGLD, EntropySGD, Sampler, build
from pacdp.samplers.entropy_sgd import local_mean

CHAINS = 20_000
START = 1.5

SGLDS = [
    SGLD(tau=40.0, step_size=0.3, base_std=0.5),
    SGLD(tau=40.0, step_size=0.3, decay=0.6, base_std=0.5),
    SGLD(tau=4.0, step_size=0.1, base_std=2.0),
    SGLD(tau=1000.0, step_size=0.9, decay=1.0),
]
ENTROPIES = [
    EntropySGD(tau=20.0, outer_step_size=0.5, base_std=0.4, inner_steps=3),
    EntropySGD(tau=20.0, outer_step_size=0.5, base_std=0.4, inner_steps=3, beta=None),
    EntropySGD(tau=5.0, gamma=0.3, beta=4.0, outer_step_size=0.8, outer_decay=0.0, inner_steps=7, alpha=0.3,
               inner_step_size=0.7, inner_decay=0.5),
    EntropySGD(tau=5.0, gamma=3.0, beta=None, outer_step_size=1.2, inner_steps=5, alpha=1.0, inner_step_size=0.2),
    EntropySGD(tau=50.0, gamma=0.5, beta=0.5, outer_step_size=0.3, outer_decay=0.2, inner_steps=1),
]  # fmt: skip


def sgld_law(settings: SGLD, potential: Quadratic, step: int, mean: float, variance: float) -> tuple[float, float]:
    """Mean and variance after one more step: w ← w - h (a (w - t) + w/(τ σ²)) + √(2h/τ) ξ."""
    h = settings.step_size / step**settings.decay
    a, t = potential.curvature, potential.target
    factor = 1 - h * (a + 1 / (settings.tau * settings.base_std**2))
    return factor * mean + h * a * t, factor**2 * variance + 2 * h / settings.tau


def inner_law(settings: EntropySGD, potential: Quadratic) -> tuple[float, float]:
    """Given the centre w, the average of the inner loop is N(w + p (target - w), variance): p and variance.

    The pair (w' - w, μ - w) is an affine Gaussian recursion; its covariance is two by two.
    """
    a, gamma, alpha = potential.curvature, settings.gamma, settings.alpha
    local = average = 0.0  # means, in units of (target - w)
    s_ll = s_lm = s_mm = 0.0
    for i in range(1, settings.inner_steps + 1):
        h = settings.inner_step_size / 2 / i**settings.inner_decay
        factor = 1 - h * (a + gamma)
        local = factor * local + h * a
        average = (1 - alpha) * average + alpha * local
        cross = factor * s_lm  # of the new w' with the old μ
        s_ll = factor**2 * s_ll + 2 * h / settings.tau
        s_mm = (1 - alpha) ** 2 * s_mm + 2 * alpha * (1 - alpha) * cross + alpha**2 * s_ll
        s_lm = (1 - alpha) * cross + alpha * s_ll
    return average, s_mm


def entropy_law(
    settings: EntropySGD, potential: Quadratic, step: int, mean: float, variance: float, *, sign: float = 1.0
) -> tuple[float, float]:
    """Mean and variance after one more outer step; ``sign`` -1 is line 9 of Algorithm 1 as printed."""
    share, inner_variance = inner_law(settings, potential)
    eta = settings.outer_step_size / (settings.gamma * settings.tau) / step**settings.outer_decay
    pull = sign * 0.5 * eta * settings.tau * settings.gamma
    factor, noise = 1 - pull * share, pull**2 * inner_variance
    if settings.beta is not None:
        factor -= 0.5 * (eta / settings.beta) / settings.base_std**2
        noise += eta / settings.beta
    return factor * mean + pull * share * potential.target, factor**2 * variance + noise


def chain(sampler: Sampler, *, steps: int, seed: int) -> Iterator[tuple[int, torch.Tensor]]:
    """Step and weights, one coordinate an independent chain."""
    generator = seeded(seed)
    state = sampler.init(torch.full((CHAINS,), START, dtype=torch.float64))
    for step in range(1, steps + 1):
        state, _ = sampler.step(state, generator)
        assert state.step == step
        yield step, state.weights


@pytest.mark.parametrize("settings", SGLDS, ids=range(len(SGLDS)))
def test_sgld_follows_its_exact_law_at_every_step(settings: SGLD) -> None:
    potential = Quadratic(curvature=0.8, target=-0.7)
    mean, variance = START, 0.0
    for step, weights in chain(build(settings, potential), steps=12, seed=1):
        mean, variance = sgld_law(settings, potential, step, mean, variance)
        assert_gaussian(weights, mean, variance)


def test_small_steps_of_sgld_reach_the_gibbs_distribution() -> None:
    settings, potential = SGLD(tau=5.0, step_size=0.02, base_std=0.5), Quadratic(curvature=2.0, target=1.0)
    *_, (_, weights) = chain(build(settings, potential), steps=200, seed=0)
    precision = settings.tau * potential.curvature + settings.base_std**-2
    mean, variance = settings.tau * potential.curvature * potential.target / precision, 1 / precision
    assert abs(float(weights.mean()) - mean) < 0.01
    assert abs(float(weights.var()) / variance - 1) < 0.07  # half a step's bias is 1.4%, the noise 1% a deviation


@pytest.mark.parametrize("settings", ENTROPIES, ids=range(len(ENTROPIES)))
def test_the_inner_loop_follows_its_exact_law(settings: EntropySGD) -> None:
    potential = Quadratic(curvature=0.6, target=-2.0)
    share, variance = inner_law(settings, potential)
    centre = torch.full((CHAINS,), START, dtype=torch.float64)
    mean, _ = local_mean(settings, potential, centre, seeded(4))
    assert_gaussian(mean, START + share * (potential.target - START), variance)


@pytest.mark.parametrize("settings", ENTROPIES, ids=range(len(ENTROPIES)))
def test_the_outer_chain_follows_its_exact_law_and_not_the_printed_sign(settings: EntropySGD) -> None:
    potential = Quadratic(curvature=0.6, target=-2.0)
    mean, variance = START, 0.0
    for step, weights in chain(build(settings, potential), steps=8, seed=3):
        wrong = entropy_law(settings, potential, step, mean, variance, sign=-1.0)
        mean, variance = entropy_law(settings, potential, step, mean, variance)
        assert_gaussian(weights, mean, variance)
        assert mean_pvalue(weights, *wrong) < 1e-6


def test_entropy_sgd_moves_towards_the_target() -> None:
    settings = EntropySGD(tau=50.0, beta=None, outer_step_size=1.0, outer_decay=0.0, inner_step_size=0.5)
    potential = Quadratic(curvature=1.0, target=-2.0)
    printed = START
    distances = [START - potential.target]
    for step, weights in chain(build(settings, potential), steps=10, seed=0):
        printed, _ = entropy_law(settings, potential, step, printed, 0.0, sign=-1.0)
        distances.append(abs(float(weights.mean()) - potential.target))
        assert distances[-1] < distances[-2]
    assert distances[-1] < 0.2 * distances[0]
    assert abs(printed - potential.target) > 2 * distances[0]


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_the_inner_average_is_the_gradient_of_the_local_entropy(gamma: float) -> None:
    """F(w) = const - τ aγ/(a+γ) (w - t)²/2 on a quadratic, so ∇F = τγ (E w' - w) = τ aγ/(a+γ) (t - w)."""
    a, t, tau = 1.5, -1.0, 8.0
    settings = EntropySGD(
        tau=tau, gamma=gamma, inner_steps=300, inner_step_size=0.1, inner_decay=0.0, alpha=0.05, beta=None
    )
    centre = torch.full((CHAINS,), START, dtype=torch.float64)
    mean, _ = local_mean(settings, Quadratic(a, t), centre, seeded(9))
    estimates = tau * gamma * (mean - centre)
    exact = tau * a * gamma / (a + gamma) * (t - START)
    error = float(estimates.std()) / math.sqrt(CHAINS)
    assert abs(float(estimates.mean()) - exact) < 4 * error
    assert error < 0.01 * abs(exact)


def test_p_values_are_uniform_under_the_law_they_test() -> None:
    draws = 3 + 2 * torch.randn(400, 1000, generator=seeded(0), dtype=torch.float64)
    for pvalue in (mean_pvalue, variance_pvalue):
        small = sum(pvalue(row, 3.0, 4.0) < 0.1 for row in draws)
        assert 20 <= small <= 62  # 40 expected, deviation 6
