"""What two Gaussians with independent coordinates differ by, in nats, rounded up: KL, Rényi and log density ratio.

All arithmetic is in float64. Standard deviations (not variances) may be single numbers, which stand for every
coordinate.

Formal guarantee (of each): at least the quantity that the float arguments name. Raises ValueError when shapes differ, a
value is not finite, or a standard deviation is not positive.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bounds import _check
from bounds._rounding import outward
from bounds.kl import poisson_kl

# Terms within 40 ulp, NumPy's pairwise sum of up to 2⁶⁰ of them within 80.
_ERROR = 2.0**-46


def gaussian_kl(mean_q: ArrayLike, std_q: ArrayLike, mean_p: ArrayLike, std_p: ArrayLike) -> float:
    """KL(Q‖P) in nats between Gaussians with independent coordinates, rounded up.

        KL = ½ Σ_i [ h(r_i - 1) + (mean_q_i - mean_p_i)² / std_p_i² ],    r_i = (std_q_i/std_p_i)²,  h(x) = x - ln(1+x)

    Every summand is non-negative and evaluated without cancellation, so equal laws give exactly 0.

    Formal guarantee: at least the divergence of the Gaussians that the float arguments name, and above it by a
    relative 1e-13 at most (short of overflow, which gives infinity, and of squares below 1e-300).

    Args:
        mean_q: mean of the posterior: an array of any shape, or a number that stands for every coordinate.
        std_q: standard deviations: of the same shape, or one number for an isotropic law.
        mean_p: mean of the prior, likewise.
        std_p: standard deviations of the prior, likewise.
    """
    arrays = _coordinates(True, mean_q=mean_q, std_q=std_q, mean_p=mean_p, std_p=std_p)
    size = np.broadcast(*arrays).size
    mean_q, std_q, mean_p, std_p = (array.ravel() for array in arrays)
    with np.errstate(over="ignore", under="ignore"):
        ratio = std_q / std_p
        variance_ratio = ratio * ratio
        excess = (std_q - std_p) / std_p * (ratio + 1.0)  # variance_ratio - 1, accurately
        usable = (variance_ratio > 0.0) & (variance_ratio < math.inf)
        h = poisson_kl(1.0, np.where(usable, variance_ratio, 1.0), np.where(usable, excess, 0.0))
        shift = (mean_q - mean_p) / std_p
        parts = np.where(usable, h, math.inf), shift * shift  # one number stands for all coordinates
        spread, moved = (float(np.sum(part)) * (size if part.size == 1 else 1) for part in parts)
    return 0.5 * (spread + moved) * (1.0 + _ERROR)


def gaussian_renyi(mean_q: ArrayLike, mean_p: ArrayLike, std: ArrayLike, *, order: float = 2.0) -> float:
    """D_order(Q‖P) = order · Σ_i (mean_q_i - mean_p_i)²/(2 std_i²) in nats for Gaussians of equal spread, rounded up.

    Formal guarantee: at least the divergence of the Gaussians that the float arguments name. Means have one shape, and
    the order is positive.
    """
    _check.positive(order=order)
    mean_q, mean_p, std = _coordinates(False, mean_q=mean_q, mean_p=mean_p, std=std)
    with np.errstate(over="ignore", under="ignore"):
        half = outward(0.5 * float(np.sum(((mean_q - mean_p) / std) ** 2)) * (1.0 + _ERROR))
    return outward(float(order) * half)


def gaussian_log_density_ratio(
    weights: ArrayLike, mean_q: ArrayLike, std_q: ArrayLike, mean_p: ArrayLike, std_p: ArrayLike
) -> float:
    """ln (dQ/dP)(weights) in nats between Gaussians with independent coordinates, rounded up.

        Σ_i [ ln(std_p_i/std_q_i) + (w_i - mean_p_i)²/(2 std_p_i²) - (w_i - mean_q_i)²/(2 std_q_i²) ]

    Formal guarantee: at least the ratio for the float arguments. Weights and means have one shape.
    """
    w, mean_q, std_q, mean_p, std_p = _coordinates(
        False, weights=weights, mean_q=mean_q, std_q=std_q, mean_p=mean_p, std_p=std_p
    )
    wide, narrow = (np.broadcast_to(np.log(std), w.shape) for std in (std_p, std_q))
    with np.errstate(over="ignore", under="ignore"):
        far, near = 0.5 * ((w - mean_p) / std_p) ** 2, 0.5 * ((w - mean_q) / std_q) ** 2
        parts = [float(np.sum(part)) for part in (wide, -narrow, far, -near)]
        slack = _ERROR * float(np.sum(np.abs(wide)) + np.sum(np.abs(narrow)) + np.sum(far) + np.sum(near))
    return math.fsum((*parts, slack)) if math.isfinite(slack) else math.inf


def _coordinates(single_means: bool, **arrays: ArrayLike) -> list[NDArray[np.float64]]:
    """The arrays as doubles, if they describe one space; means may be single numbers where ``single_means`` says so."""
    made = {name: _check.array(name, values) for name, values in arrays.items()}
    free = {name for name in made if single_means or name.startswith("std")}
    shapes = {name: array.shape for name, array in made.items() if array.ndim or name not in free}
    if len(set(shapes.values())) > 1:
        advice = "only standard deviations may be single numbers"
        if single_means:
            advice = "pass numbers or arrays of the same shape"
        raise ValueError(f"arrays must have one shape, got {shapes}; {advice}.")
    for name, array in made.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite, got a NaN or an infinity in it; has the training diverged?")
        if name.startswith("std") and not (array > 0.0).all():
            raise ValueError(f"{name} must be positive, got {array.min()!r}; pass standard deviations.")
    return list(made.values())
