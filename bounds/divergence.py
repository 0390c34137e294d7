"""Divergences between Gaussians, in nats."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bounds import _check
from bounds.kl import poisson_kl

# Terms within 40 ulp, NumPy's pairwise sum of up to 2⁶⁰ of them within 80.
_OUTWARD = 1.0 + 2.0**-46


def gaussian_kl(mean_q: ArrayLike, std_q: ArrayLike, mean_p: ArrayLike, std_p: ArrayLike) -> float:
    """KL(Q‖P) in nats between Gaussians with independent coordinates, rounded up.

        KL = ½ Σ_i [ h(r_i - 1) + (mean_q_i - mean_p_i)² / std_p_i² ],    r_i = (std_q_i/std_p_i)²,  h(x) = x - ln(1+x)

    Every summand is non-negative and evaluated without cancellation, so equal laws give exactly 0. All in float64.

    Formal guarantee: at least the divergence of the Gaussians that the float arguments name, and above it by a
    relative 1e-13 at most (short of overflow, which gives infinity, and of squares below 1e-300).

    Args:
        mean_q: mean of the posterior: an array of any shape, or a number that stands for every coordinate.
        std_q: standard deviations (not variances): of the same shape, or one number for an isotropic law.
        mean_p: mean of the prior, likewise.
        std_p: standard deviations of the prior, likewise.

    Raises ValueError when two arrays differ in shape, a value is not finite, or a standard deviation is not positive.
    """
    given = {"mean_q": mean_q, "std_q": std_q, "mean_p": mean_p, "std_p": std_p}
    arrays = {name: _check.array(name, values) for name, values in given.items()}
    shapes = {name: array.shape for name, array in arrays.items() if array.ndim}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"arrays must have one shape, got {shapes}; pass numbers or arrays of the same shape.")
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite, got a NaN or an infinity in it; has the training diverged?")
        if name.startswith("std") and not (array > 0.0).all():
            raise ValueError(f"{name} must be positive, got {array.min()!r}; pass standard deviations.")
    size = math.prod(next(iter(shapes.values()), ()))
    mean_q, std_q, mean_p, std_p = (array.ravel() for array in arrays.values())
    with np.errstate(over="ignore", under="ignore"):
        ratio = std_q / std_p
        variance_ratio = ratio * ratio
        excess = (std_q - std_p) / std_p * (ratio + 1.0)
        shift = (mean_q - mean_p) / std_p
        spread = _total(np.asarray(_h(variance_ratio, excess)), size)
        moved = _total(shift * shift, size)
    return 0.5 * (spread + moved) * _OUTWARD


def _h(ratio: NDArray[np.float64], excess: NDArray[np.float64]) -> NDArray[np.float64]:
    """ratio - 1 - ln(ratio), given ratio - 1 accurately; infinite where the ratio over- or underflows."""
    usable = (ratio > 0.0) & (ratio < math.inf)
    return np.where(usable, poisson_kl(1.0, np.where(usable, ratio, 1.0), np.where(usable, excess, 0.0)), math.inf)


def _total(terms: NDArray[np.float64], size: int) -> float:
    """The sum over all coordinates, when equal terms may be given once."""
    return float(np.sum(terms)) * (size if terms.size == 1 else 1)
