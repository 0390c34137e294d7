"""The inverses of the binary kl: never on the unsafe side, never far from the truth."""

from math import inf, isnan, nan, nextafter, ulp

import kl_by_mpmath as exact
import mpmath as mp
import numpy as np
import pytest
from mpmath import mpf
from numpy.random import default_rng

from bounds import binary_kl, binary_kl_lower, binary_kl_upper

EDGE_RATES = [0.0, 5e-324, 1e-320, 2.3e-308, 1e-300, 1e-160, 1e-20, 0.25, 0.5, 0.75, 1 - 2**-53, 1.0]
EDGE_NATS = [0.0, 5e-324, 1e-320, 2.3e-308, 1e-300, 1e-250, 1e-240, 1e-160, 1e-32, 1e-16, 0.3, 39.9, 40.0, 1e3]


def points(count, seed):
    """(q, nats) at all magnitudes: log-uniform, near 1, typical of certificates, and every pair of edges."""
    rng = default_rng(seed)
    third = count // 3
    rest = count - 2 * third - len(EDGE_RATES) * len(EDGE_NATS)
    q = [10 ** rng.uniform(-323.3, 0, third), 1 - 10 ** rng.uniform(-16, 0, third), rng.uniform(0, 0.3, rest)]
    nats = [10 ** rng.uniform(-323.3, 3, third), 10 ** rng.uniform(-40, 2, third), 10 ** rng.uniform(-5, 0, rest)]
    edge_q, edge_nats = np.meshgrid(EDGE_RATES, EDGE_NATS)
    return np.concatenate([*q, edge_q.ravel()]), np.concatenate([*nats, edge_nats.ravel()])


@pytest.mark.parametrize(
    ("inverse", "count", "end", "inward"),
    [
        (binary_kl_upper, 10_000, 1.0, lambda p: mpf(p) - 64 * mpf(ulp(p))),
        (binary_kl_lower, 4_000, 0.0, lambda p: mpf(p) * (1 + mpf("1e-10")) + 20 * mpf(5e-324)),
    ],
)
def test_inverses_are_never_short_of_the_true_ones_and_close(inverse, count, end, inward):
    """A little nearer to the rate, kl is below the cost already, or the rate itself is passed."""
    q, nats = points(count, seed=1)
    for rate, cost, p in zip(q.tolist(), nats.tolist(), inverse(q, nats).tolist(), strict=True):
        assert min(rate, end) <= p <= max(rate, end)
        assert p == end or exact.kl(rate, p) >= cost, (rate, cost, p)
        near = inward(p)
        passed = near <= rate if end else near >= rate
        assert passed or exact.kl(rate, near) < cost, (rate, cost, p)


def test_kl_has_its_stated_relative_error_at_all_magnitudes():
    rng = default_rng(3)
    q = np.concatenate([10 ** rng.uniform(-300, 0, 1500), rng.uniform(0, 1, 1500)])
    p = np.concatenate([q[:1500] * np.exp(rng.normal(size=1500)), rng.uniform(0, 1, 750), q[-750:] * 1.001])
    p = np.minimum(p, 1.0)
    for rate, other, value in zip(q.tolist(), p.tolist(), binary_kl(q, p).tolist(), strict=True):
        truth = exact.kl(rate, other)
        if 1e-290 < truth < mp.inf:
            assert abs(value - truth) <= 16 * mpf(2) ** -53 * truth, (rate, other)
        else:
            assert value == truth or truth <= 1e-290


@pytest.mark.slow
def test_a_million_points_lie_beyond_the_inverse_by_the_computed_kl():
    """Looser than 50 digits (16·2⁻⁵³ for the comparison itself), but dense where certificates live."""
    rng = default_rng(7)
    q, nats = rng.uniform(0, 0.3, 10**6), 10 ** rng.uniform(-6, 0, 10**6)
    p = binary_kl_upper(q, nats)
    assert (binary_kl(q, p) >= nats * (1 - 2.0**-48)).all()
    assert (binary_kl(q, p - 66 * np.spacing(p)) < nats * (1 + 2.0**-48)).all()


def test_edges():
    assert binary_kl_upper(0.25, 1e-300) == nextafter(0.25, 1)
    assert binary_kl_lower(0.25, 1e-300) == nextafter(0.25, 0)
    assert binary_kl_upper(0.1, inf) == 1.0
    assert binary_kl_lower(0.1, inf) == 0.0
    assert binary_kl_upper(0.3, 2850.0) == 1.0  # vacuous is exactly 1, not 1 - 1e-12
    assert binary_kl(1, 0) == inf
    assert binary_kl([0, 1, 0.5], [0, 1, 0.5]).tolist() == [0, 0, 0]


@pytest.mark.parametrize(("q", "p"), [(0.5, 1e-300), (1.0, 5e-324), (1e-10, 1e-305), (1e-300, 0.5)])
def test_kl_of_rates_whose_ratio_no_number_holds(q, p):
    assert binary_kl(q, p) == pytest.approx(float(exact.kl(q, p)), rel=1e-13)


def test_invalid_input_gives_nan_without_a_warning():
    for q, x in [(nan, 0.1), (-0.1, 0.1), (1.1, 0.1), (0.1, nan), (0.1, -0.1)]:
        assert isnan(binary_kl(q, x))
        assert isnan(binary_kl_upper(q, x))
        assert isnan(binary_kl_lower(q, x))
