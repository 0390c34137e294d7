"""On a quartic potential, where no law is Gaussian, E w² after some steps is that of the exact transition kernel."""

import numpy as np
import torch

from pacdp.algorithms import SGHMC, SGLD, build
from pacdp.chains import Keys
from tests.marks import near, parametrize
from tests.pacdp.toys import Sloped

START, H, STEPS = 2.0, 0.05, 8


QUARTIC = Sloped(lambda w: w**3)
"""R̂(w) = w⁴/4 a coordinate."""


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


def moment(settings, steps):
    """E w² after so many steps, and its standard error."""
    keys, sampler = Keys.derive([3] * 4, range(4)), build(settings, QUARTIC)
    state = sampler.init(torch.full((keys.count, 500_000), START))
    for _ in range(steps):
        state, _ = sampler.step(state, keys)
    squares = state.weights.double().square()
    return float(squares.mean()), float(squares.std()) / squares.numel() ** 0.5


def test_sgld_has_the_moment_of_its_kernel():
    found, error = moment(SGLD(tau=1.0, step_size=H, base_std=1e6), STEPS)
    assert abs(found - kernel_moment()) < 5 * error < 0.01


@parametrize("kind", [SGLD, SGHMC])
def test_halvings_of_the_time_of_a_step_halve_what_they_change(kind):
    """Weak order 1; SGHMC's time step is √step_size at friction rate a/√step_size = 1."""
    found = []
    for h in (0.1, 0.05, 0.025, 0.0125):
        how = {"step_size": h} if kind is SGLD else {"step_size": h**2, "friction": h}
        found.append(moment(kind(tau=1.0, base_std=1e6, **how), round(0.4 / h))[0])
    a, b, c = np.diff(found)
    assert [a / b, b / c] == near([2, 2], abs=0.2)
