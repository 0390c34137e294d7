"""Claims of papers, the rules that decide them, and the noise within which nothing is decided.

An answer is yes, no, or None where chance leaves it open. Noise is two standard errors: of counts on one test set
(:func:`count_noise`), of a mean over seeds (:func:`seed_noise`), or both (:meth:`Measured.counted`).
"""

import math
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, TypeVar

import polars as pl

import bounds
from pacdp.cli.recipes import Scale

Found = TypeVar("Found")
TEST_FAILURE_PROB = 0.05
"""With which a risk may lie below :func:`least_risk`."""
MISSING = "runs are missing"
RELEVANT = 0.1
"""The least difference of practical relevance, as a share of what it is measured against (:func:`relevant`)."""

FEWEST_PAIRS = 3
"""Pairs of runs from which on their differences and ratios decide: two have one degree of freedom, with which two
standard errors hold a mean in 70 of 100 cases instead of 95."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A number of a paper and ours."""

    what: str
    """Such as "MNIST, five-layer CNN, DP-SGLD: accuracy"."""
    paper: float | str | None
    """As printed there; None where it prints none."""
    ours: float | str | None
    """As our table has it."""
    why: str = ""
    """What was done otherwise: scale, data, settings, accountant. It is no reason for a difference unless measured."""


class Seen(NamedTuple):
    """What a rule says of a table."""

    holds: bool | None
    """None where the table cannot tell."""
    evidence: str
    """The numbers that decide it, made from the table."""
    settled_by: str = ""
    """As of a claim."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of a paper that can fail, and whether it holds in our table."""

    sentence: str
    holds: bool | None
    """None where the table cannot tell."""
    evidence: str
    """The numbers that decide it, made from the table."""
    settled_by: str = ""
    """Where the table cannot tell: which run would decide it, at which scale or with how many seeds, and what that
    costs, in minutes of two cores or of one GPU."""


@dataclass(frozen=True, slots=True)
class Omission:
    """Printed numbers of a paper that no run of ours answers."""

    where: str
    """Such as "Table 1, AlexNet"."""
    numbers: tuple[float, ...]
    """As printed there."""
    why: str
    """Why they are neither run nor compared."""


@dataclass(frozen=True, slots=True)
class Point:
    """A plain sentence for the first page: what a paper says, and our numbers."""

    said: str
    holds: bool | None
    settled_by: str
    """Which runs would decide it; shown where it is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a study's table says of the paper."""

    comparisons: tuple[Comparison, ...] = ()
    omissions: tuple[Omission, ...] = ()
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader of the page must know: data that stand in for others, cuts of scale, what was tuned on what."""
    points: tuple[Point, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON values; only claims that are open say what would settle them."""
        values = asdict(self)
        for claim in values["claims"]:
            if claim["holds"] is not None or not claim["settled_by"]:
                del claim["settled_by"]
        return values


def judging(
    *,
    claims: Callable[[pl.DataFrame, Scale], Iterable[Claim]],
    notes: Callable[[pl.DataFrame, Scale], Iterable[str]],
    numbers: Callable[[pl.DataFrame, Scale], Iterable[Comparison]] = lambda table, scale: (),
    omissions: Sequence[Omission] = (),
    points: Callable[[pl.DataFrame, Scale, Sequence[Claim]], Iterable[Point]] = lambda table, scale, claims: (),
    settled_by: Callable[[pl.DataFrame, Scale, Claim], str] = lambda table, scale, claim: claim.settled_by,
) -> Callable[[pl.DataFrame, Scale], Verdict]:
    """The judge of a study, from what lists its numbers, what they leave out, its claims, notes and points.

    ``settled_by`` is asked for each open claim what would settle it, whatever the claim says by itself.
    """

    def settled(claim: Claim, table: pl.DataFrame, scale: Scale) -> Claim:
        return claim if claim.holds is not None else replace(claim, settled_by=settled_by(table, scale, claim))

    def judge(table: pl.DataFrame, scale: Scale) -> Verdict:
        found = tuple(settled(claim, table, scale) for claim in claims(table, scale))
        return Verdict(
            comparisons=tuple(numbers(table, scale)),
            omissions=tuple(omissions),
            claims=found,
            notes=tuple(notes(table, scale)),
            points=tuple(one for one in points(table, scale, found) if one.said),
        )

    return judge


def say(text: str, **numbers: Any) -> str:
    """A sentence with numbers of a table in it; nothing where one of them is missing."""
    return "" if None in numbers.values() else text.format(**numbers)


def point(claims: Sequence[Claim], words: str | Sequence[str], said: str, *, settled_by: str = "") -> Point:
    """A sentence that stands for the claims whose sentences have these words, or one of several; it holds where they
    all do. Without ``settled_by``, what settles the open ones among them settles it.

    Raises:
        ValueError: no claim has the words.
    """
    some = [words] if isinstance(words, str) else words
    own = [claim for claim in claims if any(one in claim.sentence for one in some)]
    if not own:
        raise ValueError(f"words must occur in a claim of the study, got {words!r}")
    theirs = dict.fromkeys(claim.settled_by for claim in own if claim.holds is None and claim.settled_by)
    return Point(said, every(claim.holds for claim in own), settled_by or "; ".join(theirs))


def above(value: float, limit: float, noise: float) -> bool | None:
    """value > limit; None where they lie within ``noise`` of each other, beyond which their difference tells."""
    return None if abs(value - limit) <= noise else value > limit


def below(value: float, limit: float, noise: float) -> bool | None:
    """value < limit; None where they lie within ``noise`` of each other."""
    return above(limit, value, noise)


def every(values: Iterable[bool | None]) -> bool | None:
    """Whether all hold; None where one is unknown and none fails, and where there are none."""
    known = list(values)
    if False in known:
        return False
    return None if not known or None in known else True


def some(values: Iterable[bool | None]) -> bool | None:
    """Whether any holds; None where none does and one is unknown, and where there are none."""
    known = list(values)
    if True in known:
        return True
    return None if not known or None in known else False


def more_than_half(values: Sequence[bool | None]) -> bool | None:
    """Whether more than half hold; None where the unknown ones could turn it, and where there are none."""
    sure, unknown = values.count(True), values.count(None)
    if 2 * sure > len(values):
        return True
    return None if not values or 2 * (sure + unknown) > len(values) else False


def rises(values: Sequence[float], noises: Sequence[float]) -> bool | None:
    """Whether no value falls beyond the noise of its step and the last exceeds the first beyond theirs.

    ``noises`` are two standard deviations of each value.
    """
    if len(values) < 2:
        return None
    steps = range(len(values) - 1)
    if any(values[k + 1] < values[k] - math.hypot(noises[k], noises[k + 1]) for k in steps):
        return False
    return above(values[-1], values[0], math.hypot(noises[0], noises[-1]))


def decide(holds: Callable[..., Found], *numbers: float | None) -> Found | None:
    """What a rule says of its numbers; None where one is missing."""
    return None if None in numbers else holds(*numbers)


def count_noise(*counts: tuple[float, float]) -> float:
    """Two standard deviations of a sum or difference of shares, each given as (share, number of examples)."""
    return 2.0 * math.sqrt(sum(share * (1.0 - share) / number for share, number in counts))


def seed_noise(values: Sequence[float]) -> float:
    """Two standard errors of a mean over seeds; 0 where there is one, of which nothing is known."""
    return 2.0 * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def least_risk(error: float, n: float) -> float:
    """The least risk that 95% confidence in an error on n test examples allows, by Chernoff's bound."""
    return float(bounds.binary_kl_lower(error, math.log(1.0 / TEST_FAILURE_PROB) / n))


class Measured(NamedTuple):
    """A mean over seeds with its noise."""

    mean: float
    noise: float | None
    """Two standard errors; None of one seed, of which nothing is known."""
    seeds: int = 1

    @classmethod
    def of(cls, values: Sequence[float]) -> "Measured | None":
        """The mean of some values, one a seed; None where there is none."""
        if not values:
            return None
        return cls(float(str(pl.Series(values).mean())), seed_noise(values) if len(values) > 1 else None, len(values))

    @classmethod
    def between(cls, one: Mapping[Any, float], other: Mapping[Any, float]) -> "Measured | None":
        """The mean difference of pairs that share a key, such as two runs of one seed; None without a pair."""
        return cls.of([one[key] - other[key] for key in one if key in other])

    def counted(self, n: float) -> "Measured":
        """A share of n examples: with the noise of the counts, which one seed has as well."""
        return self._replace(noise=math.hypot(count_noise((self.mean, n)), self.noise or 0.0))

    def scaled(self, factor: float) -> "Measured":
        """So many times the mean."""
        return self._replace(mean=self.mean * factor, noise=None if self.noise is None else self.noise * factor)

    def minus(self, other: "Measured") -> "Measured":
        """The difference of two such means."""
        unknown = self.noise is None or other.noise is None
        noise = None if unknown else math.hypot(self.noise or 0.0, other.noise or 0.0)
        return Measured(self.mean - other.mean, noise, min(self.seeds, other.seeds))

    def above(self, limit: float) -> bool | None:
        """Whether it exceeds a number."""
        return None if self.noise is None else above(self.mean, limit, self.noise)

    def below(self, limit: float) -> bool | None:
        """Whether it stays below a number."""
        return None if self.noise is None else below(self.mean, limit, self.noise)

    def __str__(self) -> str:
        """The mean, with the spread of one seed where there are several."""
        if self.noise is None or self.seeds < 2:
            return f"{self.mean:.4f}"
        return f"{self.mean:.4f} (s.d. {self.noise * math.sqrt(self.seeds) / 2.0:.4f}, {self.seeds} seeds)"


def smaller(one: Measured | None, other: Measured | None) -> bool | None:
    """one < other; None where either is missing or has one seed, or where seeds differ as much."""
    return None if one is None or other is None else one.minus(other).below(0.0)


SURE = 3.0
"""Standard errors that a difference has to be away from 0 for five chances in six to see it beyond two."""
MOST_SEEDS = 200
"""Beyond so many, or twice as many as were made, the sign of a difference is not worth knowing."""


def by_seeds(*gaps: Measured | None) -> str:
    """With how many seeds those of some differences that are open would be told from 0 with five chances in six, were
    they as large as they are seen; nothing where none is open or their spread is not known."""
    left = [gap for gap in gaps if gap and gap.noise and gap.above(0.0) is None]
    if not left:
        return ""
    needs = [(SURE / 2.0 * (gap.noise or 0.0) / gap.mean) ** 2 * gap.seeds if gap.mean else math.inf for gap in left]
    most = max(MOST_SEEDS, *(2 * gap.seeds for gap in left))
    if max(needs) <= most:
        return f"about {math.ceil(max(needs))} seeds"
    known = max(abs(gap.mean) + (gap.noise or 0.0) for gap in left)
    return f"more than {most} seeds, for a difference that is below {known:.2g} already"


def seeds_named(told: str) -> int:
    """The number of seeds that :func:`by_seeds` has named, which is the least where it says that more are needed; 0
    where it names none."""
    found = re.search(r"(?:about|more than) (\d+) seeds", told)
    return int(found[1]) if found else 0


def larger(what: str, one: Measured | None, other: Measured | None) -> Seen:
    """Whether the first mean is larger by more than two standard errors of the seeds, with both as evidence.

    All seeds are judged on one test set, which none of them repeats.
    """
    if one is None or other is None:
        return Seen(None, f"{what}: {MISSING}")
    shown, gap = f"{what}: {one} against {other}", one.minus(other)
    if gap.noise is None:
        return Seen(None, f"{shown}; one seed decides nothing")
    holds = gap.above(0.0)
    return Seen(holds, f"{shown}; within two standard errors of the seeds, {gap.noise:.4f}" if holds is None else shown)


def relevant(what: str, gap: Measured | None, margin: float | None) -> Seen:
    """Whether a mean difference exceeds a margin of practical relevance, by two standard errors to either side.

    :func:`larger` can never show that a difference is missing: where there is none, every number of seeds leaves it
    open. Here the question is whether the difference is worth having. It holds where the difference less two standard
    errors lies above the margin, and fails where the difference plus two standard errors lies below it: "no difference
    as large as the margin" is then decided. More seeds cannot turn either answer but by chance. Between the two it is
    open. Differences of runs that share their seeds (:meth:`Measured.between`) have the smallest errors. Fewer than
    FEWEST_PAIRS of them decide nothing.
    """
    if gap is None or margin is None:
        return Seen(None, f"{what}: {MISSING}")
    if gap.noise is None or gap.seeds < FEWEST_PAIRS:
        pairs = f"{gap.seeds} pair{'s decide' if gap.seeds > 1 else ' decides'} nothing"
        return Seen(None, f"{what}: {gap.mean:+.4f}, {margin:.4f} being asked; {pairs}")
    ends = f"{gap.mean - gap.noise:+.4f} to {gap.mean + gap.noise:+.4f}, {gap.seeds} pairs"
    return Seen(gap.above(margin), f"{what}: {gap.mean:+.4f} ({ends}), {margin:.4f} being asked")


class Ratio(NamedTuple):
    """The geometric mean of a column's ratios over pairs of runs that share their data."""

    log: float
    noise: float | None
    """Two standard errors of the logarithm; None of one pair."""
    pairs: int

    @classmethod
    def of(cls, over: Mapping[Any, float], under: Mapping[Any, float]) -> "Ratio | None":
        """The values that two tables have under one key; None without a pair."""
        logs = [math.log(over[key] / under[key]) for key in over if key in under]
        if not logs:
            return None
        return cls(statistics.fmean(logs), seed_noise(logs) if len(logs) > 1 else None, len(logs))

    @classmethod
    def over_all(cls, pairs: Sequence[tuple[Mapping[Any, float], Mapping[Any, float]]]) -> "Ratio | None":
        """The geometric mean over several pairs of tables too, with one value for each key under which all of them have
        a positive number."""
        tables = [{key for key, value in table.items() if value > 0.0} for pair in pairs for table in pair]
        keys = set[Any].intersection(*tables) if tables else set[Any]()
        one, other = (
            {key: math.exp(statistics.fmean(math.log(pair[side][key]) for pair in pairs)) for key in keys}
            for side in (0, 1)
        )
        return cls.of(one, other)

    @property
    def known(self) -> float | None:
        """The noise, by which it is judged; None of fewer than FEWEST_PAIRS pairs, whose spread is hardly known."""
        return self.noise if self.pairs >= FEWEST_PAIRS else None

    def above(self, factor: float) -> bool | None:
        """Whether it exceeds a factor."""
        return None if self.known is None else above(self.log, math.log(factor), self.known)

    def below(self, factor: float) -> bool | None:
        """Whether it stays below a factor."""
        return None if self.known is None else below(self.log, math.log(factor), self.known)

    def within(self, factor: float) -> bool | None:
        """Whether it lies between a factor and its inverse."""
        return None if self.known is None else below(abs(self.log), math.log(factor), self.known)

    def __str__(self) -> str:
        """The ratio, two standard errors to either side, and the number of pairs."""
        ends = [] if self.noise is None else [self.log - self.noise, self.log + self.noise]
        noise = " to ".join(f"{math.exp(end):.3f}" for end in ends) + (", " if ends else "")
        return f"{math.exp(self.log):.3f} ({noise}pairs: {self.pairs})"


def mostly(values: Sequence[bool | None], over_all: Ratio | None) -> bool | None:
    """Whether more than half of the cells improve; where the open ones could turn that, whether the geometric mean over
    all cells falls by the share that counts."""
    found = more_than_half(values)
    return found if found is not None or over_all is None else over_all.below(1.0 - RELEVANT)
