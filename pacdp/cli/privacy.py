"""`pacdp privacy`: the accountant of `bounds` for people: epsilon of a schedule, or noise for a target."""

import math
import reprlib
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from bounds._check import json_value
from bounds.accounting import (
    Composed,
    Gaussian,
    PoissonSampled,
    SelfComposed,
    best_true_positive_rate,
    calibrate_noise,
    privacy_epsilon,
)
from bounds.numbers import down_digits, up_digits
from pacdp.cli.commands.bounds import Privacy
from pacdp.cli.serial import Values
from pacdp.cli.terminal import refusing

FALSE_POSITIVE_RATE = 0.01
_LEAST_NOISE, _MOST_NOISE = 1e-100, 1e10  # what the accountant can resolve
_LEAST_RATE, _MOST_STEPS = 1e-9, 10**9


def answered(question: Privacy) -> tuple[Values, list[str]]:
    """The epsilon of the schedule, or of the schedule scaled to the target: as JSON values and in lines.

    Rates below 1e-9 are counted as 1e-9. In lines every number is rounded to its safe side; in JSON null stands for an
    infinite epsilon.

    Raises:
        ValueError: something is missing, given twice or out of range, or no noise meets the target.
    """
    runs, rate, scale = _runs(question), question.sample_rate, None
    counted = max(rate, _LEAST_RATE) if rate > 0.0 else rate
    event = Composed(events=tuple(
        SelfComposed(event=PoissonSampled(sample_rate=counted, event=Gaussian(noise_multiplier=noise)), count=count)
        for noise, count in runs
    ))  # fmt: skip
    privacy = {"delta": question.delta, "adjacency": question.adjacency}
    if question.epsilon is None:
        bound = privacy_epsilon(event=event, **privacy)
    else:
        made = calibrate_noise(event=event, epsilon=question.epsilon, **privacy)
        event, bound, scale = made.event, made.achieved, made.scale
        runs = [(noise * made.scale, count) for noise, count in runs]
    attack = best_true_positive_rate(
        event=event, adjacency=question.adjacency, false_positive_rate=FALSE_POSITIVE_RATE
    )
    steps = sum(count for _, count in runs)
    found = {name: None if value == math.inf else value for name, value in bound.to_dict().items()}
    values: Values = {
        "format": "pacdp-privacy/1", **found, "sample_rate": rate, "steps": steps, "runs": list(map(list, runs)),
        "scale": scale,
        "attack": {"false_positive_rate": FALSE_POSITIVE_RATE, "true_positive_rate": attack},
    }  # fmt: skip
    one, first, last = len(runs) == 1, repr(runs[0][0]), repr(runs[-1][0])
    noise = f"noise multiplier {first}" if one else f"noise multipliers from {first} to {last}"
    scaled = noise if one else f"factor {scale!r} on every noise multiplier of the schedule"
    return values, [
        *([] if scale is None else [scaled]),
        f"epsilon <= {up_digits(bound.upper, 6)} at delta {bound.delta:g}, {bound.adjacency} neighbours",
        f"  lower      {down_digits(bound.lower, 6)}",
        f"  estimate   {up_digits(bound.estimate, 6)}",
        f"  upper      {up_digits(bound.upper, 6)}",
        f"  status     {bound.status} ({bound.method})",
        f"  schedule   {steps} steps on Poisson batches at sample rate {rate:g}, {noise}",
        f"best attacker: finds the record with probability <= {up_digits(attack, 6)} at "
        f"{FALSE_POSITIVE_RATE:.0%} false positives",
    ]


def _runs(question: Privacy) -> list[tuple[float, int]]:
    """(noise multiplier, steps), equal steps in a row counted together."""
    noise, steps = question.noise_multiplier, question.steps
    if question.schedule is not None:
        if noise is not None or steps is not None:
            raise ValueError(
                "--schedule says noise multipliers and steps: leave --noise-multiplier and --steps out"
            )
        values = read_schedule(question.schedule)
        return [(value, len(list(group))) for value, group in groupby(values)]
    if steps is None:
        raise ValueError("give --steps, or --schedule with a file of noise multipliers")
    if not 1 <= steps <= _MOST_STEPS:
        raise ValueError(f"--steps must be at least 1 and at most a thousand million, got {steps}")
    if (noise is None) == (question.epsilon is None):
        raise ValueError(
            "give --noise-multiplier to learn epsilon, or --epsilon to learn the noise multiplier"
        )
    return [(1.0 if noise is None else _noise(noise, "--noise-multiplier"), steps)]


def read_schedule(path: Path) -> list[float]:
    """One noise multiplier a step: a JSON list, or text with a number a line.

    Raises:
        ValueError: the file cannot be read, or holds something else.
    """
    with refusing(f"{path} is no list of noise multipliers that can be read"):
        text = path.read_text(encoding="utf-8-sig").strip()
        values = json_value(text) if text[:1] in ("[", "{") else text.split()
        if not isinstance(values, list):
            raise TypeError("a JSON list was expected")
    if not values:
        raise ValueError(f"{path} holds no noise multiplier: a schedule has at least one step")
    return [_noise(value, f"{path}, step {step}") for step, value in enumerate(values, start=1)]


def _noise(value: Any, where: str) -> float:
    noise = math.nan
    if not isinstance(value, bool):
        with suppress(TypeError, ValueError, OverflowError):
            noise = float(value)
    if not _LEAST_NOISE <= noise <= _MOST_NOISE:
        raise ValueError(
            f"{where}: a noise multiplier must be a number above 0 (up to 1e10), got {reprlib.repr(value)}"
        )
    return noise
