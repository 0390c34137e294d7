"""On a quartic potential the error of E w² at a fixed time shrinks with the step size as theory says: weak order 1."""

import numpy as np
import torch
from torch import Tensor

from pacdp.algorithms import SGHMC, SGLD, Sampler, build
from pacdp.chains import Keys
from pacdp.objective import Estimate

START = 2.0
KEYS = Keys.derive([3] * 8, range(8))
COORDINATES = 250_000


class Quartic:
    """R̂(w) = w⁴/4 a coordinate."""

    def estimate(self, weights: Tensor, keys: Keys, tick: int | Tensor) -> Estimate:
        zero = weights.new_zeros(len(weights))
        return Estimate(weights**3, zero, zero)


def second_moment(sampler: Sampler, steps: int) -> tuple[float, float]:
    """E w² after some steps and its standard error, over two million chains."""
    state = sampler.init(torch.full((KEYS.count, COORDINATES), START))
    for _ in range(steps):
        state, _ = sampler.step(state, KEYS)
    squares = state.weights.double().square()
    return float(squares.mean()), float(squares.std()) / squares.numel() ** 0.5


def euler_moment(h: float, time: float) -> float:
    """E w² at ``time`` of w ← w - h w³ + √(2h) ξ, by quadrature of the transition kernel on a grid."""
    grid = np.linspace(-5, 5, 801)
    width = grid[1] - grid[0]
    mean = grid - h * grid**3
    kernel = np.exp(-((grid[None, :] - mean[:, None]) ** 2) / (4 * h)) / np.sqrt(4 * np.pi * h) * width
    first = START - h * START**3
    density = np.exp(-((grid - first) ** 2) / (4 * h)) / np.sqrt(4 * np.pi * h) * width
    for _ in range(round(time / h) - 1):
        density = density @ kernel
    return float(density @ grid**2)


def limit(time: float) -> float:
    """The same of the diffusion: Richardson's extrapolation, twice."""
    a, b, c = (euler_moment(h, time) for h in (0.02, 0.01, 0.005))
    first, second = 2 * b - a, 2 * c - b
    assert abs(first - second) < 3e-4
    return (4 * second - first) / 3


def test_sgld_has_weak_order_one() -> None:
    time, steps = 0.4, (0.1, 0.05, 0.025, 0.0125)
    exact, errors = limit(time), []
    for h in steps:
        settings = SGLD(tau=1.0, step_size=h, base_std=1e6)
        found, noise = second_moment(build(settings, Quartic()), round(time / h))
        assert abs(found - euler_moment(h, time)) < 4 * noise + 1e-5
        assert 20 * noise < abs(found - exact)
        errors.append(abs(found - exact))
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert 0.95 < slope < 1.2


def test_sghmc_has_weak_order_one_in_its_time_step() -> None:
    """Time step √h at friction rate a/√h = 1: successive halvings, whose differences shrink with the same order."""
    time, roots = 0.8, (0.1, 0.05, 0.025, 0.0125)
    found = []
    for root in roots:
        settings = SGHMC(tau=1.0, step_size=root**2, friction=root, base_std=1e6)
        found.append(second_moment(build(settings, Quartic()), round(time / root)))
    values = np.array([value for value, _ in found])
    differences = np.abs(np.diff(values))
    assert 20 * found[-1][1] < differences[-1]
    slope = np.polyfit(np.log(roots[:-1]), np.log(differences), 1)[0]
    assert 0.8 < slope < 1.15
