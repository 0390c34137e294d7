"""Numbers with error bars contain what mpmath finds, and are narrow."""

import mpmath
from flint import arb
from mpmath import mpf

from pacdp.verify import arithmetic as num
from tests.marks import parametrize
from tests.oracles.kl_by_mpmath import xi


@parametrize("q", [0.0, 1e-9, 0.02, 0.3, 0.999, 1.0])
def test_inverse_kl(q):
    def kl(p):
        return num.binary_kl(arb(q), arb(p))

    for cost in (1e-12, 1e-3, 0.3, 5.0):
        upper = num.kl_upper(arb(q), arb(cost))
        assert kl(num.upper(upper)) >= cost or num.upper(upper) >= 1.0
        assert kl(num.lower(upper)) <= cost or q == 1.0
        assert upper.rad() < 1e-20


@parametrize("n", [1, 2, 3, 8, 100, 1000])
def test_log_xi(n):
    with mpmath.workdps(40):
        exact, found = mpmath.log(xi(n)), num.log_xi(n)
        assert num.lower(found) <= exact <= num.upper(found)
        assert num.upper(found) - num.lower(found) <= 1e-15 * abs(exact) + 1e-15


@parametrize(("errors", "n"), [(0, 10), (3, 10), (9, 10), (10, 10), (300, 10_000), (59_999, 60_000)])
def test_clopper_and_pearson(errors, n):
    delta = arb("0.01")
    p = num.binomial_upper(errors, n, delta)
    if errors == n:
        assert p == 1
        return
    with mpmath.workdps(40):
        for end, side in ((num.lower(p), 1), (num.upper(p), -1)):
            tail = mpmath.betainc(n - errors, errors + 1, 0, 1 - mpf(end), regularized=True)
            assert side * (tail - mpf("0.01")) >= 0
    assert num.binomial_lower(n - errors, n, delta).overlaps(1 - p)
