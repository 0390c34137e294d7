"""Gradients of losses by a network's outputs, one example at a time.

A loss that is evaluated on a batch of one cannot look at another example: class weights, ignored labels and batch
statistics have nothing to divide by but the example's own. The network's backward pass starts from these gradients.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from pacdp.step.gradients import LossOfOne, PerExampleLoss, slope_and_loss

_NO_VMAP = (RuntimeError, ValueError, NotImplementedError)


def slopes_of_each(
    loss: LossOfOne, outputs: Sequence[Tensor], others: Sequence[Tensor]
) -> tuple[list[Tensor], Tensor]:
    """Differentiate each example's loss by its own outputs.

    Args:
        outputs: floating point, each (n, ...) with n at least 1.
        others: what else the loss looks at, each (n, ...): targets, masks, outputs without a gradient.

    Returns:
        The gradients, in the shapes of ``outputs``, and the losses, shape (n,). Where ``torch.func.vmap`` cannot run
        the loss, one example follows the other.
    """
    of_one = slope_and_loss(loss)
    given = [x.detach() for x in outputs], [x.detach() for x in others]
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="There is a performance drop")
            return torch.func.vmap(of_one)(*given)
    except _NO_VMAP:
        found = [of_one(*([x[i] for x in part] for part in given)) for i in range(len(outputs[0]))]
    return tree_map(lambda *each: torch.stack(each), *found)


def slopes_of_outputs(
    loss: PerExampleLoss, outputs: Any, targets: Tensor
) -> tuple[list[Tensor | None], Tensor]:
    """Differentiate each example's loss by its own part of a network's outputs.

    Args:
        outputs: a tensor, or a structure of tensors, each (n, ...).
        targets: (n, ...).

    Returns:
        The gradients by every output, None for one that has none, and the losses, shape (n,).
    """
    leaves, form = tree_flatten(outputs)
    moving = [x.requires_grad for x in leaves]

    def loss_of_one(own: list[Tensor], rest: list[Tensor]) -> Tensor:
        left, right = iter(own), iter(rest)
        rows = [next(left if moves else right)[None] for moves in moving]
        return loss(tree_unflatten(rows, form), next(right)[None])[0]

    still = [x for x in leaves if not x.requires_grad]
    slopes, losses = slopes_of_each(
        loss_of_one, [x for x in leaves if x.requires_grad], [*still, targets]
    )
    found = iter(slopes)
    return [next(found) if moves else None for moves in moving], losses
