"""`pacdp privacy`: the accountant of `bounds` for people: epsilon of a schedule, or noise for a target."""

import csv
import math
import reprlib
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from bounds._check import json_value
from bounds.accounting import (
    Composed,
    Event,
    Gaussian,
    PoissonSampled,
    PrivacyBound,
    SelfComposed,
    best_true_positive_rate,
    calibrate_noise,
    privacy_epsilon,
)
from bounds.sentence import down_digits, up_digits
from pacdp.cli.commands.bounds import Privacy

FALSE_POSITIVE_RATE = 0.01
_LEAST_NOISE, _MOST_NOISE = 1e-100, 1e10  # what the accountant can resolve
_LEAST_RATE, _MOST_STEPS = 1e-9, 10**9
_COLUMN = "noise_multiplier"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the steps promise."""

    bound: PrivacyBound
    runs: tuple[tuple[float, int], ...]
    """(noise multiplier, steps), equal steps in a row counted together."""
    sample_rate: float
    scale: float | None
    """The factor that a target took on the schedule's noise multipliers."""
    true_positive_rate: float
    """The success of the best membership attack at ``FALSE_POSITIVE_RATE``, rounded up."""

    @property
    def steps(self) -> int:
        """Number of noisy steps."""
        return sum(count for _, count in self.runs)

    def to_dict(self) -> dict[str, Any]:
        """Plain types for JSON; null stands for an infinite epsilon."""
        bound = {
            name: None if value == math.inf else value
            for name, value in self.bound.to_dict().items()
        }
        return {
            "format": "pacdp-privacy/1", **bound, "sample_rate": self.sample_rate, "steps": self.steps,
            "runs": [list(run) for run in self.runs], "scale": self.scale,
            "attack": {"false_positive_rate": FALSE_POSITIVE_RATE, "true_positive_rate": self.true_positive_rate},
        }  # fmt: skip


def answer(question: Privacy) -> Answer:
    """The epsilon of the schedule, or of the schedule scaled to the target. Rates below 1e-9 are counted as 1e-9.

    Raises:
        ValueError: something is missing, given twice or out of range, or no noise meets the target.
    """
    runs, scale = _runs(question), None
    rate = question.sample_rate
    event = _event(runs, max(rate, _LEAST_RATE) if rate > 0.0 else rate)
    privacy = {"delta": question.delta, "adjacency": question.adjacency}
    if question.epsilon is None:
        bound = privacy_epsilon(event=event, **privacy)
    else:
        made = calibrate_noise(event=event, epsilon=question.epsilon, **privacy)
        event, bound, scale = made.event, made.achieved, made.scale
        runs = tuple((noise * made.scale, count) for noise, count in runs)
    found = best_true_positive_rate(
        event=event, adjacency=question.adjacency, false_positive_rate=FALSE_POSITIVE_RATE
    )
    return Answer(
        bound=bound,
        runs=runs,
        sample_rate=question.sample_rate,
        scale=scale,
        true_positive_rate=found,
    )


def describe(answer: Answer) -> str:
    """The answer in lines; every number is rounded to its safe side."""
    bound, lines = answer.bound, []
    first, last = repr(answer.runs[0][0]), repr(answer.runs[-1][0])
    noise = (
        f"noise multiplier {first}"
        if len(answer.runs) == 1
        else f"noise multipliers from {first} to {last}"
    )
    if answer.scale is not None and len(answer.runs) == 1:
        lines.append(noise)
    elif answer.scale is not None:
        lines.append(f"factor {answer.scale!r} on every noise multiplier of the schedule")
    lines += [
        f"epsilon <= {up_digits(bound.upper, 6)} at delta {bound.delta:g}, {bound.adjacency} neighbours",
        f"  lower      {down_digits(bound.lower, 6)}",
        f"  estimate   {up_digits(bound.estimate, 6)}",
        f"  upper      {up_digits(bound.upper, 6)}",
        f"  status     {bound.status} ({bound.method})",
        f"  schedule   {answer.steps} steps on Poisson batches at sample rate {answer.sample_rate:g}, {noise}",
        f"best attacker: finds the record with probability <= {up_digits(answer.true_positive_rate, 6)} at "
        f"{FALSE_POSITIVE_RATE:.0%} false positives",
    ]
    return "\n".join(lines)


def read_schedule(path: Path) -> list[float]:
    """One noise multiplier a step: a JSON list, or CSV with a number a line or a column ``noise_multiplier``.

    Raises:
        ValueError: the file cannot be read, or holds something else.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(
            f"{path} cannot be read ({error.strerror}): check it and its permissions"
        ) from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is no text file: give a JSON list or CSV of noise multipliers"
        ) from error
    if path.suffix.lower() == ".csv":
        values = _from_csv(path, text)
    else:
        try:
            values = json_value(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{path} is no JSON ({error}): give a list of noise multipliers, or a .csv"
            ) from error
        if not isinstance(values, list):
            raise ValueError(
                f"{path} must hold a JSON list of noise multipliers, one a step, not {type(values)!r}"
            )
    if not values:
        raise ValueError(f"{path} holds no noise multiplier: a schedule has at least one step")
    return [_noise(value, f"{path}, step {step}") for step, value in enumerate(values, start=1)]


def _from_csv(path: Path, text: str) -> list[Any]:
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines())]
    except csv.Error as error:
        raise ValueError(f"{path} is no CSV ({error}): give a noise multiplier a line") from error
    rows, column = [row for row in rows if any(row)], 0
    if rows and _COLUMN in rows[0]:
        column = rows.pop(0).index(_COLUMN)
    elif any(len(row) != 1 for row in rows):
        raise ValueError(
            f"{path} has several columns and none called {_COLUMN}: name it in the first line"
        )
    return [row[column] if column < len(row) else "" for row in rows]


def _noise(value: Any, where: str) -> float:
    try:
        noise = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        noise = math.nan
    if not _LEAST_NOISE <= noise <= _MOST_NOISE:
        got = reprlib.repr(value)
        raise ValueError(
            f"{where}: a noise multiplier must be a number above 0 (up to 1e10), got {got}"
        )
    return noise


def _runs(question: Privacy) -> tuple[tuple[float, int], ...]:
    if question.schedule is not None:
        if question.noise_multiplier is not None or question.steps is not None:
            raise ValueError(
                "--schedule says noise multipliers and steps: leave --noise-multiplier and --steps out"
            )
        values = read_schedule(question.schedule)
        return tuple((value, len(list(group))) for value, group in groupby(values))
    if question.steps is None:
        raise ValueError("give --steps, or --schedule with a file of noise multipliers")
    if question.steps < 1:
        raise ValueError(f"--steps must be at least 1, got {question.steps}")
    if question.steps > _MOST_STEPS:
        raise ValueError(f"--steps must be at most a thousand million, got {question.steps}")
    if (question.noise_multiplier is None) == (question.epsilon is None):
        raise ValueError(
            "give --noise-multiplier to learn epsilon, or --epsilon to learn the noise multiplier"
        )
    noise = (
        1.0
        if question.noise_multiplier is None
        else _noise(question.noise_multiplier, "--noise-multiplier")
    )
    return ((noise, question.steps),)


def _event(runs: tuple[tuple[float, int], ...], sample_rate: float) -> Event:
    return Composed(events=tuple(
        SelfComposed(event=PoissonSampled(sample_rate=sample_rate, event=Gaussian(noise_multiplier=noise)), count=count)
        for noise, count in runs
    ))  # fmt: skip
