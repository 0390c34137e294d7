"""One step, where delta(epsilon) is known in closed form, in both directions and for both relations."""

from fractions import Fraction
from math import exp, expm1, inf, log, log1p, sqrt, ulp

import mpmath as mp
import numpy as np
import pytest
import subsampled_by_mpmath as twin
from events_for_tests import RELATIONS, either, lost, spent, steps
from mpmath import mpf
from numpy.random import default_rng
from scipy.integrate import quad
from scipy.stats import norm

from bounds.accounting import (
    Composed,
    Gaussian,
    gaussian_delta,
    gaussian_epsilon,
    privacy_record,
    renyi_divergences,
    renyi_epsilon,
)
from bounds.accounting._cells import add_cells
from bounds.accounting._compose import Curve
from bounds.accounting._fourier import Composite, Window
from bounds.accounting._pieces import Noise, grid

PAIRS = [(0.01, 1.0), (0.3, 0.5), (0.001, 0.3), (0.9, 4.0), (0.0001, 50.0)]
EXTREMES = [(1e-10, 1.0), (1e-13, 1.0), (1e-30, 0.3), (1e-3, 1e9), (0.5, 1e13)]
"""Beyond what a grid of losses resolves: above the truth, and not close to it."""


every_pair = pytest.mark.parametrize(("q", "sigma"), PAIRS)


@pytest.mark.parametrize(("q", "sigma"), [*PAIRS, *EXTREMES])
@pytest.mark.parametrize("epsilon", [0.0, 1e-12, 0.003, 0.2, 2.0])
def test_delta_of_one_step_brackets_the_closed_form(q, sigma, epsilon):
    event = steps(sigma, q)
    for adjacency in RELATIONS:
        made, true = lost(event, epsilon, adjacency), twin.delta(adjacency, q, sigma, epsilon)
        known = true >= 1e-36  # else the closed form has lost its digits
        if (q, sigma) in EXTREMES:
            assert made.lower <= max(1e-36, true)
            assert not known or true <= made.upper
        elif not known:
            assert made.upper < 1e-36
        else:
            assert made.lower <= true <= made.upper <= float(true) * 1.005


@every_pair
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9, 1e-20])
def test_epsilon_of_one_step_brackets_the_closed_form(q, sigma, delta):
    event = steps(sigma, q)
    for adjacency in RELATIONS:
        made = spent(event, delta, adjacency)
        assert twin.delta(adjacency, q, sigma, made.upper) <= delta
        if made.lower > 0.0:
            assert twin.delta(adjacency, q, sigma, made.lower) >= delta
        assert made.upper - made.lower <= 0.02 * made.upper + 1e-6


@pytest.mark.parametrize("mu", [1e-4, 0.05, 1.0, 7.0, 60.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-5, 0.1, 3.0, 50.0])
def test_gaussian_curve_is_exact_and_rounded_up(mu, epsilon):
    true = twin.gaussian_delta(mu, epsilon)
    made = gaussian_delta(mu=mu, epsilon=epsilon)
    assert true <= made
    assert made <= float(true) * (1 + 1e-8) + 1e-290


def test_epsilon_is_inverse_to_the_curve():
    for mu in (0.01, 1.0, 20.0):
        epsilon = gaussian_epsilon(mu=mu, delta=1e-6)
        assert twin.gaussian_delta(mu, epsilon) <= 1e-6


def test_gaussians_on_all_records_compose_exactly():
    both = Composed(events=(Gaussian(noise_multiplier=5.0), Gaussian(noise_multiplier=10.0)))
    mu = sqrt(1 / 25 + 1 / 100)
    for adjacency, sensitivity in (("add-remove", 1.0), ("replace-one", 2.0)):
        made = privacy_record(event=both, adjacency=adjacency)
        assert made.mu == pytest.approx(sensitivity * mu, rel=1e-14)
        assert made.mu >= sensitivity * mu * (1 - 1e-16)
        bound = spent(both, adjacency=adjacency)
        assert bound.upper == pytest.approx(gaussian_epsilon(mu=sensitivity * mu, delta=1e-5), rel=1e-11)
        assert bound.lower <= bound.upper <= bound.lower * (1 + 1e-9)


@either
def test_the_numerical_way_agrees_with_the_gaussian_and_is_never_below(adjacency):
    """A Gaussian on all records, made numerical by a companion that costs next to nothing."""
    event = Composed(events=(Gaussian(noise_multiplier=2.0), steps(1e4, 1e-6)))
    mu = 0.5 if adjacency == "add-remove" else 1.0
    for delta in (1e-3, 1e-6, 1e-12):
        exact = gaussian_epsilon(mu=mu, delta=delta)
        made = spent(event, delta, adjacency)
        assert exact * (1 - 1e-9) <= made.upper <= exact * (1 + 4e-5)
        assert exact * (1 - 1e-4) <= made.lower <= exact * (1 + 1e-9)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize(("q", "sigma"), [*PAIRS, (0.3, 0.15)])
def test_masses_of_cells(q, sigma, replaced):
    """The compiled cells against integrals at 40 digits; what rounding moved across their ends is announced."""
    noise = Noise(q, sigma, replaced, (), negligible=False)
    low, top = noise.range(8.0)
    part, ends = (grid(2.0**-12 * min(1.0, q / sigma * 64), 0.002, low, top).part(low, top), noise.ends(8.0))
    total, right, doubt = np.zeros((3, part.losses.size - 1))
    add_cells(part.losses, part.growth, part.ratios, sigma, q, q, 1.0, replaced, *ends, total, right, doubt)
    assert total.sum() == pytest.approx(1.0, abs=1e-13)
    assert doubt.sum() < 1e-9
    with mp.workdps(40):
        at = mpf(q), mpf(sigma)
        for k in default_rng(0).integers(0, total.size, 25):
            x, y = map(mpf, part.losses[k : k + 2])
            inside = [min(max(twin.boundary(*at, loss, -replaced), ends[0]), ends[1]) for loss in (x, y)]
            p, other = np.subtract(*(twin.beyond(*at, z, -replaced) for z in inside))
            if p < 1e-16:  # 40 digits do not last for all of the tail
                assert total[k] <= 1e-12
                continue
            room = p * 2.0**-43 + doubt[k]
            assert abs(p - total[k]) <= room
            assert abs((p - mp.exp(x) * other) / (1 - mp.exp(x - y)) - right[k]) <= room


@either
@pytest.mark.parametrize(("q", "sigma", "order"), [(0.01, 1.0, 2.0), (0.3, 2.0, 5.5), (0.2, 0.8, 1.3)])
def test_renyi_divergences_against_quadrature(q, sigma, order, adjacency):
    """ln E_Q (P/Q)^a, the record in the sum against none, or against one that pulls the other way."""

    def log_density(z, at):
        return norm.logpdf(z, at, sigma)

    def powers(z, sign=1.0):
        p = np.logaddexp(log1p(-q) + log_density(z, 0.0), log(q) + log_density(z, 1.0))
        away = log_density(z, 0.0)
        if adjacency == "replace-one":
            away = np.logaddexp(log1p(-q) + log_density(z, 0.0), log(q) + log_density(z, -1.0))
        return exp(order * p + (1.0 - order) * away)

    found, _ = quad(powers, -40.0 * sigma, 40.0 * sigma, epsabs=0.0, epsrel=1e-12, limit=500, points=[0.0, order])
    true = log(found) / (order - 1.0)
    (made,) = renyi_divergences(event=steps(sigma, q), adjacency=adjacency, orders=(order,))
    assert made == pytest.approx(true, rel=1e-6)


@pytest.mark.parametrize("order", [1.5, 8.0])
def test_epsilon_from_one_renyi_order(order):
    event, delta = Gaussian(noise_multiplier=2.0), 1e-5
    made = renyi_epsilon(event=event, delta=delta, adjacency="add-remove", orders=(order,))
    rest = log((order - 1.0) / order) - (log(delta) + log(order)) / (order - 1.0)
    assert made.upper == pytest.approx(order / (2.0 * 2.0**2) + rest, rel=1e-8)


def test_the_mu_of_many_gaussians_is_never_rounded_down():
    noises = [1.0 + k / 7919.0 for k in range(200)]
    event = Composed(events=tuple(Gaussian(noise_multiplier=noise) for noise in noises))
    true = sum((1 / Fraction(noise)) ** 2 for noise in noises)
    found = privacy_record(event=event, adjacency="add-remove").mu
    assert true <= Fraction(found) ** 2 <= true * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_curve_of_one_atom_is_on_its_side_to_the_last_digit(sign):
    """delta(epsilon) = p (1 - e^(epsilon - y)), a few ulp below y where hardly any digit is left of it."""
    spacing, start, size, p = 2.0**-6, 40, 64, 0.5
    masses = np.zeros(size)
    masses[20] = p
    law = Composite(spacing, Window(start, size, 0.0, 0.0, 0.0), 0.0, masses, 0.0, 0.0, -inf, -inf)
    curve, y = Curve(law, sign, 0.0, error=0.0), (start + 20) * spacing
    for ulps in (1, 2, 3, 8, 1000, 10**12):
        epsilon = y - ulps * ulp(0.5 * y)
        true = p * -expm1(epsilon - y)
        made = curve.at(epsilon) - 1e-300
        assert made >= true * (1 + 1e-15) if sign > 0 else made <= true * (1 - 1e-15)
        assert abs(made - true) <= 2.0**-48 * y
    assert curve.epsilon(0.9) == (start * spacing if sign > 0 else 0.0)  # nothing is known below the window
    assert curve.epsilon(0.05) == pytest.approx(y + log(0.9), rel=1e-9)


@every_pair
def test_renyi_divergences_against_the_binomial_sum(q, sigma):
    orders = (2, 3, 8, 33)
    made = renyi_divergences(event=steps(sigma, q, 7), adjacency="add-remove", orders=orders)
    for order, value in zip(orders, made, strict=True):
        true = 7 * twin.renyi(q, sigma, order)
        assert true <= value <= float(true) * (1 + 3e-9) + 1e-11
