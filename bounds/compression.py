"""What a learner that needed k of n records promises for the next one: sample compression.

The learner runs on records that it picks itself, and keeps those on which its last network errs. With the preference
property of docs/guarantees.md, "Sample compression", its risk is at most ε_k, where k counts both kinds. Nothing else
enters: no prior, no privacy, no example held out. Arguments out of range raise ValueError.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
from collections.abc import Callable, Mapping, Sequence
from math import exp, fsum, inf, isnan, lgamma, log, log1p, nextafter, pi
from typing import Any, cast

import scipy  # its parts, which take long to import, where they are used
from scipy.special import betainc, betaincc

from bounds import _check
from bounds._arithmetic import outward
from bounds._check import door, probability, whole
from bounds.certificate import ROUNDING, Certificate
from bounds.hypotheses import declared_by
from bounds.kl import poisson_kl

_BETA_SLACK = 1e-10  # relative error allowed to SciPy's incomplete beta function, as in bounds.means
_LOG_SLACK = 2.0**-46  # error allowed to a sum of logarithms, over the size of its parts; some ten times what they make


@door()
def compression(*, k: int, n: int, failure_prob: float, weights: Mapping[int, float] | None = None) -> Certificate:
    """R(h) ≤ ε_k for the network h of a learner that kept k of n records.

    ε_k is the largest v with Σ_m λ_m C(m,k)/C(n,k) (1-v)^(m-n) ≤ 1, the sum over k ≤ m < n, with λ_m = failure_prob/n
    unless ``weights`` say otherwise; it is 1 for k = n, and where no λ_m with m ≥ k is positive. Equal weights: Campi
    and Garatti, "Compression, generalization and learning", JMLR 2023; any weights: docs/guarantees.md, "Sample
    compression".

    Formal guarantee: if the n records are independent with one law, and κ(S), the k records, has property (P) of
    "Sample compression" in docs/guarantees.md, then with probability at least 1 - failure_prob over the sample the
    network errs on a new record with probability at most ``value``.

    Args:
        k: records picked, and records on which the last network errs, together.
        n: records in all.
        failure_prob: probability that the bound fails.
        weights: λ_m / failure_prob by m, fixed beforehand, adding up to at most 1; :func:`compression_weights` has the
            best for an expected k. By default 1/n for each m from 0 to n - 1.
    """
    if not k <= n:
        raise ValueError(f"k must be at most n = {n}, got {k}; count each record once.")
    shares = None if weights is None else _shares(weights, n)
    inputs: dict[str, float | int | str] = {"k": k, "n": n, "failure_prob": failure_prob}
    if shares is not None:
        inputs["weight_sizes"] = ", ".join(map(str, shares))
        inputs["weight_shares"] = ", ".join(map(repr, shares.values()))
    return Certificate(
        name="compression",
        value=_epsilon(k, n, failure_prob, shares),
        failure_prob=failure_prob,
        of="weights",
        measures="0-1 risk",
        hypotheses=declared_by("the caller of bounds.compression", "compression"),
        terms={"kept_share": outward(k / n)},
        budget={"bound": failure_prob},
        inputs=inputs,
        reference='Campi and Garatti, JMLR 2023; docs/guarantees.md, "Sample compression"',
    )


@door()
def compression_weights(*, n: int, expected: Sequence[int], failure_prob: float) -> dict[int, float]:
    """Weights for :func:`compression` that are best where k is about one of the ``expected`` numbers.

    All of a share goes to the m at which ε_k is smallest for that k, equal shares to each. A k that is twice or half
    the expected one costs 6% of ε_k - k/n; numbers that lie further apart are better named apart.

    Args:
        n: records in all.
        expected: sizes k that are expected, from an earlier run on other records.
        failure_prob: as for :func:`compression`.
    """
    sizes = [whole(expected=cast(int, k)) for k in _check.records("expected", expected, object)]
    if not sizes or max(sizes) >= n:
        raise ValueError(
            f"expected must be one or more sizes below n = {n}, got {sizes}; name the k of an earlier run."
        )
    chosen = [_best_size(k, n, failure_prob / len(sizes)) for k in sizes]
    return {m: chosen.count(m) / len(chosen) for m in chosen}


def _best_size(k: int, n: int, failure_prob: float) -> int:
    """The m whose whole weight makes ε_k smallest, about n (1 - √(2 ln(1/failure_prob)/k)): a choice only."""

    def value(room: float) -> float:
        return _epsilon(k, n, failure_prob, {_rounded(room, k, n): 1.0})

    found: Any = scipy.optimize.minimize_scalar(  # pyright: ignore[reportUnknownVariableType]
        value, bounds=(0.0, log1p(n - k)), method="bounded", options={"xatol": 1e-4}
    )
    return _rounded(float(found.x), k, n)


def _rounded(room: float, k: int, n: int) -> int:
    return max(k, min(n - 1, n - round(exp(min(room, 40.0)))))


def _shares(weights: Any, n: int) -> dict[int, float]:
    """``weights`` in the order of their sizes, if they are shares of one failure probability."""
    if not isinstance(weights, Mapping) or not weights:
        raise ValueError(f"weights must be a mapping of sizes to shares, got {weights!r}; leave it out for equal ones.")
    entries = cast(Mapping[Any, Any], weights)
    found = {whole(weights=m): probability(weights=entries[m]) for m in entries}
    if not max(found) < n:
        raise ValueError(
            f"weights must be for sizes below n = {n}, got {max(found)}; a sample has as many to learn from."
        )
    if fsum(found.values()) > ROUNDING:
        raise ValueError(f"weights must add up to at most 1, got {fsum(found.values())!r}; divide by it.")
    return dict(sorted(found.items()))


def _epsilon(k: int, n: int, failure_prob: float, shares: dict[int, float] | None) -> float:
    """ε_k, rounded up: a v at which the sum certainly exceeds 1, next to where it seems to be 1."""
    if k == n or (shares is not None and not any(share for m, share in shares.items() if m >= k)):
        return 1.0
    sizes = [(m, log(share)) for m, share in (shares or {}).items() if m >= k and share]
    margin: Callable[[float], tuple[float, float]] = (
        (lambda v: _uniform(k, n, v)) if shares is None else (lambda v: _weighted(k, n, sizes, v))
    )
    log_prob, low, high = log(failure_prob), max(k / n, 1e-300), nextafter(1.0, 0.0)

    def height(v: float) -> float:
        value, _ = margin(v)
        return value + log_prob

    if height(low) >= 0.0:  # rounding alone, where the root is closer to 0 than can be told
        root = low
    elif height(high) <= 0.0:
        return 1.0
    else:
        root = float(scipy.optimize.brentq(height, low, high, xtol=5e-324, rtol=2.0**-50, maxiter=2000))
    step = 2.0**-52
    while root < 1.0:
        value, parts = margin(root)
        if value + log_prob > _LOG_SLACK * (parts - log_prob):
            break
        root, step = min(1.0, root + step * root), 2.0 * step
    return root


def _uniform(k: int, n: int, v: float) -> tuple[float, float]:
    """ln Σ_m C(m,k)/C(n,k) (1-v)^(m-n) / n = ln [P(Bin(n, v) > k) / (n v P(Bin(n, v) = k))], rounded down but for its
    logarithms, and the size of their parts."""
    log_mass, parts = _log_binomial(k, n, v)
    below = float(betaincc(float(k) + 1.0, float(n - k), v)) * (1.0 + _BETA_SLACK)
    odds = k / (n - k + 1.0) * ((1.0 - v) / v)  # of the term before the k-th to it; further ones fall faster
    if isnan(below) or below >= 1.0:
        below = exp(min(0.0, log_mass)) / (1.0 - odds) if odds < 1.0 else 1.0
    above = float(betainc(float(k) + 1.0, float(n - k), v)) * (1.0 - _BETA_SLACK) if below > 0.5 else 1.0 - below
    if not above > 0.0:
        return -inf, 0.0
    scale = log(n * v)
    return log(above) - scale - log_mass, parts + abs(scale) + 1.0


def _weighted(k: int, n: int, sizes: list[tuple[int, float]], v: float) -> tuple[float, float]:
    """ln Σ_m share_m P(Bin(m, v) = k) / P(Bin(n, v) = k), and the size of its parts."""
    log_mass, parts = _log_binomial(k, n, v)
    found = [(log_share, *_log_binomial(k, m, v)) for m, log_share in sizes]
    logs = [log_share + log_found for log_share, log_found, _ in found]
    top = max(logs)
    summed = top + log(fsum(exp(one - top) for one in logs))
    return summed - log_mass, parts + max(size - log_share for log_share, _, size in found) + 1.0


def _log_binomial(k: int, n: int, v: float) -> tuple[float, float]:
    """ln P(Bin(n, v) = k) for 0 < v < 1, and the size of its parts, to which its error is relative.

    Loader 2000, "Fast and accurate computation of binomial probabilities": the deviance n kl(k/n‖v), and Stirling's
    errors, which are small, in place of the difference of large logarithms of factorials.
    """
    if k == 0 or k == n:
        found = n * (log1p(-v) if k == 0 else log(v))
        return found, abs(found)
    mean = n * v
    gap = mean - k
    deviance = poisson_kl(float(k), mean, gap) + poisson_kl(float(n - k), n - mean, -gap)
    root = 0.5 * log(2.0 * pi * k * ((n - k) / n))
    found = _stirling(n) - _stirling(k) - _stirling(n - k) - deviance - root
    return found, deviance + abs(root) + abs(gap) / (1.0 - v) + 1.0


def _stirling(n: int) -> float:
    """ln n! - ln(√(2πn) (n/e)^n)."""
    if n < 16:
        return lgamma(n + 1.0) - (n + 0.5) * log(n) + n - 0.5 * log(2.0 * pi)
    square = 1.0 / (float(n) * n)
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - square / 1188) * square) * square) * square) / n
