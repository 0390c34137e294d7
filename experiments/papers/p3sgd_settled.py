"""What would settle the open claims of P3SGD's tables and figures: another study's answer to the same question, data on
which SGD overfits, networks that learn, or seeds; and what that costs."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from typing import NamedTuple

import polars as pl

from experiments import job_costs
from experiments.claims import Claim, Verdict
from experiments.costs import of_seconds
from experiments.papers.p3sgd_pairs import POINT, RUINED
from experiments.tables import ordered, part
from pacdp.cli.recipes import Scale
from pacdp.cli.sweep.jobs import Job


class Question(NamedTuple):
    """What stands behind a problem's name in a claim: of the tables and figures, and of p3sgd-printed."""

    here: str
    there: str


_HALVED = "P3SGD {rule} has a gap of less than half of SGD's"
NARROWED = Question("P3SGD's gap between training and testing is less than SGD's", _HALVED)
HALVED = Question("P3SGD's gap between training and testing is less than half of SGD's", _HALVED)
ACCURATE = Question(
    "P3SGD's testing accuracy is above SGD's by {point:g} point or more",
    "P3SGD {rule} is more accurate on test data than SGD by {point:g} point or more",
)
OUTPERFORMS = Question(
    "P3SGD outperforms SGD+Dropout and SGD+DropBlock in testing accuracy by {point:g} point or more",
    "P3SGD {rule} outperforms SGD with Dropout and with DropBlock on test data by {point:g} point or more",
)
_BLOCKS = "DropBlock gains {point:g} point or more of testing accuracy on Dropout"
BLOCKS = Question(_BLOCKS, _BLOCKS)
REDUCES = Question(
    "P3SGD significantly reduces the overfitting compared to SGD",
    "P3SGD {rule} has a test loss that exceeds its training loss by less than half of SGD's excess",
)
_RISES = "SGD overfits, its test loss ends a tenth above its lowest"
RISES = Question(_RISES, _RISES)
QUESTIONS = (NARROWED, HALVED, ACCURATE, OUTPERFORMS, BLOCKS, REDUCES, RISES)
PRINTED = "p3sgd-printed"
OTHERS, MILDER = "malaria, trained on others", "malaria, 40 patients, less dropout"
WRITERS = "MNIST writers, five images each"
COUNTERPARTS = {"malaria, conv": (OTHERS, MILDER), "MNIST writers, conv": (WRITERS,)}
"""Problems with the same data and the same layers in p3sgd-printed, where SGD overfits on fewer people. Its X-rays are
seen by a linear layer, which is no counterpart of convolutions, and has no DropBlock."""
NO_GAP = "SGD has no gap here that anything could narrow"
"""What a claim says that is open for that; the study adds what would have one."""


def asked(problem: str, words: str, rule: str = "corrected") -> str:
    """How a claim begins."""
    return f"{problem}: {words.format(rule=rule, point=POINT)}"


def answered(claim: Claim, of: Callable[[], Verdict | None] | None = None) -> str:
    """Where p3sgd-printed decides the same question of the same data and layers; nothing where it does not.

    Args:
        of: its verdict; by default that of the committed table.
    """
    for problem, places in COUNTERPARTS.items():
        same = [one.there for one in QUESTIONS if claim.sentence.startswith(asked(problem, one.here))]
        for there, begins in [(place, asked(place, words)) for place in places for words in same]:
            verdict = (of or _committed)()
            found = [one for one in verdict.claims if one.sentence.startswith(begins)] if verdict else []
            if found and found[0].holds is not None:
                taken = of_problem(_table(), there)
                return f'{PRINTED} has asked it where SGD overfits: "{begins}" {holding(found[0])}, by runs of {taken}'
    return ""


def asked_of_more(claim: Claim) -> str:
    """Where Table 1 decides the same question of the same data and layers on all records; else nothing."""
    from experiments.papers.p3sgd import TABLE_1, claims_1

    pairs = ((here, there) for here, places in COUNTERPARTS.items() for there in places)
    for (here, there), question in product(pairs, QUESTIONS):
        if claim.sentence.startswith(asked(there, question.there)):
            table, begins = _table(TABLE_1.name), asked(here, question.here)
            found = [one for one in claims_1(table, "cpu") if one.sentence.startswith(begins) and one.holds is not None]
            if found:
                seeds = part(table, problem=here)["seed"].n_unique()
                made = replace(found[0], settled_by=f"{seeds} seeds")
                cost = job_costs.by_seeds(TABLE_1.jobs)(table, "cpu", made)
                return f'{TABLE_1.name} has asked it on more records: "{begins}" {holding(made)}, by {cost}'
    return ""


def holding(claim: Claim) -> str:
    """What became of a claim that is decided elsewhere, in words."""
    return "holds there" if claim.holds else "does not hold there"


def of_a_seed(table: pl.DataFrame, problem: str) -> float:
    """Seconds of one core that all runs of one seed took, of p3sgd-printed's table."""
    return job_costs.measured(part(table, problem=problem))


def of_problem(table: pl.DataFrame, problem: str) -> str:
    """The same of all seeds, in words."""
    return of_seconds(of_a_seed(table, problem) * part(table, problem=problem)["seed"].n_unique())


@cache
def _table(study: str = PRINTED) -> pl.DataFrame:
    from experiments.runner import read_table, results_of

    return read_table(results_of(study, "cpu"))


@cache
def _committed() -> Verdict | None:
    from experiments.papers.p3sgd_printed import STUDY

    try:
        return STUDY.judge(_table(), "cpu")
    except ValueError:  # no results
        return None


def settled_by(
    jobs: Callable[[Scale, int], list[Job]], uncounted: str = ""
) -> Callable[[pl.DataFrame, Scale, Claim], str]:
    """What settles the open claims of a table or figure, in words, with its cost.

    Args:
        uncounted: what no cost has in it.
    """
    by_seeds = job_costs.by_seeds(jobs, "the seeds, each with its own split of the people")

    def by(table: pl.DataFrame, scale: Scale, claim: Claim) -> str:
        problem = next((one for one in ordered(table, "problem") if claim.sentence.startswith(f"{one}: ")), "")
        if RUINED in claim.evidence:
            return learning(problem) + uncounted
        if found := answered(claim):
            return found
        if claim.settled_by.startswith(NO_GAP):
            there = f"a network with more weights has one, such as that of {PRINTED}"
            return f"{claim.settled_by}; {there}; {_cost(OTHERS)}"
        return by_seeds(table, scale, claim) + uncounted

    return by


def learning(problem: str) -> str:
    """Runs in which the network is better than guessing."""
    there = COUNTERPARTS.get(problem, (OTHERS,))[0]
    told = f"a network of P3SGD that is better than guessing, such as the corrected one of {PRINTED} on {there}"
    return f"{told}; {_cost(there)}"


def _cost(there: str) -> str:
    table = _table()
    return job_costs.every_run(of_seconds, of_a_seed(table, there), part(table, problem=there)["seed"].n_unique())
