"""A network as it is, on examples that are read once: from loaders, in keywords, with any bounded loss.

What is kept of an example is whether it is in error, its confidence, and the hash of its row.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import UInt64
from torch import Tensor, nn

import bounds
from pacdp.certify.assessment import Assessment, Finding, Measured
from pacdp.certify.batches import Batch, Inputs, batches_of
from pacdp.certify.bounded import ClippedError
from pacdp.certify.evidence import evidence_of, source_of
from pacdp.certify.examples import BoundSet, Device, require_labels
from pacdp.certify.networks import (
    EDGES,
    Judged,
    about,
    classes_of,
    confidences_of,
    fresh_certificates,
    mean_of,
)
from pacdp.certify.networks import measured as lines_of
from pacdp.certify.priors import source_to_dict
from pacdp.certify.resting import resting
from pacdp.certify.settings import Settings
from pacdp.certify.trimming import hand_back
from pacdp.data.hashing import row_hashes
from pacdp.data.rows import Rows
from pacdp.errors import said
from pacdp.layers.plain import repeats_itself
from pacdp.losses import in_error
from pacdp.predictions import certify_predictions
from pacdp.trials import MOST, Unwritten, kept_inputs, pool, require_alone, require_own_outputs
from pacdp.trials.buffers import Holdings

LossOf = Callable[[Any, Tensor], Tensor]
"""Outputs of the network, as it returns them, and labels; gives [m] numbers in [0, 1]."""
_OURS = "your network"


def certify_network(
    network: Callable[..., Any],
    data: Any,
    *,
    test: Any = None,
    loss: LossOf | ClippedError | None = None,
    saw: Any = None,
    failure_prob: float = 0.05,
    settings: Settings | None = None,
    device: Device = "cpu",
    batch_size: int = 500,
    of: str = _OURS,
) -> Assessment:
    """What examples that are new to a network say of it, as it is: its error and its calibration, or a bounded loss.

    >>> found = pacdp.certify_network(model.eval(), DataLoader(unseen, batch_size=256))
    >>> print(found.headline())

    The data are read once, and one batch at a time is held. Outputs may be logits [m, classes] or [m], a tuple that
    begins with them, or a dictionary or dataclass that holds them as ``logits``.

    Formal guarantee: each certificate fails with probability at most failure_prob over the examples, if they (with
    people: the people) are independent draws of one law which the network does not depend on. Row hashes show whether
    they are others than ``saw``; without it the caller vouches for that.

    Args:
        network: a module in eval mode, or any function; called with a batch's inputs, or with its keywords.
        data: tensors or arrays (inputs, labels) or (inputs, labels, people), a BoundSet, a Dataset of such pairs, or a
            DataLoader whose batches are such tuples or dictionaries with the key "labels" and perhaps "people".
        test: further new examples in any of these forms, for the measured error beside the certificate.
        loss: in place of the 0-1 error: :class:`ClippedError` for regression, or a function of outputs and labels.
        saw: what the network was trained on: anything that ``data`` may be, the folder of a chain, or
            ``pacdp.data.Rows``; or ``HeldOut`` with the places in a data set, ``DataFree`` for a network that was made
            without any of the data.
        failure_prob: of each certificate; divided by the number of settings that are paid for.
        settings: who fixed them, and among how many; by default declared by the caller.

    Raises:
        ValueError: something does not fit, in one sentence.
        DataError: the examples are copies of each other, were seen, or are held by the network.
    """
    settings = Settings.declared() if settings is None else settings
    if not isinstance(settings, Settings):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"settings must be pacdp.Settings, got {type(settings).__name__}")
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(
            f"batch_size must be a whole number of examples, at least 1, got {batch_size!r}"
        )
    if not callable(network):
        raise ValueError(
            f"expected network as a module or function of inputs, got {type(network).__name__}"
        )
    if isinstance(network, nn.Module) and any(part.training for part in network.modules()):
        raise ValueError(
            "the network is in train mode, where dropout and BatchNorm mix examples: call eval() on it"
        )
    if not isinstance(failure_prob, float) or not 0.0 < failure_prob < 1.0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(
            f"failure_prob must lie strictly between 0 and 1, got {failure_prob!r}; 0.05 is customary"
        )
    failure_prob = settings.share(failure_prob)
    source = source_of(saw)
    read = _Reading(network=network, loss=loss, device=device, batch_size=batch_size)
    seen = read.all_of(data, "data")
    fresh = None if test is None else read.all_of(test, "test")
    evidence, tested = evidence_of(source, seen.examples, None if fresh is None else fresh.examples)
    fixed = settings.standing(seen.examples, None if fresh is None else fresh.examples)
    made: list[Finding] = [
        resting(one, evidence, fixed) for one in seen.certificates(of, failure_prob, "new_examples")
    ]
    made += seen.measured("bound", of)
    if fresh is not None:
        made += [
            resting(one, tested, fixed) for one in fresh.certificates(of, failure_prob, "test_set")
        ]
        made += fresh.measured("test", of)
    found = Assessment.of(made, seen.examples, route="new examples", failure_prob=failure_prob)
    rows = {
        "bound": seen.examples.rows.summary(),
        "test": fresh and fresh.examples.rows.summary(),
        "prior": None,
    }
    known = None if source is None else {**source_to_dict(source), "choice_nats": 0.0}
    return replace(found, rows=rows, prior=known, choices={"count": settings.count})


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Seen:
    """What is left of examples that were read: whose they are, what was wrong with them, and hashes of their rows."""

    examples: BoundSet
    losses: np.ndarray
    calibration: bounds.CalibrationSample | None
    loss: str

    def certificates(self, of: str, failure_prob: float, name: str) -> Iterator[bounds.Certificate]:
        """Those of the error and its calibration, or of the mean loss."""
        data = self.examples
        if not self.loss:
            yield from fresh_certificates(
                self._judged(), of=of, failure_prob=failure_prob, name=name
            )
            return
        found = certify_predictions(
            losses={self.loss: self.losses}, people=data.people, failure_prob=failure_prob
        )
        for one in found.certificates:
            yield about(
                one, one.name.replace("new_examples", name), of=of, measures=data.risk(self.loss)
            )

    def measured(self, on: str, of: str) -> list[Finding]:
        """The error, or the mean loss."""
        if not self.loss:
            return [*lines_of({on: self._judged()}, of)]
        data = self.examples
        whose = np.arange(data.n) if data.people is None else data.people
        mean = bounds.people_sample(losses=self.losses, people=whose).person_risk
        return [Measured(of=of, on=on, loss=self.loss, mean=mean, n=data.units)]

    def _judged(self) -> Judged:
        wrong = self.losses > 0.0
        error = mean_of(wrong, self.examples)
        return Judged(data=self.examples, wrong=wrong, error=error, calibration=self.calibration)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """How examples are read and judged."""

    network: Callable[..., Any]
    loss: LossOf | ClippedError | None
    device: Device
    batch_size: int

    @torch.no_grad()
    def all_of(self, data: Any, what: str) -> _Seen:
        """Everything that is kept of the examples."""
        kept, shape, form, tried, settled = _Kept(), None, None, 0, None
        held, repeats = Holdings(self.network), repeats_itself(self.network)
        for batch in batches_of(data, batch_size=self.batch_size):
            given = batch.inputs.shape[1:] if isinstance(batch.inputs, Tensor) else None
            if batch.n > tried or given != form:
                settled = settled or self._settled(batch)
                self._require_own(batch)
                tried, form = max(MOST, batch.n), given
            hashes = batch.hashes()
            if isinstance(batch.inputs, Tensor):
                whose = "the bound's" if what == "data" else "the test set's"
                held.require_none(batch.inputs, hashes=hashes, whose=whose)
            kept.add_rows(batch, hashes)
            outputs = self._outputs(batch.inputs)
            if self.loss is None:
                judged = _judgeable(logits_of(outputs), batch.n)
                logits = judged.cpu()
                shape = shape or logits.shape[1:]
                if logits.shape[1:] != shape:
                    raise ValueError(
                        f"expected {list(shape)} outputs an example in every batch, got {list(logits.shape[1:])}"
                    )
                kept.add_logits(logits, _class_labels(batch.labels, what).cpu())
            else:
                judged = _bounded(self.loss, outputs, batch.labels.to(self.device), batch.n)
                kept.losses.append(judged)
            if self.loss is not None or not repeats:
                require_alone(
                    judged,
                    lambda rows, batch=batch: self._judged_at(batch, rows),
                    least=self._least(),
                )
            hand_back(batch.nbytes)
        if settled is None:
            raise ValueError(f"{what} holds no examples: give at least one")
        settled.require()
        return kept.seen(_name_of(self.loss), data if isinstance(data, BoundSet) else None)

    def _outputs(self, inputs: Inputs) -> Any:
        given = {"": inputs} if isinstance(inputs, Tensor) else inputs
        given = {name: value.to(self.device) for name, value in given.items()}
        with kept_inputs(*given.values()):
            try:
                return (
                    self.network(given[""]) if isinstance(inputs, Tensor) else self.network(**given)
                )
            except Exception as error:  # a stranger's network may raise anything
                named = {name: tuple(value.shape) for name, value in given.items()}
                shapes = tuple(inputs.shape) if isinstance(inputs, Tensor) else named
                raise ValueError(
                    f"the network does not accept inputs of shape {shapes}: {said(error)}"
                ) from error

    def _settled(self, batch: Batch) -> Unwritten:
        """The network after its first pass, over made-up numbers where the inputs are one tensor."""
        first = (
            pool(batch.inputs[:1])[-1:]
            if isinstance(batch.inputs, Tensor)
            else _first(batch.inputs)
        )
        self._outputs(first)
        return Unwritten(self.network)

    def _require_own(self, batch: Batch) -> None:
        """Refuse a network that mixes the examples of a batch, in trials as large as the batch."""
        size = max(MOST, batch.n)
        made_up = pool(batch.inputs[:size], size=size) if isinstance(batch.inputs, Tensor) else None

        def run(places: Tensor) -> Tensor:
            return self._judged_at(
                batch, places % min(batch.n, size), None if made_up is None else made_up[places]
            )

        require_own_outputs(run, size=size, least=self._least())

    def _judged_at(self, batch: Batch, rows: Tensor, inputs: Inputs | None = None) -> Tensor:
        """Logits, or losses, of some examples of a batch, perhaps with other inputs."""
        if inputs is None:
            own = batch.inputs
            inputs = (
                own[rows]
                if isinstance(own, Tensor)
                else {name: value[rows] for name, value in own.items()}
            )
        outputs = self._outputs(inputs)
        if self.loss is None:
            return _judgeable(logits_of(outputs), len(rows))
        return _bounded(self.loss, outputs, batch.labels[rows].to(self.device), len(rows))

    def _least(self) -> float:
        return 0.0 if self.loss is None else 1.0


@dataclass(frozen=True, slots=True)
class _Kept:
    """Columns that grow batch by batch."""

    inputs: list[np.ndarray] = field(default_factory=list[np.ndarray])
    rows: list[np.ndarray] = field(default_factory=list[np.ndarray])
    people: list[np.ndarray] = field(default_factory=list[np.ndarray])
    labels: list[Tensor] = field(default_factory=list[Tensor])
    losses: list[Tensor] = field(default_factory=list[Tensor])
    samples: list[tuple[np.ndarray, np.ndarray]] = field(
        default_factory=list[tuple[np.ndarray, np.ndarray]]
    )
    odd: list[bool] = field(default_factory=list[bool])

    def add_logits(self, logits: Tensor, labels: Tensor) -> None:
        """Errors, confidences and whether any output is not finite."""
        require_labels(labels, classes_of(logits))
        self.losses.append(in_error(logits, labels).double())
        self.odd.append(not bool(logits.isfinite().all()))
        if not self.odd[-1]:
            self.samples.append(confidences_of(logits, labels))

    def add_rows(self, batch: Batch, hashed: UInt64[np.ndarray, " m"]) -> None:
        """Hashes and people; ``hashed`` are those of the inputs."""
        self.inputs.append(hashed)
        self.rows.append(batch.pairs(hashed))
        self.labels.append(batch.labels.reshape(batch.n, -1)[:, 0].cpu())
        if (batch.people is None) != (not self.people) and len(self.labels) > 1:
            raise ValueError(
                "some batches name the people of their examples and others do not: give all or none"
            )
        if batch.people is not None:
            self.people.append(batch.people)

    def seen(self, loss: str, of: BoundSet | None) -> _Seen:
        """All of it."""
        n = sum(map(len, self.labels))
        people = np.concatenate(self.people) if self.people else None
        owners = None if people is None else row_hashes(people, name="people")
        rows = Rows.sorted(np.concatenate(self.rows), np.concatenate(self.inputs), owners)
        losses = torch.cat(self.losses).double().cpu().numpy()
        calibration = None
        if not loss and people is None and not any(self.odd):
            confidence, correct = (np.concatenate(each) for each in zip(*self.samples, strict=True))
            calibration = bounds.calibration_sample(
                confidence=confidence, correct=correct, edges=EDGES
            )
        examples = BoundSet.counted(n, rows, people, of=of)
        return _Seen(examples=examples, losses=losses, calibration=calibration, loss=loss)


def _first(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value[:1].clone() for name, value in inputs.items()}


def _judgeable(logits: Tensor, n: int) -> Tensor:
    """Logits with a row an example."""
    if logits.ndim in (1, 2) and len(logits) == n and logits.numel() > 0:
        return logits
    raise ValueError(
        f"expected one row of logits for each of {n} examples, got {logits.dtype} outputs of shape "
        f"{tuple(logits.shape)}: give loss= for outputs that are no classes of an example"
    )


def _class_labels(labels: Tensor, what: str) -> Tensor:
    """Whole numbers, one an example; a trailing axis of one falls off."""
    found = labels.squeeze(1) if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if found.ndim != 1 or found.is_floating_point() or found.is_complex():
        raise ValueError(
            f"labels in {what} must be one whole number an example, got {found.dtype} {list(found.shape)}: give loss= "
            "for other targets"
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
    values = found.detach().to(
        torch.float64, copy=True
    )  # a function may write each batch into one tensor
    if not bool(((values >= 0.0) & (values <= 1.0)).all()):
        raise ValueError(
            "the loss must lie in [0, 1], got a value outside (or a NaN): clip it there, as pacdp.ClippedError does"
        )
    return values.cpu()


def _name_of(loss: LossOf | ClippedError | None) -> str:
    if loss is None:
        return ""
    return (
        loss.name
        if isinstance(loss, ClippedError)
        else str(getattr(loss, "__name__", "loss")).replace("_", " ")
    )
