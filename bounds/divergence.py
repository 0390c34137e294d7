"""What two Gaussians differ by, in nats, rounded up: KL, Rényi and log density ratio.

The prior has independent coordinates; so has the posterior, or its covariance is given by a triangular factor. All
arithmetic is in float64. Standard deviations (not variances) may be single numbers, which stand for every
coordinate.

Formal guarantee (of each): at least the quantity that the float arguments name. Raises ValueError when shapes differ, a
value is not finite, or a standard deviation is not positive.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
from math import fsum, inf, isfinite, log
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from bounds._arithmetic import inward, outward
from bounds._check import Array, door, doubles, positive
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
    if size == 0:
        return 0.0
    mean_q, std_q, mean_p, std_p = (array.ravel() for array in arrays)
    with np.errstate(over="ignore", under="ignore"):
        ratio = std_q / std_p
        variance_ratio = ratio * ratio
        excess = (std_q - std_p) / std_p * (ratio + 1.0)  # variance_ratio - 1, accurately
        usable = (variance_ratio > 0.0) & (variance_ratio < inf)
        h = poisson_kl(1.0, np.where(usable, variance_ratio, 1.0), np.where(usable, excess, 0.0))
        shift = (mean_q - mean_p) / std_p
        parts = np.where(usable, h, inf), shift * shift  # one number stands for all coordinates
        spread, moved = (float(np.sum(part)) * (size if part.size == 1 else 1) for part in parts)
    return 0.5 * (spread + moved) * (1.0 + _ERROR)


@door(order=positive)
def gaussian_renyi(mean_q: ArrayLike, mean_p: ArrayLike, std: ArrayLike, *, order: float = 2.0) -> float:
    """D_order(Q‖P) = order · Σ_i (mean_q_i - mean_p_i)²/(2 std_i²) in nats for Gaussians of equal spread, rounded up.

    Formal guarantee: at least the divergence of the Gaussians that the float arguments name. Means have one shape, and
    the order is positive.
    """
    mean_q, mean_p, std = _coordinates(False, mean_q=mean_q, mean_p=mean_p, std=std)
    with np.errstate(over="ignore", under="ignore"):
        half = outward(0.5 * float(np.sum(((mean_q - mean_p) / std) ** 2)) * (1.0 + _ERROR))
    return outward(order * half)


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
        far, near = (0.5 * float(np.sum(((w - mean) / std) ** 2)) for mean, std in ((mean_p, std_p), (mean_q, std_q)))
    return _log_ratio((wide, -narrow), far, near)


@door(std_q=positive)
def triangular_gaussian_kl(
    mean_q: ArrayLike, factor: ArrayLike, mean_p: ArrayLike, std_p: ArrayLike, *, std_q: float = 1.0
) -> float:
    """KL(Q‖P) in nats, rounded up, where every row of Q has the covariance std_q² L Lᵀ and P is independent.

        KL = ½ Σ_k Σ_i [ h(r_ki - 1) + Σ_{j<i} (std_q L_ij)²/std_p_ki² + (mean_q_ki - mean_p_ki)²/std_p_ki² ]

    with r_ki = (std_q L_ii/std_p_ki)²: the determinant of a triangular matrix is the product of its diagonal, so no
    decomposition is needed and the rows of L may have any directions.

    Formal guarantee: at least the divergence of the Gaussians that the float arguments name.

    Args:
        mean_q: rows of independent posteriors, [rows, dim].
        factor: L, [dim, dim], lower triangular with a positive diagonal.
        mean_p: means of the prior, of the same shape.
        std_p: its standard deviations, of the same shape or one number.
        std_q: what L is multiplied by.
    """
    lower = _triangular(factor, np.shape(mean_q))
    scaled = std_q * lower
    diagonal, wide = np.diag(scaled), np.broadcast_to(np.asarray(std_p, dtype=float), np.shape(mean_q))
    centred = gaussian_kl(mean_q, np.broadcast_to(diagonal, np.shape(mean_q)), mean_p, wide)
    with np.errstate(over="ignore", under="ignore"):
        below = np.sum(np.tril(scaled, -1) ** 2, axis=1)
        tilted = 0.5 * float(np.sum(below / wide**2))
        slack = 2.0**-50 * float(np.sum(np.abs((diagonal / wide) ** 2 - 1.0)))  # the product std_q L_ii was rounded
    return outward((centred + tilted + slack) * (1.0 + _ERROR)) if centred + tilted > 0.0 else 0.0


@door(std_q=positive)
def triangular_log_density_ratio(
    weights: ArrayLike, mean_q: ArrayLike, factor: ArrayLike, mean_p: ArrayLike, std_p: ArrayLike, *, std_q: float = 1.0
) -> float:
    """ln (dQ/dP)(weights) in nats, rounded up, for the laws of :func:`triangular_gaussian_kl`.

    The length of ε = L⁻¹(w - mean_q)/std_q is bounded from below, since a shorter ε makes the ratio larger.

    Formal guarantee: at least the ratio.
    """
    lower = _triangular(factor, np.shape(mean_q))
    w, mean_q, mean_p = _coordinates(False, weights=weights, mean_q=mean_q, mean_p=mean_p)
    wide = np.broadcast_to(np.asarray(std_p, dtype=float), w.shape)
    near = inward(_least_length(lower, (w - mean_q).T) / std_q)
    with np.errstate(over="ignore", under="ignore"):
        far = 0.5 * float(np.sum(((w - mean_p) / wide) ** 2))
    logs = np.log(wide), np.broadcast_to(-np.log(np.diag(lower)), w.shape), np.full(w.shape, -log(std_q))
    return _log_ratio(logs, far, 0.5 * near**2)


def _log_ratio(logs: tuple[Array, ...], far: float, near: float) -> float:
    """The sum of the logarithms, and ``far`` - ``near``, rounded up."""
    slack = _ERROR * (far + near + sum(float(np.sum(np.abs(each))) for each in logs))
    parts = (*(float(np.sum(each)) for each in logs), far, -near, slack)
    return fsum(parts) if isfinite(slack) else inf


def _least_length(lower: Array, b: Array) -> float:
    """A lower limit of ‖L⁻¹b‖ in Frobenius' norm, for b of differences that were rounded once.

    With x ≈ L⁻¹b and X ≈ L⁻¹ the error of x is L⁻¹(b - Lx) = (XL)⁻¹ X(b - Lx), and ‖(XL)⁻¹‖ ≤ 1/(1 - ‖I - XL‖) (Rump,
    "Verification methods", Acta Numerica 2010, section 10). The rounding of a product of d terms is at most d 2⁻⁵³ of
    the product of absolute values (Higham, "Accuracy and stability", 3.5): room for twice that is left throughout.
    """
    size = np.abs(lower)
    solve: Any = scipy.linalg.solve_triangular
    room, identity = 2.0**-52 * (len(lower) + 8), np.eye(len(lower))
    with np.errstate(all="ignore"):
        try:
            x, inverse = (solve(lower, right, lower=True, check_finite=False) for right in (b, identity))
        except np.linalg.LinAlgError:  # a diagonal of subnormal numbers
            return 0.0
        left = np.abs(b - lower @ x) + room * (np.abs(b) + size @ np.abs(x)) + len(lower) * np.finfo(float).tiny
        away = np.abs(identity - inverse @ lower) + room * (identity + np.abs(inverse) @ size)
        least = 1.0 - (1.0 + room) * float(np.linalg.norm(away))
        if not least > 0.0:  # NaN is not
            return 0.0
        error = float(np.linalg.norm(np.abs(inverse) @ left)) * (1.0 + 2.0 * room) / least
        length = float(np.linalg.norm(x)) * (1.0 - _ERROR) - error * (1.0 + _ERROR)
    return length if 0.0 < length < inf else 0.0


def _triangular(factor: ArrayLike, shape: tuple[int, ...]) -> Array:
    """The factor as doubles, if it fits rows of this shape.

    Raises:
        ValueError: it is not square, not lower triangular, not finite, or its diagonal is not positive.
    """
    lower = doubles("factor", factor)
    if len(shape) != 2 or lower.shape != (shape[1], shape[1]):
        raise ValueError(f"factor must be [dim, dim] for rows [rows, dim], got {lower.shape} for {shape}")
    if not np.isfinite(lower).all() or np.triu(lower, 1).any() or not (np.diag(lower) > 0.0).all():
        raise ValueError("factor must be finite, lower triangular and positive on its diagonal: pass a Cholesky factor")
    return lower


def _coordinates(single_means: bool, **arrays: ArrayLike) -> list[Array]:
    """The arrays as doubles, if they describe one space; means may be single numbers where ``single_means`` says so."""
    made = {name: doubles(name, values) for name, values in arrays.items()}
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
