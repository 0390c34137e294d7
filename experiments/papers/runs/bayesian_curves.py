"""The synthetic regression: a draw of a Gaussian process, with noise whose deviation grows with x.

x uniform in ±3, 400 of them, sorted; f a Gaussian process with covariance exp(-(x - x')²/2); y = f(x) + 0.3 |x + 2| ξ,
less its mean. Training takes the 250 in the middle. (The text at hand only says "heteroscedastic data generated from
Gaussian process"; these numbers are those of the authors' published notebooks, which follow a common tutorial.) Test
targets are new noise on the same f, at new x between the outermost training inputs.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

POINTS, FIRST, LAST = 400, 75, 325
TEST = 200
NOISE = 0.3
REACH = 5.0
"""Bands are drawn on ±REACH."""


class Curve(NamedTuple):
    """One simulation."""

    x: Float[np.ndarray, " n"]
    y: Float[np.ndarray, " n"]
    test_x: Float[np.ndarray, " m"]
    test_y: Float[np.ndarray, " m"]
    test_noise: Float[np.ndarray, " m"]
    """Standard deviation of the noise at ``test_x``."""


def simulated(seed: int) -> Curve:
    """A simulation of that seed."""
    rng = np.random.default_rng((seed, 0xBDD))
    x = np.sort(rng.uniform(-3.0, 3.0, POINTS))
    test_x = np.sort(rng.uniform(x[FIRST], x[LAST - 1], TEST))
    everywhere = np.concatenate([x, test_x])
    covariance = np.exp(-0.5 * (everywhere[:, None] - everywhere) ** 2)
    values, vectors = np.linalg.eigh(covariance)
    f = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.normal(size=len(everywhere)))
    noise = NOISE * np.abs(everywhere + 2.0)
    y = f + noise * rng.normal(size=len(everywhere))
    y = y - y[:POINTS].mean()
    return Curve(x[FIRST:LAST], y[FIRST:LAST], test_x, y[POINTS:], noise[POINTS:])
