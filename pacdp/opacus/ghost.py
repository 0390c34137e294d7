"""Norms and sums of gradients for ghost clipping, safe for empty batches and non-finite gradients.

A backward pass from each example's gradients by the network's outputs finds every example's gradient norm. Where all
layers are linear and used once, factor_i times the gradients are added up layer by layer from what that pass met
("book-keeping", Bu, Wang, Zha and Karypis 2023); elsewhere a second backward pass adds them up. An example whose
gradient is NaN would poison the sum whatever its factor (0·NaN = NaN), so the batch is run again with that example's
inputs replaced by those of another one, at factor 0, with the same masks and weight draws.
"""

from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from pacdp.layers.random import random_state, rewind
from pacdp.opacus.ghost_norms import linear_sum
from pacdp.opacus.modules import GhostModule, network
from pacdp.opacus.recorded import Recorded, recorded
from pacdp.step.clip import clip_factors
from pacdp.step.precision import full_precision


@runtime_checkable
class Sink(Protocol):
    """Where clipped sums go: an optimizer, or the step itself."""

    max_grad_norm: Any
    nonfinite_examples: Any
    examples: int

    @property
    def params(self) -> list[Any]:
        """Return the parameters whose gradients are summed."""
        ...

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of the parameters."""
        ...


class GhostCriterion:
    """A criterion whose ``reduction``, where it has one, is taken over the examples alone.

    Args:
        loss_reduction: "mean" or "sum" of the losses of the examples, each the mean over its own parts.
    """

    def __init__(self, criterion: Any, loss_reduction: str) -> None:
        self.criterion, self.loss_reduction = criterion, loss_reduction

    def __call__(self, outputs: Any, *targets: Any, **options: Any) -> Tensor:
        """Loss of one batch, whose ``backward`` leaves the sum of clipped gradients in ``p.grad``."""
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


def ghost_backward(module: GhostModule, optimizer: Sink, outputs: list[Tensor], slopes: list[Tensor]) -> None:
    """Leave the sum of clipped gradients in ``p.grad``, from each example's gradients by its outputs.

    Norms and sums keep full precision: what is added up must be as long as it was found to be.
    """
    if len(outputs[0]) == 0:
        empty_sum(module, optimizer)
        return
    optimizer.examples += len(outputs[0])
    device, once = outputs[0].device, module.can_add_up()
    with full_precision(device, convolutions=True):
        torch.autograd.backward(outputs, slopes, retain_graph=not once, inputs=module.reached())
    optimizer.zero_grad(set_to_none=True)
    factors, finite = clip_factors(module.get_norm_sample(), optimizer.max_grad_norm, slopes[0].dtype)
    module.disable_hooks()
    try:
        if not bool(finite.all()):
            optimizer.nonfinite_examples += int((~finite).sum())
            outputs, source = _without(module, finite) if bool(finite.any()) else ([], finite)
            slopes, once = [slope[source] for slope in slopes], False
        with full_precision(device, convolutions=True):
            if once:
                _add_up(module, factors)
            elif outputs:
                torch.autograd.backward(outputs, [_scaled(slope, factors) for slope in slopes])
    finally:
        module.enable_hooks()
        module.forget()
    _zero_missing_gradients(optimizer)
    _drop_unusable_sum(optimizer)


def _add_up(module: GhostModule, factors: Tensor) -> None:
    """Leave the same sum, of the layers that a backward pass has met."""
    for layer, inputs in module.seen.items():
        for parameter, total in linear_sum(layer, inputs, _scaled(module.slopes[layer], factors)).items():
            parameter.grad = total


def _scaled(slope: Tensor, factors: Tensor) -> Tensor:
    return factors.detach().to(slope.device, slope.dtype).view(-1, *[1] * (slope.dim() - 1)) * slope


def _without(module: GhostModule, finite: Tensor) -> tuple[list[Tensor], Tensor]:
    """The batch's outputs again, with a finite example in each place of one that is not, and which that is."""
    assert module.replayable is not None
    inputs, named, state = module.replayable
    source = torch.where(finite, torch.arange(len(finite), device=finite.device), finite.int().argmax())
    now = random_state(module)
    rewind(module, state)
    inputs, named = tree_map(lambda leaf: _taken(leaf, source), (inputs, named))
    outputs = network(module)(*inputs, **named)  # in the precision of the first forward
    rewind(module, now)
    return [x for x in tree_leaves(outputs) if isinstance(x, Tensor) and x.requires_grad], source


def _taken(leaf: Any, source: Tensor) -> Any:
    is_batch = isinstance(leaf, Tensor) and leaf.dim() > 0 and len(leaf) == len(source)
    return leaf[source.to(leaf.device)] if is_batch else leaf


def empty_sum(module: GhostModule, optimizer: Sink) -> None:
    """What a backward pass over an empty batch leaves."""
    module.forget()
    optimizer.zero_grad()
    _zero_missing_gradients(optimizer)


def _zero_missing_gradients(optimizer: Sink) -> None:
    for p in optimizer.params:
        if p.grad is None:
            p.grad = torch.zeros_like(p)


def _drop_unusable_sum(optimizer: Sink) -> None:
    sums = [p.grad for p in optimizer.params if p.grad is not None]
    if sums and sums[0].device.type != "cpu":  # without a wait
        usable = torch.stack([total.isfinite().all().to(sums[0].device) for total in sums]).all()
        for total in sums:
            total.masked_fill_(~usable.to(total.device), 0.0)
        return
    # a sum is quicker than a look at each number, and finite only if all of them are
    if not all(bool(total.sum().isfinite()) or bool(total.isfinite().all()) for total in sums):
        for total in sums:
            total.zero_()
