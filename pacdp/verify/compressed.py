"""A compression's folder: which records were picked and kept, by which rule, and what was counted of them."""

from typing import NamedTuple

import numpy as np

from pacdp.verify.arithmetic import ball
from pacdp.verify.claim import (
    Fields,
    Unchecked,
    about,
    hold,
    parsed,
    require,
    same,
)
from pacdp.verify.files import Folder, Stored


class Round(NamedTuple):
    """A round: its number, how many records were picked by then, how many others are in error, and their sum."""

    number: int
    picked: int
    errors: int
    kept: int


_BEGINNING = Round(0, 0, 0, 0)


def rounds_of(stored: Stored) -> list[Round]:
    """The rounds that a checkpoint lists."""
    return [
        Round(*line)
        for line in stored.numbers("state.rounds")
        .reshape(-1, 4)
        .tolist()
    ]


_ROUND = """
said.number = end.number
said.picked = end.picked
said.errors = end.errors
said.kept = end.kept
"""


def check_told(report: Fields) -> None:
    """What a report on a compression says of its rounds is of one of them, and of what its certificate counts."""
    said = report.details.compression
    rounds = [Round(*one) for one in dict.get(said, "rounds", ())]
    end = rounds[said.number - 1] if said.number else _BEGINNING
    hold(_ROUND, said=said, end=end._asdict())
    for one in report.measured:
        counted = (one.on, one.loss) == ("bound", "zero-one")
        why = f"{one.errors} are in error, and {said.errors} were left"
        require(
            not counted
            or one.errors is None
            or one.errors >= said.errors,
            why,
        )
    for made in _of_compression(report.certificates):
        same("what was kept", said.kept, made.inputs.k)
        share = ball(made.failure_prob) / said.ends
        about("the share of its end", made.budget.bound, share)


def check_kept(f: Folder) -> None:
    """The picks follow the rule, the run ended where it may, and the certificate counts what was kept there."""
    rounds = rounds_of(f.stored)
    _check_picks(f, rounds)
    best = f.header.compression.best
    made = _of_compression(f.certificates)
    if best is None:
        require(
            not made,
            "the sample ran out before the run's end, which certifies nothing",
        )
        return
    _check_end(f, rounds[best - 1] if best else _BEGINNING)
    if f.report:
        _check_reported(f, rounds)
    # what else names the run there is not compared, and is named
    known = parsed(dict.get(f.header.compression, "identity"))
    due = "0-1 risk"
    if f.report["unit"] != "example":
        share = f"more than {f.run.tolerance:g}"
        due = f"share of people with {share} of their examples in error"
    for one in made:
        same("what it measures", one.measures, due)
        same("the number of records", one.inputs.n, known.n)
        picks = f.stored.numbers("state.picks")
        listed = [0, *picks, *f.stored.numbers("state.errors")]
        why = f"of {one.inputs.n} records, {max(listed)} is none"
        require(max(listed) < one.inputs.n, why)
        weighted = "weight_sizes" in one.inputs
        same(
            "whether sizes are weighted",
            weighted,
            bool(f.run.expected),
        )
        if weighted:
            raise Unchecked(
                "this checker finds no weights for the sizes that were expected; the rest agrees"
            )


def _check_picks(f: Folder, rounds: list[Round]) -> None:
    """Each round picks as many records as the rule says, and no record is picked twice."""
    picks = f.stored.numbers("state.picks")
    groups = f.run.groups
    begun = [*zip(groups.sizes, groups.starts, strict=True)]
    picked = 0
    expected = []
    for number, one in enumerate(rounds, start=1):
        picked += [
            size for size, start in begun if start <= picked
        ][-1]
        kept = picked + one.errors
        expected.append(Round(number, picked, one.errors, kept))
    same("rounds", rounds, expected)
    lines = [
        (row.step, row.picked, row.errors, row.kept)
        for row in f.rows
    ]
    same("what metrics.jsonl says of rounds", lines, rounds)
    require(
        picked == len(picks) == len(np.unique(picks))
        and all(picks >= 0),
        f"{picked} different records are to be picked, and other ones are listed",
    )


def _of_compression(certificates: list[Fields]) -> list[Fields]:
    return [
        made for made in certificates if made.name == "compression"
    ]


def _check_end(f: Folder, end: Round) -> None:
    """The run may end there, and the errors left there are those listed."""
    stop = f.run.stop
    errors = f.stored.numbers("state.errors")
    require(
        (stop.no_errors_left and end.errors == 0)
        or end.number in stop.rounds,
        f"the run may not end after round {end.number}, with {end.errors} errors left",
    )
    kept = np.union1d(
        f.stored.numbers("state.picks")[: end.picked], errors
    )
    found = len(errors), len(kept)
    same("what is listed", found, (end.errors, end.kept))


_REPORTED = """
said = rounds
told.ends = ends
told.number = header.compression.best
"""


def _check_reported(f: Folder, rounds: list[Round]) -> None:
    """The report has these rounds, of which it counts the same one, at its share of all ends ("The best of J")."""
    same("the route", f.report.route, "compression")
    told = f.report.details.compression
    ends = max(1, len(f.run.stop.rounds))
    said = [Round(*one) for one in told.rounds]
    f.hold(
        _REPORTED, told=told, said=said, rounds=rounds, ends=ends
    )


def check_numbers(f: Folder) -> None:
    """What result.json and the header repeat of configuration and report is the same there."""
    run = f.run
    report = f.report
    f.hold("header.tolerance = run.tolerance")
    learner = (run.learner["sampler"] or run.learner).kind
    said = f.result.algorithm.replace("-", "")  # of Entropy-SGD
    same(
        f"the algorithm {f.result.algorithm!r}",
        said,
        f"{learner}, compressed",
    )
    if not report:
        raise Unchecked(
            "its value and n, and the header's rows, are in no report; the rest agrees"
        )
    f.hold("header.rows = report.rows.bound.digest")
    if report.failure_prob != run.failure_prob:
        raise Unchecked(
            "its value is at another failure probability than the report; the rest agrees"
        )
    found = _of_compression(f.certificates)
    values = [made.value for made in found] or [1.0]
    same("its value", f.result.value, values[0])
