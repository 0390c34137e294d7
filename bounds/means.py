"""What independent draws say of a mean: confidence bounds on one rate, and variance-adaptive ones, as floats.

Each bound holds with probability at least 1 - ``failure_prob``, one-sidedly: for k errors counted among n independent
trials, for ``mean`` the average of n independent terms in [0, 1], or for the draws themselves. Arguments out of range
raise ValueError. For 0-1 losses ``clopper_pearson_upper`` is exact, and the least. Proofs: docs/guarantees.md.

The difference of two rates of error on the same examples is bounded from those on which they differ. Of n examples, D
are discordant: one model errs where the other does not. D is binomial with a rate d, and of D such examples the first
model errs on B, binomial with a share (1 + e)/2 given D. The difference of the two rates is e·d ("Differences on the
same examples" in docs/guarantees.md).
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
import hashlib
from collections.abc import Callable
from functools import lru_cache
from math import exp, expm1, fsum, inf, log, nan, nextafter, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincc, betainccinv, betaincinv, gammaln, ndtr, ndtri

from bounds._arithmetic import inward, least, log_inverse, outward, total
from bounds._check import Array, door, nonnegative, probability, rates, real, vector, whole
from bounds.kl import binary_kl_lower, binary_kl_upper, poisson_kl

# Relative error allowed to SciPy's incomplete beta function, some hundred times what it makes.
_BETA_SLACK = 1e-10
_LEAST_TAIL = 1e-100
"""Of tails below it SciPy's function may say 0: the first that was found so was 1e-149."""
# The grid of the un-expected Bernstein inequality, from 1/2 down to 0.0072: for the best eta between, less than one
# per cent of the slack is lost to the grid.
ETAS = tuple(0.5 * 0.8**k for k in range(20))
GRID_NATS = outward(log(len(ETAS)))
ALONE = 0.1
"""Of the failure probability, what each of three tests by one count pays: that of B, and D from below and above."""
RATE_WEIGHT = 0.7
"""The weight of D, times |e|; that of B makes the sum of squares one."""
TOLERANCE = 1e-3
"""How much farther than needed from what was measured the value may lie."""
_ROUNDING = 1e-9
"""Relative: far more than SciPy's functions err by."""
_CELLS = np.sin(np.linspace(-np.pi / 2, np.pi / 2, 65))


@door()
def clopper_pearson_upper(k: int, n: int, failure_prob: float) -> float:
    """The exact upper confidence bound on a binomial rate: sup{p : P(Bin(n, p) ≤ k) ≥ failure_prob}, rounded up.

    Clopper and Pearson 1934; equals the 1 - failure_prob quantile of Beta(k + 1, n - k). One-sided: for an interval,
    halve ``failure_prob`` on each side.

    Formal guarantee: k ~ Bin(n, p) gives p ≤ value with probability at least 1 - failure_prob. The value is accepted
    only when the computed P(Bin(n, value) ≤ k) is below failure_prob by more than its rounding error, or when it is the
    Chernoff bound, which is never below: for some failure_prob below 1e-100 SciPy has no quantile, or one far off.
    """
    _check_errors(k, n)
    if k == n:
        return 1.0
    if k == 0:
        return min(1.0, outward(-expm1(-outward(log_inverse(failure_prob) / n))))
    a, b = float(k) + 1.0, float(n - k)
    p = float(betainccinv(a, b, failure_prob))
    chernoff = binary_kl_upper(min(1.0, outward(k / n)), outward(log_inverse(failure_prob) / n))
    if not p < chernoff:
        return chernoff
    step = 2.0**-50
    while p < chernoff and not _rare(betaincc(a, b, p), failure_prob, p, n - k, n, below=True):
        p = min(chernoff, p + step * p)
        step *= 2.0
    return p


@door()
def clopper_pearson_lower(k: int, n: int, failure_prob: float) -> float:
    """The exact lower confidence bound on a binomial rate: inf{p : P(Bin(n, p) ≥ k) ≥ failure_prob}, rounded down.

    Clopper and Pearson 1934; the ``failure_prob`` quantile of Beta(k, n - k + 1).

    Formal guarantee: k ~ Bin(n, p) gives p ≥ value with probability at least 1 - failure_prob; checked as for
    ``clopper_pearson_upper``.
    """
    _check_errors(k, n)
    if k == 0:
        return 0.0
    if k == n:
        return inward(exp(-outward(log_inverse(failure_prob) / n)))
    a, b = float(k), float(n - k) + 1.0
    p = float(betaincinv(a, b, failure_prob))
    chernoff = binary_kl_lower(inward(k / n), outward(log_inverse(failure_prob) / n))
    if not p > chernoff:
        return chernoff
    step = 2.0**-50
    while p > chernoff and not _rare(betainc(a, b, p), failure_prob, p, k, n, below=False):
        p = max(chernoff, p - step * p)
        step *= 2.0
    return p


def _rare(tail: float, failure_prob: float, p: float, k: int, n: int, *, below: bool) -> bool:
    """Whether at least k of n events of rate p, or 1 - p for ``below``, are less likely than failure_prob, which allows
    for rounding. SciPy says ``tail``; where that may be off, it is the first term and a thousand more, whose ratios
    fall, and with them what is left.
    """
    if failure_prob >= _LEAST_TAIL:
        return tail <= failure_prob * (1.0 - _BETA_SLACK)
    with np.errstate(all="ignore"):
        happens, fails = (np.log1p(-p), np.log(p)) if below else (np.log(p), np.log1p(-p))
        parts = np.array([gammaln(n + 1.0), -gammaln(k + 1.0), -gammaln(n - k + 1.0), k * happens, (n - k) * fails])
        after = np.arange(k, min(n, k + 1000))
        ratios = (n - after) / (after + 1.0) * np.exp(happens - fails)
        terms = ratios.cumprod()
        more = terms.sum()
        if k + 1000 < n:
            more += terms[-1] * ratios[-1] / max(1.0 - ratios[-1], 1e-300)
        nats = parts.sum() + np.log1p(more) + 1e-14 * np.abs(parts).sum()
    return bool(nats <= -outward(log_inverse(failure_prob)))


@door(mean=probability)
def kl_chernoff_upper(mean: float, n: int, failure_prob: float) -> float:
    """The Chernoff bound p ≤ kl⁻¹(mean, ln(1/failure_prob)/n) on the expectation p of a mean, rounded up.

    Hoeffding 1963, Theorem 1, in its kl form; proof in docs/guarantees.md, "Averages of independent draws".

    Formal guarantee: ``mean`` the average of n independent variables in [0, 1], which need not have the same law,
    gives E mean ≤ value with probability at least 1 - failure_prob. So n counts every independent term: draws of
    the weights times mini-batches when each mini-batch has fresh weights.
    """
    return binary_kl_upper(mean, outward(log_inverse(failure_prob) / n))


@door(mean=probability)
def hoeffding_upper(mean: float, n: int, failure_prob: float) -> float:
    """min{1, mean + √(ln(1/failure_prob)/(2n))}, rounded up; Hoeffding 1963, Theorem 2.

    Formal guarantee: as for ``kl_chernoff_upper``, above which it never is needed.
    """
    return min(1.0, total(mean, sqrt(log_inverse(failure_prob) / (2.0 * n))))


@lru_cache(maxsize=len(ETAS))
def eta_cost(eta: float) -> float:
    """(-eta - ln(1 - eta))/eta, what the mean of squares is multiplied by; rounded up."""
    return outward(outward(poisson_kl(1.0, 1.0 - eta, -eta)) / eta)


@door()
def empirical_bernstein_upper(values: ArrayLike, failure_prob: float) -> float:
    """min{1, X̄ + √(2 V ln(2/δ)/n) + 7 ln(2/δ)/(3(n-1))}, δ = failure_prob, V the sample variance; rounded up.

    Maurer and Pontil 2009, "Empirical Bernstein bounds and sample-variance penalization", Theorem 4.

    Formal guarantee: ``values`` independent draws in [0, 1] of one law, at least two of them, give E X ≤ value with
    probability at least 1 - failure_prob.
    """
    sample = vector("values", rates("values", values))
    n = sample.size
    if n < 2:
        raise ValueError(f"values must be at least two draws, got {n}; use hoeffding_upper.")
    mean = outward(fsum(sample) / n)
    # around any other point than the mean the sum of squares only grows
    variance = outward(fsum((sample - mean) ** 2) / (n - 1))
    log_term = total(log(2.0), log_inverse(failure_prob))
    return min(1.0, total(mean, sqrt(2.0 * variance * log_term / n), 7.0 * log_term / (3.0 * (n - 1))))


@door(mean=real, second_moment=nonnegative)
def second_moment_upper(mean: float, second_moment: float, n: int, failure_prob: float) -> float:
    """min{1, mean + min_η [(c_η/η)·second_moment + ln(20/δ)/(η n)]}, rounded up; δ = failure_prob.

    The un-expected Bernstein inequality (Fan, Grama and Liu 2015; Mhammedi, Grünwald and Guedj 2019) with
    c_η = -η - ln(1-η), over the fixed grid η = 0.5·0.8^k, k < 20; "Un-expected Bernstein" in docs/guarantees.md.

    Formal guarantee: for n independent variables Z_i ≤ 1, not necessarily alike and as negative as they please, with
    observed means Z̄ ≤ mean and of Z² equal to second_moment, E Z̄ ≤ value with probability at least 1 - failure_prob.
    """
    if not -inf < mean <= 1.0:
        raise ValueError(f"mean must be finite and at most 1, got {mean!r}; rescale the variables to at most 1.")
    if second_moment < mean * mean * (1.0 - 1e-9):
        raise ValueError(
            f"second_moment must be at least mean² = {mean * mean!r}, got {second_moment!r}; "
            f"pass the mean of the squares, not the variance."
        )
    log_term = total(log_inverse(failure_prob), log(len(ETAS)))
    slack = min(total(eta_cost(eta) * second_moment, log_term / (eta * n)) for eta in ETAS)
    return min(1.0, nextafter(fsum((mean, slack)), inf))


@door()
def betting_upper(values: ArrayLike, failure_prob: float) -> float:
    """The largest mean m that a fair game does not refute: Π_i (1 + λ_i(m) (m - X_i)) < 1/failure_prob, rounded up.

    The bets λ_i(m) are those of ``ratio_betting_upper`` for weights of one. Waudby-Smith and Ramdas 2024, "Estimating
    means of bounded random variables by betting": predictable plug-in bets, for one side and a fixed n.

    Formal guarantee: ``values`` independent draws in [0, 1] of one law, given in any order, give E X ≤ value with
    probability at least 1 - failure_prob. The wealth grows with m, and the value is the upper end of the last bracket
    of a bisection: a mean at which the wealth, less its rounding error, is at least 1/failure_prob ("Betting" in
    docs/guarantees.md).
    """
    sample = vector("values", rates("values", values))
    return ratio_betting_upper(sample, np.ones_like(sample), failure_prob)


@door()
def ratio_betting_upper(values: ArrayLike, weights: ArrayLike, failure_prob: float) -> float:
    """The largest ratio that a fair game does not refute: Π_i (1 + λ_i(m) w_i (m - x_i)) < 1/failure_prob, rounded up.

        λ_i(m) = min{√(2 ln(1/δ)/(n V_i)), 3/(4(1-m))}
        V_i = (1/4 + Σ_{k<i} w_k² (x_k - μ_k)²)/i,    μ_k = (1/2 + Σ_{j≤k} w_j x_j)/(1 + Σ_{j≤k} w_j)

    with δ = failure_prob: ``betting_upper`` for draws of random weight. Proof in docs/people.md,
    "Betting on a ratio".

    The draws are sorted, and then permuted by a generator whose seed is a hash of all of them: the order in which they
    are given changes no bit of the value.

    Formal guarantee: (w_i, x_i) independent draws of one law with w in (0, 1] and x in [0, 1] give E[w x]/E[w] ≤ value
    with probability at least 1 - failure_prob, the hash being taken for a random function.
    A weight is as random as its x_i, and as dependent on it as it pleases.
    """
    sample = vector("values", rates("values", values))
    share: Array = np.asarray(weights, dtype=np.float64)
    if share.shape != sample.shape or not ((share > 0.0) & (share <= 1.0)).all():
        raise ValueError("weights must be numbers in (0, 1], one for each value; divide by the largest possible one.")
    order = _blind_order(sample, share)
    sample, share, n = sample[order], share[order], sample.size
    level = log_inverse(failure_prob)
    rounds = np.arange(1, n + 1)
    centre = (0.5 + np.cumsum(share * sample)) / (1.0 + np.cumsum(share))
    spread = 0.25 + np.cumsum((share * (sample - centre)) ** 2)
    variance = np.append(0.25, spread[:-1]) / rounds
    bets = np.sqrt(2.0 * level / (n * variance))
    mean = float((share * sample).sum() / share.sum())
    return _least_rising(lambda at: _log_wealth(sample, share, bets, at) - level, mean)


def _least_rising(excess: Callable[[float], float], low: float) -> float:
    """What ``least`` finds between ``low`` and 1 for an excess that rises with its argument, to the same bits.

    Steps of regula falsi come first, with Illinois' halving of an end that stays twice; what lies outside their bracket
    needs no evaluation.
    """
    below, above, last = low, 1.0, nan
    less, more = excess(low) if low < 1.0 else 0.0, 0.0  # at 1 a bet may be infinite
    for _ in range(60):
        middle = below + (above - below) * (less / (less - more) if less < 0.0 < more else 0.5)
        if above - below <= 1e-10 * above or not below < middle < above:
            break
        found = excess(middle)
        if found >= 0.0:
            above, more, less = middle, found, 0.5 * less if last >= 0.0 else less
        else:
            below, less, more = middle, found, 0.5 * more if last < 0.0 else more
        last = found
    return least(lambda at: at >= above or (at > below and excess(at) >= 0.0), low, 1.0, relative=1e-10)


def _blind_order(values: Array, weights: Array) -> NDArray[np.intp]:
    """An order of draws [n] that is made of what they are, and not of where each of them stands.

    The seed sees twenty binary places of them: a last digit that another machine rounds otherwise
    does not change it.
    """
    content = np.stack([weights, values])
    coarse = np.rint(content * 2.0**20).astype("<i8")
    alike = bool((weights == weights[0]).all())  # then values say all
    by_content = np.argsort(values, kind="stable") if alike else np.lexsort((*content, *coarse))
    digest = hashlib.blake2b(coarse[:, by_content].tobytes(), digest_size=16).digest()
    seed = int.from_bytes(digest, "big")
    return by_content[np.random.default_rng(seed).permutation(by_content.size)]


def _log_wealth(sample: Array, share: Array, bets: Array, mean: float) -> float:
    """ln Π_i (1 + min(λ_i, 3/(4(1-mean))) w_i (mean - x_i)), rounded down by more than its error."""
    moved = mean - sample
    moved *= share
    moved *= np.minimum(bets, 0.75 / (1.0 - mean))  # at least -3/4
    logs = np.log1p(moved)
    found = float(logs.sum())
    # argument within 6 roundings and multiplied by up to 4 in the logarithm; logarithm within 2, pairwise sum within 60
    for one in (moved, logs):
        np.abs(one, out=one)
    return found - (2.0**-48 * float(moved.sum()) + 2.0**-47 * float(logs.sum()))


def _check_errors(k: int, n: int) -> None:
    if k > n:
        raise ValueError(f"k must not exceed n = {n}, got {k!r}; count errors, not correct answers of more trials.")


_CELLS[32] = 0.0


@door(more=whole, fewer=whole)
def paired_upper(more: int, fewer: int, n: int, failure_prob: float) -> float:
    """The largest difference e·d of two rates of error that is not refuted, rounded up.

        √(1 - w²) Φ⁻¹(P(Bin(D, (1+e)/2) ≤ B)) + w Φ⁻¹(p(d)) ≤ Φ⁻¹(0.7 δ),    w = 0.7 |e|

    refutes (e, d), where p(d) is P(Bin(n, d) ≤ D) for e > 0 and P(Bin(n, d) ≥ D) for e < 0. So does each of the
    probabilities P(Bin(D, (1+e)/2) ≤ B), P(Bin(n, d) ≤ D) and P(Bin(n, d) ≥ D) at 0.1 δ; δ is ``failure_prob``.

    Formal guarantee: n independent examples, on ``more`` of which the first model alone errs and on ``fewer`` the
    second alone, give (error of the first) - (error of the second) ≤ value with probability at least 1 - failure_prob.

    Raises ValueError if there are more discordant examples than examples.
    """
    if more + fewer > n:
        raise ValueError(f"more + fewer must be at most n = {n}, got {more} + {fewer}; count each example once.")
    region = _Region(more, more + fewer, n, failure_prob)
    low, high = _CELLS[:-1], _CELLS[1:]
    measured = best = (more - fewer) / n
    while True:
        middle, bound = 0.5 * (low + high), region.most(low, high)
        best = max(best, float(region.most(middle, middle).max()))
        enough = best + TOLERANCE * (best - measured) + 2.0**-40
        wide = bound > enough
        if not wide.any() or not (low < middle).all():
            return min(1.0, max(enough, float(bound.max())))
        low, middle, high = low[wide], middle[wide], high[wide]
        low, high = np.concatenate((low, middle)), np.concatenate((middle, high))


class _Region:
    """The pairs (e, d) that are not refuted."""

    def __init__(self, more: int, apart: int, n: int, failure_prob: float) -> None:
        self.more, self.apart, self.n = more, apart, n
        self.alone = ALONE * failure_prob
        self.lowest = clopper_pearson_lower(apart, n, self.alone)
        self.highest = clopper_pearson_upper(apart, n, self.alone)
        self.quantile = -float(ndtri((1.0 - 3 * ALONE) * failure_prob * (1.0 - _ROUNDING)))

    def most(self, low: Array, high: Array) -> Array:
        """At least the largest e·d with e in a cell from ``low`` to ``high``, on one side of 0; -∞ where there is none.

        In a cell the quantile of B is largest at ``low``, and weights lie between those of both ends.
        """
        of_share = np.ones_like(low)
        if self.more < self.apart:
            of_share = betaincc(self.more + 1.0, self.apart - self.more, 0.5 + 0.5 * low)
        of_share *= 1.0 + _ROUNDING
        weights = RATE_WEIGHT * np.sort(np.abs([low, high]), axis=0)
        with np.errstate(divide="ignore"):
            # how far the quantile of D may lie below 0
            reach = (
                self.quantile + (np.sqrt(1.0 - weights**2) * ndtri(np.clip(of_share, 1e-300, 1.0))).max(0) + _ROUNDING
            )
            left = ndtr((-reach / weights).min(0)) * (1.0 - _ROUNDING)
        positive = low >= 0.0
        rate = np.where(positive, self._highest(left), self._lowest(left))
        refuted = np.where(positive, rate < self.lowest, rate > self.highest)
        refuted |= of_share <= self.alone
        return np.where(refuted, -np.inf, high * rate)

    def _highest(self, left: Array) -> Array:
        """At least the largest rate d in the interval with P(Bin(n, d) ≤ D) ≥ left."""
        if self.apart == self.n:
            return np.ones_like(left)
        counts = self.apart + 1.0, float(self.n - self.apart)
        rate = betainccinv(*counts, np.clip(left, self.alone, 1.0)) * (1.0 + _ROUNDING)
        sure = betaincc(*counts, np.minimum(rate, 1.0)) <= np.maximum(left, self.alone)
        return np.where(sure & (left > max(self.alone, _LEAST_TAIL)), np.minimum(rate, self.highest), self.highest)

    def _lowest(self, left: Array) -> Array:
        """At most the smallest rate d in the interval with P(Bin(n, d) ≥ D) ≥ left."""
        if self.apart == 0:
            return np.zeros_like(left)
        counts = float(self.apart), self.n - self.apart + 1.0
        rate = betaincinv(*counts, np.clip(left, self.alone, 1.0)) * (1.0 - _ROUNDING)
        sure = betainc(*counts, rate) <= np.maximum(left, self.alone)
        return np.where(sure & (left > max(self.alone, _LEAST_TAIL)), np.maximum(rate, self.lowest), self.lowest)
