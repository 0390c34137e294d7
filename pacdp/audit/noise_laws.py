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

import numpy as np
from jaxtyping import Float
from scipy import stats

from pacdp.audit.p_values import Found, bonferroni, chi_square, normal, random_signs, sidak

Noise = Float[np.ndarray, "releases dim"]
_QUARTILE = float(stats.norm.ppf(0.75))
_DIRECTIONS = 16
_LAGS = 8
_CELL = 2.0**-10
"""Standard deviations: more than half a cell of the noise's grid and the rounding of a sum."""


def mean_of_coordinates(z: Noise) -> Found:
    """Every coordinate's mean is 0."""
    means = z.sum(0, dtype=np.float64) / math.sqrt(len(z))
    worst = float(normal(means).min())
    return Found(sidak(worst, z.shape[1]), f"largest mean {_most(means):.2f} standard errors")


def variance_of_coordinates(z: Noise) -> Found:
    """Every coordinate's variance is 1."""
    squares = (z.astype(np.float64) ** 2).sum(0)
    worst = float(chi_square(squares, len(z)).min())
    seen = f"between {squares.min() / len(z):.3f} and {squares.max() / len(z):.3f} of what was told"
    return Found(sidak(worst, z.shape[1]), seen)


def variance_of_tensors(z: Noise, tensors: Sequence[slice]) -> Found:
    """The variance within every tensor is 1: much sharper than that of its coordinates one by one."""
    parts = [(float((z[:, one].astype(np.float64) ** 2).sum()), len(z) * (one.stop - one.start)) for one in tensors]
    worst = min(float(chi_square(total, degrees)) for total, degrees in parts)
    ratios = [total / degrees for total, degrees in parts]
    return Found(sidak(worst, len(parts)), f"between {min(ratios):.3f} and {max(ratios):.3f} of what was told")


def variance_of_steps(z: Noise) -> Found:
    """The variance within every release is 1, whatever schedule the noise follows."""
    squares = (z.astype(np.float64) ** 2).sum(1)
    worst = float(chi_square(squares, z.shape[1]).min())
    ratios = squares / z.shape[1]
    return Found(sidak(worst, len(z)), f"between {ratios.min():.3f} and {ratios.max():.3f} of what was told")


def normal_law(z: Noise) -> Found:
    """All entries together follow N(0, 1): the Dvoretzky-Kiefer-Wolfowitz inequality with Massart's constant."""
    values = np.sort(z.reshape(-1)[: 1 << 21].astype(np.float64))
    if not np.isfinite(values).all():
        return Found(0.0, "noise that is no number")
    steps, expected = np.arange(len(values) + 1) / len(values), stats.norm.cdf(values)
    distance = float(max((steps[1:] - expected).max(), (expected - steps[:-1]).max()))
    return Found(min(1.0, 2.0 * math.exp(-2.0 * len(values) * distance**2)), f"distance {distance:.5f}")


def largest(z: Noise) -> Found:
    """No tail is cut off, none is heavy: P[the largest |z| of N <= c] = (1 - 2 Φ(-c))^N.

    Both tails of that law are taken a little further out than was seen, for the grid and the
    rounding of sums.
    """
    most, count = float(np.abs(z).max()), z.size
    if not math.isfinite(most):
        return Found(0.0, "noise that is no number")
    no_more = math.exp(_log_all_within(most + _CELL, count))
    as_much = -math.expm1(_log_all_within(max(0.0, most - _CELL), count))
    cut = visible_cut(count)
    seen = f"{most:.2f}, of {count} numbers; a cut at {cut:.2f} or below would be seen"
    return Found(min(1.0, 2.0 * min(no_more, as_much)), seen)


def visible_cut(count: int, p_value: float = 1e-4) -> float:
    """Standard deviations at which a cut of so many entries gives :func:`largest` this p-value."""
    beyond = -math.expm1(math.log(p_value / 2.0) / count)
    return max(0.0, float(stats.norm.isf(beyond / 2.0)) - _CELL)


def _log_all_within(bound: float, count: int) -> float:
    """ln P[all of so many entries lie within the bound]."""
    tail = 2.0 * float(stats.norm.sf(bound))
    return count * math.log1p(-tail) if tail < 1.0 else -math.inf


def covariance_by_lag(z: Noise, tensors: Sequence[slice]) -> Found:
    """Coordinates do not vary together: powers of two, the halves of every tensor and of all, and mirror images."""
    dim, signs = z.shape[1], np.where(np.abs(z) < _QUARTILE, -1.0, 1.0).astype(z.dtype)
    pairs: dict[str, tuple[slice, slice]] = {}
    for lag in sorted({1 << k for k in range(dim.bit_length()) if 1 << k < dim}):
        pairs[f"lag {lag}"] = slice(0, dim - lag), slice(lag, dim)
    for one in [slice(0, dim), *tensors]:
        for lag in {(one.stop - one.start) // 2, (one.stop - one.start + 1) // 2}:
            if lag:
                places = slice(one.start, one.stop - lag), slice(one.start + lag, one.stop)
                pairs[f"lag {lag} in {one.start}:{one.stop}"] = places
        half = (one.stop - one.start) // 2
        if half > 1:
            mirrored = slice(one.stop - 1, one.stop - 1 - half, -1)
            pairs[f"mirror images in {one.start}:{one.stop}"] = slice(one.start, one.start + half), mirrored
    found = [
        (random_signs(a[:, first], a[:, second]), f"{name}{said}")
        for name, (first, second) in pairs.items()
        for a, said in ((z, ""), (signs, ", of squares"))
    ]
    worst, name = min(found)
    return Found(bonferroni(worst, len(found)), f"most at {name}")


def covariance_in_directions(z: Noise, tensors: Sequence[slice]) -> Found:
    """Sums over tensors and random directions have variance 1."""
    own = [z[:, one].sum(1, dtype=np.float64) / math.sqrt(one.stop - one.start) for one in tensors]
    ones = z.sum(1, dtype=np.float64) / math.sqrt(z.shape[1])
    count = min(_DIRECTIONS, z.shape[1])
    directions, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((z.shape[1], count)))
    parts = [np.stack(own), ones, z @ directions]
    ratios = [float((part**2).mean()) for part in parts]
    worst = min(float(chi_square((part**2).sum(), part.size)) for part in parts)
    return Found(bonferroni(worst, len(parts)), f"at most {max(ratios):.3f} of what was told")


def covariance_in_all(z: Noise) -> Found:
    """No covariance between coordinates in whatever directions, by Bartlett's decomposition of blocks of releases."""
    size, total, degrees = max(2, min(len(z), z.shape[1] // 2)), 0.0, 0
    for start in range(0, len(z) - 1, size):
        block = z[start : start + size].astype(np.float64)
        if len(block) < 2 or z.shape[1] < len(block):
            continue
        if not np.isfinite(block).all():
            return Found(0.0, "noise that is no number")
        factor = np.asarray(np.linalg.qr(block.T, mode="r"))
        off = factor[np.triu_indices(len(block), 1)]
        total, degrees = total + float((off**2).sum()), degrees + len(off)
    if not degrees:
        return Found(1.0, "one release only")
    return Found(float(chi_square(total, degrees)), f"{total / degrees:.3f} of what was told")


def covariance_of_steps(z: Noise) -> Found:
    """Releases do not vary together, at lags 1 to 8 in the order in which they were made."""
    found = [(random_signs(z[:-lag].T, z[lag:].T), f"lag {lag}") for lag in range(1, min(_LAGS, len(z) - 1) + 1)]
    worst, name = min(found, default=(1.0, "none"))
    return Found(bonferroni(worst, max(1, len(found))), f"most at {name}")


def repeated_noise(z: Noise, tensors: Sequence[slice] = ()) -> Found:
    """No two releases share their noise, as a whole or in a tensor, which may have its own seed."""
    if len(z) < 2:
        return Found(1.0, "one release only")
    found = [_largest_cosine(z[:, one]) for one in (slice(0, z.shape[1]), *tensors)]
    smallest, seen = min(found)
    return Found(bonferroni(smallest, len(found)), seen)


def _largest_cosine(z: Noise) -> Found:
    """The largest cosine between any two releases; the square of each follows a Beta law."""
    rows = z.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = np.abs(rows @ rows.T)[np.triu_indices(len(rows), 1)]
    if not np.isfinite(cosines).all():
        return Found(0.0, "a release without noise")
    largest = min(1.0, float(cosines.max()))
    tail = float(stats.beta.sf(largest**2, 0.5, (z.shape[1] - 1) / 2.0)) if z.shape[1] > 1 else 1.0
    return Found(bonferroni(tail, len(cosines)), f"largest cosine {largest:.3f}")


def along(z: Noise, directions: Float[np.ndarray, "releases dim"]) -> Found:
    """Noise has mean 0 and variance 1 along directions that were fixed before it was drawn; zeros do not count."""
    return _standard((z * directions).sum(1, dtype=np.float64)[np.abs(directions).any(1)])


def with_sizes(z: Noise, sizes: Float[np.ndarray, " releases"]) -> Found:
    """Noise does not follow the sizes of the batches."""
    total = float((sizes**2).sum())
    if total == 0.0:
        return Found(1.0, "batches of one size")
    ones = z.sum(1, dtype=np.float64) / math.sqrt(z.shape[1])
    score = float((ones * sizes).sum()) / math.sqrt(total)
    return Found(float(normal(score)), f"{score:.2f} standard errors")


def _standard(y: np.ndarray) -> Found:
    if not len(y):
        return Found(1.0, "nothing to see")
    score = float(y.sum()) / math.sqrt(len(y))
    mean = float(normal(score))
    spread = float(chi_square(float((y**2).sum()), len(y)))
    seen = f"mean {score:.2f} standard errors, variance {float((y**2).mean()):.3f}"
    return Found(bonferroni(min(mean, spread), 2), seen)


def _most(values: np.ndarray) -> float:
    return float(np.abs(values).max())
