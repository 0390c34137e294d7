"""A criterion of a private loop: each example's loss by itself."""

from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_leaves

from pacdp.opacus.recorded import Recorded, recorded


class PrivateCriterion:
    """A criterion whose ``reduction``, where it has one, is taken over the examples alone.

    Args:
        loss_reduction: "mean" or "sum" of the losses of the examples, each the mean over its own parts.
    """

    def __init__(self, criterion: Any, loss_reduction: str) -> None:
        self.criterion, self.loss_reduction = criterion, loss_reduction

    def __call__(self, outputs: Any, *targets: Any, **options: Any) -> Tensor:
        """Loss of one batch, whose ``backward`` hands the clipped sum to the optimizer."""
        if any(isinstance(x, Recorded) for x in tree_leaves(outputs)):
            return recorded(self._loss, outputs, *targets, **options)
        return self._loss(outputs, *targets, **options)

    def _loss(self, outputs: Any, *targets: Any, **options: Any) -> Tensor:
        reduction = getattr(self.criterion, "reduction", None)
        if reduction is None:
            return self.criterion(outputs, *targets, **options)
        self.criterion.reduction = "none"
        try:
            losses = self.criterion(outputs, *targets, **options)
        finally:
            self.criterion.reduction = reduction
        losses = losses.flatten(1).mean(1) if losses.dim() > 1 else losses
        return losses.mean() if self.loss_reduction == "mean" else losses.sum()
