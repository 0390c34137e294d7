"""A network as it is, run once over examples: from tensors and loaders, in keywords, with any bounded loss.

One batch is held at a time. What is kept of an example is its answer (class, confidence, Brier loss), or its loss, and
the hash of its row. That an example's output is its own, and that a pass writes nothing, is tried at every size and
shape that a batch has (:mod:`pacdp.trials`).
"""

import ctypes
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

import bounds
from pacdp.certify.batches import Batch, Hashed, Inputs, batches_of
from pacdp.certify.bounded import ClippedError
from pacdp.certify.examples import BoundSet, Device, require_labels
from pacdp.data import Dataset
from pacdp.errors import said
from pacdp.layers.plain import call_with, repeats_itself
from pacdp.losses import in_error
from pacdp.predictions.answers import Answers, from_probabilities, joined
from pacdp.predictions.calibration import sample_of
from pacdp.predictions.columns import require_own_name
from pacdp.predictions.examples import Examples, described
from pacdp.predictions.report import Measured
from pacdp.stochastic.risk import at_or_above
from pacdp.trials import MOST, Unwritten, kept_inputs, pool, require_alone, require_own_outputs
from pacdp.trials.buffers import Holdings

Function = Callable[..., Any]
LossOf = Callable[[Any, Tensor], Tensor]
"""Outputs of the network, as it returns them, and labels; gives [m] numbers in [0, 1]."""
_LARGE = 2**20
"""Bytes of a batch. Small ones leave nothing worth the call behind."""


@dataclass(frozen=True, slots=True, eq=False)
class AtWeights:
    """A module as a function of its inputs, at weights and buffers other than its own."""

    module: nn.Module
    state: Mapping[str, Tensor]

    def __call__(self, inputs: Tensor) -> Any:
        """Its outputs."""
        return call_with(self.module, self.state, inputs)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """What is left of examples that a network was run over.

    Attributes:
        examples: whose they are, and hashes of their rows.
        labels: the classes; None where losses are known in their place.
        answers: what the network said of them, or its losses.
        classes: how many classes its outputs distinguish; 0 where losses are known in their place.
    """

    examples: BoundSet
    labels: Int64[np.ndarray, " n"] | None
    answers: Answers
    classes: int = 0

    @property
    def wrong(self) -> Bool[np.ndarray, " n"]:
        """Which examples are in error; a tie is an error."""
        return np.asarray(self.answers.predicted != self.labels)

    @property
    def errors(self) -> int:
        """How many examples are in error."""
        return int(self.wrong.sum())

    @property
    def error(self) -> float:
        """Their share, or the mean over people of their own shares, rounded up."""
        people = self.examples.people
        if people is None:
            return error_share(self.errors, self.examples.n)
        _, owner, sizes = np.unique(people, return_inverse=True, return_counts=True)
        counts = np.bincount(owner, weights=self.wrong)
        shares = (Fraction(int(k), int(m)) for k, m in zip(counts, sizes, strict=True))
        return at_or_above(sum(shares, Fraction(0)) / len(sizes))

    @property
    def calibration(self) -> bounds.CalibrationSample | None:
        """What bounds on the calibration error need, where examples are counted and classes are known."""
        if self.examples.unit != "example" or self.answers.confidence is None:
            return None
        return sample_of(self.answers, self.labels)

    def measured(self, of: str, on: str) -> Measured:
        """The error, or the mean loss, as a line of a report."""
        data = self.examples
        if self.labels is not None:
            return Measured(of=of, on=on, mean=self.error, errors=self.errors, n=data.units)
        ((name, losses),) = self.answers.losses.items()
        whose = np.arange(data.n) if data.people is None else data.people
        sample = bounds.people_sample(losses=losses.astype(np.float64), people=whose)
        return Measured(of=of, on=on, loss=name, mean=sample.person_risk, n=data.units)

    def table(self, of: str, *, range_by: str = "") -> Examples:
        """The same as a table of predictions, of a model of this name."""
        found = Examples(
            n=self.examples.n,
            models={of: self.answers},
            labels=self.labels,
            classes=tuple(range(self.classes)),
            range_by=range_by,
        )
        return described(found, groups=None, people=self.examples.people, weights=None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """How a network is run over examples.

    Attributes:
        network: a module in eval mode, or any function, called with a batch's inputs or with its keywords.
        loss: a bounded loss that takes the place of the 0-1 error.
        scores: whether outputs are probabilities in place of logits.
    """

    network: Function
    loss: LossOf | ClippedError | None = None
    scores: bool = False
    device: Device = "cpu"
    batch_size: int | None = None

    def seen(self, data: Any, whose: str, *, held: bool = True) -> Seen:
        """Everything that is kept of the examples.

        Args:
            data: anything that can be data, see :func:`pacdp.certify.batches.batches_of`.
            whose: whose rows they are, such as "the bound's", for sentences.
            held: hash the rows, and refuse a network in which they stand, see :meth:`Batch.telling`; else ``data`` is a
                BoundSet whose rows were compared with the network before.

        Raises:
            ValueError: no examples; a network that fails, mixes the examples of a batch or writes on them; outputs or
                labels that do not fit.
            DataError: the network holds examples.
        """
        data = BoundSet.part(data) if isinstance(data, Dataset) else data
        hashed, holdings, classes = Hashed(), Holdings(self.network) if held else None, 0
        named, answers = list[np.ndarray](), list[Answers]()
        for batch, found in self.over(data):
            if holdings is not None:
                hashes = hashed.add(batch)
                for rows in batch.telling():
                    known = hashes if len(batch.inputs) == 1 else None
                    holdings.require_none(rows, hashes=known, whose=whose)
            if self.loss is None:
                labels, classes = _class_labels(batch.labels, whose).cpu(), classes_of(found)
                named.append(labels.numpy())
                answers.append(answers_of(found, labels, scores=self.scores))
            else:
                name, losses = name_of(self.loss), found.numpy()
                require_own_name(name, counted=losses.dtype == np.bool_)
                answers.append(Answers(losses={name: losses}))
            _hand_back(batch.nbytes)
        if not answers:
            raise ValueError(f"data holds no examples in {whose} rows: give at least one")
        labels, given = np.concatenate(named) if named else None, joined(answers)
        if held:
            of = data if isinstance(data, BoundSet) else None
            data = BoundSet.counted(hashed.rows(), hashed.people, of=of)
        return Seen(examples=data, labels=labels, answers=given, classes=classes)

    def outputs(self, inputs: Float[Tensor, "n ..."]) -> Tensor:
        """The network's outputs on all examples, on the CPU: floats, [n] or [n, classes].

        Raises:
            ValueError: as for :meth:`seen`.
        """
        return torch.cat([found for _, found in self.over((inputs, torch.zeros(len(inputs))))])

    def over(self, data: Any) -> Iterator[tuple[Batch, Tensor]]:
        """Each batch with the network's outputs on it, or its losses, on the CPU.

        Raises:
            ValueError: as for :meth:`seen`.
        """
        shape, forms, tried, settled = torch.Size(), None, 0, None
        repeats = self.loss is None and repeats_itself(
            self.network.module if isinstance(self.network, AtWeights) else self.network
        )
        for batch in batches_of(data, batch_size=self.batch_size):
            given = (
                [one.shape[1:] for one in batch.inputs.values()] if len(batch.inputs) == 1 else []
            )
            at = _At(self, batch)
            if settled is None:
                shape = at.first().shape[1:]
                settled = Unwritten(self.network)
            at.shape = shape
            if batch.n > tried or given != forms:
                at.require_own()
                tried, forms = max(MOST, batch.n), given
            found = at.all()
            if not repeats:
                require_alone(_real(found), at.rows, least=at.least)
            yield batch, found.cpu()
        if settled is not None:
            settled.require()

    @torch.no_grad()
    def judged(self, inputs: Inputs, labels: Tensor) -> Tensor:
        """Logits, or losses, one row an example."""
        outputs = self._outputs(inputs)
        if self.loss is None:
            return _judgeable(logits_of(outputs), len(labels))
        return _bounded(self.loss, outputs, labels.to(self.device), len(labels))

    def _outputs(self, inputs: Inputs) -> Any:
        given = {name: value.to(self.device) for name, value in inputs.items()}
        with kept_inputs(*given.values()):
            try:
                return self.network(given[""]) if "" in given else self.network(**given)
            except Exception as error:  # a stranger's network may raise anything
                shapes = {name: tuple(value.shape) for name, value in given.items()}
                raise ValueError(
                    f"the network does not accept inputs of shape {shapes.get('', shapes)}: {said(error)}"
                ) from error


@dataclass(slots=True)
class _At:
    """A network at one batch: what it says there, and what it says of some of the rows, in trials."""

    reading: Reading
    batch: Batch
    shape: torch.Size | None = None
    """Of the outputs of one example, where it is known from an earlier pass."""

    @property
    def least(self) -> float:
        """The size of outputs below which rounding is relative to it."""
        return 0.0 if self.reading.loss is None else 1.0

    def first(self) -> Tensor:
        """The first pass: of one example, made up where the inputs are one tensor."""
        example = self.batch.at(slice(1))
        return self._judged(_tried(example, 1).at([-1]))

    def all(self) -> Tensor:
        """Of every example of the batch."""
        return self._judged(self.batch)

    def rows(self, places: Tensor) -> Tensor:
        """Of some of its examples."""
        return _real(self._judged(self.batch.at(places)))

    def require_own(self) -> None:
        """Refuse a network that mixes the examples of a batch, in trials as large as the batch."""
        size = max(MOST, self.batch.n)
        pooled = _tried(self.batch, size)
        require_own_outputs(
            lambda places: _real(self._judged(pooled.at(places))), size=size, least=self.least
        )

    def _judged(self, batch: Batch) -> Tensor:
        found = self.reading.judged(batch.inputs, batch.labels)
        if self.shape is not None and found.shape[1:] != self.shape:
            raise ValueError(
                f"expected {list(self.shape)} outputs an example in every batch, got {list(found.shape[1:])}"
            )
        return found


def _tried(batch: Batch, size: int) -> Batch:
    """What trials are made on: so many examples, those of the batch in turn, and as many that are made up.

    Where there are several inputs, numbers that do not go with each other may be no input at all: none is made up.
    """
    places = torch.arange(2 * size) % min(batch.n, size)
    if len(batch.inputs) > 1:
        return batch.at(places)
    ((name, rows),) = batch.inputs.items()
    made_up = pool(rows[:size], size=size)
    return Batch(inputs={name: made_up}, labels=batch.labels[places[: len(made_up)]])


def answers_of(outputs: Tensor, labels: Int64[Tensor, " m"], *, scores: bool = False) -> Answers:
    """What outputs [m] or [m, classes] say of each example; one logit counts as two classes.

    Where two classes have the largest output, or one is NaN, none is predicted, which is an error. Where
    there are no probabilities, since an output is not finite, each class has an equal one: what is asked, and what it
    pays, depends on no output.

    Raises:
        ValueError: a label that names no class; ``scores`` that are no probabilities.
    """
    require_labels(labels, classes_of(outputs))
    if scores:
        table = outputs.double()
        table = table if table.ndim == 2 else table[:, None]
    elif classes_of(outputs) == 2 and outputs.numel() == len(outputs):
        one = torch.sigmoid(outputs.reshape(-1).double())
        table = torch.stack([1.0 - one, one], dim=1)
        outputs = torch.stack([-outputs.reshape(-1), outputs.reshape(-1)], dim=1)
    else:
        table = torch.softmax(outputs.double(), dim=1)
    predicted = outputs.argmax(dim=1) if outputs.ndim == 2 else outputs
    if not scores:
        predicted = torch.where(in_error(outputs, predicted), -1, predicted)
        silent = ~table.isfinite().all(dim=1, keepdim=True)
        table = torch.where(silent, 1.0 / table.shape[1], table)
    found = from_probabilities(table.numpy(), labels.numpy())
    return found if scores else replace(found, predicted=predicted.numpy())


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
    found = outputs
    if isinstance(outputs, Mapping):
        found = cast(Mapping[Any, Any], outputs).get("logits")
    elif hasattr(outputs, "logits"):
        found = outputs.logits
    elif isinstance(outputs, tuple | list) and len(cast(Any, outputs)):
        found = cast(Any, outputs)[0]
    if isinstance(found, Tensor) and found.is_floating_point():
        return found.detach().clone()  # a network may write each batch into one tensor
    keys = (
        sorted(map(str, cast(Mapping[Any, Any], outputs))) if isinstance(outputs, Mapping) else []
    )
    keys = (
        [one.name for one in fields(outputs)]
        if is_dataclass(outputs) and not isinstance(outputs, type)
        else keys
    )
    has = f" with {', '.join(keys) or 'nothing'}" if keys or isinstance(outputs, Mapping) else ""
    raise ValueError(
        f"the network returned {type(outputs).__name__}{has}: let it return a tensor of logits, or name them 'logits'"
    )


def name_of(loss: LossOf | ClippedError) -> str:
    """What the loss is called in certificates."""
    if isinstance(loss, ClippedError):
        return loss.name
    return str(getattr(loss, "__name__", "loss")).replace("_", " ")


def _hand_back(size: int) -> None:
    """After a batch of ``size`` bytes: what glibc keeps of freed memory goes back to the system.

    Its allocator fills the gaps between aligned tensors of some megabytes poorly, and a stream of batches would grow
    without end in sight. Elsewhere nothing happens.
    """
    trim = _trim()
    if size >= _LARGE and trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None


def _real(values: Tensor) -> Tensor:
    """Numbers that can be compared up to rounding."""
    return values.double() if values.dtype == torch.bool else values


def _judgeable(logits: Tensor, n: int) -> Tensor:
    """Logits with a row an example."""
    if logits.ndim in (1, 2) and len(logits) == n and logits.numel() > 0:
        return logits
    raise ValueError(
        f"expected one row of logits for each of {n} examples, got {logits.dtype} outputs of shape "
        f"{tuple(logits.shape)}: give loss= for outputs that are no classes of an example"
    )


def _class_labels(labels: Tensor, whose: str) -> Tensor:
    """Whole numbers, one an example; a trailing axis of one falls off."""
    found = labels.squeeze(1) if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if found.ndim != 1 or found.is_floating_point() or found.is_complex():
        raise ValueError(
            f"labels in {whose} rows must be one whole number an example, got {found.dtype} {list(found.shape)}: give "
            "loss= for other targets"
        )
    return found.long()


def _bounded(loss: LossOf | ClippedError, outputs: Any, labels: Tensor, n: int) -> Tensor:
    """Losses in [0, 1], one an example."""
    try:
        found = loss(
            logits_of(outputs) if isinstance(loss, ClippedError) else outputs, labels.clone()
        )
    except ValueError:
        raise
    except Exception as error:  # a stranger's function may raise anything
        raise ValueError(f"the loss failed with {type(error).__name__}: {error}") from error
    if not isinstance(found, Tensor) or found.shape != (n,):  # pyright: ignore[reportUnnecessaryIsInstance]
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(
            f"the loss must be one number for each of {n} examples, got {shape}: take no mean over them"
        )
    if found.dtype == torch.bool:  # errors, which are counted
        return found.detach().clone().cpu()
    values = found.detach().to(
        torch.float64, copy=True
    )  # a function may write each batch into one tensor
    if not bool(((values >= 0.0) & (values <= 1.0)).all()):
        raise ValueError(
            "the loss must lie in [0, 1], got a value outside (or a NaN): clip it there, as pacdp.ClippedError does"
        )
    return values.cpu()
