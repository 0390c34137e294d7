"""Thousands of noise levels on a few: the theorem in high precision, and both ends against every level by itself."""

from itertools import pairwise
from math import log

import mpmath as mp
import numpy as np
import pytest
import subsampled_by_mpmath as exact
from events_for_tests import either, spent, steps
from mpmath import mpf
from numpy.random import default_rng

from bounds.accounting import (
    Composed,
    ExponentialMechanism,
    Gaussian,
    _levels,
    privacy_delta,
    privacy_epsilon,
    renyi_divergences,
    sampled_gaussians,
)
from bounds.accounting._levels import _SHARES, grouped
from bounds.accounting._pieces import mechanisms
from bounds.accounting._schedule import schedule

EPSILONS = (-2.0, -0.3, -0.01, 0.0, 1e-4, 0.02, 0.2, 1.0, 4.0, 9.0)


def of_kind(adjacency, rate, sigma, epsilon):
    """The divergence at e^epsilon, 40 digits."""
    return (exact.replace if adjacency == "replace-one" else exact.remove)(rate, sigma, epsilon)


def chord(adjacency, rate, sigmas, share, epsilon):
    """That of the mixture of two levels, and its excess over the level between them; relative to their difference."""
    low, middle, high = (of_kind(adjacency, rate, sigma, epsilon) for sigma in sigmas)
    return (share * low + (1 - share) * high - middle) / (low - high) if low != high else mpf(0)


def exact_share(adjacency, sigmas):
    scale = mp.sqrt(2 if adjacency == "replace-one" else 8)
    a, x, b = (mp.erf(1 / (mpf(sigma) * scale)) for sigma in sigmas)
    return (x - b) / (a - b)


@either
@pytest.mark.parametrize("rate", [1.0, 0.3, 0.004])
@pytest.mark.parametrize("sigmas", [(0.3, 0.4, 0.9), (0.99, 1.0, 1.01), (3.0, 10.0, 40.0), (100.0, 100.1, 101.0)])
def test_a_level_has_less_divergence_than_the_mixture(adjacency, rate, sigmas):
    """At every epsilon of both signs, and at one of them a share smaller by a ten-thousandth would not do."""
    with mp.workdps(40):
        share = exact_share(adjacency, sigmas)
        excess = [chord(adjacency, rate, sigmas, share, epsilon) for epsilon in EPSILONS]
        assert min(excess) >= -(mpf(10) ** -20)
        short = [chord(adjacency, rate, sigmas, share * (1 - mpf("1e-4")), epsilon) for epsilon in EPSILONS]
        assert min(short) < 0


def test_a_mixture_linear_in_the_multiplier_would_not_do():
    """The choice of the variable is what makes it a theorem."""
    sigmas = 0.3, 0.4, 0.9
    share = (1 / 0.4 - 1 / 0.9) / (1 / 0.3 - 1 / 0.9)
    assert min(chord("add-remove", 0.3, sigmas, share, epsilon) for epsilon in EPSILONS) < -0.05


@either
def test_shares_are_rounded_up_and_no_use_is_lost(adjacency, monkeypatch):
    """Every level between two anchors is counted, with a share not below the exact one and less than 1/32 above."""
    monkeypatch.setattr(_levels, "_MOST", 6)
    rng = default_rng(3)
    for low, high in ((0.06, 0.2), (0.5, 50.0), (1e3, 1e9), (1.0, 1.0 + 1e-10)):
        sigmas = np.sort(np.exp(rng.uniform(log(low), log(high), 40)))
        uses = rng.integers(1, 9, 40)
        event = Composed(events=tuple(steps(float(s), 0.01, int(n)) for s, n in zip(sigmas, uses, strict=True)))
        parts = mechanisms(schedule(event, adjacency))
        sigmas, levels = np.array([part.sigma for part, _ in parts]), grouped(parts)
        assert sum(level.uses for level in levels) == uses.sum()
        assert 2 <= len(levels) <= 13
        for before, level in pairwise(levels):
            a, b = before.part.sigma, level.part.sigma
            inside = (sigmas > a) & (sigmas < b)
            assert level.times.sum() == uses[inside].sum()
            with mp.workdps(160):
                wanted = [exact_share(adjacency, (a, sigma, b)) for sigma in sigmas[inside]]
            given = np.repeat(level.shares, level.times)[::-1]  # less noise, a larger share
            needed = np.repeat(np.array([float(share) for share in wanted]), uses[inside])
            assert (given >= needed).all()
            assert (given <= needed + 1.01 / _SHARES).all() or b - a < 1e-6


@pytest.mark.cases(2)
@either
@pytest.mark.parametrize(("low", "high", "rate"), [(0.7, 70.0, 0.02), (4.0, 6.0, 0.3)])
def test_few_levels_bracket_what_every_level_by_itself_gives(adjacency, low, high, rate, monkeypatch):
    """Above it, below it, and close: 60 levels for 120."""
    sigmas = [float(s) for s in np.geomspace(low, high, 120)] * 2
    event = sampled_gaussians(sample_rate=rate, noise_multipliers=sigmas)
    asked = {"event": event, "adjacency": adjacency}
    one_by_one = privacy_epsilon(delta=1e-6, **asked)
    profile = privacy_delta(epsilon=one_by_one.upper, **asked)
    slow = renyi_divergences(**asked)
    monkeypatch.setattr(_levels, "_MOST", 60)
    quick = privacy_epsilon(delta=1e-6, **asked)
    assert one_by_one.lower < quick.upper < 1.02 * one_by_one.upper
    assert 0.9 * one_by_one.lower < quick.lower < one_by_one.upper
    found = privacy_delta(epsilon=one_by_one.upper, **asked)
    assert profile.lower <= found.upper <= 1.2 * profile.upper
    moments = renyi_divergences(**asked)
    finite = np.isfinite(slow)
    assert (moments >= slow)[finite].all()
    assert (moments <= 1.05 * slow)[finite].all()


def test_other_mechanisms_stay_as_they_are(monkeypatch):
    """Noise on all records and pure mechanisms are counted beside the levels, and families of rates apart."""
    monkeypatch.setattr(_levels, "_MOST", 8)
    sampled = [steps(1.0 + 0.1 * k, rate, 2) for k in range(20) for rate in (0.01, 0.02)]
    pure = ExponentialMechanism(epsilon=0.1, adjacency="add-remove")
    parts = mechanisms(schedule(Composed(events=(Gaussian(noise_multiplier=3.0), pure, *sampled)), "add-remove"))
    levels = grouped(parts)
    assert sum(level.uses for level in levels) == 2 + 80
    assert [level.part for level in levels if level.uses == 1] == [parts[0][0], parts[-1][0]]
    for before, level in pairwise(levels):
        assert not level.times.size or before.part.rate == level.part.rate < 1.0


def test_two_decades_of_noise_stay_close():
    """3,516 levels; what every level by itself gave, at the same resolution, lies between."""
    event = sampled_gaussians(sample_rate=256 / 60000, noise_multipliers=np.geomspace(0.5, 50.0, 3516))
    made = spent(event)
    assert 3.80 < made.lower < 3.83254 < 3.83923 < made.upper < 3.8402


def test_levels_within_rounding_count_as_the_less_noisy():
    """A thousand neighbouring floats are one level, from above."""
    sigmas = [1.0 + k * 2.0**-52 for k in range(1000)]
    event = sampled_gaussians(sample_rate=0.01, noise_multipliers=sigmas)
    made = spent(event)
    same = spent(steps(1.0, 0.01, 1000))
    assert same.lower <= made.upper == pytest.approx(same.upper, rel=1e-3)
