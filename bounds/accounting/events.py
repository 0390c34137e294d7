"""What a private mechanism did, as data: the accountant's input, which checkpoints carry.

A noise multiplier is the standard deviation of the noise over the largest norm of one record's contribution (the clip
norm). Adding or removing a record then moves a sum by at most one unit, replacing it by at most two; the accountant
knows, and is told the neighbouring relation at every call. Numbers out of range raise ValueError.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from itertools import groupby
from typing import Any, cast, get_args

from bounds import _check
from bounds._check import json_record, positive, real, reals
from bounds.privacy import Adjacency, one_of
from bounds.record import record


@record
class Gaussian:
    """A sum of clipped contributions of all records, released with Gaussian noise.

    ``noise_multiplier`` is the standard deviation over the clip norm, positive and finite.
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        _check.fields(self)


@record
class ExponentialMechanism:
    """A pure mechanism: its output's probability changes by at most a factor exp(epsilon) between neighbours.

    Accounted for as randomised response at epsilon, which dominates every pure mechanism. That the exponential
    mechanism's loss stays in an interval of length epsilon (Dong, Durfee and Rogers 2020) is not made use of.
    ``epsilon`` is in nats, positive and finite, and stated for neighbours by ``adjacency``.
    """

    epsilon: float
    adjacency: Adjacency

    def __post_init__(self) -> None:
        _check.fields(self, epsilon=positive)
        one_of(Adjacency, adjacency=self.adjacency)


@record
class NonPrivate:
    """A release without any protection: every epsilon is infinite from then on."""


@record
class PoissonSampled:
    """A mechanism that sees each record independently with the same probability.

    ``sample_rate`` is that probability, in (0, 1], public, and fixed beforehand; ``event`` is what runs on the sampled
    records: a ``Gaussian``, or Gaussians and exponential mechanisms composed.
    """

    sample_rate: float
    event: "Event"

    def __post_init__(self) -> None:
        _check.fields(self, sample_rate=real)
        if not 0.0 < self.sample_rate <= 1.0:
            raise ValueError(
                f"sample_rate must lie in (0, 1], got {self.sample_rate!r}; pass the probability that a record takes "
                f"part in a step."
            )


@record
class OnceAnEpoch:
    """One epoch: a Gaussian sum of each of ``batches`` batches, of which each record is in exactly one.

    Its batch is uniform, secret, and independent of other records, of other epochs and of everything else. ``event`` is
    the ``Gaussian`` of one batch. No shuffled list does this: batches of a fixed size make records' places depend on
    each other.
    """

    batches: int
    event: Gaussian

    def __post_init__(self) -> None:
        _check.fields(self, batches=_check.count)
        _check.records("event", (self.event,), Gaussian)


@record
class LastAlone:
    """Noisy steps x ← φ(x) + ξ on all records from a public start, of which the last iterate alone is ever released.

    ``steps`` is how many there are, ``contraction`` a number c in [0, 1] by which φ, without the record and whatever
    the other records, brings points closer: proved of the loss, never measured. ``event`` is one step: the
    ``Gaussian`` whose noise multiplier is the noise over the most that the record moves φ(x), for every x.
    """

    steps: int
    contraction: float
    event: Gaussian

    def __post_init__(self) -> None:
        _check.fields(self, steps=_check.count, contraction=_check.probability)
        _check.records("event", (self.event,), Gaussian)


@record
class Composed:
    """Mechanisms run one after another, at least one, each free to look at what those before it released."""

    events: tuple["Event", ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", _check.records("events", self.events, object))
        if not self.events:
            raise ValueError("events must hold at least one event, got none; a schedule without steps has no privacy.")


@record
class SelfComposed:
    """The same mechanism, run ``count`` times, once at least."""

    event: "Event"
    count: int

    def __post_init__(self) -> None:
        _check.fields(self, count=_check.count)


Event = (
    Gaussian | ExponentialMechanism | NonPrivate | PoissonSampled | OnceAnEpoch | LastAlone | Composed | SelfComposed
)
_KINDS = {kind.__name__: kind for kind in get_args(Event)}


def sampled_gaussians(*, sample_rate: float, noise_multipliers: Iterable[float]) -> Event:
    """Noisy steps on Poisson batches, one noise multiplier a step, in order: DP-SGD with a schedule.

    ``sample_rate`` is the probability that a record takes part in a step. Equal neighbours are stored once.
    """
    runs = [
        (PoissonSampled(sample_rate=sample_rate, event=Gaussian(noise_multiplier=value)), len(list(group)))
        for value, group in groupby(reals("noise_multipliers", noise_multipliers))
    ]
    return Composed(events=tuple(step if count == 1 else SelfComposed(event=step, count=count) for step, count in runs))


def event_to_dict(event: Event) -> dict[str, Any]:
    """Plain types for JSON, with the kind of event under "event" and what it holds under "inner"."""
    if not isinstance(event, Event):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise unknown(event)
    kind = {"event": type(event).__name__}
    if isinstance(event, Composed):
        return {**kind, "inner": [event_to_dict(part) for part in event.events]}
    values: dict[str, Any] = {field.name: getattr(event, field.name) for field in fields(event)}
    if "event" in values:
        values["inner"] = event_to_dict(values.pop("event"))
    return kind | values


def event_from_dict(record: Mapping[str, Any]) -> Event:
    """The event that ``event_to_dict`` wrote. Raises ValueError when it describes something else."""
    given: dict[str, Any] = dict(record) if isinstance(record, Mapping) else {}  # pyright: ignore[reportUnnecessaryIsInstance]
    kind = given.pop("event", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"event must be one of {', '.join(_KINDS)}, got {kind!r}; pass what event_to_dict wrote.")
    if kind == "Composed":
        inner = _check.records("inner", given.pop("inner", ()), object)
        given["events"] = tuple(event_from_dict(cast(Any, part)) for part in inner)
    elif "inner" in given:
        given["event"] = event_from_dict(given.pop("inner"))
    try:
        return _KINDS[kind](**given)
    except TypeError:
        raise ValueError(f"record must hold the fields of {kind} alone, got {sorted(record)!r}.") from None


def event_to_json(event: Event) -> str:
    """One line of JSON."""
    return json.dumps(event_to_dict(event), allow_nan=False)


def event_from_json(text: str) -> Event:
    """The event that ``event_to_json`` wrote. Raises ValueError when it describes something else."""
    return event_from_dict(json_record(text))


def delta_in_range(**delta: float) -> float:
    """Refuse a delta that promises nothing."""
    value = real(**delta)
    if not 0.0 < value < 1.0:
        raise ValueError(
            f"delta must lie strictly between 0 and 1, got {value!r}; pass a number well below one over the number of "
            f"records."
        )
    return value


def unknown(event: object) -> ValueError:
    """The refusal of what is no event."""
    return ValueError(f"event must be one of {', '.join(_KINDS)}, got {event!r}; describe the mechanism by those.")
