"""What an empirical risk says at weights: estimates from minibatches, and means over a whole data set."""

from collections.abc import Iterable, Sequence
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
    total, far = Totals(kinds), torch.zeros((), dtype=torch.int64, device=labels.device)
    for given, places in outputs:
        own = labels[places]
        if not clipped:
            total.add(given, own, double_sum)
            continue
        near = given.isfinite().reshape(len(given), -1).all(dim=1)
        far += (~near).sum()
        kept = torch.where(near.reshape(-1, *[1] * (given.ndim - 1)), given, 0.0)
        total.add(
            kept,
            own,
            lambda values, loss, near=near: double_sum(torch.where(near, values, 0.0), loss),
        )
    ends, n, worst = (kinds[0].high, 1.0, 1.0), len(labels), int(far) if clipped else 0
    loss, errors, ramps = (one + worst * most for one, most in zip(total.read(), ends, strict=True))
    return Risks(loss / n, errors / n, ramps / n, round(errors), n)
