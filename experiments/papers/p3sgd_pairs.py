"""Means over seeds, and differences between runs of one seed, which share their split of the people."""

import math

import polars as pl

from experiments.claims import MISSING, Measured, count_noise, seed_noise
from experiments.tables import by_key, column, mean, shown


def scored(table: pl.DataFrame, name: str, **where: str) -> Measured | None:
    """A mean accuracy or gap in points. Its noise is of counts on one test set, which all seeds share and which people
    make larger, and of the mean over seeds where there are several."""
    values, counts = column(table, name, where), list[tuple[float, float]]()
    for side, n in (("test_accuracy", "n_test"), ("train_accuracy", "n"))[: 1 if name == "test_accuracy" else 2]:
        share, size = (mean(table, one, **where) for one in (side, n))
        if not values or share is None or size is None:
            return None
        counts.append((share / 100.0, size))
    noise = math.hypot(100.0 * count_noise(*counts), seed_noise(values))
    return Measured(sum(values) / len(values), noise, len(values))


def higher(one: Measured | None, other: Measured | None, by: float = 0.0) -> bool | None:
    """Whether one > other + by; None within the noise of both, and where either is missing."""
    return None if one is None or other is None else one.minus(other).above(by)


def pair_gain(table: pl.DataFrame, one: dict[str, str], other: dict[str, str], **where: str) -> Measured | None:
    """By how many points one row's testing accuracy exceeds another's, in runs of one seed, which share their split."""
    values = (by_key(table, "test_accuracy", by="seed", **where, **row) for row in (one, other))
    return Measured.between(*values)


def above_by(gain: Measured | None, by: float = 0.0) -> bool | None:
    """Whether it exceeds a number; None where it is not known."""
    return None if gain is None else gain.above(by)


def told(gain: Measured | None) -> str:
    """The difference and its noise in words."""
    if gain is None:
        return MISSING
    noise = "one pair" if gain.noise is None else f"two standard errors {shown(gain.noise, 2)}"
    return f"pairs differ by {gain.mean:+.2f}, {noise}"
