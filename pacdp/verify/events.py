"""The mechanisms behind a price: what an event says that ran, step by step."""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import ONE, ZERO, ball
from pacdp.verify.claim import Unchecked, Wrong

_MOST_ON_A_SAMPLE = 6


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
            no = 1 - yes
            more = [(added + epsilon, p * yes) for added, p in found]
            less = [(added - epsilon, p * no) for added, p in found]
            found = more + less
        return found


def steps_of(
    event: Any,
    replaced: bool = False,
    rate: float = 1.0,
) -> Counter[Step]:
    """How often each step ran; a sample of a sample is one at the product of their rates."""
    kind = event["event"]
    inner = event.get("inner")
    if kind == "PoissonSampled":
        return steps_of(inner, replaced, rate * event["sample_rate"])
    if kind == "NonPrivate":
        return Counter({Step(rate, 0.0): 1})
    if kind == "SelfComposed" and rate == 1.0:
        once = steps_of(inner, replaced)
        return Counter(
            {step: times * int(event["count"]) for step, times in once.items()}
        )
    if kind == "Composed" and rate == 1.0:
        return sum((steps_of(part, replaced) for part in inner), Counter())
    return Counter({_on_one_sample(event, replaced, rate): 1})


def _on_one_sample(
    event: Any,
    replaced: bool,
    rate: float,
) -> Step:
    noises = list[float]()
    epsilons = list[float]()
    for part in _parts(event):
        if part["event"] == "Gaussian":
            noises.append(float(part["noise_multiplier"]))
        else:
            epsilons.append(_pure(part, replaced))
    if rate < 1.0 and (
        len(epsilons) > _MOST_ON_A_SAMPLE or (replaced and epsilons)
    ):
        raise Unchecked(
            f"no theorem here covers {len(epsilons)} pure mechanisms on a sample of these neighbours"
        )
    return Step(rate, noise_of_all(noises), tuple(sorted(epsilons)))


def noise_of_all(noises: list[float]) -> float:
    """The noise multiplier of these releases together: 1/σ² = Σ 1/z²."""
    if not noises:
        return math.inf
    if len(noises) == 1:
        return noises[0]
    return math.fsum(noise**-2 for noise in noises) ** -0.5


def _parts(event: Any) -> Iterator[Any]:
    match event["event"]:
        case "Composed":
            for part in event["inner"]:
                yield from _parts(part)
        case "SelfComposed":
            for _ in range(int(event["count"])):
                yield from _parts(event["inner"])
        case _:
            yield event


def _pure(event: Any, replaced: bool) -> float:
    kind = event["event"]
    added = event.get("adjacency") == "add-remove"
    if kind != "ExponentialMechanism" or not (replaced or added):
        raise Unchecked(
            f"this checker composes no {kind} of these neighbours on one sample"
        )
    return float(event["epsilon"]) * (2 if added and replaced else 1)


def steps_in_order(event: Any) -> list[Step]:
    """The steps one after another; None stands for a run that had not begun."""
    if event is None:
        return []
    if event["event"] == "SelfComposed":
        return steps_in_order(event["inner"]) * int(event["count"])
    found = list[Step]()
    if event["event"] == "Composed":
        for part in event["inner"]:
            found += steps_in_order(part)
    return found or list(steps_of(event).elements())


class NoisySum(NamedTuple):
    """A sum over the records with noise: the sampling rate, 1/(noise multiplier)², and how often it was released."""

    rate: arb
    x: arb
    times: int


def noisy_sums_of(event: Any) -> Iterator[NoisySum]:
    """The noisy sums that ran, on all records or on a Poisson sample each."""
    match event["event"]:
        case "Gaussian":
            yield NoisySum(ONE, 1 / ball(event["noise_multiplier"]) ** 2, 1)
        case "PoissonSampled" if event["inner"]["event"] == "Gaussian":
            (each,) = noisy_sums_of(event["inner"])
            yield each._replace(rate=ball(event["sample_rate"]))
        case "Composed":
            for part in event["inner"]:
                yield from noisy_sums_of(part)
        case "SelfComposed":
            for each in noisy_sums_of(event["inner"]):
                yield each._replace(times=each.times * int(event["count"]))
        case kind:
            raise Wrong(
                f"{kind} is no noisy sum on all records or on one Poisson sample"
            )
