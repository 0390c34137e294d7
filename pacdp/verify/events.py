"""The mechanisms behind a price: what an event says that ran, step by step."""

from collections import Counter
from collections.abc import Iterable
from math import fsum, inf
from typing import Any, NamedTuple

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import ONE, ZERO, ball
from pacdp.verify.claim import Unchecked, Wrong, number, require

_MOST_ON_A_SAMPLE = 6
_MOST_STEPS = 10**7
_NEIGHBOURS = ("add-remove", "replace-one")
_ENTRIES = {
    "Gaussian": {"noise_multiplier"},
    "ExponentialMechanism": {"epsilon", "adjacency"},
    "PoissonSampled": {"sample_rate", "inner"},
    "OnceAnEpoch": {"batches", "inner"},
    "LastAlone": {"steps", "contraction", "inner"},
    "SelfComposed": {"count", "inner"},
    "Composed": {"inner"},
    "NonPrivate": set[str](),
}
"""What an event of each kind holds, and nothing else."""


class TooMany(Unchecked):
    """Why steps are not listed one by one."""


class Step(NamedTuple):
    """Noise, and pure mechanisms, on one sample of the records; noise 0 is no protection, infinity no release."""

    rate: float
    noise: float
    epsilons: tuple[float, ...] = ()

    def responses(self) -> list[tuple[arb, arb]]:
        """What the pure mechanisms add to the loss, and how probable that is without the record."""
        found = [(ZERO, ONE)]
        for epsilon in map(ball, self.epsilons):
            yes = 1 / (1 + epsilon.exp())
            found = [
                (added + epsilon, p * yes) for added, p in found
            ] + [
                (added - epsilon, p * (1 - yes))
                for added, p in found
            ]
        return found


def steps_of(
    event: Any, replaced: bool = False, rate: float | None = None
) -> list[Step]:
    """The steps one after another; a sample of a sample is one at the product of their rates.

    Without a rate there is no sample; at a rate of 1 what runs on it is one step as well. An event of None stands for
    a run that had not begun.
    """
    if event is None:
        return []
    kind = _kind_of(event)
    inner = event.get("inner")
    if kind == "PoissonSampled":
        share = event["sample_rate"]
        require(0 <= share <= 1, f"a sample rate is {share!r}")
        whole = 1.0 if rate is None else rate
        return steps_of(inner, replaced, whole * share)
    if kind == "NonPrivate":
        return [Step(1.0, 0.0)]
    if rate is not None:
        return [_on_one_sample(event, replaced, rate)]
    if kind == "LastAlone":
        return [Step(1.0, noise_of_the_last(event))]
    if kind == "SelfComposed":
        count = times_of(event["count"])
        return _joined([steps_of(inner, replaced)], count)
    if kind == "Composed":
        return _joined(steps_of(part, replaced) for part in inner)
    return [_on_one_sample(event, replaced)]


def _kind_of(event: Any) -> Any:
    """The event's name; it holds what one of its kind does, and nothing beside it."""
    kind = event["event"]
    known = _ENTRIES.get(kind, event.keys())
    beside = ", ".join(sorted(event.keys() - known - {"event"}))
    require(not beside, f"an event {kind} has {beside} too")
    return kind


def require_few(steps: Any) -> None:
    """Raise Unchecked where these are too many steps to be listed one by one."""
    if steps > _MOST_STEPS:
        raise TooMany(f"{steps} steps are too many to be listed")


def _joined(
    parts: Iterable[list[Any]], times: int = 1
) -> list[Any]:
    """The mechanisms of all parts, one after another, as often as is said."""
    found = []
    for part in parts:
        require_few(len(found) + len(part) * times)
        found += part * times
    return found


def _on_one_sample(
    event: Any, replaced: bool, rate: float | None = None
) -> Step:
    """Noise and choices on the same sample; no theorem here covers choices on a sample, of a record replaced."""
    noises = []
    epsilons = []
    for part in _parts(event):
        kind = part["event"]
        require(kind, "an event has no name")
        added = part.get("adjacency") == "add-remove"
        if kind == "Gaussian":
            noises.append(_noise_in(part))
        elif kind == "ExponentialMechanism" and (replaced or added):
            twice = 2 if added and replaced else 1
            epsilons.append(twice * float(number(part["epsilon"])))
        else:
            raise Unchecked(
                f"this checker composes no {kind} of these neighbours on one sample"
            )
    most = 0 if replaced else _MOST_ON_A_SAMPLE
    if rate is not None and len(epsilons) > most:
        raise Unchecked(
            f"no theorem here covers {len(epsilons)} pure mechanisms on a sample of these neighbours"
        )
    whole = 1.0 if rate is None else rate
    return Step(
        whole, noise_of_all(noises), tuple(sorted(epsilons))
    )


def _noise_in(event: Any) -> float:
    """The noise multiplier of a Gaussian mechanism."""
    _kind_of(event)
    noise = float(number(event["noise_multiplier"]))
    require(noise >= 0, f"a noise multiplier is {noise!r}")
    return noise


def _parts(event: Any) -> list[Any]:
    """The mechanisms of a composition, one after another."""
    inner = event.get("inner")
    kind = _kind_of(event)
    if kind == "SelfComposed":
        return _joined([_parts(inner)], times_of(event["count"]))
    if kind == "Composed":
        return _joined(map(_parts, inner))
    return [event]


def noise_of_all(noises: list[float]) -> float:
    """The noise multiplier of these releases together: 1/σ² = Σ 1/z²."""
    if len(noises) < 2:
        return noises[0] if noises else inf
    return fsum(noise**-2 for noise in noises) ** -0.5


def noise_of_the_last(event: Any) -> float:
    """The noise multiplier that costs what the last iterate does ("Last iterate"), rounded down.

    1/σ_last² = (1-c^T)/(1+c^T) · (1+c)/(1-c) / σ², and T/σ² at c = 1.
    """
    c = ball(event["contraction"])
    steps = times_of(event["steps"])
    noise = _noise_in(event["inner"])
    require(
        0 <= c <= 1 and event["inner"]["event"] == "Gaussian",
        f"{event!r} is no last iterate of noisy steps that contract",
    )
    more = ball(steps)
    if c < 1:
        left = c**steps
        more = (1 - left) / (1 + left) * (1 + c) / (1 - c)
    return float((ball(noise) / more.sqrt()).lower())


def last_alone(event: Any) -> Any:
    """The event of a run whose last iterate alone is released; None for one of other steps."""
    while event["event"] in ("Composed", "SelfComposed"):
        inner = event["inner"]
        parts = inner if event["event"] == "Composed" else [inner]
        if len(parts) != 1 or event.get("count", 1) != 1:
            return None
        (event,) = parts
    return event if event["event"] == "LastAlone" else None


def made_in(event: Any) -> int:
    """How many steps ran."""
    if event is not None and (one := last_alone(event)):
        return times_of(one["steps"])
    return len(steps_of(event))


def noisy_sums_of(event: Any) -> list[Step]:
    """The sums over the records with noise that ran, on all records or on a Poisson sample each."""
    if last_alone(event):
        raise Wrong("a last iterate alone is no noisy sum")
    try:
        found = steps_of(event)
    except TooMany:
        raise
    except Unchecked as reason:
        raise Wrong(str(reason)) from reason
    for step in set(found):
        if step.epsilons or not 0.0 < step.noise < inf:
            raise Wrong(f"{step} is no noisy sum on one sample")
    return found


def epochs_of(event: Any) -> list[tuple[int, float]]:
    """The batches and the noise multiplier of each epoch with every record in one batch."""
    found = []
    for one in _parts(event):
        inner = one.get("inner") or {}
        kinds = one["event"], inner.get("event")
        why = f"{kinds} is no epoch with every record in one batch and with noise"
        require(kinds == ("OnceAnEpoch", "Gaussian"), why)
        noise = _noise_in(inner)
        require(noise > 0.0, why)
        found.append((times_of(one["batches"]), noise))
    return found


def replaces(words: Any) -> bool:
    """Whether these neighbours are data sets in which a record is replaced; there are two kinds, by these words."""
    require(words in _NEIGHBOURS, f"its neighbours are {words!r}")
    return words == _NEIGHBOURS[1]


def times_of(count: Any) -> int:
    """A number of steps or of batches: a whole one, one or more."""
    whole = isinstance(count, int) and not isinstance(count, bool)
    require(
        whole and count >= 1, f"{count!r} is no number of steps"
    )
    return count


def mu_of(steps: list[Step]) -> arb:
    """The mu of all these Gaussian mechanisms on all records together: mu² = Σ 1/σ²."""
    square = ZERO
    for step, times in Counter(steps).items():
        if step.rate < 1 or step.epsilons:
            raise Wrong(f"{step} is no noise on all records")
        square += times / ball(step.noise) ** 2
    return square.sqrt()
