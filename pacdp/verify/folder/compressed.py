"""A compression's folder: which records were picked and kept, by which rule, and what was counted of them."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pacdp.verify.arithmetic import ball
from pacdp.verify.claim import Fields, Unchecked, Wrong, about
from pacdp.verify.files import Stored
from pacdp.verify.folder.read import Folder


class Round(NamedTuple):
    """A round: its number, how many records were picked by then, how many others are in error, and their sum."""

    number: int
    picked: int
    errors: int
    kept: int


def rounds_of(stored: Stored) -> list[Round]:
    """The rounds that a checkpoint lists."""
    return [
        Round(*line) for line in stored.whole("rounds").reshape(-1, 4).tolist()
    ]


def check_kept(f: Folder) -> None:
    """The picks follow the rule, the run ended where it may, and the certificate counts what was kept there."""
    picks, rounds = f.stored.whole("picks"), rounds_of(f.stored)
    _check_rounds(f, rounds)
    picked = rounds[-1].picked if rounds else 0
    different = len(np.unique(picks))
    if not picked == len(picks) == different or (picked and picks.min() < 0):
        raise Wrong(
            f"{picked} records are to be picked, and {different} different ones are listed"
        )
    best = f.header.compression.best
    if best is None:
        if any(_of_compression(f)):
            raise Wrong(
                "the sample ran out before the run's end, which certifies nothing"
            )
        return
    end = rounds[best - 1] if best else Round(0, 0, 0, 0)
    _check_end(f, end)
    for made in _of_compression(f):
        _check_counted(f, made, end)


def _check_rounds(f: Folder, rounds: list[Round]) -> None:
    """The groups of the settings make these picks, and metrics.jsonl has these rounds."""
    groups, picked = f.run.groups, 0
    for number, one in enumerate(rounds, start=1):
        begun = [
            size
            for size, start in zip(groups.sizes, groups.starts, strict=True)
            if start <= picked
        ]
        picked += begun[-1]
        if (one.number, one.picked) != (
            number,
            picked,
        ) or one.kept != one.picked + one.errors:
            raise Wrong(
                f"round {number} says {list(one)}, and the groups make {picked} picks"
            )
    lines = [(row.step, row.picked, row.errors, row.kept) for row in f.rows]
    if lines != rounds:
        raise Wrong(
            "the rounds of metrics.jsonl are not those of the checkpoint"
        )


def _check_end(f: Folder, end: Round) -> None:
    stop, errors = f.run.stop, f.stored.whole("errors")
    if end.number not in stop.rounds and not (
        stop.no_errors_left and end.errors == 0
    ):
        raise Wrong(
            f"the run may not end after round {end.number}, with {end.errors} errors left"
        )
    kept = np.union1d(f.stored.whole("picks")[: end.picked], errors)
    if len(errors) != end.errors or len(kept) != end.kept:
        raise Wrong(
            f"round {end.number} kept {end.kept} records, and other ones are listed"
        )


def _of_compression(f: Folder) -> Iterator[Fields]:
    return (made for made in f.certificates if made.name == "compression")


def _check_counted(
    f: Folder,
    made: Fields,
    end: Round,
) -> None:
    """The certificate counts the records kept, at this end's share of the failure probability ("The best of J")."""
    k, n = made.inputs.k, made.inputs.n
    listed = [0, *f.stored.whole("picks"), *f.stored.whole("errors")]
    if k != end.kept or (end.kept and max(listed) >= n):
        raise Wrong(
            f"the certificate counts {k} of {n} records, and {end.kept} were kept"
        )
    ends = max(1, len(f.run.stop.rounds))
    about(
        "the share of the end reported",
        made.budget.bound,
        ball(made.failure_prob) / ends,
    )


def check_numbers(f: Folder) -> None:
    """What result.json and the header repeat of configuration and report is the same there."""
    header, run, report = f.header, f.run, f.report
    if header.tolerance != run.tolerance:
        raise Wrong(
            f"the header's tolerance is {header.tolerance!r}, and the run's {run.tolerance!r}"
        )
    learner = (run.learner.get("sampler") or run.learner).kind
    algorithm = f.result.algorithm.replace(
        "-", ""
    )  # SGLD is both name and kind, Entropy-SGD is not
    if algorithm != f"{learner}, compressed":
        raise Wrong(
            f"the result's algorithm is {f.result.algorithm!r}, and the run's learner is {learner}"
        )
    if not report:
        raise Unchecked(
            "its value and n, and the header's rows, are in no report; the rest agrees"
        )
    rows = report.part("rows").part("bound")
    if header.rows != rows.get("digest"):
        raise Wrong("the header's rows are not those of the report")
    if report.failure_prob != run.failure_prob:
        raise Unchecked(
            "its value is at another failure probability than the report; the rest agrees"
        )
    values = [made.value for made in _of_compression(f)] or [1.0]
    if f.result.value != values[0]:
        raise Wrong(
            f"the result's value is {f.result.value!r}, and the certificate's {values[0]!r}"
        )
