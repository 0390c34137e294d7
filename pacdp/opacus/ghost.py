"""Two backward passes for ghost clipping, safe for empty batches and non-finite gradients.

The first pass finds every example's gradient norm, the second differentiates Σ_i factor_i ℓ_i. An example whose
gradient is NaN would poison the second pass whatever its factor (0·NaN = NaN), so the batch is run again with that
example's inputs and targets replaced by those of another one, at factor 0, with the same masks and weight draws.
"""

from collections.abc import Callable
from typing import Any, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Bool, Float
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping, DPTensorFastGradientClipping
from torch import Tensor
from torch.utils._pytree import tree_map

from pacdp.layers.random import random_state, rewind
from pacdp.opacus.modules import GhostModule, network
from pacdp.step.clip import clip_factors
from pacdp.step.precision import full_precision

LossOf = Callable[..., Tensor]


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


class GhostLoss(DPTensorFastGradientClipping):
    """Per-example losses whose ``backward`` leaves the sum of clipped gradients in ``p.grad``.

    ``item()`` and ``detach()`` give the reduced loss. Arithmetic is refused: put weights into the criterion.
    """

    def __init__(self, module: GhostModule, optimizer: Sink, losses: Float[Tensor, " batch"],
                 loss_reduction: str, again: Callable[[Bool[Tensor, " batch"]], Tensor]) -> None:  # fmt: skip
        super().__init__(module, optimizer, losses, loss_reduction)  # pyright: ignore[reportArgumentType]
        self.again = again

    def backward(self) -> None:
        """Both passes, in full precision: what the second adds up must be as long as the first found it."""
        module, optimizer = self.module, cast(Sink, self.optimizer)
        assert isinstance(module, GhostModule)
        if len(self.loss_per_sample) == 0:
            empty_sum(module, optimizer)
            return
        optimizer.examples += len(self.loss_per_sample)
        reduced = self.loss_per_sample.mean() if self.loss_reduction == "mean" else self.loss_per_sample.sum()
        with full_precision(reduced.device, convolutions=True):
            reduced.backward(retain_graph=True, inputs=module.reached())
        optimizer.zero_grad(set_to_none=True)
        losses = self.loss_per_sample
        factors, finite = clip_factors(module.get_norm_sample(), optimizer.max_grad_norm, losses.dtype)
        module.disable_hooks()
        try:
            if not bool(finite.all()):
                optimizer.nonfinite_examples += int((~finite).sum())
                losses = self.again(finite) if bool(finite.any()) else None  # in the precision of the first forward
            if losses is not None:
                with full_precision(losses.device, convolutions=True):
                    (factors.detach().to(losses.device, losses.dtype) * losses).sum().backward()
        finally:
            module.enable_hooks()
            module.forget()
        _zero_missing_gradients(optimizer)
        _drop_unusable_sum(optimizer)

    def _refuse(self, *_: object) -> Any:
        raise TypeError("a ghost-clipped loss takes no arithmetic: put weights or further terms into the criterion")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __neg__ = _refuse  # pyright: ignore


class GhostCriterion(DPLossFastGradientClipping):
    """Wraps a criterion such as ``nn.CrossEntropyLoss()`` whose ``reduction`` can be set to "none"."""

    def __call__(self, outputs: Tensor, *targets: Any, **options: Any) -> GhostLoss:  # pyright: ignore
        """Losses of the examples of one batch; ``outputs`` must come straight from the module's last forward pass."""
        module, optimizer = self.module, cast(Sink, self.optimizer)
        assert isinstance(module, GhostModule)

        def losses_of(outputs: Tensor, *targets: Any) -> Tensor:
            return self._per_example(outputs, targets, options)

        return ghost_loss(module, optimizer, losses_of, outputs, targets, self.loss_reduction)

    def _per_example(self, outputs: Tensor, targets: tuple[Any, ...], options: dict[str, Any]) -> Tensor:
        reduction, self.criterion.reduction = self.criterion.reduction, "none"
        try:
            losses = self.criterion(outputs, *targets, **options)
        finally:
            self.criterion.reduction = reduction
        return losses.reshape(len(losses), -1).mean(1) if losses.dim() > 1 else losses


def ghost_loss(module: GhostModule, optimizer: Sink, losses_of: LossOf, outputs: Tensor,
               targets: tuple[Any, ...], loss_reduction: str) -> GhostLoss:  # fmt: skip
    """The loss of one batch, able to run its forward pass again."""
    replayable = module.replayable

    def again(finite: Tensor) -> Tensor:
        assert replayable is not None
        inputs, named, state = replayable
        source = torch.where(finite, torch.arange(len(finite), device=finite.device), finite.int().argmax())
        now = random_state(module)
        rewind(module, state)
        inputs, named, replaced = tree_map(lambda leaf: _taken(leaf, source), (inputs, named, targets))
        losses = losses_of(network(module)(*inputs, **named), *replaced)
        rewind(module, now)
        return losses

    return GhostLoss(module, optimizer, losses_of(outputs, *targets), loss_reduction, again)


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
