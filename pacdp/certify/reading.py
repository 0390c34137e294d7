"""A network as it is, run once over examples: from tensors and loaders, in keywords, with any bounded loss.

One batch is held at a time. What is kept of an example is its answer (class, confidence, Brier loss), or its loss, and
the hash of its row. That an example's output is its own, and that a pass writes nothing, is tried at every size and
shape that a batch has (:mod:`pacdp.trials`).
"""

import ctypes
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Shaped
from torch import Tensor, nn

import bounds
from pacdp.certify.batches import Batch, Hashed
from pacdp.certify.examples import BoundSet, Device, require_counts, require_kinds
from pacdp.certify.loaders import MIXED, batches_of, collated, comes_again
from pacdp.certify.outputs import (
    ClippedError,
    LossOf,
    Soft,
    answers_of,
    class_labels,
    classes_of,
    error_share,
    logits_of,
    loss_name,
    losses_of,
    require_rows,
)
from pacdp.data import Dataset, Split
from pacdp.data.places import behind, order_of, require_each_once
from pacdp.data.rows import Rows
from pacdp.errors import said
from pacdp.layers.plain import call_with, repeats_itself
from pacdp.predictions.answers import Answers, joined
from pacdp.predictions.columns import PEOPLE, require_own_name
from pacdp.predictions.examples import Examples, require_plain_names
from pacdp.predictions.report import Measured
from pacdp.predictions.soft import sample_of
from pacdp.stochastic.risk import at_or_above
from pacdp.store.record import record
from pacdp.trials import MOST, Unwritten, kept_inputs, pool_for, require_alone, require_own_outputs
from pacdp.trials.buffers import Holdings

Function = Callable[..., Any]
_RECORDS = """
pid group groups group_id record_id recording recording_id session session_id case_id slide_id study_id series_id
series_uid speaker speaker_id video_id clip_id scan_id
""".split()
_WHOSE = (*PEOPLE, *_RECORDS)
"""What whose an example is, or of which record, is called among keywords."""
CLIPPED = "pacdp.ClippedError, which clips"
"""Who says in which range such losses lie."""
_LARGE = 2**25
"""Bytes of inputs after which freed memory is handed back."""
_AT_ONCE = 2**16
"""Outputs that are reduced to answers together."""


@dataclass(frozen=True, slots=True, eq=False)
class AtWeights:
    """A module as a function of its inputs, at weights and buffers other than its own."""

    module: nn.Module
    state: Mapping[str, Tensor]

    def __call__(self, inputs: Tensor) -> Any:
        """Its outputs, where the inputs are."""
        state = {name: value.to(inputs.device) for name, value in self.state.items()}
        own = (*self.module.parameters(), *self.module.buffers())
        if any(one.device != inputs.device for one in own):
            self.module.to(inputs.device)
        return call_with(self.module, state, inputs)


@record(eq=False)
class Seen(Examples):
    """Examples that one network was run over: what it said of them, or its losses, and hashes of their rows.

    Attributes:
        rows: the hashes.
        indices: which examples of the data set they are, where that is known.
        data_hash: hash of that data set.
    """

    rows: Rows
    indices: Split | None = None
    data_hash: str = ""

    @property
    def of(self) -> str:
        """What the network is called."""
        return next(iter(self.models))

    @property
    def answers(self) -> Answers:
        """What it said."""
        return self.models[self.of]

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
        if self.people is None:
            return error_share(self.errors, self.n)
        sizes, counts = np.bincount(self.people), np.bincount(self.people, weights=self.wrong)
        shares = (Fraction(int(k), int(m)) for k, m in zip(counts, sizes, strict=True))
        return at_or_above(sum(shares, Fraction(0)) / len(sizes))

    @property
    def calibration(self) -> bounds.CalibrationSample | None:
        """What bounds on the calibration error need, where examples are counted and classes are known."""
        if self.people is not None or self.answers.confidence is None:
            return None
        return sample_of(self.answers, self.labels)

    def measured(self, on: str) -> Measured:
        """The error, or the mean loss, as a line of a report."""
        line = {"of": self.of, "on": on, "n": self.units}
        if self.labels is not None:
            return Measured(mean=self.error, errors=self.errors, **line)
        ((name, losses),) = self.answers.losses.items()
        whose = np.arange(self.n) if self.people is None else self.people
        sample = bounds.people_sample(losses=losses.astype(np.float64), people=whose)
        return Measured(loss=name, mean=sample.person_risk, **line)


@record
class Network:
    """One network as it is: a module in eval mode, or any function from inputs to one row of logits an example.

    Attributes:
        network: the function, called with a batch's inputs or with its keywords.
        of: what it is called in certificates.
        scores: whether it returns probabilities in place of logits.
        batch_size: the most examples at a time; by default those of a loader's batch, or 250.
    """

    network: Function
    of: str = "your network"
    scores: bool = False
    batch_size: int | None = None

    def __post_init__(self) -> None:
        if not callable(self.network):
            raise ValueError(
                f"expected Network.network to be a function of inputs, got {type(self.network).__name__}"
            )
        require_kinds(self, of=str, scores=bool)
        require_plain_names([self.of])
        require_counts(self, *(() if self.batch_size is None else ("batch_size",)))


@record(eq=False)
class Reading:
    """How a network is run over examples.

    Attributes:
        law: the network.
        loss: a bounded loss that takes the place of the 0-1 error.
        compared: whether the rows are compared with others; streams then begin once more.
    """

    law: Network
    loss: LossOf | ClippedError | None = None
    device: Device = "cpu"
    compared: bool = False

    def judged(self, data: Any, test: Any, *, held: bool = False) -> dict[str, Seen]:
        """What the network did on the bound's examples, "bound", and, where there is one, on the test set, "test"."""
        found = {"bound": self.seen(data, "the bound's", held=held)}
        if test is not None:
            found["test"] = self.seen(test, "the test set's", held=held)
        return found

    def seen(self, data: Any, whose: str, *, held: bool = True) -> Seen:
        """Everything that is kept of the examples.

        Args:
            data: anything that can be data, see :func:`pacdp.certify.loaders.batches_of`.
            whose: whose rows they are, such as "the bound's", for sentences.
            held: hash the rows, and refuse a network in which they stand; else ``data`` is a BoundSet whose rows were
                compared with the network before.

        Raises:
            ValueError: no examples; a network that fails, mixes the examples of a batch or writes on them; outputs or
                labels that do not fit.
            DataError: the network holds examples.
        """
        data = BoundSet.part(data) if isinstance(data, Dataset) else data
        require_each_once(data)
        hashed, holdings = Hashed(), Holdings(self.law.network) if held else None
        told, answers, passed = list[tuple[Tensor, Tensor]](), list[Answers](), 0
        named, classes, soft, keys = list[np.ndarray](), 0, Soft(), list[str]()

        def answered() -> None:
            """Reduce the outputs that are waiting: many rows take little longer than a batch."""
            outputs, labels = (torch.cat(own) for own in zip(*told, strict=True))
            named.append(labels.numpy())
            answers.append(answers_of(outputs, labels, scores=self.law.scores))
            told.clear()

        for batch, found in self.over(data):
            if holdings is not None:
                hashed.add(batch)
                hashed.require_unheld(batch, holdings, whose)
            if self.loss is None:
                # a loader may write each batch into one tensor
                told.append((found, class_labels(batch.labels, whose).cpu().clone()))
                classes = classes_of(found)
                soft.add(found)
                if sum(one.numel() for one, _ in told) >= _AT_ONCE:
                    answered()
            else:
                name, losses = loss_name(self.loss), found.numpy()
                require_own_name(name, counted=losses.dtype == np.bool_)
                answers.append(Answers(losses={name: losses}))
            passed, keys = passed + batch.nbytes, [*batch.inputs]
            if passed >= _LARGE:
                _trim()(0)
                passed = 0
        if told:
            answered()
        if not answers:
            raise ValueError(f"data holds no examples in {whose} rows: give at least one")
        if not self.law.scores:
            soft.require_none()
        if held and self.compared:
            hashed.again = comes_again(data, hashed.inputs)
        known: Any = hashed if held else data
        owners = [one for one in keys if one.casefold() in _WHOSE and known.people is None]
        places = (
            {"indices": data.indices, "data_hash": data.data_hash}
            if isinstance(data, BoundSet)
            else {}
        )
        order = order_of(data, known.rows.n)
        return Seen(
            n=known.rows.n,
            models={self.law.of: joined(answers).taken(order)},
            labels=np.concatenate(named)[order] if named else None,
            classes=tuple(range(classes)),
            people=None if known.people is None else known.people[order],
            remarks=tuple(
                f"the network is given {one!r}, and n counts examples: if it says whose they are, add it as 'people'"
                for one in owners
            )
            + (() if self.loss is not None or self.law.scores else soft.remarks(self.law.of))
            + (() if known.people is not None else tuple(hashed.shared())),
            range_by=CLIPPED if isinstance(self.loss, ClippedError) else "",
            rows=replace(known.rows, source=data) if held else known.rows,
            **places,
        )

    def outputs(self, inputs: Shaped[Tensor, "n ..."]) -> Tensor:
        """The network's outputs on all examples, on the CPU: floats, [n] or [n, classes].

        Raises:
            ValueError: as for :meth:`seen`, or no examples.
        """
        if not len(inputs):
            raise ValueError("inputs must be of at least one example, got none")
        return torch.cat([found for _, found in self.over((inputs, torch.zeros(len(inputs))))])

    def over(self, data: Any) -> Iterator[tuple[Batch, Tensor]]:
        """Each batch with the network's outputs on it, or its losses, on the CPU.

        Raises:
            ValueError: as for :meth:`seen`.
        """
        network, shape = self.law.network, torch.Size()
        forms, done, settled, leasts = None, set[int](), list[Unwritten](), self._leasts
        module = network.module if isinstance(network, AtWeights) else network
        repeats = self.loss is None and repeats_itself(module)

        def rows_of(batch: Batch, part: int) -> Callable[[Tensor], Tensor]:
            return lambda places: _real(self._judged(batch.at(places), shape)[part])

        def tried(batch: Batch, size: int) -> Batch:
            """So many examples, those of the batch in turn, and as many others; of several inputs examples again.

            Numbers of several inputs that do not go with each other may be no input at all.
            """
            places = torch.arange(2 * size) % min(batch.n, size)
            if len(batch.inputs) > 1:
                return batch.at(places)
            ((name, rows),) = batch.inputs.items()

            def of(made: Tensor) -> Batch:
                return Batch(inputs={name: made}, labels=batch.labels[places[: len(made)]])

            return of(pool_for(lambda made: self._judged(of(made)), rows[:size], size=size))

        both = collated(data)
        for batch in batches_of(data, batch_size=self.law.batch_size):
            given = (
                [one.shape[1:] for one in batch.inputs.values()] if len(batch.inputs) == 1 else []
            )
            if not settled:  # made-up numbers first
                shape = self._judged(tried(batch.at(slice(1)), 1).at([-1]))[0].shape[1:]
                settled = [Unwritten(network), Unwritten(self.loss, name="loss")]
                if both is not None:
                    self._require_own_batch(*both, around=behind(data) is not data)
            if given != forms:
                forms, done = given, set[int]()
            sizes = {MOST} if repeats else {MOST, batch.n}
            for size in sorted(sizes - done):
                made = tried(batch, size)
                for part, least in enumerate(leasts):
                    require_own_outputs(rows_of(made, part), size=size, least=least)
            found = self._judged(batch, shape)
            # layers that repeat themselves may still take a batch of one size for one example
            if not repeats or batch.n not in done:
                for part, least in enumerate(leasts):
                    require_alone(_real(found[part]), rows_of(batch, part), least=least)
            done |= {MOST, batch.n}
            yield batch, found[0].cpu()
        for one in settled:
            one.require()

    def _require_own_batch(self, whole: Batch, each: list[Batch], *, around: bool) -> None:
        """Refuse examples that have other outputs in a batch which ``collate_fn`` made than in one of their own."""
        try:
            outputs, *alone = (self._judged(one) for one in (whole, *each))
        except ValueError:
            if around:  # what stands around the loader may change what it makes
                return
            raise
        try:
            for part, least in enumerate(self._leasts):
                own = _real(torch.cat([one[part] for one in alone]))
                require_alone(_real(outputs[part]), own.__getitem__, least=least)
        except (ValueError, RuntimeError) as error:  # of other shapes
            raise ValueError(MIXED) from error

    @torch.no_grad()
    def _judged(self, batch: Batch, shape: torch.Size | None = None) -> tuple[Tensor, ...]:
        """Logits, or losses, one row an example, each of a shape that is known from the first pass.

        After losses comes how large that is which they are errors of, where it is numbers by rule or one an example,
        else zeros: losses that are small beside their range hide how it moves with the batch.
        """
        outputs, parts = self._outputs(batch), tuple[Tensor, ...]()
        if self.loss is None:
            found = require_rows(logits_of(outputs), batch.n)
        else:
            alone = isinstance(outputs, Tensor) and outputs.numel() == batch.n
            told = isinstance(self.loss, ClippedError) or (alone and outputs.is_floating_point())
            # of its own, since a loss may write on outputs
            parts = (_one_each(logits_of(outputs), batch.n) if told else torch.zeros(batch.n),)
            found = losses_of(self.loss, outputs, batch.labels.to(self.device))
        if shape is not None and found.shape[1:] != shape:
            raise ValueError(
                f"expected {list(shape)} outputs an example in every batch, got {list(found.shape[1:])}"
            )
        return found, *parts

    @property
    def _leasts(self) -> tuple[float, ...]:
        """Below which sizes rounding is relative to them, of each part of what :meth:`_judged` gives."""
        if self.loss is None:
            return (0.0,)
        return 1.0, 1e-3 * (self.loss.at if isinstance(self.loss, ClippedError) else 1.0)

    def _outputs(self, batch: Batch) -> Any:
        given = {name: value.to(self.device) for name, value in batch.inputs.items()}
        with kept_inputs(*given.values()):
            try:
                return self.law.network(given[""]) if "" in given else self.law.network(**given)
            except Exception as error:  # a stranger's network may raise anything
                shapes = {name: f"{tuple(x.shape)} and {x.dtype}" for name, x in given.items()}
                raise ValueError(
                    f"the network does not accept inputs of shape {shapes.get('', shapes)}: {said(error)}"
                ) from error


@cache
def _trim() -> Callable[[int], Any]:
    """What hands freed memory that glibc keeps back to the system; elsewhere nothing happens.

    Its allocator fills the gaps between aligned tensors of some megabytes poorly, and a stream of batches would grow
    without end in sight.
    """
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return int


def _real(values: Tensor) -> Tensor:
    """Numbers that can be compared up to rounding."""
    return values.double() if values.dtype == torch.bool else values


def _one_each(outputs: Tensor, n: int) -> Tensor:
    """The number of each example, or the root mean square of its numbers, which need not be told apart as logits do."""
    if outputs.numel() == n or len(outputs) != n:
        return outputs
    return outputs.double().reshape(n, -1).square().mean(dim=1).sqrt().to(outputs)
