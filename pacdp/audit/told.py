"""What an accountant was told of a run, step by step."""

from bounds.accounting import Composed, Event, ExponentialMechanism, Gaussian, PoissonSampled
from pacdp.algorithms.algorithm import Algorithm
from pacdp.step.event import runs_of


def told_of(event: Event | None) -> list[Event]:
    """The event of each step, in their order."""
    return [one for one, count in runs_of(event) for _ in range(count)]


def rate_of(step: Event) -> float:
    """The probability with which a unit takes part in the step."""
    return step.sample_rate if isinstance(step, PoissonSampled) else 1.0


def noise_of(step: Event) -> float:
    """The noise multiplier of one step, of all its releases together; 0 for none."""
    match step:
        case Gaussian():
            return step.noise_multiplier
        case PoissonSampled():
            return noise_of(step.event)
        case Composed():
            return noise_of(step.events[0])
        case _:
            return 0.0


def choice_of(step: Event) -> float:
    """The epsilon of the step's choice among candidates; 0 where nothing is chosen."""
    match step:
        case ExponentialMechanism():
            return step.epsilon
        case PoissonSampled():
            return choice_of(step.event)
        case Composed():
            return sum(choice_of(one) for one in step.events)
        case _:
            return 0.0


def multipliers_of(algorithm: Algorithm, step: Event, *, number: int, releases: int) -> list[float]:
    """Noise multipliers of a step's releases: what was told of one, the settings' own where there are several.

    Args:
        number: of the step, from 1.
        releases: how many there were.

    Raises:
        ValueError: the settings speak of another number of releases.
    """
    if releases == 1:
        return [noise_of(step)]
    own = list(algorithm.noises(number - 1))
    if len(own) != releases:
        kind = type(algorithm).__name__
        raise ValueError(f"{kind} released {releases} sums in step {number}, and says the noise of {len(own)}")
    return own
