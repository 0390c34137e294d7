"""What a private step promises about its noise, as tests whose p-values are exact or upper bounds.

Noise comes as a matrix ``z`` of standardised residuals, a row for each release and a column for each coordinate: if the
mechanism is what it says, the entries are independent N(0, 1).

Products z_j z_k have, given all |z|, independent random signs along any set of pairs that has no cycle, such as the
pairs of one lag: Hoeffding's inequality bounds their sum without an approximation. The same holds for the signs of
|z| - 0.6745, which find variances that move together. The triangular factor of a Gaussian matrix has independent
N(0, 1) entries off its diagonal (Bartlett 1933), whose squares add up to a chi-square: a test against covariance in any
direction at all.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import stats

from pacdp.audit.p_values import (
    Found,
    bonferroni,
    chi_square,
    largest_of,
    least,
    normal,
    random_signs,
)

Noise = Float[np.ndarray, "releases dim"]
Pair = tuple[slice, slice, str]
"""Two sets of coordinates, one by one, and a name for them."""
_QUARTILE = float(stats.norm.ppf(0.75))
_DIRECTIONS = 16
_LAGS = 8
_CELL = 2.0**-10
"""Standard deviations: more than half a cell of the noise's grid and the rounding of a sum."""
_NO_NUMBER = Found(0.0, "noise that is no number")


def mean_of_coordinates(z: Noise) -> Found:
    """Every coordinate's mean is 0."""
    means = z.sum(0, dtype=np.float64) / math.sqrt(len(z))
    seen = f"largest mean {float(np.abs(means).max()):.2f} standard errors"
    return Found(bonferroni(float(normal(means).min()), z.shape[1]), seen)


def variance_of_coordinates(z: Noise) -> Found:
    """Every coordinate's variance is 1."""
    return _variances((z.astype(np.float64) ** 2).sum(0), len(z))


def variance_of_tensors(z: Noise, tensors: Sequence[slice]) -> Found:
    """The variance within every tensor is 1: much sharper than that of its coordinates one by one."""
    squares, starts = (z.astype(np.float64) ** 2).sum(0), [one.start for one in tensors]
    sizes = np.diff([*starts, z.shape[1]])
    return _variances(np.add.reduceat(squares, starts), len(z) * sizes)


def variance_of_steps(z: Noise) -> Found:
    """The variance within every release is 1, whatever schedule the noise follows."""
    return variance_of_coordinates(z.T)


def _variances(squares: np.ndarray, degrees: np.ndarray | int) -> Found:
    """Sums of squares of so many N(0, 1)."""
    ratios = squares / degrees
    seen = f"between {ratios.min():.3f} and {ratios.max():.3f} of what was told"
    return Found(bonferroni(float(chi_square(squares, degrees).min()), len(squares)), seen)


def normal_law(z: Noise) -> Found:
    """All entries together follow N(0, 1): the Dvoretzky-Kiefer-Wolfowitz inequality with Massart's constant."""
    values = z.reshape(-1)[: 1 << 21].astype(np.float64)
    if not np.isfinite(values).all():
        return _NO_NUMBER
    found: Any = stats.ks_1samp(values, stats.norm.cdf, method="asymp")
    distance = float(found.statistic)
    p_value = min(1.0, 2.0 * math.exp(-2.0 * len(values) * distance**2))
    return Found(p_value, f"distance {distance:.5f}")


def largest(z: Noise) -> Found:
    """No tail is cut off, none is heavy: P[the largest |z| of N <= c] = (1 - 2 Φ(-c))^N.

    Both tails of that law are taken a little further out than was seen, for the grid and the
    rounding of sums.
    """
    most, count = float(np.abs(z).max()), z.size
    if not math.isfinite(most):
        return _NO_NUMBER
    beyond, reached = np.minimum(1.0, 2.0 * stats.norm.sf([most + _CELL, most - _CELL]))
    seen = (
        f"{most:.2f}, of {count} numbers; a cut at {visible_cut(count):.2f} or below would be seen"
    )
    return least([(p, seen) for p in largest_of(count, beyond=beyond, reached=reached)])


def visible_cut(count: int, p_value: float = 1e-4) -> float:
    """Standard deviations at which a cut of so many entries gives :func:`largest` this p-value."""
    beyond = -math.expm1(math.log(p_value / 2.0) / count)
    return max(0.0, float(stats.norm.isf(beyond / 2.0)) - _CELL)


def covariance_by_lag(z: Noise, tensors: Sequence[slice]) -> Found:
    """Coordinates do not vary together, at lags near and far, in halves of tensors and of all, in mirror images.

    Nor do the first of a tensor and of the next one, in order or by size, as where one seed draws both.
    """
    dim, signs = z.shape[1], np.where(np.abs(z) < _QUARTILE, -1.0, 1.0).astype(z.dtype)
    near = {*range(1, min(_LAGS, dim - 1) + 1), *(1 << k for k in range((dim - 1).bit_length()))}
    lags, pairs = {(0, dim, lag) for lag in near}, list[Pair]()
    for a, b in [(0, dim), *((one.start, one.stop) for one in tensors)]:
        half = (b - a) // 2
        lags |= {(a, b, lag) for lag in (half, b - a - half) if half}
        mirror = slice(a, a + half), slice(b - 1, b - 1 - half, -1), f"mirror images in {a}:{b}"
        pairs += [mirror] if half > 1 else []
    by_size = sorted(tensors, key=lambda one: one.stop - one.start)
    for one, other in (*pairwise(by_size), *pairwise(tensors)):
        size = min(one.stop - one.start, other.stop - other.start)
        first, second = (slice(each.start, each.start + size) for each in (one, other))
        pairs += [(first, second, f"the beginnings of {first.start}: and {second.start}:")]
    pairs += [
        (slice(a, b - lag), slice(a + lag, b), f"lag {lag} in {a}:{b}")
        for a, b, lag in sorted(lags)
    ]
    return least([
        (random_signs(values[:, first], values[:, second]), f"most at {name}{said}")
        for first, second, name in pairs
        for values, said in ((z, ""), (signs, ", of squares"))
    ])  # fmt: skip


def covariance_in_directions(z: Noise, tensors: Sequence[slice]) -> Found:
    """Sums over tensors and random directions have variance 1."""
    starts, dim = [one.start for one in tensors], z.shape[1]
    by_tensor = np.add.reduceat(z, starts, axis=1, dtype=np.float64)
    random = np.random.default_rng(0).standard_normal((dim, min(_DIRECTIONS, dim)))
    sums = np.column_stack([
        by_tensor / np.sqrt(np.diff([*starts, dim])),
        by_tensor.sum(1) / math.sqrt(dim),
        z @ np.linalg.qr(random)[0],
    ])  # fmt: skip
    return _variances((sums**2).sum(0), len(z))


def covariance_in_all(z: Noise) -> Found:
    """No covariance between coordinates in whatever directions, by Bartlett's decomposition of blocks of releases."""
    size, total, degrees = max(2, min(len(z), z.shape[1] // 2)), 0.0, 0
    for start in range(0, len(z) - 1, size):
        block = z[start : start + size].astype(np.float64)
        if not np.isfinite(block).all():
            return _NO_NUMBER
        if 2 <= len(block) <= z.shape[1]:
            factor = np.asarray(np.linalg.qr(block.T, mode="r"))
            off = factor[np.triu_indices(len(block), 1)]
            total, degrees = total + float((off**2).sum()), degrees + len(off)
    if not degrees:
        return Found(1.0, "one release only")
    return Found(float(chi_square(total, degrees)), f"{total / degrees:.3f} of what was told")


def covariance_of_steps(z: Noise) -> Found:
    """Releases do not vary together, in the order in which they were made."""
    return covariance_by_lag(z.T, ())


def repeated_noise(z: Noise, tensors: Sequence[slice] = ()) -> Found:
    """No two releases share their noise, as a whole or in a tensor, which may have its own seed."""
    if len(z) < 2:
        return Found(1.0, "one release only")
    return least([_largest_cosine(z[:, one]) for one in (slice(0, z.shape[1]), *tensors)])


def _largest_cosine(z: Noise) -> Found:
    """The largest cosine between any two releases; the square of each follows a Beta law.

    The grid brings the directions of short rows together, those of two numbers up to equality: each angle is taken to
    be as much larger as the cells of both rows allow.
    """
    norms = np.linalg.norm(z.astype(np.float64), axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        rows = z / norms
    pairs = np.triu_indices(len(rows), 1)
    cosines = np.minimum(1.0, np.abs(rows @ rows.T)[pairs])
    if not np.isfinite(cosines).all():
        return Found(0.0, "a release without noise")
    turned = np.arcsin(np.minimum(1.0, _CELL * math.sqrt(z.shape[1]) / norms))
    angles = np.arccos(cosines) + (turned + turned.T)[pairs]
    nearest = math.cos(min(math.pi / 2.0, float(angles.min())))
    tail = float(stats.beta.sf(nearest**2, 0.5, (z.shape[1] - 1) / 2.0)) if z.shape[1] > 1 else 1.0
    return Found(bonferroni(tail, len(cosines)), f"largest cosine {cosines.max():.3f}")


def along(z: Noise, directions: Float[np.ndarray, "releases dim"]) -> Found:
    """Noise has mean 0 and variance 1 along a direction for each release that it knows nothing of.

    Directions are the sums that noise was added to, or by how much a batch is larger than its mean; those of length 0
    do not count.
    """
    norms = np.linalg.norm(directions, axis=1)
    y = (z * directions).sum(1, dtype=np.float64)[norms > 0.0] / norms[norms > 0.0]
    if not len(y):
        return Found(1.0, "nothing to see")
    score, squares = float(y.sum()) / math.sqrt(len(y)), float((y**2).sum())
    seen = f"mean {score:.2f} standard errors, variance {squares / len(y):.3f}"
    return least([(float(normal(score)), seen), (float(chi_square(squares, len(y))), seen)])
