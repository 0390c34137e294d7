"""Runs a bound on many data sets with known truth and counts how often it fails.

A world draws data sets and says, for each, what a bound is told (columns) and what is true. An entry is a bound
with the worlds it is tried in. Entries of one world see the same data sets. A harness that finds no failure proves
nothing unless it would have found one: every bound is therefore also tried at fractions of its cost.
"""

import inspect
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import Any

import numpy as np
from numpy.random import default_rng
from scipy.stats import binom

from bounds import Certificate, clopper_pearson_lower, clopper_pearson_upper
from bounds.partition import LogPartition
from tests.coverage.costs import at_fraction, has_formula

SEED = 20_180_709
DELTA = 0.05  # which every bound may fail with
LEVEL = 1e-6  # of the one-sided test that a bound fails more often than it says
FRACTIONS = (2 / 3, 1 / 2, 1 / 3, 1 / 5, 1 / 10)  # of the cost, at which a bound should fail
_TOGETHER = 500  # data sets are drawn at least, so that fewer are the first of them
_ROUNDING = 1e-12  # of the truth; a bound at the truth has not failed


@dataclass(frozen=True)
class Cases:
    """Columns (numbers, or arrays with a row for each data set) and the truth (a number, or one for each data set).

    The failure probability, ``DELTA`` unless a world says otherwise, is a column of all of them.
    """

    columns: Mapping[str, Any]
    truth: Any = 0.0


World = Callable[[np.random.Generator, int], Cases]


@dataclass(frozen=True)
class Entry:
    """A bound under test.

    ``power`` are further worlds, near the worst case: in one of them ``caught`` of the cost must fail visibly, so that
    a bound that is never wrong because it says nothing does not pass. Where ``caught`` is less than two thirds, ``why``
    says what the bound gives away. ``share`` is the least part of the nominal failure probability that the bound must
    reach in its worst world; ``lower`` marks lower bounds.
    """

    name: str
    bound: Callable[..., Any]
    worlds: tuple[World, ...]
    power: tuple[World, ...] = ()
    share: float = 0.0
    lower: bool = False
    caught: float = 2 / 3
    why: str = ""


@dataclass(frozen=True)
class Outcome:
    """What happened to one bound in one world."""

    world: str
    nominal: float
    failures: int
    datasets: int
    slack: float

    @property
    def observed(self):
        return self.failures / self.datasets

    @property
    def p_value(self):
        """Probability of so many failures or more if the bound fails just as often as it says."""
        return float(binom.sf(self.failures - 1, self.datasets, self.nominal))

    @property
    def interval(self):
        """Clopper and Pearson's for the failure probability, at 99%."""
        lower = clopper_pearson_lower(self.failures, self.datasets, 0.005)
        return lower, clopper_pearson_upper(self.failures, self.datasets, 0.005)


def run(entry, datasets, others=inf):
    """The entry at its full cost, in each of its worlds; on at most ``others`` data sets where power is not tried."""
    fewer = min(datasets, others) if entry.power else datasets
    sizes = [*((world, fewer) for world in entry.worlds), *((world, datasets) for world in entry.power)]
    return [_run(entry, world, size, 1.0) for world, size in sizes]


def run_at(entry, datasets, fraction):
    """The entry at a fraction of its cost, in the worlds that were made to show it."""
    return [_run(entry, world, datasets, fraction) for world in entry.power or entry.worlds]


def worst(outcomes):
    """The world with the most failures, relative to what the bound allows itself; of equals the closest one."""
    return max(outcomes, key=lambda outcome: (outcome.observed / outcome.nominal, -outcome.slack))


def world_name(world):
    return world.__doc__.strip().splitlines()[0].rstrip(".")


def value_at(bound, given, fraction):
    """The bound at a fraction of its cost: its own idea of that, its formula, or ln(1/failure_prob) scaled.

    The last is the whole cost of a confidence bound. Where there is more to the cost than that, so much less of it is
    taken away, and a failure is all the more a failure.
    """
    if fraction != 1.0 and "fraction" in inspect.signature(bound).parameters:
        return _number(bound(**given, fraction=fraction))
    made = bound(**given)
    if fraction == 1.0:
        return _number(made)
    if isinstance(made, Certificate) and has_formula(made):
        return at_fraction(made, fraction)
    return _number(bound(**given | {"failure_prob": given["failure_prob"] ** fraction}))


def _run(entry, world, datasets, fraction):
    drawn = max(datasets, _TOGETHER)
    cases = cases_of(world, drawn)
    seen, made = _made(entry, world, drawn, fraction)
    for row in range(len(made), datasets):
        given = given_to(entry.bound, cases, row)
        key = tuple(value.tobytes() if isinstance(value, np.ndarray) else value for value in given.values())
        if key not in seen:
            seen[key] = value_at(entry.bound, given, fraction)
        made.append(seen[key])
    values, truth = np.array(made[:datasets]), cases.truth[:datasets]
    distance = truth - values if entry.lower else values - truth
    failed = distance < -_ROUNDING * np.abs(truth)
    nominal = float(cases.columns["failure_prob"])
    return Outcome(world_name(world), nominal, int(failed.sum()), datasets, float(distance.mean()))


@lru_cache(maxsize=32)
def _made(entry, world, drawn, fraction):
    """What the bound said of what it was given, and of the data sets in their order, so far."""
    return {}, []


@lru_cache(maxsize=64)
def cases_of(world, datasets):
    """Data sets of a world; each world has its own seed."""
    cases = world(default_rng([SEED, zlib.crc32(world_name(world).encode())]), datasets)
    return Cases({"failure_prob": DELTA, **cases.columns}, np.broadcast_to(cases.truth, datasets))


def given_to(bound, cases, row):
    """What a bound asks for of one data set."""
    return {name: _cell(cases.columns[name], row) for name in _asked(bound) if name in cases.columns}


@lru_cache(maxsize=256)
def _asked(bound):
    return tuple(inspect.signature(bound).parameters)


def _cell(column, row):
    if not isinstance(column, np.ndarray):
        return column
    value = column[row]
    return value if isinstance(value, np.ndarray) else value.item()


def _number(made):
    return made.nats if isinstance(made, LogPartition) else float(made)
