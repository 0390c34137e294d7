"""Worlds of an adversary, played through public doors: who misses more often than was stated is found out.

A world draws a finite law and a sample of it, asks a door, and says of each printed statement what is true. It misses
if any of them is false, which may happen with probability ``FAILURE``; a refusal in a sentence is no miss. World
``number`` of a door is a pure function of the two, so that a miss can be played again.
"""

import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy import stats

FAILURE = 0.2
"""High, so that few worlds have power."""
MARK = "## An adversary that stays\n"
"""The head of the section of docs/coverage.md that ``python -m tests.adversary`` writes."""
LEVEL = 1e-3
"""Of the tests of all doors together."""
_ROUNDING = 1e-12


class Row(NamedTuple):
    """A printed statement beside the truth; None where nothing is printed."""

    what: str
    lower: float | None
    upper: float | None
    truth: float

    def false(self, shrunk=1.0):
        """Whether it is, were the upper limit, or the complement of the lower one, multiplied by ``shrunk``."""
        above = self.upper is not None and self.truth - _ROUNDING > shrunk * self.upper
        return above or (self.lower is not None and self.truth + _ROUNDING < 1 - shrunk * (1 - self.lower))


class World(NamedTuple):
    """What is asked; an honest one may not be refused."""

    habit: str
    law: str
    ask: Callable[[], list[Row]]
    honest: bool = True


class Door(NamedTuple):
    """A door with worlds by (random numbers, failure probability).

    ``share`` of all worlds are its own. With limits multiplied by ``fault`` it must be found out. ``cheats`` are worlds
    that may all be refused.
    """

    name: str
    world: Callable[[np.random.Generator, float], World]
    share: float
    fault: float = 0.7
    cheats: bool = False


class Played(NamedTuple):
    """What became of a world: statements, or the refusal."""

    number: int
    world: World
    rows: list[Row]
    refusal: str = ""

    def false(self, shrunk=1.0):
        """The statements that are, were all limits multiplied by ``shrunk``."""
        return [row for row in self.rows if row.false(shrunk)]


def play(door, number):
    """World ``number`` of a door."""
    world = door.world(np.random.default_rng([zlib.crc32(door.name.encode()), number]), FAILURE)
    try:
        rows = world.ask()
    except ValueError as refusal:
        return Played(number, world, [], str(refusal) or "refused without a word")
    assert rows, f"world {number}: nothing was said"
    return Played(number, world, rows)


@dataclass
class Tally:
    """Worlds by habit: played, refused, missed, missed if limits had the door's fault; what to play again, in words."""

    played: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    faulty: Counter[str] = field(default_factory=Counter)
    misses: list[str] = field(default_factory=list)
    affronts: list[str] = field(default_factory=list)

    def add(self, found, fault):
        """Count a world."""
        habit, false = found.world.habit, found.false()
        self.played[habit] += 1
        self.refused[habit] += bool(found.refusal)
        self.missed[habit] += bool(false)
        self.faulty[habit] += bool(found.false(fault))
        said = f"world {found.number}, {habit}: {found.world.law}: {found.refusal or false}"
        if false:
            self.misses.append(said)
        if found.refusal and found.world.honest:
            self.affronts.append(said)

    def join(self, other):
        """This one, with what another one counted."""
        for name in ("played", "refused", "missed", "faulty"):
            getattr(self, name).update(getattr(other, name))
        self.misses += other.misses
        self.affronts += other.affronts
        return self

    def p_value(self, missed=None):
        """Of "no world misses with probability above FAILURE": the least over all worlds and each habit, paid for.

        Each is the exact binomial tail at FAILURE: no sum of independent worlds that keep to it exceeds a number
        beyond its mean with more than about that probability (Hoeffding 1956).
        """
        missed = self.missed if missed is None else missed
        counts = [(missed.total(), self.played.total()), *((missed[habit], n) for habit, n in self.played.items())]
        return min(1.0, len(counts) * min(float(stats.binom.sf(k - 1, n, FAILURE)) for k, n in counts))


def tally(door, numbers):
    """What became of these worlds of a door."""
    counted = Tally()
    for number in numbers:
        counted.add(play(door, number), door.fault)
    return counted
