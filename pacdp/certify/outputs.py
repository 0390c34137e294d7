"""What networks return is read as logits, as answers to be certified, or as losses in [0, 1] such as clipped errors."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from numbers import Real
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from pacdp.certify.examples import require_labels
from pacdp.predictions.answers import TOLERANCE, Answers, from_probabilities
from pacdp.stochastic.risk import at_or_above
from pacdp.store.record import record

LossOf = Callable[[Any, Tensor], Tensor]
"""Outputs of the network, as it returns them, and labels; gives [m] numbers in [0, 1]."""


@record
class ClippedError:
    """The size of an error, or its square, over the size at which it is clipped: min(|y - f|, at)/at, or its square.

    Attributes:
        at: the size from which on all errors count alike; fixed before the examples were seen.
        kind: "absolute" or "squared".

    Where outputs have several numbers an example, the mean over these.
    """

    at: float
    kind: Literal["absolute", "squared"] = "absolute"

    def __post_init__(self) -> None:
        if (
            isinstance(self.at, bool)
            or not isinstance(self.at, Real)
            or not 0.0 < self.at <= sys.float_info.max
        ):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"expected ClippedError.at as a positive number, got {self.at!r}")
        if self.kind not in ("absolute", "squared"):
            raise ValueError(
                f"expected ClippedError.kind as 'absolute' or 'squared', got {self.kind!r}"
            )
        # no tensor is divided by a fraction
        object.__setattr__(self, "at", float(self.at))

    @property
    def name(self) -> str:
        """What the loss is called in certificates, with its clip."""
        share = "it" if self.kind == "absolute" else "its square"
        return f"{self.kind} error clipped at {self.at:.15g}, as a share of {share}"

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The losses [m] of outputs [m, ...] against targets of the same shape, up to axes of one."""
        if outputs.is_complex() or targets.is_complex():
            raise ValueError(
                "outputs and targets must be real numbers, got complex ones: clip their distance yourself"
            )
        flat, wanted = (one.reshape(len(one), -1).double() for one in (outputs, targets))
        ours, theirs = ([k for k in one.shape if k > 1] for one in (outputs, targets))
        if flat.shape != wanted.shape or ours != theirs:  # turned over, numbers would meet others
            raise ValueError(
                f"expected outputs and targets of one shape, got {tuple(outputs.shape)} and {tuple(targets.shape)}"
            )
        if not bool(wanted.isfinite().all()):
            raise ValueError(
                "targets must be finite numbers, got NaN or infinity: leave these examples out"
            )
        if not targets.is_floating_point() and bool((wanted.abs() >= 2**53).any()):
            raise ValueError(
                "whole numbers as targets must be below 2**53, as larger ones are rounded: subtract what they share"
            )
        share = torch.nan_to_num((flat - wanted).abs() / self.at, nan=1.0).clamp(max=1.0)
        return (share if self.kind == "absolute" else share.square()).mean(dim=1)

    def of_arrays(self, outputs: np.ndarray, targets: np.ndarray) -> Float64[np.ndarray, " m"]:
        """The same for arrays; ValueError where they hold anything but real numbers."""
        real = list[Tensor]()
        for name, given in {"predictions": outputs, "targets": targets}.items():
            try:
                values = np.asarray(given)
                if values.dtype.kind not in "biufO" or values.ndim == 0:
                    raise TypeError(f"{values.dtype} of shape {values.shape}")
                double = values.astype(np.float64)
                wider = values.dtype.kind != "f" or values.dtype.itemsize > 8
                if wider and np.abs(double).max(initial=0.0) >= 2**53:
                    raise TypeError("beyond 2**53 they are rounded, so subtract what they share")
                real.append(torch.as_tensor(double))
            except (TypeError, ValueError) as error:
                said = f"{name} must be real numbers, one for each example: {error}"
                raise ValueError(said) from error
        return self(*real).numpy()


def answers_of(outputs: Tensor, labels: Int64[Tensor, " m"], *, scores: bool = False) -> Answers:
    """What outputs [m] or [m, classes] say of each example; one logit counts as two classes.

    Where two classes have the largest output, or one is NaN, none is predicted, which is an error. Ranks and scores are
    those of the outputs, since probabilities of outputs far apart, or close together, are equal. Where there are no
    probabilities, since an output is not finite, each class has an equal one: what is asked, and what it pays, depends
    on no output.

    Raises:
        ValueError: a label that names no class; ``scores`` that are no probabilities.
    """
    require_labels(labels, classes_of(outputs))
    if scores:
        table = outputs.double() if outputs.ndim == 2 else outputs.double()[:, None]
        return from_probabilities(table.numpy(), labels.numpy())
    if outputs.numel() == len(outputs):
        one = outputs.reshape(-1)
        p = torch.sigmoid(one.double())
        table, outputs = torch.stack([1.0 - p, p], dim=1), torch.stack([-one, one], dim=1)
    else:
        table = torch.softmax(outputs.double(), dim=1)
    alone = (outputs == outputs.amax(dim=1, keepdim=True)).sum(dim=1) == 1
    predicted = torch.where(alone, outputs.argmax(dim=1), -1)
    silent = ~table.isfinite().all(dim=1, keepdim=True)
    table = torch.where(silent, 1.0 / table.shape[1], table)
    ahead = ~(outputs < outputs.gather(1, labels[:, None])) | outputs.isnan().any(1, keepdim=True)
    found = replace(
        from_probabilities(table.numpy(), labels.numpy()),
        predicted=predicted.numpy(),
        rank=ahead.sum(dim=1).numpy(),
    )
    if found.score is not None:
        gaps = outputs.double().diff(dim=1)
        found = replace(found, score=torch.where(gaps.isnan(), 0.0, gaps)[:, 0].numpy())
    return found


_FEW = 10
"""Rows of several outputs, so many of which may lie in 0 to 1 by chance; of one the class hangs on it."""


class Soft:
    """Whether outputs that are read as logits are probabilities, of which the class and the confidence would be wrong:
    a logit of 0.4 is the second of two classes, and a probability of 0.4 the first.

    Rows of several that do not sum to one are too: each class against all others, or rounded to half precision.
    """

    def __init__(self) -> None:
        self._whole, self._alone, self._low, self._high = True, True, 0.0, 0.0
        self._n, self._inside, self._slack, self._gaps = 0, 0, TOLERANCE, 0

    @property
    def _within(self) -> bool:
        """Whether all lie from 0 to 1; weights that sum to one may make a little more, or less, of probabilities."""
        least = -self._slack if self._high > 0.5 else 0.0  # logits may all be tiny
        return least <= self._low and 0.0 < self._high <= 1.0 + self._slack

    def add(self, outputs: Tensor) -> None:
        """Take a batch's outputs [m] or [m, classes] in."""
        rows = outputs.double().reshape(len(outputs), -1 if len(outputs) else 1)
        gap = rows.isnan().any(dim=1)  # which says nothing of the others
        self._gaps += int(gap.sum())
        rows = rows[~gap]
        if not len(rows):
            return
        self._low, self._high = (
            min(self._low, float(rows.min())),
            max(self._high, float(rows.max())),
        )
        self._slack = max(self._slack, 2 * torch.finfo(outputs.dtype).eps)
        self._alone = rows.shape[1] == 1
        self._whole &= not self._alone and bool(((rows.sum(dim=1) - 1.0).abs() <= TOLERANCE).all())
        self._n += len(rows)
        self._inside += int(((rows >= 0.0) & (rows <= 1.0)).all(dim=1).sum())

    def remarks(self, of: str) -> tuple[str, ...]:
        """That some are NaN, and that single ones may be cut elsewhere, as of squared errors on 0 and 1."""
        told = ()
        if self._gaps:
            told = (
                f"{self._gaps} rows of {of} have an output that is NaN: each counts as an error, in which all classes "
                "are equally probable",
            )
        near = -1.0 <= self._low and self._high <= 2.0 and not self._within
        if not (self._alone and near and self._n >= _FEW and self._inside >= 0.75 * self._n):
            return told
        return (
            *told,
            f"most outputs of {of} lie from 0 to 1, and each is read as a logit, above 0 the second class: if yours "
            "is cut at 0.5, return z - 0.5",
        )

    def require_none(self) -> None:
        """Refuse them; raises ValueError."""
        if not (self._within and (self._whole or self._alone or self._n >= _FEW)):
            return
        say, logits = "say Network(..., scores=True)", ""
        if self._alone:
            say = f"return torch.stack([1 - p, p], dim=1) and {say}"
            logits = ", or torch.stack([-z, z], dim=1) / 2 if they are logits z"
        elif not self._whole:
            say = f"divide each row by its sum, in single precision, and {say}"
            logits = ", or z - 1 if they are logits z, which says the same"
        raise ValueError(
            f"the outputs are probabilities, as far as can be seen, and would be read as logits: {say}, or return what "
            f"the last sigmoid or softmax is given{logits}"
        )


def require_logits(outputs: Tensor) -> None:
    """Refuse one number an example that is a probability as far as can be seen; raises ValueError.

    Of several numbers the largest names the class either way.
    """
    soft = Soft()
    if outputs.numel() == len(outputs):
        soft.add(outputs)
    soft.require_none()


def error_share(errors: int, n: int) -> float:
    """errors/n, rounded up."""
    return at_or_above(Fraction(errors, n))


def classes_of(outputs: Tensor) -> int:
    """How many classes outputs distinguish: two for one logit."""
    return 2 if outputs.ndim == 1 or outputs.shape[1] == 1 else int(outputs.shape[1])


def logits_of(outputs: Any) -> Tensor:
    """The logits in what a network returns: a tensor, the first of a tuple, or ``logits`` of a dictionary or dataclass.

    Raises:
        ValueError: there are none.
    """
    found, named = outputs, None
    if isinstance(outputs, Mapping):
        named, found = sorted(map(str, outputs)), outputs.get("logits")
    elif hasattr(outputs, "logits"):
        found = outputs.logits
    elif isinstance(outputs, tuple | list) and len(outputs):
        found = outputs[0]
    elif is_dataclass(outputs):
        named = [one.name for one in fields(outputs)]
    if (
        isinstance(found, Tensor)
        and found.is_floating_point()
        and found.itemsize > 1
        and found.layout == torch.strided
        and not found.is_nested
    ):
        # a network may write each batch into one tensor, and squeeze() takes the axis of a single example
        return torch.atleast_1d(found.detach().clone())
    has = "" if named is None else f" with {', '.join(named) or 'nothing'}"
    if isinstance(outputs, Tensor):
        has = f" of {outputs.dtype} and {'nested' if outputs.is_nested else outputs.layout}"
    raise ValueError(
        f"the network returned {type(outputs).__name__}{has}: let it return a dense tensor of logits, in floats, or "
        "name them 'logits'"
    )


def loss_name(loss: LossOf | ClippedError) -> str:
    """What the loss is called in certificates."""
    if isinstance(loss, ClippedError):
        return loss.name
    return str(getattr(loss, "__name__", "loss")).replace("_", " ")


def require_rows(logits: Tensor, n: int) -> Tensor:
    """Logits with a row an example."""
    if logits.ndim in (1, 2) and len(logits) == n and logits.numel() > 0:
        return logits
    raise ValueError(
        f"expected one row of logits for each of {n} examples, got {logits.dtype} outputs of shape "
        f"{tuple(logits.shape)}: keep the axis of examples, as .squeeze(1) does where .squeeze() takes it from a batch "
        "of one, and give loss= for outputs that are no classes of an example"
    )


def class_labels(labels: Tensor, whose: str) -> Tensor:
    """Whole numbers, one an example; a trailing axis of one falls off."""
    found = labels.squeeze(1) if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if found.ndim != 1 or found.is_floating_point() or found.is_complex():
        raise ValueError(
            f"labels in {whose} rows must be one whole number an example, got {found.dtype} {list(found.shape)}: call "
            ".long() on numbers of classes and .argmax(1) on one-hot rows, and give loss= for other targets"
        )
    return found.long()


def losses_of(loss: LossOf | ClippedError, outputs: Any, labels: Tensor) -> Tensor:
    """Losses in [0, 1], one an example."""
    n = len(labels)
    said = logits_of(outputs) if isinstance(loss, ClippedError) else outputs
    try:
        found = loss(said, labels.clone())
    except ValueError:
        raise
    except Exception as error:  # a stranger's function may raise anything
        raise ValueError(f"the loss failed with {type(error).__name__}: {error}") from error
    if not isinstance(found, Tensor) or found.shape != (n,):  # pyright: ignore[reportUnnecessaryIsInstance]
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(
            f"the loss must be one number for each of {n} examples, got {shape}: take no mean over them, and drop a "
            "last axis of one"
        )
    if found.dtype == torch.bool:  # errors, which are counted
        return found.detach().clone().cpu()
    if found.is_complex():
        raise ValueError("the loss must be real numbers, got complex ones: return their size")
    values = found.detach().to(
        torch.float64, copy=True
    )  # a function may write each batch into one tensor
    if not bool(((values >= 0.0) & (values <= 1.0)).all()):
        raise ValueError(
            "the loss must lie in [0, 1], got a value outside (or a NaN): clip it there, as ClippedError does"
        )
    return values.cpu()
