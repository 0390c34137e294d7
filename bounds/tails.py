"""What independent draws say of a mean: confidence bounds for one rate, as floats.

Each bound holds with probability at least 1 - ``failure_prob``, one-sidedly: for k errors counted among n independent
trials, or ``mean`` the average of n independent terms in [0, 1]. Arguments out of range raise ValueError.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
import math

from scipy import special

from bounds import _check
from bounds._rounding import inward, log_inverse, outward, total
from bounds.kl import binary_kl_lower, binary_kl_upper

# Relative error allowed to SciPy's incomplete beta function, some hundred times what it makes.
_BETA_SLACK = 1e-10


def clopper_pearson_upper(k: int, n: int, failure_prob: float) -> float:
    """The exact upper confidence bound on a binomial rate: sup{p : P(Bin(n, p) ≤ k) ≥ failure_prob}, rounded up.

    Clopper and Pearson 1934; equals the 1 - failure_prob quantile of Beta(k + 1, n - k). One-sided: for an interval,
    halve ``failure_prob`` on each side.

    Formal guarantee: k ~ Bin(n, p) gives p ≤ value with probability at least 1 - failure_prob. The value is accepted
    only when the computed P(Bin(n, value) ≤ k) is below failure_prob by more than its rounding error. Where SciPy
    has no quantile (NaN, for some failure_prob below 1e-100) it is the Chernoff bound, which is never below.
    """
    k, n, failure_prob = _checked(k, n, failure_prob)
    if k == n:
        return 1.0
    if k == 0:
        return min(1.0, outward(-math.expm1(-outward(log_inverse(failure_prob) / n))))
    a, b = float(k) + 1.0, float(n - k)
    p = float(special.betainccinv(a, b, failure_prob))
    if math.isnan(p):
        return float(binary_kl_upper(min(1.0, outward(k / n)), outward(log_inverse(failure_prob) / n)))
    step = 2.0**-50
    while p < 1.0 and not special.betaincc(a, b, p) <= failure_prob * (1.0 - _BETA_SLACK):
        p = min(1.0, p + step * p)
        step *= 2.0
    return p


def clopper_pearson_lower(k: int, n: int, failure_prob: float) -> float:
    """The exact lower confidence bound on a binomial rate: inf{p : P(Bin(n, p) ≥ k) ≥ failure_prob}, rounded down.

    Clopper and Pearson 1934; the ``failure_prob`` quantile of Beta(k, n - k + 1).

    Formal guarantee: k ~ Bin(n, p) gives p ≥ value with probability at least 1 - failure_prob; checked as for
    ``clopper_pearson_upper``.
    """
    k, n, failure_prob = _checked(k, n, failure_prob)
    if k == 0:
        return 0.0
    if k == n:
        return inward(math.exp(-outward(log_inverse(failure_prob) / n)))
    a, b = float(k), float(n - k) + 1.0
    p = float(special.betaincinv(a, b, failure_prob))
    if math.isnan(p):
        return float(binary_kl_lower(inward(k / n), outward(log_inverse(failure_prob) / n)))
    step = 2.0**-50
    while p > 0.0 and not special.betainc(a, b, p) <= failure_prob * (1.0 - _BETA_SLACK):
        p = max(0.0, p - step * p)
        step *= 2.0
    return p


def kl_chernoff_upper(mean: float, n: int, failure_prob: float) -> float:
    """The Chernoff bound p ≤ kl⁻¹(mean, ln(1/failure_prob)/n) on the expectation p of a mean, rounded up.

    Hoeffding 1963, Theorem 1, in its kl form; proof in docs/guarantees.md, "Averages of independent draws".

    Formal guarantee: ``mean`` the average of n independent variables in [0, 1], which need not have the same law,
    gives E mean ≤ value with probability at least 1 - failure_prob. So n counts every independent term: draws of
    the weights times mini-batches when each mini-batch has fresh weights.
    """
    mean, n, failure_prob = _mean(mean, n, failure_prob)
    return float(binary_kl_upper(mean, outward(log_inverse(failure_prob) / n)))


def hoeffding_upper(mean: float, n: int, failure_prob: float) -> float:
    """min{1, mean + √(ln(1/failure_prob)/(2n))}, rounded up; Hoeffding 1963, Theorem 2.

    Formal guarantee: as for ``kl_chernoff_upper``, above which it never is needed.
    """
    mean, n, failure_prob = _mean(mean, n, failure_prob)
    return min(1.0, total(mean, math.sqrt(log_inverse(failure_prob) / (2.0 * n))))


def _checked(k: int, n: int, failure_prob: float) -> tuple[int, int, float]:
    _check.count(n=n)
    _check.whole(k=k)
    _check.open_probability(failure_prob=failure_prob)
    if k > n:
        raise ValueError(f"k must not exceed n = {n}, got {k!r}; count errors, not correct answers of more trials.")
    return int(k), int(n), float(failure_prob)


def _mean(mean: float, n: int, failure_prob: float) -> tuple[float, int, float]:
    _check.probability(mean=mean)
    _check.count(n=n)
    _check.open_probability(failure_prob=failure_prob)
    return float(mean), int(n), float(failure_prob)
