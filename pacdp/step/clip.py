"""The clipper: norms, factors and clipped sums that survive rounding and contributions that are no finite numbers.

A single-precision norm over a long row comes out too small (by 3e-5 for a million numbers and 2e-3 for thirty million,
with torch on a CPU), and a gradient clipped by it is longer than the clipping norm. Norms here are taken over blocks of
128 numbers, whose rounding is bounded in any order of summation, and the blocks' norms are joined in double precision.
"""

import math
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import hardshrink

from pacdp.errors import require_finite
from pacdp.step.precision import full_precision

_BLOCK = 128
SMALLEST, LARGEST = 1e-12, 1e30
"""The clip norms that are taken."""
STABILITY = 0.01
"""γ of automatic clipping, the value of Bu et al. (2023)."""
ClippingRule = Literal["flat", "automatic"]
"""min(1, C/‖g_i‖), or automatic clipping's C/(‖g_i‖ + γ) (Bu, Wang, Zha and Karypis 2023)."""
Weights = dict[str, Tensor]
"""Parameter name to value, or to a sum of gradients."""


class Clip(NamedTuple):
    """How each contribution is brought into the ball of radius ``norm``, and what their sum is divided by."""

    norm: float
    divisor: float = 1.0
    rule: ClippingRule = "flat"


def require_clip_norm(**clip_norm: float) -> None:
    """Refuse a clip norm that is no number, or at which sums overflow or the squares in norms underflow.

    Raises:
        ValueError: as said, by the name that it is given.
    """
    require_finite(**clip_norm)
    ((name, value),) = clip_norm.items()
    if not SMALLEST <= float(value) <= LARGEST:
        raise ValueError(
            f"expected {SMALLEST:g} <= {name} <= {LARGEST:g}, so that no sum overflows and no norm comes out too "
            f"small, got {value!r}"
        )


class Clipping(NamedTuple):
    """What to multiply each example's gradient by: ``scale`` times its factor."""

    factors: Float[Tensor, " batch"]
    """min(1, C/‖g_i‖) or γ/(‖g_i‖ + γ), at most 1 so that no product overflows; 0 where the norm is not finite."""
    finite: Bool[Tensor, " batch"]
    """Whether the norm was a finite number; elsewhere the gradient itself must be dropped, since 0·NaN = NaN."""
    scale: float
    """1 or, for automatic clipping, C/γ."""
    norms: Float[Tensor, " batch"]
    clip_norm: float

    @property
    def within(self) -> Bool[Tensor, " batch"]:
        """Whether ‖g_i‖ ≤ C; private."""
        return self.norms <= self.clip_norm


def row_norms(rows: Tensor) -> Float[Tensor, " batch"]:
    """Euclidean norm of each of the ``rows`` (batch, ...), in double precision, true to 33 units of the last place."""
    flat = rows.reshape(len(rows), math.prod(rows.shape[1:]))
    blocks, rest = divmod(flat.shape[1], _BLOCK)
    parts: list[Tensor] = []
    if blocks:
        norms = flat[:, : blocks * _BLOCK].unflatten(1, (blocks, _BLOCK)).norm(2, dim=-1)
        parts.append(norms.double().norm(2, dim=-1))
    if rest or not blocks:
        parts.append(flat[:, blocks * _BLOCK :].norm(2, dim=-1).double())
    return joint_norms(parts) if len(parts) > 1 else parts[0]


def joint_norms(norms: list[Tensor]) -> Float[Tensor, " batch"]:
    """Norm of each example's whole gradient from the norms of its parts."""
    return torch.stack([part.double().to(norms[0].device) for part in norms], dim=1).norm(2, dim=1)


def clip_factors(
    norms: Float[Tensor, " batch"], clip: Clip, dtype: torch.dtype = torch.float32
) -> Clipping:
    """Factors that bring every gradient of type ``dtype`` into the Euclidean ball of radius C = ``clip.norm``.

        flat:       min(1, C/‖g_i‖) g_i
        automatic:  C/(‖g_i‖ + γ) g_i = (C/γ) · γ/(‖g_i‖ + γ) g_i,    γ = 0.01

    Formal guarantee: ‖scale · factor_i g_i‖ ≤ C for every example with a finite norm, with norms by
    :func:`row_norms`: the radius aimed at is smaller by 64 units of the last place of ``dtype``, which covers the
    rounding of norm, factor, scale and product. (Underflow of numbers below 1e-22 aside.)
    """
    finite, short = torch.isfinite(norms), 1.0 - 64.0 * torch.finfo(dtype).eps
    if clip.rule == "automatic":
        factors, scale = STABILITY * short / (norms + STABILITY), clip.norm / STABILITY
    else:
        factors, scale = (clip.norm * short / norms).clamp(max=1.0), 1.0
    factors = torch.where(finite, factors, torch.zeros_like(factors))
    return Clipping(factors, finite, scale, norms, clip.norm)


def without_subnormals(values: Tensor) -> Tensor:
    """``values`` with zeros for subnormal numbers, which rounding may double.

    A factor of that kind, or a scaled slope that large inputs multiply, could bring a gradient out of its ball; zeros
    only make it shorter.
    """
    return hardshrink(values, lambd=torch.finfo(values.dtype).tiny)


def row_squares(rows: Tensor) -> Float[Tensor, " batch"]:
    """Squared norm of each of the ``rows``, every number in double precision: exact, and slow for wide rows."""
    return torch.linalg.vector_norm(rows.flatten(1), dim=1, dtype=torch.float64).square()


def kept(clipping: Clipping, member: Tensor | None = None) -> Callable[[Tensor], Tensor]:
    """From rows (batch, ...) to rows with exact zeros for examples that count as zero or are no members.

    Where all rows are known to count they are returned as they are: to drop some copies all, and to ask a GPU would
    wait.
    """
    keep = clipping.finite if member is None else clipping.finite & member
    if member is None and keep.device.type == "cpu" and bool(keep.all()):
        return lambda rows: rows
    gone = ~keep
    return lambda rows: rows.masked_fill(
        gone.to(rows.device).view(-1, *[1] * (rows.dim() - 1)), 0.0
    )


def coarsest(tensors: Iterable[Tensor]) -> torch.dtype:
    """The type among theirs that rounds most."""
    return max((one.dtype for one in tensors), key=lambda kind: torch.finfo(kind).eps)


def kind_of_sums(weight: Tensor) -> torch.dtype:
    """The type of a sum of gradients by ``weight``: in half precision one example would move its rounding by more."""
    return torch.promote_types(weight.dtype, torch.float32)


class ClippedSum(NamedTuple):
    """What a group of units adds up to."""

    total: Weights
    clipping: Clipping
    """Private."""


def clipped_sum(
    contributions: Weights,
    clip: Clip,
    *,
    into: Weights | None = None,
    member: Bool[Tensor, " batch"] | None = None,
) -> ClippedSum:
    """Σ_i clip_C(Δ_i) / divisor over the first dimension of every entry; norms are over all entries together.

    Formal guarantee: adding or removing one unit moves the sum by at most ``clip.norm / clip.divisor`` in Euclidean
    norm, replacing it by at most twice that, whatever its records: a contribution that is NaN or infinite counts as
    zero. Up to the rounding of the sum.

    Args:
        into: where the sum is written; new tensors by default.
        member: whose contributions count; all by default. With it nothing is read back from the device.
    """
    rows = {
        k: r if r.dtype in (torch.float32, torch.float64) else r.float()
        for k, r in contributions.items()
    }
    kind = coarsest(rows.values())
    clipping = clip_factors(joint_norms([row_norms(r) for r in rows.values()]), clip, kind)
    scale = without_subnormals((clipping.scale * clipping.factors / clip.divisor).to(kind))
    total = into or {k: r.new_empty(r.shape[1:]) for k, r in rows.items()}
    counted = kept(clipping, member)
    with full_precision(next((r.device for r in rows.values() if not r.is_cpu), scale.device)):
        for k, r in rows.items():
            flat = counted(r.reshape(len(r), math.prod(r.shape[1:])))
            total[k].copy_((scale.to(r) @ flat).view(r.shape[1:]))
    return ClippedSum(total, clipping)
