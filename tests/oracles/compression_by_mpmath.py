"""ε_k once more: from the sum of its definition, and at 60 digits from binomial tails, by bisection."""

import mpmath as mp
from mpmath import exp, fsum, loggamma, mpf


def log_choose(n, k):
    return loggamma(n + 1) - loggamma(k + 1) - loggamma(n - k + 1)


def uniform(k, n, v, failure_prob):
    """The same for λ_m = failure_prob/n, as failure_prob P(Bin(n, v) > k) / (n v P(Bin(n, v) = k))."""
    v = mpf(v)
    mass = exp(log_choose(n, k) + k * mp.log(v) + (n - k) * mp.log(1 - v))
    term, below, j = mass, mass, k
    while j > 0 and term > below * mpf("1e-45"):
        term *= mpf(j) / (n - j + 1) * (1 - v) / v
        below, j = below + term, j - 1
    return failure_prob * (1 - below) / (n * v * mass)


def weighted(k, n, v, failure_prob, weights):
    """The same for λ_m = failure_prob weights[m], in logarithms."""
    v = mpf(v)
    return fsum(
        failure_prob * mpf(share) * exp(log_choose(m, k) - log_choose(n, k) + (m - n) * mp.log(1 - v))
        for m, share in weights.items()
        if m >= k
    )
