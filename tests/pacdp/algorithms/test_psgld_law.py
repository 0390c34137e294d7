"""pSGLD: with a fixed metric its law on a quadratic is known; with a moving one the correction makes it unbiased."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
import torch
from affine import KEPT, REJECTED, Law, blocks, plant, smallest, states
from scipy.integrate import quad
from toys import Quadratic, keys_of

from pacdp.algorithms import PSGLD, build, psgld
from pacdp.chains import NOISE, Keys, normal_like
from pacdp.objective import Estimate

MATRIX = np.array([[0.8, 0.3], [0.3, 1.4]])
DIAGONAL = np.diag([0.8, 1.4])
TARGET = np.array([-0.7, 0.4])
START = np.array([1.5, -0.5])
FROZEN = PSGLD(tau=10.0, step_size=0.1, freeze_after=1, stabiliser=0.3, base_std=0.6)
SETTINGS = {
    "with correction": FROZEN,
    "without": dataclasses.replace(FROZEN, correction=False),
    "decaying": dataclasses.replace(FROZEN, tau=3.0, decay=0.5, stabiliser=1.0, base_std=3.0),
}


def next_law(law: Law, settings: PSGLD, potential: Quadratic, step: int, metric: np.ndarray) -> Law:
    """w ← w - h G (A (w - t) + w/(τ σ²)) + (h/τ) Γ + √(2 h G/τ) ξ; Γ at the first step alone."""
    h, tau = settings.step_size * step**-settings.decay, settings.tau
    a = potential.matrix + np.eye(2) / (tau * settings.base_std**2)
    shift = h * metric @ potential.matrix @ potential.target
    if step == 1 and settings.correction:
        slope = a @ START - potential.matrix @ potential.target
        # the first metric is 1/(λ + |g|)
        shift = shift - h / tau * np.sign(slope) * np.diag(a) * np.diag(metric) ** 2
    noise = metric @ (2 * h / tau * np.eye(2) + (h * potential.noise) ** 2 * metric)
    return law.moved(np.eye(2) - h * metric @ a, shift, noise)


def first_metric(settings: PSGLD, potential: Quadratic) -> np.ndarray:
    slope = potential.matrix @ (START - potential.target) + START / (settings.tau * settings.base_std**2)
    return np.diag(1 / (settings.stabiliser + np.abs(slope)))


def worst(settings: PSGLD, *, steps: int = 10) -> float:
    """From a point the first gradient, and so the metric that stays, is the same for all chains."""
    potential, law, found = Quadratic(DIAGONAL, TARGET), Law.at(START), 1.0
    metric = first_metric(settings, potential)
    for step, state in states(build(settings, potential), Keys.derive(range(100)), START, steps=steps, copies=200):
        law = next_law(law, settings, potential, step, metric)
        found = min(found, smallest(blocks(state.weights, 2), law))
    return found


@pytest.mark.parametrize("name", SETTINGS)
def test_a_frozen_metric_has_its_exact_law(name: str) -> None:
    assert worst(SETTINGS[name]) > KEPT


@pytest.mark.parametrize("factor", [0.95, 1.05])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_noise_scale_wrong_by_a_twentieth_is_noticed(
    name: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, psgld, stream=NOISE, factor=factor)
    assert worst(SETTINGS[name]) < REJECTED


def test_a_given_metric_noisy_gradients_and_chains_of_their_own_settings() -> None:
    potential, every = Quadratic(MATRIX, TARGET, noise=0.4), list(SETTINGS.values())[::2]
    squares = np.array([[0.25, 4.0], [1.0, 0.0]])
    sampler, keys = build(every, potential), keys_of(1, 2)
    state = psgld.State(torch.tensor(START).repeat(2, 20_000), torch.tensor(squares).repeat(1, 20_000), 5)
    law = [Law.at(START) for _ in every]
    for step in range(6, 12):
        state, _ = sampler.step(state, keys)
        for k, settings in enumerate(every):
            metric = np.diag(1 / (settings.stabiliser + np.sqrt(squares[k])))
            law[k] = next_law(law[k], settings, potential, step, metric)
            draws = blocks(state.weights[k], 2)
            assert smallest(draws, law[k]) > KEPT
            assert smallest(draws, Law(law[k].mean, 1.05**2 * law[k].covariance)) < REJECTED
    assert torch.equal(state.squares, torch.tensor(squares).repeat(1, 20_000))


class Counting(Quadratic):
    """How often a gradient was asked for."""

    calls = 0

    def estimate(self, weights: torch.Tensor, keys: Keys, tick: int | torch.Tensor) -> Estimate:
        self.calls += 1
        return super().estimate(weights, keys, tick)


@pytest.mark.parametrize(
    ("correction", "freeze_after", "calls"), [(True, None, 10), (True, 2, 7), (False, None, 5), (False, 2, 5)]
)
def test_the_correction_costs_a_gradient_until_the_metric_is_frozen(
    correction: bool, freeze_after: int | None, calls: int
) -> None:
    potential = Counting(MATRIX, TARGET)
    settings = dataclasses.replace(FROZEN, correction=correction, freeze_after=freeze_after)
    seen = [state.squares for _, state in states(build(settings, potential), keys_of(0), START, steps=5)]
    assert potential.calls == calls
    moved = [not torch.equal(a, b) for a, b in pairwise(seen)]
    assert moved == [freeze_after is None or step < freeze_after for step in range(1, 5)]


class Double:
    """R̂(w) = w⁴/4 + w²/2 a coordinate, exactly: its Gibbs distribution is not Gaussian."""

    def estimate(self, weights: torch.Tensor, keys: Keys, tick: int | torch.Tensor) -> Estimate:
        zero = weights.new_zeros(len(weights))
        return Estimate(weights**3 + weights, zero, zero)


def gibbs_variance() -> float:
    def moment(power: int) -> float:
        return quad(lambda w: w**power * np.exp(-(w**4) / 4 - w**2 / 2), -10, 10, epsabs=0)[0]

    return moment(2) / moment(0)


def variance(settings: PSGLD, *, time: float, coordinates: int = 400) -> tuple[float, float]:
    """Of the chain's weights at the end of a run from the Gibbs distribution's scale, with its standard error."""
    sampler, keys = build(settings, Double()), Keys.derive(range(100))
    zeros = torch.zeros(keys.count, coordinates, dtype=torch.float64)
    start = normal_like(zeros, keys=keys, stream=99, tick=0) * gibbs_variance() ** 0.5
    state, squares = sampler.init(start), []
    steps = round(time / settings.step_size)
    for step in range(steps):
        state, _ = sampler.step(state, keys)
        if step >= steps // 2 and step % max(1, round(1 / settings.step_size)) == 0:
            squares.append(state.weights.square().mean(dim=1))
    means = torch.stack(squares).mean(dim=0)
    return float(means.mean()), float(means.std() / len(means) ** 0.5)


CLEAN = PSGLD(tau=1.0, step_size=0.02, smoothing=0.0, stabiliser=0.5, base_std=1e6)


def test_the_correction_makes_the_stationary_variance_right() -> None:
    """Without memory the metric is a function of the weights. What is left is of the order of the step size."""
    exact = gibbs_variance()
    (fine, error), (coarse, _) = (variance(dataclasses.replace(CLEAN, step_size=h), time=8.0) for h in (0.02, 0.04))
    assert error < 0.004 * exact
    assert abs(2 * fine - coarse - exact) < 0.03 * exact
    assert abs(fine - exact) < 0.65 * abs(coarse - exact)
    biased, error = variance(dataclasses.replace(CLEAN, correction=False), time=8.0)
    assert abs(biased / exact - 1) > 0.5
    assert abs(biased - exact) > 100 * error


@pytest.mark.slow
@pytest.mark.parametrize("smoothing", [0.5, 0.9])
def test_the_correction_is_right_with_memory_too(smoothing: float) -> None:
    """The mean of squares follows the weights as h → 0, so that the whole of ∂G/∂w counts."""
    settings = dataclasses.replace(CLEAN, smoothing=smoothing, step_size=0.0025)
    found, error = variance(settings, time=6.0, coordinates=100)
    assert abs(found - gibbs_variance()) < 0.2 * gibbs_variance() + 3 * error
