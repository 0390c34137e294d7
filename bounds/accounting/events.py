"""What a private mechanism did, as data: the accountant's input, which checkpoints carry.

A noise multiplier is the standard deviation of the noise over the largest norm of one record's contribution (the clip
norm). Adding or removing a record then moves a sum by at most one unit, replacing it by at most two; the accountant
knows, and is told the neighbouring relation at every call.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, get_args

from bounds import _check
from bounds.privacy import Adjacency


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian:
    """A sum of clipped contributions of all records, released with Gaussian noise.

    Attributes:
        noise_multiplier: standard deviation over clip norm, above 0.

    Raises ValueError when the multiplier is not positive and finite.
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        _check.positive(noise_multiplier=self.noise_multiplier)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialMechanism:
    """A pure mechanism: its output's probability changes by at most a factor exp(epsilon) between neighbours.

    Accounted for as randomised response at epsilon, which dominates every pure mechanism. That the exponential
    mechanism's loss stays in an interval of length epsilon (Dong, Durfee and Rogers 2020) is not made use of.

    Attributes:
        epsilon: nats, above 0.
        adjacency: the neighbouring relation that epsilon is stated for.

    Raises ValueError when epsilon is not positive and finite, or the relation is unknown.
    """

    epsilon: float
    adjacency: Adjacency

    def __post_init__(self) -> None:
        _check.positive(epsilon=self.epsilon)
        check_adjacency(self.adjacency)


@dataclass(frozen=True, slots=True, kw_only=True)
class NonPrivate:
    """A release without any protection: every epsilon is infinite from then on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonSampled:
    """A mechanism that sees each record independently with the same probability.

    Attributes:
        sample_rate: that probability, in (0, 1]; public, and fixed beforehand.
        event: what runs on the sampled records: a ``Gaussian``, or Gaussians and exponential mechanisms composed.

    Raises ValueError when the rate is outside (0, 1].
    """

    sample_rate: float
    event: "Event"

    def __post_init__(self) -> None:
        _check.real(sample_rate=self.sample_rate)
        if not 0.0 < self.sample_rate <= 1.0:
            raise ValueError(
                f"sample_rate must lie in (0, 1], got {self.sample_rate!r}; pass the probability that a record takes "
                f"part in a step."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """Mechanisms run one after another, each free to look at what those before it released.

    Attributes:
        events: at least one.

    Raises ValueError when there is none.
    """

    events: tuple["Event", ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", _check.records("events", self.events, object))
        if not self.events:
            raise ValueError("events must hold at least one event, got none; a schedule without steps has no privacy.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfComposed:
    """The same mechanism, run ``count`` times.

    Raises ValueError when count is no whole number of at least 1.
    """

    event: "Event"
    count: int

    def __post_init__(self) -> None:
        _check.count(count=self.count)


Event = Gaussian | ExponentialMechanism | NonPrivate | PoissonSampled | Composed | SelfComposed
_KINDS = {kind.__name__: kind for kind in get_args(Event)}


def sampled_gaussians(*, sample_rate: float, noise_multipliers: Iterable[float]) -> Event:
    """Noisy steps on Poisson batches, one noise multiplier a step: DP-SGD with a schedule.

    Args:
        sample_rate: probability that a record takes part in a step, in (0, 1].
        noise_multipliers: one a step, in order; equal neighbours are stored once.

    Raises ValueError when the schedule is empty or a number out of range.
    """
    runs = [
        (PoissonSampled(sample_rate=sample_rate, event=Gaussian(noise_multiplier=value)), len(list(group)))
        for value, group in groupby(_check.reals("noise_multipliers", noise_multipliers))
    ]
    return Composed(events=tuple(step if count == 1 else SelfComposed(event=step, count=count) for step, count in runs))


def event_to_dict(event: Event) -> dict[str, Any]:
    """Plain types for JSON, with the kind of event under "event"."""
    match event:
        case Gaussian():
            return {"event": "Gaussian", "noise_multiplier": float(event.noise_multiplier)}
        case ExponentialMechanism():
            return {
                "event": "ExponentialMechanism",
                "epsilon": float(event.epsilon),
                "adjacency": event.adjacency,
            }
        case NonPrivate():
            return {"event": "NonPrivate"}
        case PoissonSampled():
            return {
                "event": "PoissonSampled",
                "sample_rate": float(event.sample_rate),
                "inner": event_to_dict(event.event),
            }
        case Composed():
            return {"event": "Composed", "inner": [event_to_dict(part) for part in event.events]}
        case SelfComposed():
            return {"event": "SelfComposed", "count": int(event.count), "inner": event_to_dict(event.event)}
        case _:
            raise unknown(event)


def event_from_dict(record: Mapping[str, Any]) -> Event:
    """The event that ``event_to_dict`` wrote. Raises ValueError when it describes something else."""
    fields: dict[str, Any] = dict(record) if isinstance(record, Mapping) else {}  # pyright: ignore[reportUnnecessaryIsInstance]
    kind = fields.pop("event", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"event must be one of {', '.join(_KINDS)}, got {kind!r}; pass what event_to_dict wrote.")
    if kind == "Composed":
        inner: tuple[Any, ...] = _check.records("inner", fields.pop("inner", ()), object)
        fields["events"] = tuple(event_from_dict(part) for part in inner)
    elif "inner" in fields:
        fields["event"] = event_from_dict(fields.pop("inner"))
    try:
        return _KINDS[kind](**fields)
    except TypeError:
        raise ValueError(f"record must hold the fields of {kind} alone, got {sorted(record)!r}.") from None


def event_to_json(event: Event) -> str:
    """One line of JSON."""
    return json.dumps(event_to_dict(event), allow_nan=False)


def event_from_json(text: str) -> Event:
    """The event that ``event_to_json`` wrote. Raises ValueError when it describes something else."""
    try:
        record = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"text is not JSON ({error}); pass what event_to_json wrote.") from error
    return event_from_dict(record)


def check_adjacency(adjacency: object) -> None:
    """Refuse a neighbouring relation that is none of ``Adjacency``'s."""
    if adjacency not in get_args(Adjacency):
        raise ValueError(f"adjacency must be one of {', '.join(get_args(Adjacency))}, got {adjacency!r}.")


def unknown(event: object) -> ValueError:
    """The refusal of what is no event."""
    return ValueError(f"event must be one of {', '.join(_KINDS)}, got {event!r}; describe the mechanism by those.")
