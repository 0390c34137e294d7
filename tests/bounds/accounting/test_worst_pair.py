"""The worst pair for replace-one: no two contributions of norm at most one are told apart better than g and -g.

``hockey_stick`` is ∫ [P - e^ε Q]^+ for P = (1-q) φ_0 + q φ_a and Q = (1-q) φ_0 + q φ_b in the plane: along a direction
in which both likelihood ratios fall the integral is in closed form, across it by trapezoids, which converge
exponentially (where a and a - b are opposed there is no such direction, and two or three digits are left).
"""

from itertools import product
from math import cos, exp, expm1, hypot, pi, sin, sqrt

import numpy as np
import pytest
import subsampled_by_mpmath as twin
from scipy import optimize
from scipy.special import ndtr

SETTINGS = [(0.003, 0.5), (0.05, 1.0), (0.5, 0.7), (0.3, 3.0), (0.97, 1.5), (1.0, 1.0)]


def hockey_stick(a, b, q, sigma, epsilon):
    """∫ [P - e^ε Q]^+ in the plane; for ε < 0 by 1 - e^ε + e^ε ∫ [Q - e^(-ε) P]^+."""
    if epsilon < 0.0:
        return -expm1(epsilon) + exp(epsilon) * hockey_stick(b, a, q, sigma, -epsilon)
    far, out = ((a - b) / sigma, a / sigma)  # under N(a, σ²I): ln X = -far·ξ - |far|²/2, ln Y = -out·ξ - |out|²/2
    along = _bisector(far, out)
    across = np.array([-along[1], along[0]])
    slopes = np.maximum(np.array([far @ along, out @ along]), 0.0)
    weights = np.array([exp(epsilon), (1.0 - q) / q * expm1(epsilon)])
    u = np.linspace(-9.0, 9.0, 181)[:, None]
    logs = np.log(np.maximum(weights, 1e-300)) - u * np.array([far @ across, out @ across])
    logs = logs - 0.5 * np.array([far @ far, out @ out])  # at u and t = 0; minus slopes·t elsewhere
    t = _crossing(logs, slopes)
    gains = np.exp(logs + 0.5 * slopes**2) * ndtr(-(t[:, None] + slopes))
    inner = ndtr(-t) - gains.sum(axis=1)
    return q * float(np.trapezoid(np.maximum(inner, 0.0) * np.exp(-0.5 * u[:, 0] ** 2), u[:, 0]) / sqrt(2 * pi))


def _bisector(one, two):
    """A unit vector at no obtuse angle to either."""
    unit = [v / n if (n := hypot(*v)) > 1e-12 else np.zeros(2) for v in (one, two)]
    total = unit[0] + unit[1]
    return total / hypot(*total) if hypot(*total) > 1e-9 else np.array([-unit[0][1], unit[0][0]])


def _crossing(logs, slopes):
    """Where Σ e^(logs - slopes t) falls through 1: bisection, from -40 to 40 standard deviations."""
    low, high = np.full(len(logs), -40.0), np.full(len(logs), 40.0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = np.exp(np.minimum(logs - slopes * middle[:, None], 50.0)).sum(axis=1) > 1.0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.where(high >= 40.0, np.inf, 0.5 * (low + high))


def pair(radius_a, radius_b, angle):
    return np.array([radius_a, 0.0]), radius_b * np.array([cos(angle), sin(angle)])


def worst(q, sigma, epsilon):
    return float(twin.replace(q, sigma, epsilon))


def normal(z, mean, sigma):
    return np.exp(-0.5 * ((z - mean) / sigma) ** 2) / (sigma * sqrt(2 * pi))


every_setting = pytest.mark.parametrize(("q", "sigma"), SETTINGS)


@every_setting
@pytest.mark.parametrize("epsilon", [-1.0, -0.1, 0.0, 0.02, 0.3, 1.0])
def test_no_pair_in_the_plane_exceeds_opposite_contributions(q, sigma, epsilon):
    """A grid of pairs, the best of them improved by a search over norms and angle."""
    most = worst(q, sigma, epsilon)
    room = 1e-10 + 1e-9 * most

    def found(at):
        a, b = pair(min(1.0, abs(at[0])), min(1.0, abs(at[1])), at[2])
        return hockey_stick(a, b, q, sigma, epsilon)

    radii, angles = (0.0, 0.4, 0.8, 1.0), np.linspace(0.0, pi, 7)
    grid = {at: found(at) for at in product(radii, radii, angles)}
    assert max(grid.values()) <= most + room
    assert hockey_stick(*pair(1.0, 1.0, pi), q, sigma, epsilon) == pytest.approx(most, abs=room)
    start = sorted(grid, key=grid.get)[-3]  # not the worst pair itself
    options = {"maxfev": 150, "xatol": 1e-6, "fatol": 1e-14}
    best = optimize.minimize(lambda at: -found(at), start, method="Nelder-Mead", options=options)
    assert -best.fun <= most + room


@pytest.mark.parametrize(("q", "sigma", "epsilon"), [(0.1, 1.0, 0.1), (0.5, 1.5, -0.3), (0.02, 0.8, 0.05)])
def test_two_releases_of_one_sample_do_not_gain_by_looking_at_the_first(q, sigma, epsilon):
    """The second pair may depend on the first release; at its best it makes one pair at noise σ/√2."""
    z, step = np.linspace(-1 - 8 * sigma, 1 + 8 * sigma, 601, retstep=True)
    laws = {mean: normal(z, mean, sigma) for mean in (-1.0, -0.3, 0.0, 0.5, 1.0)}
    pairs, largest = list(product(laws.keys() - {0.0}, repeat=2)), 0.0
    unsampled = (q - 1) * expm1(epsilon) * np.outer(laws[0.0], laws[0.0])
    for a, b in pairs:
        gains = (unsampled + q * (np.outer(laws[a], laws[a2]) - exp(epsilon) * np.outer(laws[b], laws[b2]))
                 for a2, b2 in pairs)  # fmt: skip
        answers = [np.maximum(gain, 0.0).sum(axis=1) for gain in gains]
        largest = max(largest, step**2 * np.max(answers, axis=0).sum())
    assert largest == pytest.approx(worst(q, sigma / sqrt(2), epsilon), abs=1e-4)  # it is among the answers
