"""Binomial tails: exactly in fractions for small n, in log space for large."""

from fractions import Fraction
from math import comb, log, log1p

import numpy as np
from scipy.special import gammaln, logsumexp


def cdf(k, n, p):
    """P(Bin(n, p) ≤ k), exactly."""
    a, whole = Fraction(p).as_integer_ratio()
    return Fraction(sum(comb(n, j) * a**j * (whole - a) ** (n - j) for j in range(k + 1)), whole**n)


def log_cdf(k, n, p):
    """ln P(Bin(n, p) ≤ k), where SciPy's cdf would underflow."""
    j = np.arange(k + 1)
    log_choose = gammaln(n + 1) - gammaln(j + 1) - gammaln(n - j + 1)
    return float(logsumexp(log_choose + j * log(p) + (n - j) * log1p(-p)))
