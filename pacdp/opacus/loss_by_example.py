"""The loss of a batch as losses of single examples, each evaluated alone along the record of the whole.

A loss may cut further tensors into examples (targets, masks) or take them whole (weights of classes), and its sizes and
divisors may be those of the batch. What gives the loss as written, example by example, is found once and kept to.
"""

from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from pacdp.opacus.loader import PoissonSampler
from pacdp.opacus.recorded import Output, Record, Recorded, recorded
from pacdp.opacus.slopes import slopes_of_cross_entropy, slopes_of_each

Reduction = Literal["mean", "sum"]
_CLOSE = {torch.float16: 2e-2, torch.bfloat16: 2e-2}
_FAILURES = (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError)
_ONE_EXAMPLE = (
    "write the loss as the mean of losses of single examples, for instance criterion = nn.CrossEntropyLoss(weight=..., "
    "ignore_index=..., reduction='none') and loss = criterion(outputs, targets).mean()"
)


class LossByExample:
    """Finds each example's gradient by its own outputs, and refuses losses that have none of their own.

    Args:
        reduction: how the loss adds up the losses of the examples.
        sampler: what drew the batches; None where the caller draws them.
    """

    def __init__(
        self, reduction: Reduction, constants: "Constants", sampler: PoissonSampler | None
    ) -> None:
        self.reduction, self.constants, self.sampler = reduction, constants, sampler
        self.plan: tuple[tuple[bool, ...], bool] | None = None

    def slopes(self, loss: Recorded, record: Record, moving: list[Output]) -> list[Tensor]:
        """Return the gradients of the single examples' losses, which must be those of the loss as written."""
        outputs = [each.tensor for each in moving]
        n = len(outputs[0])
        found = torch.autograd.grad(loss, outputs, allow_unused=True)
        written = [
            torch.zeros_like(x) if w is None else w for x, w in zip(outputs, found, strict=True)
        ]
        failure, scales = None, set[float]()
        for cut, per_example in self._plans(record, n):
            try:
                slopes = self._of_single_examples(record, moving, cut, n if per_example else 1)
            except _FAILURES as error:
                failure = failure or str(error).splitlines()[0]
                continue
            factor = {"mean": float(n), "sum": 1.0}
            if _agree(written, slopes, factor[self.reduction]):
                self._require_the_same_loss(record, cut, n, n if per_example else 1)
                return slopes
            scales |= {name for name, value in factor.items() if _agree(written, slopes, value)}  # pyright: ignore
        for name in scales:
            raise ValueError(
                f"the loss is a {name} over the examples, and loss_reduction is {self.reduction!r}: give "
                f"make_private loss_reduction={name!r}, or take the {self.reduction} in the loss"
            )
        if failure is not None and not scales:
            raise ValueError(
                f"the loss cannot be computed for an example alone ({failure}): {_ONE_EXAMPLE}"
            )
        raise ValueError(
            "an example's part of the loss depends on the other examples of the batch, as with class weights, ignored "
            f"labels (-100) or padding in a mean: {_ONE_EXAMPLE}"
        )

    def _plans(self, record: Record, n: int) -> Iterator[tuple[tuple[bool, ...], bool]]:
        """Which other tensors are cut into examples, and whether sizes are divided; what served before comes first."""
        multiple = [x.dim() > 0 and len(x) % n == 0 for x in record.others]
        usual = tuple(m and not named for m, named in zip(multiple, record.per_class, strict=True))
        cuts = (
            [self.plan[0]] if self.plan is not None else [*dict.fromkeys([usual, tuple(multiple)])]
        )
        if n == 1 or any(len(cut) != len(multiple) for cut in cuts):
            cuts = [tuple(multiple)]
        if any(c and not m for cut in cuts for c, m in zip(cut, multiple, strict=True)):
            cuts = [usual]
        divided = (False, True) if self.plan is None else (self.plan[1], not self.plan[1])
        plans = ((cut, divide) for cut in cuts for divide in divided)
        yield from (plan for plan in plans if not plan[1] or record.text(1) != record.text(n))

    def _of_single_examples(
        self, record: Record, moving: list[Output], cut: tuple[bool, ...], divisor: int
    ) -> list[Tensor]:
        n = len(moving[0].tensor)
        if len(record.calls) == len(moving) == len(cut) == 1 and cut[0]:
            known = slopes_of_cross_entropy(record.calls[0], moving[0].tensor)
            if known is not None:
                return [known]
        still = [each for each in record.outputs if each not in moving]
        fixed = [each.tensor for each in still]
        fixed += [
            x.reshape(n, len(x) // n, *x.shape[1:])
            for x, c in zip(record.others, cut, strict=True)
            if c
        ]

        def loss_of_one(own: list[Tensor], rest: list[Tensor]) -> Tensor:
            tensors = {
                id(each): x[None] for each, x in zip([*moving, *still], [*own, *rest], strict=False)
            }
            rows = iter(rest[len(still) :])
            others = [next(rows) if c else x for x, c in zip(record.others, cut, strict=True)]
            return record.again(
                [tensors[id(each)] for each in record.outputs], others, examples=divisor
            )

        return slopes_of_each(loss_of_one, [each.tensor for each in moving], fixed)[0]

    def _require_the_same_loss(
        self, record: Record, cut: tuple[bool, ...], n: int, divisor: int
    ) -> None:
        """Refuse numbers in the loss that change from step to step, and labels in another order than the inputs."""
        if n == 1:
            return
        if self.plan is None and record.multiplies_by(n):
            raise ValueError(
                f"the loss is multiplied by {n}, the number of examples in the batch, which is private: take the mean, "
                "or the sum with loss_reduction='sum'"
            )
        self.plan = (cut, divisor > 1)
        whole = [x for x, c in zip(record.others, cut, strict=True) if not c]
        self.constants.require("loss", record.text(divisor), whole)
        if self.sampler is not None:
            self.sampler.require_own([x for x, c in zip(record.others, cut, strict=True) if c])


class Constants:
    """What must be the same at every step, since it might come from the batch."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[list[str], list[Tensor]]] = {}

    def require(self, what: str, plain: list[str], tensors: list[Tensor]) -> None:
        """Refuse, by raising ValueError, other words or tensors than those of the first call."""
        if what not in self.seen:
            self.seen[what] = plain, [x.detach().clone() for x in tensors]
        words, values = self.seen[what]
        changed = [f"{b} in place of {a}" for a, b in zip(words, plain, strict=False) if a != b]
        if (
            len(words) != len(plain)
            or changed
            or len(values) != len(tensors)
            or not all(map(_equal, values, tensors))
        ):
            named = changed[0] if changed else "a tensor or a call"
            raise ValueError(
                f"the {what} of the network changed from one step to another ({named}), and what changes may come from "
                "the other examples: let every number and tensor that is not an example's be the same at all steps"
            )


def _equal(one: Tensor, other: Tensor) -> bool:
    return (
        one.shape == other.shape
        and one.dtype == other.dtype
        and torch.equal(one, other.to(one.device))
    )


def _agree(written: list[Tensor], slopes: list[Tensor], factor: float) -> bool:
    return all(close(factor * w, s) for w, s in zip(written, slopes, strict=True))


def close(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors agree, relative to the largest finite number; what is not finite must be so in both."""
    if one.shape != other.shape:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    tolerance = _CLOSE.get(other.dtype, 1e-3)
    away, largest = (one - other).abs().amax(), other.abs().amax()
    if bool(away <= tolerance * largest):
        return True
    finite = one.isfinite() & other.isfinite()
    if bool(finite.all()) or not torch.equal(one.isfinite(), other.isfinite()):
        return False
    rest = [torch.where(finite, x, torch.zeros_like(x)) for x in (one, other)]
    return bool((rest[0] - rest[1]).abs().amax() <= tolerance * rest[1].abs().amax())


class PrivateCriterion:
    """A criterion whose ``reduction``, where it has one, is taken over the examples alone.

    Args:
        loss_reduction: "mean" or "sum" of the losses of the examples, each the mean over its own parts.
    """

    def __init__(self, criterion: Any, loss_reduction: Reduction) -> None:
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
