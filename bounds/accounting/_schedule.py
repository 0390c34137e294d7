"""Events in normal form: what is composed, how often, and with what neighbours in mind.

Gaussians on all records compose into one: their squared inverse multipliers add up (Dong, Roth and Su 2022, Corollary
3.3), also when each looks at the releases before it. Sampled Gaussians and exponential mechanisms are counted.
"""

from collections import Counter
from dataclasses import dataclass, field
from math import fsum, inf, isinf, log1p, sqrt
from typing import NamedTuple

from bounds.accounting.events import (
    Composed,
    Event,
    ExponentialMechanism,
    Gaussian,
    LastAlone,
    NonPrivate,
    OnceAnEpoch,
    PoissonSampled,
    SelfComposed,
    unknown,
)
from bounds.accounting.last_iterate import equal_steps
from bounds.privacy import Adjacency, one_of

_MOST_CHOICES = 12
# A sampled step with less noise has a privacy loss of hundreds of nats; it is counted as no protection at all.
_LEAST_NOISE = 0.05
_LEAST_IN_EPOCH = 0.2
# So is noise on all records together, where other steps keep it from being composed in closed form.
_LEAST_TOGETHER = 0.1
_MOST_NOISE = 1e150  # more noise counts as this much, whose square is a number still
ROUNDING = 1.0 + 1e-13  # of sums of squares, and what they are put into
_MOST_EPSILON = 300.0  # a pure mechanism with a larger one counts as no protection


class Step(NamedTuple):
    """A Poisson-sampled Gaussian, with pure mechanisms that see the same sample."""

    sample_rate: float
    noise_multiplier: float
    epsilons: tuple[float, ...] = ()


class Epoch(NamedTuple):
    """Gaussian sums of batches of which each record is in exactly one."""

    batches: int
    noise_multiplier: float


@dataclass(slots=True)
class Schedule:
    """The normal form. ``squares`` are the squared inverse multipliers of Gaussians on all records.

    ``log_missed`` is the logarithm of the probability that a record takes part in none of the sampled mechanisms that
    protect nobody, or too little for the grid; ``last_alone`` says that a last iterate is among the Gaussians, samples
    of which no theorem here knows; ``revealed`` says that something protects nobody, ``given_up`` that something
    protects too little for the grid.
    """

    adjacency: Adjacency
    squares: list[float] = field(default_factory=list[float])
    sampled: Counter[Step] = field(default_factory=Counter[Step])
    epochs: Counter[Epoch] = field(default_factory=Counter[Epoch])
    pure: Counter[float] = field(default_factory=Counter[float])
    last_alone: bool = False
    log_missed: float = 0.0
    revealed: bool = False
    given_up: bool = False

    @property
    def precision(self) -> float:
        """The sum of the squares, to the last digit however many there are; infinite where it passes all floats."""
        try:
            return fsum(self.squares)
        except OverflowError:
            return inf

    @property
    def private(self) -> bool:
        """Whether all of it is composed."""
        return not (self.revealed or self.given_up or self.log_missed)

    @property
    def beyond_grid(self) -> bool:
        """Whether noise on all records together is too little for a grid of losses."""
        return self.precision > _LEAST_TOGETHER**-2

    @property
    def exact(self) -> bool:
        """Whether everything is one Gaussian mechanism."""
        return self.private and not self.sampled and not self.epochs and not self.pure

    @property
    def mu(self) -> float:
        """The parameter of the Gaussians on all records: sensitivity over standard deviation."""
        return (2.0 if self.adjacency == "replace-one" else 1.0) * sqrt(self.precision)


def schedule(event: Event, adjacency: Adjacency) -> Schedule:
    """The normal form of an event. Raises ValueError, naming the sub-event, where the accountant has no theorem."""
    one_of(Adjacency, adjacency=adjacency)
    made = Schedule(adjacency=adjacency)
    _add(made, event, 1)
    if isinf(made.precision) or (made.beyond_grid and not made.exact):
        made.given_up = True
    return made


def _add(made: Schedule, event: Event, count: int) -> None:
    match event:
        case Gaussian():
            inverse = 1.0 / min(event.noise_multiplier, _MOST_NOISE)
            made.squares.append(count * (inverse * inverse))  # infinite where a power would raise
        case ExponentialMechanism():
            epsilon = _epsilon(event, made.adjacency)
            made.pure[min(epsilon, _MOST_EPSILON)] += count
            made.given_up |= epsilon > _MOST_EPSILON
        case NonPrivate():
            made.revealed = True
        case PoissonSampled(sample_rate=1.0):
            _add(made, event.event, count)
        case PoissonSampled():
            _add_sampled(made, event, count)
        case LastAlone():
            made.last_alone = True
            noise = min(event.event.noise_multiplier, _MOST_NOISE)
            mu = equal_steps(steps=event.steps, contraction=event.contraction, noise_multiplier=noise)
            made.squares.append(count * (mu * mu))
        case OnceAnEpoch(batches=1):
            _add(made, event.event, count)
        case OnceAnEpoch():
            if made.adjacency == "replace-one":
                raise ValueError(
                    f"OnceAnEpoch is accounted for add-remove neighbours only, got replace-one for {event!r}; a record "
                    f"replaced is one removed and one added: (epsilon, delta) for each is (2 epsilon, (1 + e^epsilon) "
                    f"delta) for both."
                )
            noise = event.event.noise_multiplier
            made.given_up |= noise < _LEAST_IN_EPOCH
            made.epochs[Epoch(event.batches, noise)] += count
        case Composed():
            for part in event.events:
                _add(made, part, count)
        case SelfComposed():
            _add(made, event.event, count * event.count)
        case _:
            raise unknown(event)


def _add_sampled(made: Schedule, event: PoissonSampled, count: int) -> None:
    inner = schedule(event.event, made.adjacency)
    if inner.sampled or inner.epochs or inner.last_alone:
        raise ValueError(
            f"PoissonSampled must not hold another sample, nor a last iterate, got one inside {event.event!r}; for one "
            f"Poisson sample drawn from another, multiply the two rates."
        )
    if not inner.private:
        made.log_missed += count * log1p(-event.sample_rate)
        return
    if not inner.precision:
        raise ValueError(
            f"PoissonSampled must hold a Gaussian, got {event.event!r} alone; leave the sampling of it out, which is "
            f"sound."
        )
    if inner.pure and made.adjacency == "replace-one":
        raise ValueError(
            f"PoissonSampled with exponential mechanisms inside is accounted for add-remove neighbours only, got "
            f"replace-one for {event!r}; take the ExponentialMechanism out of the sample."
        )
    if inner.pure.total() > _MOST_CHOICES:
        raise ValueError(
            f"PoissonSampled must hold at most {_MOST_CHOICES} exponential mechanisms, got {inner.pure.total()} in "
            f"{event!r}."
        )
    noise = 1.0 / sqrt(inner.precision)
    if noise < _LEAST_NOISE:
        made.log_missed += count * log1p(-event.sample_rate)
        return
    made.sampled[Step(event.sample_rate, noise, tuple(sorted(inner.pure.elements())))] += count


def _epsilon(event: ExponentialMechanism, adjacency: Adjacency) -> float:
    if event.adjacency == adjacency:
        return event.epsilon
    if adjacency == "replace-one":
        return 2.0 * event.epsilon
    raise ValueError(
        f"ExponentialMechanism is stated for {event.adjacency} neighbours, got adjacency={adjacency!r} for {event!r}; "
        f"state its epsilon for add-remove."
    )
