"""Losses that know their interval: bounded cross-entropy, ramp, 0-1, Brier.

Every loss maps logits and labels to one number an example, which is checked at every call. Two-class logits have shape
[n] or [n, 1] and mean p(label 1) = sigmoid(f); others have shape [n, classes]. The interval is part of the guarantee:
the privacy of a Gibbs distribution is proportional to the loss's oscillation (its largest value minus its smallest).

Whoever counts errors or adds losses up does so here: :class:`Totals`, :func:`error_count`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from pacdp import _loss_kernels

PerExampleLoss = Callable[[Tensor, Tensor], Tensor]
"""Outputs and targets of a batch to one loss an example, shape (batch,)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A loss of one example, with the closed interval [low, high] that holds its values for any network."""

    name: str
    low: float
    high: float
    function: Callable[[Tensor, Tensor], Tensor]
    """Logits and labels to losses [n]."""
    compiled: Callable[[Tensor, Tensor, Tensor], tuple[float, float]] | None = None
    """CPU logits, labels and a tensor like the logits, which becomes the gradient of the mean loss by them, to mean
    loss and mean 0-1 loss; None leaves the derivative to autograd."""
    error_loss: float | None = None
    """The least loss of an example in error, where that is above ``low``: bounds the 0-1 loss by this one."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(
                f"expected a bounded interval low < high for loss {self.name}, got [{self.low}, {self.high}]"
            )

    @property
    def oscillation(self) -> float:
        """high - low, rounded up: the most that replacing one example moves its loss."""
        return math.nextafter(self.high - self.low, math.inf)

    def __call__(self, logits: Tensor, labels: Tensor) -> Float[Tensor, " n"]:
        """The losses of n examples.

        Formal guarantee: the result has one entry an example, whoever calls and whatever ``function`` is. That each
        entry depends on its own example alone is what :func:`pacdp.trials.require_own_losses` looks at.

        Raises:
            ValueError: the network gave no row an example, or ``function`` returned another shape than [n].
        """
        self._require_rows(logits, labels)
        values = self.function(logits, labels)
        if not isinstance(values, Tensor) or values.shape != labels.shape[:1]:
            found = (
                f"shape {tuple(values.shape)}"
                if isinstance(values, Tensor)
                else type(values).__name__
            )
            raise ValueError(
                f"loss {self.name} returned {found} for {len(labels)} examples, expected one value an example, shape "
                f"({len(labels)},): write it without .mean() or .sum() over the batch (torch's losses take "
                "reduction='none') and drop a last axis of length 1 with .squeeze(1)"
            )
        return values

    def require(self, smallest: float, largest: float) -> None:
        """Refuse losses with these ends; single precision may step over an end of the interval by 1e-5.

        Raises:
            ValueError: a loss is NaN or infinite or lies outside [low, high]: certificates would rest on a false
                interval.
        """
        if not (math.isfinite(smallest) and math.isfinite(largest)):
            raise ValueError(
                f"loss {self.name} is NaN or infinite on the data: the weights have diverged"
            )
        slack = 1e-5 * max(1.0, abs(self.low), abs(self.high))
        if not (self.low - slack <= smallest and largest <= self.high + slack):
            raise ValueError(
                f"loss {self.name} declares the interval [{self.low:.6g}, {self.high:.6g}] but took values in "
                f"[{smallest:.6g}, {largest:.6g}]: declare the true interval or bound the loss"
            )

    def slope(self, logits: Tensor, labels: Tensor) -> tuple[float, float, Tensor]:
        """Mean loss and mean 0-1 loss of a minibatch on the CPU, and the gradient of the mean loss by its logits."""
        if self.compiled is not None:
            self._require_rows(logits, labels)  # compiled code would read past the end
            slope = torch.empty_like(logits)
            return *self.compiled(logits, labels, slope), slope
        leaf = logits.detach().requires_grad_()
        with torch.enable_grad():
            loss = self(leaf, labels).mean()
            (slope,) = torch.autograd.grad(loss, leaf)
        return float(loss.detach()), float(in_error(logits, labels).double().mean()), slope

    def _require_rows(self, logits: Tensor, labels: Tensor) -> None:
        if labels.ndim < 1 or logits.shape[:1] != labels.shape[:1]:
            raise ValueError(
                f"loss {self.name} was given outputs of shape {tuple(logits.shape)} for labels of shape "
                f"{tuple(labels.shape)}: the network must return one row an example"
            )


def margins(logits: Tensor, labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Logit of the true class minus the largest other logit; for one logit f: f for label 1, -f for label 0."""
    if logits.ndim == 1 or logits.shape[1] == 1:
        return logits.reshape(-1) * (2 * labels - 1)
    true = logits.gather(1, labels[:, None])
    others = logits.scatter(1, labels[:, None], -math.inf).amax(dim=1)
    return true[:, 0] - others


def in_error(logits: Tensor, labels: Int[Tensor, " n"]) -> Bool[Tensor, " n"]:
    """Which examples are in error. A tie and a NaN are, the safe side."""
    return ~(margins(logits, labels) > 0)


class Totals:
    """A number a loss, added up over batches where they are, with the ends that the losses reached.

    A GPU is waited for when the totals are read, and not batch by batch.
    """

    def __init__(self, losses: Sequence[Loss]) -> None:
        self._losses = losses
        self._seen = list[tuple[Tensor, Tensor]]()

    def add(
        self, logits: Tensor, labels: Int[Tensor, " n"], of: Callable[[Tensor, Loss], Tensor]
    ) -> None:
        """What ``of`` makes of each loss's values at n examples: one number, where the values are."""
        found = [(loss(logits, labels), loss) for loss in self._losses]
        ends = torch.stack([_ends(values) for values, _ in found])
        self._seen.append((torch.stack([of(*one) for one in found]), ends))

    def read(self) -> list[Any]:
        """The totals, which begin anew.

        Raises:
            ValueError: as :meth:`Loss.require`, of any of the batches.
        """
        if not self._seen:
            return [0] * len(self._losses)
        sums, ends = zip(*self._seen, strict=True)
        self._seen = []
        low, high = torch.stack(ends).unbind(dim=2)
        low, high = low.amin(dim=0).tolist(), high.amax(dim=0).tolist()  # a NaN stays one
        for loss, smallest, largest in zip(self._losses, low, high, strict=True):
            if smallest <= largest or not math.isinf(smallest):
                loss.require(smallest, largest)
        return reduce(torch.add, sums).tolist()


def _ends(values: Float[Tensor, " n"]) -> Float[Tensor, "2"]:
    """The smallest and the largest, where they are; of none, what any others replace."""
    if not len(values):
        return values.new_tensor([math.inf, -math.inf], dtype=torch.float64)
    return torch.stack([values.min(), values.max()]).double()


def double_sum(values: Float[Tensor, " n"], loss: Loss) -> Float[Tensor, ""]:
    """The sum in double precision."""
    del loss
    return values.sum(dtype=torch.float64)


def error_count(logits: Tensor, labels: Int[Tensor, " n"]) -> int:
    """How many of n examples are in error: an exact count."""
    return int(in_error(logits, labels).sum())


def cross_entropies(logits: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of each example, which has no upper end: to learn by, not to certify."""
    return cross_entropy(logits, labels, reduction="none")


def bounded_cross_entropy(*, classes: int, max_loss: float = 4.0) -> Loss:
    r"""Cross-entropy of probabilities pulled away from 0: -ln ψ(p_y), in an interval that ends at ``max_loss``.

    Two classes (Dziugaite and Roy 2018, eq. 8): ψ(p) = e^-L + (1 - 2 e^-L) p, values in [-ln(1 - e^-L), L]. For K > 2
    the paper keeps that ψ, whose values do not add up to 1 over the classes; here
    ψ_K(p) = e^-L + (1 - K e^-L) p, which do, with values in [-ln(1 - (K-1) e^-L), L]. At L = 4 the oscillations are
    3.98151 (two classes) and 3.81987 (ten). An error means p_y <= 1/2, hence a loss of at least ln 2.

    Raises:
        ValueError: K e^-L >= 1, where ψ would not increase.
    """
    floor = math.exp(-max_loss)
    if classes < 2 or not classes * floor < 1:
        raise ValueError(
            f"expected classes >= 2 and max_loss > ln(classes), got classes={classes}, max_loss={max_loss}"
        )
    slope = 1.0 - classes * floor

    def function(logits: Tensor, labels: Tensor) -> Tensor:
        if classes == 2:
            if logits.ndim > 1 and logits.shape[1] > 2:
                raise ValueError(
                    f"the loss is of two classes, and the network gives {logits.shape[1]} logits an example: give it "
                    "one or two, or a loss of as many classes"
                )
            probability = torch.sigmoid(margins(logits, labels))
        else:
            probability = torch.softmax(logits, dim=1).gather(1, labels[:, None])[:, 0]
        return -torch.log(floor + slope * probability)

    def compiled(logits: Tensor, labels: Tensor, out: Tensor) -> tuple[float, float]:
        if logits.numel() == len(labels):
            found = _loss_kernels.two_classes(
                logits.reshape(-1).numpy(), labels.numpy(), floor, slope, out.view(-1).numpy()
            )
        else:
            found = _loss_kernels.many_classes(
                logits.numpy(), labels.numpy(), floor, slope, out.numpy()
            )
        if found[1] < 0:
            raise ValueError(
                f"expected labels in 0 .. {max(2, logits[0].numel()) - 1}, one class of the network each"
            )
        return found

    return Loss(
        name=f"bounded-cross-entropy(max={max_loss:g})",
        low=-math.log1p(-(classes - 1) * floor),
        high=max_loss,
        function=function,
        compiled=compiled,
        error_loss=math.nextafter(math.log(2.0), 0.0),
    )


def ramp(*, slope: float = 1e6) -> Loss:
    """1 for a margin of 0 or less, 0 from margin 1/slope on, linear between: a continuous bound on the 0-1 loss.

    Continuity is what lets a statement on the limit of a chain speak of its late iterates; slope 1e6 as in the paper.
    """
    return Loss(
        name=f"ramp(slope={slope:g})",
        low=0.0,
        high=1.0,
        function=lambda logits, labels: (1.0 - slope * margins(logits, labels)).clamp(0.0, 1.0),
    )


def zero_one() -> Loss:
    """1 for an error, 0 otherwise. A tie and a NaN count as errors, the safe side."""
    return Loss(
        name="zero-one",
        low=0.0,
        high=1.0,
        function=lambda logits, labels: in_error(logits, labels).to(logits.dtype),
    )


def brier() -> Loss:
    """Σ_k (p_k - 1{y = k})² over the classes, in [0, 2]; two classes of one logit count both."""

    def function(logits: Tensor, labels: Tensor) -> Tensor:
        if logits.ndim == 1 or logits.shape[1] == 1:
            return 2.0 * torch.sigmoid(-margins(logits, labels)).square()
        gaps = torch.softmax(logits, dim=1)
        return gaps.scatter_add(1, labels[:, None], -torch.ones_like(gaps[:, :1])).square().sum(1)

    return Loss(name="brier", low=0.0, high=2.0, function=function)
