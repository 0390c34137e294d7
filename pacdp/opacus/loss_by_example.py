"""The loss of a batch as losses of single examples, each evaluated alone along the record of the whole.

A loss may cut further tensors into examples (targets, masks) or take them whole (weights of classes), and its sizes and
divisors may be those of the batch. What gives the loss as written, example by example, is found once and kept to.
"""

import copy
from collections.abc import Iterator
from itertools import accumulate, chain, product, zip_longest
from operator import mul
from typing import Any, Literal

import torch
from torch import Tensor

from pacdp.opacus.loader import PoissonSampler
from pacdp.opacus.recorded import Record, recorded
from pacdp.step.gradients import slopes_of_each
from pacdp.trials.reachable import contents, digest

Reduction = Literal["mean", "sum"]
Plan = tuple[tuple[bool, ...], int]
"""Which other tensors are cut into examples, and by what sizes and divisors are divided."""
_CLOSE = {torch.float16: 2e-2, torch.bfloat16: 2e-2}
_ROUNDING = 2e-5
"""Of an example's gradient by its outputs, whose numbers are differences of numbers up to one."""
_FAILURES = (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError)
_ONE_EXAMPLE = (
    "write the loss as the mean of losses of single examples, for instance criterion = nn.CrossEntropyLoss(weight=..., "
    "ignore_index=..., reduction='none') and loss = criterion(outputs, targets).mean()"
)


class Constants:
    """What must be the same at every step, since it might come from the batch."""

    def __init__(self) -> None:
        self.first: dict[str, list[Any]] = {}

    def require(self, what: str, plain: list[str], tensors: list[Tensor]) -> None:
        """Refuse, by raising ValueError, other words or tensors than those of the first call."""
        now = [*plain, *map(digest, tensors)]
        first = self.first.setdefault(what, now)
        if now != first:
            both = zip_longest(first, now, fillvalue="nothing")
            changed = [f"{b} in place of {a}" for a, b in both if a != b]
            raise ValueError(
                f"the {what} changed from one step to another ({', '.join(changed[:1])}), and what "
                "changes may come from the other examples: let every number and tensor that is not an example's be the "
                "same at all steps"
            )


class LossByExample:
    """Finds each example's gradient by its own outputs, and refuses losses that have none of their own.

    Args:
        reduction: how the loss adds up the losses of the examples.
        sampler: what drew the batches; None where the caller draws them.
    """

    def __init__(self, reduction: Reduction, sampler: PoissonSampler | None) -> None:
        self.reduction, self.sampler, self.constants = reduction, sampler, Constants()
        self.cut: tuple[bool, ...] | None = None
        self.divides = False

    def slopes(self, loss: Tensor, record: Record) -> list[Tensor | None]:
        """By every output, the gradients of the examples' losses, which must be those of the loss as written."""
        moving = {k: x for k, x in record.outputs.items() if x.requires_grad}
        outputs = list(moving.values())
        n = len(outputs[0])
        written = torch.autograd.grad(loss, outputs, materialize_grads=True)
        factors, failure, computed = {"mean": float(n), "sum": 1.0}, "", False
        agrees = set[str]()
        for plan in self._plans(record, n):
            try:
                slopes = _of_single_examples(record, moving, *plan)
            except _FAILURES as error:
                failure = failure or str(error).splitlines()[0]
                continue
            computed = True
            whole = (x.shape for x, c in zip(record.others, plan[0], strict=True) if not c)
            labels = any(shape == out.shape for shape in whole for out in outputs)
            for name in sorted(factors, key=self.reduction.__ne__):
                scaled = [factors[name] * w for w in written]
                if all(map(close, scaled, slopes)) or all(map(_rounds, scaled, slopes)):
                    # a sum where each example meets all labels, as one Dice score of a batch, is none
                    agrees |= {name} if name == self.reduction or not labels else set()
                    break
            if self.reduction in agrees:
                self._require_the_same_loss(record, plan, n)
                found = dict(zip(moving, slopes, strict=True))
                return [found.get(k) for k in range(len(record.tape.outputs))]
        # a number that is a tensor may be the sum of the batch's weights, which divides a mean and no sum
        by_number = any(x.dim() == 0 for x in record.others)
        for name in () if by_number else agrees:
            raise ValueError(
                f"the loss is a {name} over the examples, and loss_reduction is {self.reduction!r}: give "
                f"make_private loss_reduction={name!r}, or take the {self.reduction} in the loss"
            )
        why = (
            f"the loss cannot be computed for an example alone ({failure})"
            if not computed
            else "an example's part of the loss depends on the other examples of the batch, as with class weights, "
            "ignored labels (-100) or padding in a mean, or on random numbers drawn for it, or goes back by a "
            "torch.autograd.Function of its own, which belongs into the network"
        )
        raise ValueError(f"{why}: {_ONE_EXAMPLE}")

    def _plans(self, record: Record, n: int) -> Iterator[Plan]:
        """What may give the loss as written; what served before comes first."""
        whole = tuple(x.dim() > 0 and len(x) % n == 0 for x in record.others)
        usual = tuple(w and not named for w, named in zip(whole, record.per_class, strict=True))
        exact = tuple(w and len(x) == n for w, x in zip(usual, record.others, strict=True))
        but_one = (
            tuple(w and k != left for k, w in enumerate(usual)) for left in range(len(usual))
        )
        cuts, divisors = dict.fromkeys([usual, exact, whole, *but_one]), (1, n)
        if self.cut is not None and len(self.cut) == len(whole):
            cuts = [tuple(map(min, self.cut, whole))]
            divisors = (n, 1) if self.divides else (1, n)
        elif n == 1:
            cuts = [whole]
        plans = product(cuts, divisors)
        yield from (plan for plan in plans if plan[1] == 1 or record.text(1) != record.text(n))

    def _require_the_same_loss(self, record: Record, plan: Plan, n: int) -> None:
        """Refuse numbers in the loss that change from step to step, and labels in another order than the inputs."""
        cut, divisor = plan
        whole = [x for x, c in zip(record.others, cut, strict=True) if not c]
        if self.cut is None and n > 1:  # one example alone does not tell what is cut into examples
            if record.multiplies_by(n):
                raise ValueError(
                    f"the loss is multiplied by {n}, the number of examples in the batch, which is private: take the "
                    "mean, or the sum with loss_reduction='sum', and write a constant that is that number by chance as "
                    f"torch.tensor({n}.0)"
                )
            outputs = [list(x.shape) for x in record.outputs.values()]
            counts = {size for shape in outputs for size in accumulate(shape, mul)}
            # but not those of weights of n classes
            counts -= {size for shape in outputs for size in shape[1:]}
            met = [list(x.shape) for x in whole if counts & {*x.shape}]
            if met:
                raise ValueError(
                    f"the loss takes a tensor of shape {met[0]} whole for every example's outputs, of shape "
                    f"{', '.join(map(str, outputs))}, so that each meets all labels of the batch, as in F.mse_loss of "
                    "outputs and targets of two shapes: give both the same one, as targets.view_as(outputs) does"
                )
        if n > 1:
            self.cut, self.divides = cut, divisor > 1
        numbers = [x for x in whole if x.dim() == 0]
        self.constants.require("loss of the network", record.text(divisor), numbers)
        if self.cut is not None:
            tensors = [x for x in whole if x.dim() > 0]
            self.constants.require("tensors in the loss", [], tensors)
        if self.sampler is not None:
            self.sampler.require_own({k: record.others[k] for k, c in enumerate(cut) if c})


def _of_single_examples(
    record: Record, moving: dict[int, Tensor], cut: tuple[bool, ...], divisor: int
) -> list[Tensor]:
    n = len(next(iter(moving.values())))
    fixed = {k: x for k, x in record.outputs.items() if k not in moving}
    rows = [x.reshape(n, -1, *x.shape[1:]) for x, c in zip(record.others, cut, strict=True) if c]

    def loss_of_one(own: list[Tensor], rest: list[Tensor]) -> Tensor:
        left = iter(rest)
        outputs = {k: x[None] for k, x in zip([*moving, *fixed], chain(own, left), strict=False)}
        others = [next(left) if c else x for x, c in zip(record.others, cut, strict=True)]
        return record.again(outputs, others, examples=divisor)

    return slopes_of_each(loss_of_one, list(moving.values()), [*fixed.values(), *rows])[0]


def _rounds(one: Tensor, other: Tensor) -> bool:
    """Whether gradients by outputs (n, ...) differ by rounding alone, as small ones do where a label is sure.

    Of sigmoid(-10) - 0 half of the digits are rounding, and all of them where a network is told to be as it is.
    """
    away = (one - other).abs().reshape(len(other), -1).sum(1).amax()
    return bool(away <= max(_ROUNDING, 8.0 * torch.finfo(other.dtype).eps))


def close(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors agree, relative to the largest finite number; what is not finite must be so in both."""
    if one.shape != other.shape or not one.is_floating_point():
        return torch.equal(one, other)
    near = _CLOSE.get(other.dtype, 1e-3)
    most = near * other.abs().amax()
    if bool(((one - other).abs().amax() <= most) & most.isfinite()):
        return True
    finite = other.isfinite()
    largest = other[finite].abs().amax() if finite.any() else 0.0
    away = torch.where(finite, one - other, 0.0).abs().amax()
    return torch.equal(one.isfinite(), finite) and bool(away <= near * largest)


class PrivateCriterion:
    """A criterion whose ``reduction``, where it has one, is taken over the examples alone.

    Args:
        loss_reduction: "mean" or "sum" of the losses of the examples, each the mean over its own parts.
    """

    def __init__(self, criterion: Any, loss_reduction: Reduction) -> None:
        self.criterion, self.loss_reduction = copy.copy(criterion), loss_reduction
        self.reduces, self.constants = hasattr(criterion, "reduction"), Constants()
        if self.reduces:
            self.criterion.reduction = "none"

    def __call__(self, *given: Any, **options: Any) -> Tensor:
        """Loss of one batch, whose ``backward`` hands the clipped sum to the optimizer.

        Raises:
            ValueError: weights or numbers of the criterion changed, which the record of this one call does not show.
        """
        now = contents(self.criterion).items()
        # but what is empty, or was noted down of the examples one by one, which nothing can compute with any more
        held = [f"{name} {value}" for name, value in now if value[-1] not in (None, "None")]
        self.constants.require("weights and numbers of the criterion", held, [])
        return recorded(self._loss, *given, **options)

    def _loss(self, *given: Any, **options: Any) -> Tensor:
        losses = self.criterion(*given, **options)
        if not self.reduces:
            return losses
        losses = losses.flatten(1).mean(1) if losses.dim() > 1 else losses
        return losses.mean() if self.loss_reduction == "mean" else losses.sum()
