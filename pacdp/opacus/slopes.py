"""Gradients of losses by a network's outputs, one example at a time.

A loss that is evaluated on a batch of one cannot look at another example: class weights, ignored labels and batch
statistics have nothing to divide by but the example's own. The network's backward pass starts from these gradients.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._pytree import tree_flatten, tree_unflatten

from pacdp.opacus.recorded import Call
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
    own, rest = [x.detach() for x in outputs], [x.detach() for x in others]
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="There is a performance drop")
            return torch.func.vmap(of_one)(own, rest)
    except _NO_VMAP:
        found = [of_one([x[i] for x in own], [x[i] for x in rest]) for i in range(len(own[0]))]
    return [
        torch.stack(each) for each in zip(*(slopes for slopes, _ in found), strict=True)
    ], torch.stack([value for _, value in found])


def slopes_of_cross_entropy(call: Call, logits: Tensor) -> Tensor | None:
    """Each example's gradient of cross-entropy by its logits, softmax minus the indicator of its class.

    The same as :func:`slopes_of_each` in a tenth of the time; whatever the call was, it is of one example alone.

    Args:
        call: of ``F.cross_entropy``, of a private criterion that holds ``nn.CrossEntropyLoss``, or of anything else.
        logits: (n, classes).

    Returns:
        The gradients, (n, classes). None for another function, for class weights, smoothed labels or targets that are
        no classes, and where a label is ignored.
    """
    criterion = getattr(getattr(call.function, "__self__", None), "criterion", None)
    held = type(criterion) is nn.CrossEntropyLoss
    given = {**vars(criterion), "weight": criterion.weight} if held else call.named
    if (
        not (held or call.function is functional.cross_entropy)
        or len(call.args) != 2
        or logits.dim() != 2
    ):
        return None
    targets = call.args[1]
    plain = (
        given.get("weight") is None
        and not given.get("label_smoothing")
        and targets.dtype == torch.int64
    )
    if (
        not plain
        or targets.shape != logits.shape[:1]
        or bool((targets == given.get("ignore_index", -100)).any())
    ):
        return None
    slopes = torch.softmax(logits.detach(), dim=1)
    return slopes.scatter_add_(1, targets[:, None], slopes.new_full((len(slopes), 1), -1.0))


def slopes_of_outputs(
    loss: PerExampleLoss, outputs: Any, targets: Tensor
) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """Differentiate each example's loss by its own part of a network's outputs.

    Args:
        outputs: a tensor, or a structure of tensors, each (n, ...).
        targets: (n, ...).

    Returns:
        The outputs that have a gradient, the gradients by them, and the losses, shape (n,).
    """
    leaves, form = tree_flatten(outputs)
    moving = [x.requires_grad for x in leaves]

    def loss_of_one(own: list[Tensor], rest: list[Tensor]) -> Tensor:
        left, right = iter(own), iter(rest)
        rows = [next(left if moves else right)[None] for moves in moving]
        return loss(tree_unflatten(rows, form), next(right)[None])[0]

    own = [x for x, moves in zip(leaves, moving, strict=True) if moves]
    still = [x for x, moves in zip(leaves, moving, strict=True) if not moves]
    return own, *slopes_of_each(loss_of_one, own, [*still, targets])
