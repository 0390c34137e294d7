"""What ran, as the accountant's events: the one history of a private run.

A step draws every unit (an example, or a person with all of their records) independently with probability q, adds up
contributions of norm at most C, and releases the sum with Gaussian noise of standard deviation σC; it may then choose
among candidates by an exponential mechanism on the same sample. As an event that is PoissonSampled(q, Gaussian(σ)), or
PoissonSampled(q, Composed(Gaussian(σ), ExponentialMechanism(ε))). A history is a sequence of such steps, equal
neighbours counted together; None stands for a run that has not begun. Checkpoints carry it, accountants read it. Where
every unit is in one batch an epoch, an epoch is one event, OnceAnEpoch(batches, Gaussian(σ)), from its first step on.

Settings promise of the steps that they describe an event, or give a reason why there is none.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from bounds.accounting import (
    Composed,
    Event,
    ExponentialMechanism,
    Gaussian,
    LastAlone,
    NonPrivate,
    OnceAnEpoch,
    PoissonSampled,
    SelfComposed,
)
from pacdp.errors import require_fraction

ADJACENCY: Literal["add-remove"] = "add-remove"
"""The neighbours that noise multipliers are stated for: one unit more or less moves a clipped sum by at most C."""
# what the accountant's grid can resolve; beyond, less noise or a larger rate is accounted for than was used
_LEAST_NOISE, _MOST_NOISE, _LEAST_RATE = 1e-100, 1e10, 1e-9
Run = tuple[Event, int]
"""A step, and how often it was made in a row."""
_DOWN = 1.0 - 2.0**-48
"""Covers the rounding of a combined multiplier."""


def sampled_step(
    noise_multipliers: Sequence[float], *, sample_rate: float, choice_epsilon: float = 0.0
) -> Event:
    """One step: the same Poisson sample's sum released with each of these noises, and a choice among candidates.

    Sums released with independent noises σ_1 ... σ_K are as informative as one with 1/σ² = Σ 1/σ_j². Noise beyond 1e10
    counts as 1e10, a rate below 1e-9 as 1e-9; a step without noise protects nobody.

    Args:
        noise_multipliers: standard deviations over the clip norm, one for each release of the sum.
        choice_epsilon: of the exponential mechanism; 0 where nothing is chosen.

    Raises:
        ValueError: a rate outside (0, 1], a multiplier that is negative or no finite number, none at all, or an epsilon
            out of range.
    """
    require_fraction(sample_rate=sample_rate)
    for value in noise_multipliers:
        if not (math.isfinite(value) and value >= 0.0):
            raise ValueError(f"noise_multiplier must be a finite number >= 0, got {value}")
    if not noise_multipliers:
        raise ValueError("noise_multipliers must hold one number for each release, got none")
    noise = combined(noise_multipliers)
    if noise < _LEAST_NOISE:
        return NonPrivate()
    released: Event = Gaussian(noise_multiplier=float(min(noise, _MOST_NOISE)))
    if choice_epsilon != 0.0:
        released = Composed(
            events=(released, ExponentialMechanism(epsilon=choice_epsilon, adjacency=ADJACENCY))
        )
    return PoissonSampled(sample_rate=max(float(sample_rate), _LEAST_RATE), event=released)


def epoch(noise_multiplier: float, *, batches: int) -> Event:
    """Steps on ``batches`` batches, in one of which each unit is; the multiplier is the least of theirs."""
    on_all = sampled_step([noise_multiplier], sample_rate=1.0)
    if isinstance(on_all, PoissonSampled) and isinstance(on_all.event, Gaussian):
        return OnceAnEpoch(batches=batches, event=on_all.event)
    return on_all


def combined(noise_multipliers: Sequence[float]) -> float:
    """σ with 1/σ² = Σ 1/σ_j², rounded down: releases of one sum with independent noises are one release with that."""
    if len(noise_multipliers) == 1:
        return float(noise_multipliers[0])
    if min(noise_multipliers) < _LEAST_NOISE:
        return 0.0
    return _DOWN / math.sqrt(math.fsum(one**-2.0 for one in noise_multipliers))


def history(steps: Iterable[Event]) -> Event | None:
    """The steps one after another; None if there are none."""
    return joined(*steps)


class History:
    """A history that grows by a step at a time."""

    def __init__(self, event: Event | None = None) -> None:
        self._runs = runs_of(event)

    def append(self, step: Event) -> None:
        """One more step."""
        if self._runs and self._runs[-1][0] == step:
            self._runs[-1] = (step, self._runs[-1][1] + 1)
        else:
            self._runs.append((step, 1))

    @property
    def event(self) -> Event | None:
        """All steps so far."""
        return _composed(self._runs)


def joined(*histories: Event | None) -> Event | None:
    """All that ran, one after the other on the same data: the history of several chains is that of one long chain."""
    return _composed(run for one in histories for run in runs_of(one))


def _composed(runs: Iterable[Run]) -> Event | None:
    """A history of these steps, equal neighbours counted together."""
    merged = groupby(runs, key=lambda run: run[0])
    each = ((step, sum(count for _, count in group)) for step, group in merged)
    events = tuple(SelfComposed(event=step, count=count) for step, count in each)
    return Composed(events=events) if events else None


def runs_of(event: Event | None) -> list[Run]:
    """Equal steps in a row with their number, in the order in which they ran."""
    match event:
        case None:
            return []
        case Composed():
            return [run for part in event.events for run in runs_of(part)]
        case SelfComposed() if isinstance(event.event, Composed | SelfComposed):
            return runs_of(event.event) * event.count
        case SelfComposed():
            return [(event.event, event.count)]
        case _:
            return [(event, 1)]


def steps_of(event: Event | None) -> int:
    """How many steps ran; an epoch that was begun counts with all of its steps."""
    return sum(count * _length(step) for step, count in runs_of(event))


def _length(step: Event) -> int:
    """How many steps an event is of."""
    match step:
        case OnceAnEpoch():
            return step.batches
        case LastAlone():
            return step.steps
        case _:
            return 1


def begins(event: Event | None) -> dict[int, Event]:
    """What is counted at each step, from 0 on, at which something is."""
    found, done = dict[int, Event](), 0
    for step, count in runs_of(event):
        for _ in range(count):
            found[done] = step
            done += _length(step)
    return found


class Told(NamedTuple):
    """What an accountant was told of one step."""

    rate: float
    """With what probability a unit takes part."""
    noise: float
    """The noise multiplier of all releases together; 0 for none."""
    choice: float
    """The epsilon of the choice among candidates; 0 where nothing is chosen."""


def told(step: Event) -> Told:
    """What an accountant was told of a step; of a run whose last iterate alone leaves, of each."""
    rate, released = 1.0, step.event if isinstance(step, LastAlone) else step
    if isinstance(step, PoissonSampled):
        rate, released = step.sample_rate, step.event
    made = released.events if isinstance(released, Composed) else (released,)
    noise = sum((one.noise_multiplier for one in made if isinstance(one, Gaussian)), 0.0)
    choices = (one.epsilon for one in made if isinstance(one, ExponentialMechanism))
    return Told(rate, noise, sum(choices, 0.0))


def told_of(event: Event | None) -> list[Told]:
    """The same of each step, in their order."""
    return [told(step) for step, count in runs_of(event) for _ in range(count * _length(step))]


def first(event: Event | None, steps: int) -> Event | None:
    """The history of the first ``steps`` steps, or of all if there are fewer; a begun epoch is there as a whole."""
    return _between(event, 0, steps)


def after(event: Event | None, steps: int) -> Event | None:
    """What is left of a history without its first ``steps`` steps, and without an epoch that they began."""
    return _between(event, steps, steps_of(event))


def _between(event: Event | None, begin: int, end: int) -> Event | None:
    """What begins from step ``begin`` on and before step ``end``."""
    kept, done = list[Run](), 0
    for step, count in runs_of(event):
        length = _length(step)
        earlier, before = (
            min(max(math.ceil((at - done) / length), 0), count) for at in (begin, end)
        )
        if before > earlier:
            kept.append((step, before - earlier))
        done += count * length
    return _composed(kept)


@runtime_checkable
class Promising(Protocol):
    """Settings of an algorithm, private or a chain, that may promise something of its steps."""

    def promise(self, n: int, steps: int, *, start: int = 0) -> Event | None:
        """What ``steps`` steps, those after the first ``start``, on data of ``n`` units reveal, known without the data.

        Raises:
            ValueError: the steps are no private mechanisms that are accounted for.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPrivacy:
    """The procedure read the bound's own examples and promises nothing: no certificate may rest on it."""

    reason: str
    """Why it is not private, one sentence."""


def no_promise(settings: object) -> ValueError:
    """The refusal of an algorithm whose steps are no private mechanisms."""
    return ValueError(
        f"steps of {type(settings).__name__} have no privacy accounting here: use SGLD or Entropy-SG(L)D with "
        "clip_norm, or a trainer of pacdp.private"
    )
