"""The last iterate: check values, a solver, exact linear laws, logistic regression by quadrature, what breaks it."""

import math
from functools import partial

import numpy as np
import pytest
from cells import refused, within_rounding
from numpy.random import default_rng
from scipy.optimize import minimize
from scipy.stats import norm

from bounds.accounting import (
    Gaussian,
    LastAlone,
    LastIterate,
    PoissonSampled,
    SelfComposed,
    calibrate_noise,
    event_from_json,
    event_to_json,
    gaussian_epsilon,
    privacy_epsilon,
    privacy_record,
    ridge_head,
)

HEAD = partial(ridge_head, ridge=0.01, row_norm=1.0, n=60_000, classes=10)


def schedule(c, s, sigma):
    return LastIterate(contractions=tuple(c), sensitivities=tuple(s), noises=tuple(sigma))


def constant(steps, contraction, noise=1.0):
    return schedule([contraction] * steps, [1.0] * steps, [noise] * steps)


ADD = {"delta": 1e-5, "adjacency": "add-remove"}
LAST = LastAlone(steps=9, contraction=0.5, event=Gaussian(noise_multiplier=1.0))


def linear(c, s, sigma):
    """The mu of x ← c x + s [record] + σ ξ, which is exact: a mean and a variance."""
    moved, variance = 0.0, 0.0
    for contraction, shift, noise in zip(c, s, sigma, strict=True):
        moved, variance = contraction * moved + shift, contraction**2 * variance + noise**2
    return moved / math.sqrt(variance)


@pytest.mark.parametrize(
    ("steps", "value"), [(50, 0.5566361120654311), (200, 0.6433060484222102), (10**5, 0.6435837163881634)]
)
def test_a_ridge_head_forgets_and_epsilon_stops_growing(steps, value):
    head = HEAD(step_sizes=[3.8] * steps, noises=[0.001] * steps)
    assert value <= head.mu() <= value * (1 + 1e-12 + steps * 1e-15)
    both = head.privacy(adjacency="replace-one")
    assert (both.mu, both.adjacency) == (2 * head.mu(), "replace-one")


def test_cooling_steps_and_contractions_near_one():
    sizes = 0.5 * (np.arange(2000) + 1.0) ** -0.33
    cooled = (1 - 0.3 * sizes, sizes / 1000, np.sqrt(2 * sizes / 500))
    for made, value in (
        (schedule(*cooled), 0.04069916355955009),
        (schedule(*cooled), linear(*cooled)),
        (constant(100, 1.0, noise=2.0), 10 / 2),
        (constant(3000, 0.5), math.sqrt(3)),  # factors fall below 1e-300
        (constant(5, 0.0), 1.0),
    ):
        assert made.mu() == within_rounding(value)


def test_epsilon_of_the_last_iterate_alone_stops_growing_and_that_of_all_does_not():
    """Steps of 3.8, ridge .01, rows of norm 1, noise 71.84 times what a record moves a step."""
    (c,) = HEAD(step_sizes=[3.8], noises=[1.0]).contractions
    step, alone, every = Gaussian(noise_multiplier=71.84), {}, {}
    for steps in (50, 200, 1000, 10**6):
        alone[steps] = privacy_epsilon(event=LastAlone(steps=steps, contraction=c, event=step), **ADD).upper
        every[steps] = privacy_epsilon(event=SelfComposed(event=step, count=steps), **ADD).upper
    assert [round(every[steps], digits) for steps, digits in ((200, 3), (1000, 2), (10**6, 0))] == [0.713, 1.73, 155]
    assert [round(alone[steps], 3) for steps in alone] == [0.291, 0.341, 0.341, 0.341]


@pytest.mark.parametrize("c", [0.0, 0.3, 0.962, 1 - 1e-9, 1.0])
@pytest.mark.parametrize("steps", [1, 7, 3000])
def test_the_event_of_equal_steps_costs_what_the_last_iterate_does(c, steps):
    event = LastAlone(steps=steps, contraction=c, event=Gaussian(noise_multiplier=2.0))
    mu = privacy_record(event=event, adjacency="add-remove").mu
    exact = constant(steps, c, noise=2.0).mu()
    assert linear([c] * steps, [1.0] * steps, [2.0] * steps) <= mu <= exact * (1 + 1e-9)
    assert mu == pytest.approx(exact, rel=1e-9)
    assert privacy_record(event=event, adjacency="replace-one").mu == pytest.approx(2 * mu, rel=1e-12)
    twice = privacy_epsilon(event=SelfComposed(event=event, count=2), **ADD).upper
    assert twice == pytest.approx(gaussian_epsilon(mu=math.sqrt(2) * mu, delta=1e-5), rel=1e-9)
    assert event_from_json(event_to_json(event)) == event
    found = calibrate_noise(event=event, epsilon=0.5, **ADD)
    assert found.event == LastAlone(steps=steps, contraction=c, event=Gaussian(noise_multiplier=2.0 * found.scale))


def least(c, s, sigma):
    """min Σ a²/σ² over shifts with z ← c z + s - a ≥ 0 and z = 0 at the end, by a solver."""

    def left(a):
        """z over c_1 ... c_t, which has the sign of z."""
        return np.cumsum((s - a) / np.cumprod(c))

    limits = [
        {"type": "eq", "fun": lambda a: left(a)[-1]},
        {"type": "ineq", "fun": lambda a: left(a)[:-1]},
    ]
    found = minimize(
        lambda a: np.sum((a / sigma) ** 2), s + 0.0, jac=lambda a: 2 * a / sigma**2, bounds=[(0, None)] * len(s),
        constraints=limits, method="SLSQP", options={"ftol": 1e-14, "maxiter": 1000},
    )  # fmt: skip
    return math.sqrt(found.fun)


@pytest.mark.parametrize("seed", range(12))
def test_any_schedule_is_the_best_of_all_shifts(seed):
    """The unconstrained optimum, Σ G s/√ΣW, would be too small where it asks for shifts before there are any."""
    rng = default_rng(seed)
    steps = int(rng.integers(2, 7))
    c, sigma = rng.uniform(0.3, 1.0, steps), rng.uniform(0.3, 2.0, steps)
    s = rng.uniform(0.1, 1.0, steps) * (rng.random(steps) < 0.6)
    s[rng.integers(steps)] = 0.5
    found = schedule(c, s, sigma).mu()
    assert found == pytest.approx(least(c, s, sigma), rel=1e-9)
    assert found >= linear(c, s, sigma)
    last = np.where(np.arange(steps) == steps - 1, 0.7, 0.0)
    assert schedule(c, last, sigma).mu() == within_rounding(0.7 / sigma[-1])
    assert linear(c, last, sigma) < 0.999 * schedule(c, last, sigma).mu()


GRID = np.linspace(-14.0, 14.0, 1401)


def broken_by(p, q, mu):
    """The most by which some hockey-stick of p and q is above that of N(mu, 1) and N(0, 1)."""
    worst = -math.inf
    for epsilon in np.linspace(-3, 3, 61):
        found = np.maximum(p - math.exp(epsilon) * q, 0).sum() * (GRID[1] - GRID[0])
        told = norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
        worst = max(worst, found - told)
    return worst


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_logistic_regression_by_quadrature(steps):
    """Three records, one number as weights: the promise holds both ways, and a third of it does not."""
    rows, ridge, sigma = np.array([0.4, -0.7, 2.0]), 0.3, 0.4
    n = len(rows)
    size = 1.2 / (ridge + 0.25 * np.square(rows).sum() / n)
    c = max(1 - size * ridge, 0.2)
    mu = schedule([c] * steps, [size * abs(rows[-1]) / n] * steps, [sigma] * steps).mu()

    def law(rows):
        moved = GRID + size * ((rows / (1 + np.exp(rows * GRID[:, None]))).sum(axis=1) / n - ridge * GRID)
        kernel = norm.pdf(GRID[:, None], moved[None], sigma)
        found = norm.pdf(GRID, size * rows.sum() / 2 / n, sigma)
        for _ in range(steps - 1):
            found = kernel @ found * (GRID[1] - GRID[0])
        return found

    with_record, without = law(rows), law(rows[:-1])
    assert max(broken_by(with_record, without, mu), broken_by(without, with_record, mu)) <= 1e-6
    assert steps > 2 or broken_by(with_record, without, mu / 3) > 1e-3


def test_an_iterate_that_is_kept_is_not_covered():
    """Both iterates of x ← x/2 + 1 [record] + ξ together, whose noises they tell, against what the last promises."""
    assert math.sqrt(2.0) > 1.05 * constant(2, 0.5).mu()


def test_momentum_is_not_covered():
    """Heavy ball on a quadratic, by its exact law: its spectral radius as contraction would promise too much."""
    momentum, moved, steps = 0.5, 0.05, 100
    turn, noise = np.array([[1 - moved, momentum], [-moved, momentum]]), np.ones(2)
    mean, covariance = np.zeros(2), np.zeros((2, 2))
    for _ in range(steps):
        mean, covariance = turn @ mean + noise, turn @ covariance @ turn.T + np.outer(noise, noise)
    told = constant(steps, float(max(abs(np.linalg.eigvals(turn))))).mu()
    assert told < 0.95 * math.sqrt(mean @ np.linalg.lstsq(covariance, mean, rcond=None)[0])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (partial(constant, 0, 0.9), "one number for each step"),
        (partial(constant, 1, 0.9, noise=0.0), "noises must be positive"),
        (partial(constant, 1, -0.1), "contractions must not be negative"),
        (partial(schedule, [0.5], [1.0, 1.0], [1.0]), "got 1, 2 and 1"),
        (partial(HEAD, step_sizes=[4.0], noises=[1.0]), "longer steps do not contract"),
        (partial(constant(1, 0.9).privacy, adjacency="swap"), "adjacency must be one of"),
        (partial(LastAlone, steps=1, contraction=1.1, event=Gaussian(noise_multiplier=1.0)), "contraction must"),
        (partial(LastAlone, steps=0, contraction=0.5, event=Gaussian(noise_multiplier=1.0)), "steps must"),
        (partial(privacy_epsilon, event=PoissonSampled(sample_rate=0.5, event=LAST), **ADD), "nor a last iterate"),
    ],
)
def test_refusals(call, words):
    refused(words, call)
