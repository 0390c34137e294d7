"""Per-example clipping factors that survive rounding and non-finite gradients."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor


class Clipping(NamedTuple):
    """What to multiply each example's gradient by."""

    factors: Float[Tensor, " batch"]
    """min(1, C/‖g_i‖), 0 where the norm is not finite."""
    finite: Bool[Tensor, " batch"]
    """Whether the norm was a finite number; elsewhere the gradient itself must be dropped, since 0·NaN = NaN."""


def clip_factors(norms: Float[Tensor, " batch"], clip_norm: float) -> Clipping:
    """Factors that bring every gradient into the Euclidean ball of radius ``clip_norm``.

    Formal guarantee: ‖factor_i g_i‖ ≤ clip_norm for every example with a finite norm, in the arithmetic in which the
    norm was computed: the radius aimed at is smaller by 16 units of the last place to absorb its rounding.
    """
    finite = torch.isfinite(norms)
    radius = clip_norm * (1.0 - 16.0 * torch.finfo(norms.dtype).eps)
    factors = (radius / norms).clamp(max=1.0)
    return Clipping(torch.where(finite, factors, torch.zeros_like(factors)), finite)


def drop(rows: Tensor, keep: Bool[Tensor, " batch"]) -> Tensor:
    """``rows`` with the rows outside ``keep`` set to exact zeros; shape (batch, ...)."""
    return rows.masked_fill(~keep.view(-1, *(1,) * (rows.dim() - 1)), 0.0)
