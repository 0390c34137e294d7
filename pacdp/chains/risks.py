"""What an empirical risk says at weights: estimates from minibatches, and means over a whole data set."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pacdp.losses import Loss, Totals, double_sum


class Estimate(NamedTuple):
    """What minibatches say of the risk at K weight vectors; all on the device of the weights."""

    gradient: Float[Tensor, "chains dim"]
    """Estimate of the gradient of each chain's mean loss. A buffer that the next call overwrites."""
    loss: Float[Tensor, " chains"]
    """Mean loss of the minibatch; unbiased for the empirical risk under uniform batches."""
    error: Float[Tensor, " chains"]
    """Mean 0-1 loss of the minibatch."""
    squared_norms: Float[Tensor, " chains"] | None = None
    """Where they are kept, Σ_i ‖g_i‖² over the records of the batch, g_i all that record i adds to batch_size times the
    gradient (float64, rounded up). Records are the data set's people, where it names them, else examples."""


class Risks(NamedTuple):
    """Means over a whole data set, accumulated in double precision."""

    loss: float
    error: float
    ramp: float
    errors: int
    """The number of examples in error, an exact count."""
    n: int


def exact_risks(
    outputs: Iterable[tuple[Tensor, slice]],
    labels: Int[Tensor, " n"],
    kinds: Sequence[Loss],
    *,
    clipped: bool,
) -> Risks:
    """Means over all examples of a loss, of errors and of the ramp loss.

    Args:
        outputs: for all examples in turn, and which these are.
        kinds: these three losses.
        clipped: whether an example whose output is not finite counts as the worst that the loss can be and as an error.

    Raises:
        ValueError: a loss is NaN or lies outside the interval that it declares.
    """
    total = Totals(kinds)
    for given, places in outputs:
        near = given.isfinite().reshape(len(given), -1).all(dim=1)
        if not clipped:
            near = torch.ones_like(near)
        kept = torch.where(near.reshape(-1, *[1] * (given.ndim - 1)), given, 0.0)
        total.add(kept, labels[places], partial(_worst_if_far, near=near))
    n, (loss, errors, ramps) = len(labels), total.read()
    return Risks(loss / n, errors / n, ramps / n, round(errors), n)


def _worst_if_far(values: Tensor, loss: Loss, *, near: Tensor) -> Tensor:
    """The sum of the losses, the loss's upper end standing for those of examples that are not near."""
    return double_sum(torch.where(near, values, loss.high), loss)
