"""What would settle the open claims of P3SGD's tables and figures: another study's answer to the same question, data on
which SGD overfits, networks that learn, or seeds; and what that costs."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import polars as pl

from experiments import job_costs
from experiments.claims import Claim, Verdict
from experiments.costs import of_seconds
from experiments.papers.p3sgd_pairs import POINT, RUINED
from experiments.tables import ordered
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
COUNTERPARTS = {"malaria, conv": "malaria, trained on others"}
"""Problems with the same data and the same layers in p3sgd-printed, where SGD overfits on fewer people. Its X-rays are
seen by a linear layer, which is no counterpart of convolutions, and has no DropBlock."""
SECONDS = {"malaria, trained on others": 20.6}
"""Of one core that all runs of one seed take in p3sgd-printed, whose table has no times: measured of its jobs."""
NO_GAP = "SGD has no gap here that anything could narrow"
"""What a claim says that is open for that; the study adds what would have one."""
_WRITERS = "fewer images of each of fewer writers would give it one, such as five of each of 400"
_SPOTS = "a network with more weights has one, such as that of {printed}"
_OVERFIT = {"MNIST writers, conv": (_WRITERS, 67.2, 12)}
"""By problem: where SGD overfits, the seconds of one core that all runs of one seed were measured to take there, and
how many seeds. Of others, it is another network."""


def asked(problem: str, words: str, rule: str = "corrected") -> str:
    """How a claim begins."""
    return f"{problem}: {words.format(rule=rule, point=POINT)}"


def answered(claim: Claim, of: Callable[[], Verdict | None] | None = None) -> str:
    """Where p3sgd-printed decides the same question of the same data and layers; nothing where it does not.

    Args:
        of: its verdict; by default that of the committed table.
    """
    for problem, there in COUNTERPARTS.items():
        for question in QUESTIONS:
            if not claim.sentence.startswith(asked(problem, question.here)):
                continue
            verdict = (of or _committed)()
            begins = asked(there, question.there)
            found = [one for one in verdict.claims if one.sentence.startswith(begins)] if verdict else []
            if any(one.holds is not None for one in found):
                holds = "holds" if found[0].holds else "does not hold"
                taken = of_seconds(SECONDS[there] * _seeds(there))
                return f'{PRINTED} has asked it where SGD overfits: "{begins}" {holds} there, by runs of {taken}'
    return ""


def _seeds(there: str) -> int:
    from experiments.papers.p3sgd_printed import PROBLEMS, SEEDS

    return SEEDS[PROBLEMS["cpu"][there].dataset]


@cache
def _committed() -> Verdict | None:
    from experiments.papers.p3sgd_printed import STUDY
    from experiments.runner import read_table, results_of

    try:
        return STUDY.judge(read_table(results_of(PRINTED, "cpu")), "cpu")
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
            there = next(iter(COUNTERPARTS.values()))
            words, seconds, seeds = _OVERFIT.get(problem) or (_SPOTS, SECONDS[there], _seeds(there))
            cost = job_costs.every_run(of_seconds, seconds, seeds)
            return f"{claim.settled_by}; {words.format(printed=PRINTED)}; {cost}"
        return by_seeds(table, scale, claim) + uncounted

    return by


def learning(problem: str) -> str:
    """Runs in which the network is better than guessing."""
    there = COUNTERPARTS.get(problem, next(iter(COUNTERPARTS.values())))
    cost = job_costs.every_run(of_seconds, SECONDS[there], _seeds(there))
    return f"a network of P3SGD that is better than guessing, such as the corrected one of {PRINTED} on {there}; {cost}"
