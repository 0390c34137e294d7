"""Sentences of papers as data: relations between numbers of a table, and the one judge that evaluates them.

A number is a function of the table (:func:`cell`, :func:`exactly`, :func:`ratio`, or one of a study's own) that gives
a :class:`Measured`, or None where runs are missing. A relation holds, does not hold, or is open (None) where the
difference lies within its 95% interval: by Student's law over seeds, of the differences of runs that share their seeds
where there are such, else of both means; of counts on one test set where a number is a share of so many examples.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import polars as pl
from scipy.special import stdtrit

import bounds
from experiments.tables import part
from pacdp.cli.figures.names import up_digits

FEWEST_PAIRS = 3
"""Pairs of runs from which on their differences decide: of two, Student's interval is as wide as 12.7 standard errors
to each side."""
RELEVANT = 0.1
"""The least difference of practical relevance, as a share of what it is measured against."""
TEST_FAILURE_PROB = 0.05
"""With which a risk may lie below :func:`least_risk`."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A mean over repetitions, mostly seeds."""

    values: Mapping[Any, float]
    """By repetition; those that two numbers share are paired."""
    examples: float | None = None
    """Where the values are shares of so many test examples."""
    error: float | None = None
    """Half of an interval that is known otherwise; 0 of what is exact."""
    log: bool = False
    """Whether values are compared and averaged as logarithms."""

    @property
    def mean(self) -> float:
        """Arithmetic, or geometric, mean."""
        return math.exp(self._middle) if self.log else self._middle

    @property
    def _middle(self) -> float:
        return statistics.fmean(self._scaled.values())

    @property
    def noise(self) -> float | None:
        """Half of the 95% interval, of the logarithm where ``log``, where it takes FEWEST_PAIRS; None where nothing is
        known of it."""
        if self.error is not None:
            return self.error
        counts = count_noise((self.mean, self.examples)) if self.examples else None
        found = list(self._scaled.values())
        if len(found) < (FEWEST_PAIRS if self.log else 2):
            return counts
        return math.hypot(spread(found), counts or 0.0)

    @property
    def _scaled(self) -> Mapping[Any, float]:
        return {key: math.log(one) for key, one in self.values.items()} if self.log else self.values

    def gap(self, other: "Measured", *, share: float = 0.0) -> tuple[float, float | None]:
        """This minus (1 - share) times the other, with half of its 95% interval."""
        log = self.log or other.log
        if log and not (self.log and other.log):
            return replace(self, log=True).gap(replace(other, log=True), share=share)
        less = replace(other, values={key: (1.0 - share) * value for key, value in other.values.items()})
        own, theirs = self._scaled, less._scaled
        difference = statistics.fmean(own.values()) - statistics.fmean(theirs.values())
        shared = [own[key] - theirs[key] for key in own if key in theirs]
        if len(shared) >= FEWEST_PAIRS and self.error is None and other.error is None:
            middle, noise = statistics.fmean(shared), spread(shared)
            if self.examples:  # one test set: at least so many examples are answered otherwise
                noise = math.hypot(noise, 2.0 * math.sqrt(min(abs(middle), 1.0) / self.examples))
            return middle, noise
        if self.noise is None or other.noise is None:
            return difference, None
        return difference, math.hypot(self.noise, (1.0 if log else 1.0 - share) * other.noise)

    def __str__(self) -> str:
        """The mean, with the spread of one seed; a ratio with its interval."""
        if self.log and self.noise is not None:
            ends = (math.exp(self._middle + sign * self.noise) for sign in (-1, 1))
            return f"{self.mean:.3f} ({' to '.join(f'{end:.3f}' for end in ends)}, {len(self.values)} pairs)"
        if len(self.values) < 2:
            return f"{self.mean:.4g}"
        return f"{self.mean:.4g} (s.d. {statistics.stdev(self.values.values()):.2g}, {len(self.values)} seeds)"


Made = TypeVar("Made")


class Number(Protocol):
    """A number of a table; None where it is missing."""

    def __call__(self, table: pl.DataFrame, /) -> Measured | None:
        """The number."""
        ...


def made_of(function: Callable[..., Made], *numbers: Number | float) -> Callable[[pl.DataFrame], Made | None]:
    """What a function makes of numbers; None where one of them is missing."""

    def made(table: pl.DataFrame, /) -> Made | None:
        found = [number(table) if callable(number) else exact(number) for number in numbers]
        return None if None in found else function(*found)

    return made


def largest(number: Number) -> Number:
    """The largest of a number's repetitions: a certificate that each of them proves."""
    return made_of(lambda found: exact(max(found.values.values())), number)


def exact(value: float | None) -> Measured | None:
    """A number without noise."""
    return None if value is None else Measured({0: value}, error=0.0)


@dataclass(frozen=True, slots=True)
class Cell:
    """The known values of a column in the rows where other columns have given values; see :func:`cell`."""

    column: str
    where: Mapping[str, Any]
    by: str = "seed"
    examples: str | None = None
    exact: bool = False

    def __call__(self, table: pl.DataFrame, /) -> Measured | None:
        """The mean of the rows that match."""
        if table.is_empty() or self.column not in table.columns:
            return None
        rows = part(table, **self.where).filter(pl.col(self.column).is_not_null())
        if rows.is_empty():
            return None
        keys = rows[self.by].to_list() if self.by in rows.columns else range(rows.height)
        values = dict(zip(keys, rows[self.column].cast(pl.Float64).to_list(), strict=True))
        if len(values) < rows.height:
            raise ValueError(f"several rows have one {self.by} where {dict(self.where)}: name what tells them apart")
        examples = rows[self.examples][0] if self.examples else None
        return Measured(values, examples, 0.0 if self.exact else None)


def cell(column: str, *, by: str = "seed", examples: str | None = None, **where: Any) -> Cell:
    """The mean of a column over the rows with these values, one a seed; ``examples`` names the column with the number
    of test examples of which the values are shares."""
    return Cell(column, where, by, examples)


def exactly(column: str, *, by: str = "seed", **where: Any) -> Cell:
    """The same of a number without noise, such as an epsilon or a certificate."""
    return Cell(column, where, by, exact=True)


def ratio(over: Number | Sequence[Number], under: Number | Sequence[Number]) -> Number:
    """The geometric mean of one number over another, by repetitions that they share; over several pairs of numbers,
    of the repetitions that all of them share. None without a repetition in common."""
    tops, bottoms = ([side] if callable(side) else list(side) for side in (over, under))

    def of_all(*found: Measured) -> Measured | None:
        tables = [one.values for one in found]
        keys = [key for key in tables[0] if all(one.get(key, 0.0) > 0.0 for one in tables)]
        above, below = (
            {key: statistics.geometric_mean(own[key] for own in side) for key in keys}
            for side in (tables[: len(tops)], tables[len(tops) :])
        )
        return Measured({key: above[key] / below[key] for key in keys}, log=True) if keys else None

    return made_of(of_all, *tops, *bottoms)


Holds = bool | None
HOLDS = {True: "holds", False: "does not hold", None: "is open"}
Relation = Callable[[pl.DataFrame], Holds]
"""What the judge evaluates: the records below, or a study's own function where no record says it."""


def beyond(difference: float, noise: float | None) -> Holds:
    """Whether a difference is positive; None within its noise."""
    return None if noise is None or abs(difference) < noise or difference == noise == 0.0 else difference > 0.0


@dataclass(frozen=True, slots=True)
class Below:
    """one < (1 - share) other - margin."""

    one: Number | float
    other: Number | float
    share: float = 0.0
    margin: float = 0.0

    def __call__(self, table: pl.DataFrame, /) -> Holds:
        """Whether it holds beyond its 95% interval."""
        return made_of(self._decided, self.one, self.other)(table)

    def _decided(self, one: Measured, other: Measured) -> Holds:
        difference, noise = one.gap(other, share=self.share)
        return beyond(-difference - self.margin, noise)


@dataclass(frozen=True, slots=True)
class Every:
    """All relations hold; None where one is open and none fails."""

    relations: Sequence[Relation]

    def __call__(self, table: pl.DataFrame, /) -> Holds:
        """Whether all hold."""
        found = [one(table) for one in self.relations]
        return False if False in found else None if not found or None in found else True


def within(one: Number | float, other: Number | float, margin: float) -> Every:
    """|one - other| < margin."""
    return Every([Below(one, other, margin=-margin), Below(other, one, margin=-margin)])


def count(relations: Sequence[Relation]) -> Number:
    """How many relations hold."""
    return lambda table: exact(sum(relation(table) is True for relation in relations))


@dataclass(frozen=True, slots=True)
class Most:
    """More than half of the relations hold; None where the open ones could turn it."""

    relations: Sequence[Relation]

    def __call__(self, table: pl.DataFrame, /) -> Holds:
        """Whether most hold."""
        found = [one(table) for one in self.relations]
        sure, left = found.count(True), found.count(None)
        return True if 2 * sure > len(found) else None if not found or 2 * (sure + left) > len(found) else False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A sentence of a paper that can fail, and what our table says of it."""

    answers: tuple[str, ...] = ()
    """The rows of sentences.csv that it answers, by their keys."""
    place: str = ""
    """Such as "Table 1" or "5.2"; none of our own sentences has one."""
    printed: str
    """A whole sentence, in the paper's words as near as may be."""
    ours: str
    """A whole sentence with names of ``evidence`` in braces: {private}, {private:.3f}, {bound:up}."""
    holds: Relation
    evidence: Mapping[str, Number] = field(default_factory=dict)
    why: str = ""
    """What was done otherwise, or what would decide it; a reason of a difference only if it was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """A line of a paper's table: its numbers beside ours."""

    answers: tuple[str, ...] = ()
    place: str
    """Lines of one place make one table of the page."""
    what: str
    numbers: Mapping[str, tuple[float | str | None, Number]]
    """By heading: what is printed, and ours."""
    why: str = ""


class Judged(NamedTuple):
    """What the judge says of a sentence."""

    sentence: Sentence
    holds: Holds
    said: str
    """``ours`` with its numbers; that runs are missing, where they are."""
    evidence: str
    """Each number of it with its spread."""

    @property
    def word(self) -> str:
        """What ``holds`` is in words."""
        return HOLDS[self.holds]


class Shown(float):
    """A number in a sentence: three significant digits, or as the format says; "up" rounds a certificate up."""

    def __format__(self, spec: str) -> str:
        """The digits."""
        if spec.startswith("up"):
            return up_digits(float(self), int(spec[2:] or 3))
        return format(float(self), spec or ".3g")


def judge(sentence: Sentence, table: pl.DataFrame) -> Judged:
    """Whether a sentence holds in a table, and what is said of it."""
    found = {name: None if table.is_empty() else number(table) for name, number in sentence.evidence.items()}
    shown = "; ".join(f"{name} {one}" for name, one in found.items() if one)
    if None in found.values():
        return Judged(sentence, None, "Runs are missing.", shown)
    return Judged(sentence, sentence.holds(table), say(sentence.ours, found), shown)


def say(text: str, numbers: Mapping[str, Measured | None]) -> str:
    """A sentence with the means of numbers in it."""
    return text.format(**{name: Shown(one.mean) for name, one in numbers.items() if one})


def spread(values: Sequence[float]) -> float:
    """Half of the 95% interval of a mean, by Student's law."""
    quantile = float(stdtrit(len(values) - 1, 0.975))
    return quantile * statistics.stdev(values) / math.sqrt(len(values))


def count_noise(*counts: tuple[float, float]) -> float:
    """Two standard deviations of a sum or difference of shares, each given as (share, number of examples)."""
    wide = [((share * number + 2.0) / (number + 4.0), number) for share, number in counts]  # Agresti and Coull
    return 2.0 * math.sqrt(sum(share * (1.0 - share) / number for share, number in wide))


def least_risk(error: float, n: float) -> float:
    """The least risk that 95% confidence in an error on n test examples allows, by Chernoff's bound."""
    return float(bounds.binary_kl_lower(error, math.log(1.0 / TEST_FAILURE_PROB) / n))
