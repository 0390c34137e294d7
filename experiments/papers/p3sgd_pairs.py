"""Means over seeds, and differences between runs of one seed, which share their split of the people; and the guard that
a network has to pass before a small gap of it, or an accuracy that it keeps, answers anything."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import polars as pl

from experiments.claims import MISSING, Claim, Measured, by_seeds, every
from experiments.tables import by_key, shown

RUINED = "is not better than guessing by two standard errors"
"""What evidence says of a network that :class:`Guard` stops."""
GUARDED = (
    "That a small gap, a lead in accuracy or a bad reconstruction counts only where the networks that it speaks of are "
    "better than guessing, by two standard errors of paired runs, was laid down after the data were seen: otherwise it "
    "is left open."
)
"""A note of every study that judges by it."""
POINT = 1.0
"""The least difference in accuracy, in percentage points, that counts."""
Values = Mapping[Any, float]
"""A number of each run, by its seed."""


class Guard(NamedTuple):
    """Whether a network is better than guessing.

    A network that noise or a regulariser has ruined has a small gap, and is as good as another ruined one: that answers
    no sentence about networks that learn. So what would hold by it is left open; what fails, fails.
    """

    network: str
    accuracy: float | None
    over: Measured | None
    """By how many points its testing accuracy exceeds that of guessing, in pairs of runs."""
    guess: str
    """What guessing is, with its accuracy."""
    start: str = ""
    """What the network began as, and how far it is above that now."""

    @classmethod
    def of(
        cls, network: str, accuracy: Values, guess: Values, start: Values | None = None, *,
        by: str = "the most frequent class", began: str = "its start",
    ) -> "Guard":  # fmt: skip
        """From percentages by seed.

        Args:
            by: how guessing is told.
            began: how the start is told.
        """
        over, told = Measured.between(accuracy, guess), ""
        if start and (gain := Measured.between(accuracy, start)) is not None:
            better = {True: "better", False: "worse", None: "neither better nor worse"}[gain.above(0.0)]
            told = f"{began} {_percent(start)} ({_signed(gain)}: {better})"
        return cls(network, _mean(accuracy), over, f"{by} alone {_percent(guess)}", told)

    @property
    def passed(self) -> bool:
        """Whether it exceeds guessing by more than two standard errors."""
        return self.over is not None and self.over.above(0.0) is True

    def told(self, guess: bool = True) -> str:
        """In words: the network, guessing unless it has been told, the start."""
        above = MISSING if self.over is None else _signed(self.over)
        own = "missing" if self.accuracy is None else f"{self.accuracy:.2f} %"
        beside = f", {self.guess}" if guess else ""
        return f"{self.network} {own}{beside} ({above}){', ' if self.start else ''}{self.start}"


def guarded(holds: bool | None, evidence: str, *guards: Guard) -> tuple[bool | None, str]:
    """A rule's answer with the networks that it speaks of: what would hold is open where one of them only guesses."""
    known = ["", *(one.guess for one in guards)]
    told = "; ".join([evidence, *(one.told(one.guess != before) for one, before in zip(guards, known, strict=False))])
    ruined = [one.network for one in guards if not one.passed]
    if holds is True and ruined:
        return None, f"{told}; open, since {' and '.join(ruined)} {RUINED}"
    return holds, told


class Lead(NamedTuple):
    """That one network is more accurate than others by :data:`POINT`."""

    sentence: str
    gains: tuple[Measured | None, ...]
    """In pairs of runs, over each of the others."""
    evidence: str
    guards: tuple[Guard, ...]
    """The guards of all networks that it speaks of."""

    def answer(self, margin: float) -> tuple[bool | None, str]:
        """What the table says, such a margin being asked."""
        return guarded(every(above_by(gain, margin) for gain in self.gains), self.evidence, *self.guards)

    def claim(self) -> Claim:
        """The margin being a point."""
        left = [gain and gain._replace(mean=gain.mean - POINT) for gain in self.gains]
        return Claim(self.sentence, *self.answer(POINT), settled_by=by_seeds(*left))


_WORDS = {True: "hold", False: "fail", None: "be open"}


def margins(leads: Iterable[Lead], printed: float) -> str:
    """Sentences on the margin, and what no margin at all would say.

    Args:
        printed: by how many points the paper's P3SGD leads the best of its rivals.
    """
    found = [(lead.sentence, lead.answer(POINT)[0], lead.answer(0.0)[0]) for lead in leads]
    others = [f'"{words}" would {_WORDS[none]}' for words, asked, none in found if asked is not none]
    return (
        f"That a lead in accuracy has to be {POINT:g} point or more, everywhere, was fixed after a first look at the "
        f"data; were any lead enough, {', '.join(others) or 'every answer would be the same'}. The "
        f"paper's own lead over DropBlock, {printed:.2f} points, is {'less' if printed < POINT else 'no less'}."
    )


def _mean(values: Values) -> float | None:
    return sum(values.values()) / len(values) if values else None


def _percent(values: Values) -> str:
    return f"{shown(_mean(values), 2)} %" if values else "missing"


def _signed(gain: Measured) -> str:
    noise = "one pair" if gain.noise is None else f"two standard errors {shown(gain.noise, 2)}"
    return f"{gain.mean:+.2f}, {noise}"


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
    return MISSING if gain is None else f"pairs differ by {_signed(gain)}"
