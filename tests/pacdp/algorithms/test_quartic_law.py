"""On a quartic potential, where no law is Gaussian, E w² after some steps is that of the exact transition kernel."""

import numpy as np
import torch

from pacdp.algorithms import SGLD, build
from pacdp.chains import Keys
from pacdp.objective import Estimate

START, H, STEPS = 2.0, 0.05, 8


class Quartic:
    """R̂(w) = w⁴/4 a coordinate."""

    def estimate(self, weights, keys, tick):
        zero = weights.new_zeros(len(weights))
        return Estimate(weights**3, zero, zero)


def kernel_moment():
    """E w² after STEPS of w ← w - h w³ + √(2h) ξ, by quadrature of the transition kernel on a grid."""
    grid = np.linspace(-5, 5, 801)
    scale = (grid[1] - grid[0]) / np.sqrt(4 * np.pi * H)
    mean, first = grid - H * grid**3, START - H * START**3
    kernel = np.exp(-((grid[None, :] - mean[:, None]) ** 2) / (4 * H)) * scale
    density = np.exp(-((grid - first) ** 2) / (4 * H)) * scale
    for _ in range(STEPS - 1):
        density = density @ kernel
    return float(density @ grid**2)


def test_sgld_has_the_moment_of_its_kernel():
    keys = Keys.derive([3] * 4, range(4))
    sampler = build(SGLD(tau=1.0, step_size=H, base_std=1e6), Quartic())
    state = sampler.init(torch.full((keys.count, 100_000), START))
    for _ in range(STEPS):
        state, _ = sampler.step(state, keys)
    squares = state.weights.double().square()
    error = float(squares.std()) / squares.numel() ** 0.5
    assert abs(float(squares.mean()) - kernel_moment()) < 5 * error < 0.01
