"""Certificates from predictions alone: whatever the framework, and without one."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import bounds
from bounds import _check
from pacdp.predictions import calibration, gaps
from pacdp.predictions.bounding import Statement, both_ends, records, turned
from pacdp.predictions.columns import Name
from pacdp.predictions.examples import Examples, examples
from pacdp.predictions.parts import Part, asked, parts
from pacdp.predictions.report import Measured, Refusal, Report

Found = tuple[list[Statement], list[bounds.Certificate]]


def certify_predictions(
    labels: Any = None,
    predictions: Any = None,
    probabilities: Any = None,
    *,
    losses: Any = None,
    classes: Sequence[Name] | None = None,
    groups: Any = None,
    people: Any = None,
    weights: Any = None,
    ids: Any = None,
    failure_prob: float = 0.05,
    ask: Sequence[str] | str | None = None,
    interval: bool = False,
) -> Report:
    """What a model's predictions on examples that are new to it say of its errors on others of the same law.

    Half of ``failure_prob`` pays for the first row, the plain error; the other half is shared out among all else.

    >>> found = pacdp.certify_predictions(labels, predictions, groups=hospital, people=patient)
    >>> print(found.headline())

    Formal guarantee: all rows hold at once with probability at least 1 - failure_prob, if the examples (of ``people``:
    the people) are independent draws of one law that the model did not see, and nothing that was asked depends on them.

    Args:
        labels: one whole number, text or truth value an example.
        predictions: likewise; or {model: predictions} for several models on the same examples, the first of which is
            that of the first row, and the one the others are compared with.
        probabilities: in the place of predictions, [n, classes], rows that sum to one; or {model: probabilities}.
        losses: further losses in [0, 1] by name, {name: [n]}; alone, the first of them is that of the first row.
            Truth values and whole numbers are errors, which are counted; floats are bounded by betting, whatever they
            are, and the report takes for true that all others lie in [0, 1] too.
        classes: all classes, in the order of the columns of ``probabilities``; by default those of the labels, or the
            numbers of the columns. A class called like a gap, such as "NA", must stand here.
        groups: a name for each example: the error in each group, and the largest gap between groups.
        people: whose each example is, where somebody has several: then people are counted, not examples.
        weights: of each example, in (0, 1]: the error is then that of the weighted population.
        ids: a name for each example, to have it checked that none stands twice.
        failure_prob: of everything together.
        ask: some of error, recall, precision, false-alarms, groups, differences, brier, calibration, bins, top-5 (or
            another number), losses; by default all that can be asked but top-5. What is not asked is not paid for.
        interval: whether every row has a lower end too, at half its failure probability each.

    Raises:
        ValueError: something is missing or does not fit; the sentence names the argument and what to do.
    """
    _check.open_probability(failure_prob=failure_prob)
    given = examples(
        labels, predictions, probabilities,
        losses=losses, classes=classes, groups=groups, people=people, weights=weights, ids=ids,
    )  # fmt: skip
    return certified(given, failure_prob=float(failure_prob), ask=ask, interval=interval)


def certified(
    given: Examples,
    *,
    failure_prob: float,
    ask: Sequence[str] | str | None = None,
    interval: bool = False,
) -> Report:
    """The report on examples that were checked."""
    families, sizes = asked(given, ask)
    questions = list(parts(given, families, sizes))
    answerable, refused = _sorted(given, questions)
    own = {family: list(group) for family, group in groupby(answerable, lambda part: part.family)}
    ways = Counter(
        part.family for part in questions
    )  # those without an answer too, so that no count decides a share
    ways.update(
        {family: len(given.models) for family in families if family in ("calibration", "bins")}
    )
    paying = [family for family in families if ways[family]]
    budget = _ledger(failure_prob, paying)
    found: Found = ([], [])
    for family in paying:
        share = budget.share(family, ways[family])
        for rows, made in _of_family(
            given, family, own.get(family, []), failure_prob=share, interval=interval
        ):
            _join(found, rows, made)
    if "bins" in paying and not any(row.family == "bins" for row in found[0]):
        why = f"no bin has {calibration.MIN_COUNT} examples: gather more"
        refused.append(Refusal(name="calibration gaps", reason=why))
    statements, certificates = found
    return Report(
        route="predictions",
        statements=tuple(statements),
        certificates=tuple(certificates),
        failure_prob=failure_prob,
        budget=budget,
        n=given.units,
        unit=given.unit,
        examples=given.n,
        refusals=tuple(refused),
        measured=tuple(_errors(statements, certificates, n=given.units)),
        remarks=given.remarks,
    )


def _errors(
    statements: Sequence[Statement], certificates: Sequence[bounds.Certificate], *, n: int
) -> Iterator[Measured]:
    """The plain error of each model on the examples, where it is one of predictions."""
    for one in statements:
        if one.family == "error" and one.upper_by is not None:
            made = certificates[one.upper_by]
            if made.measures.startswith("0-1 risk"):
                errors: Any = made.inputs.get("k")
                yield Measured(of=one.of, on="bound", mean=one.measured, errors=errors, n=n)


def _sorted(given: Examples, questions: list[Part]) -> tuple[list[Part], list[Refusal]]:
    """The questions with at least two records, and why the others have no answer."""
    answerable, refused = list[Part](), list[Refusal]()
    for part in questions:
        found = records(part, given)
        if found >= 2 or part.rows is None:
            answerable.append(part)
            continue
        alone = f"it would rest on one {given.unit}, which says next to nothing: gather more"
        why = alone if found else f"{part.empty}: gather some"
        refused.append(Refusal(name=f"{part.measures} of {part.of}", reason=why))
    return answerable, refused


def _ledger(failure_prob: float, families: Sequence[str]) -> bounds.FailureBudget:
    """Half for the error, the rest in equal parts for the other families; all for the error where it is alone."""
    others = families[1:]
    return bounds.FailureBudget.split(
        failure_prob, error=max(1, len(others)), **dict.fromkeys(others, 1.0)
    )


def _of_family(
    given: Examples, family: str, questions: list[Part], *, failure_prob: float, interval: bool
) -> Iterator[Found]:
    """What is found of the questions of one family, each of which may fail with ``failure_prob``."""
    if family in ("calibration", "bins"):
        for of, said in given.models.items():
            if family == "bins":
                yield calibration.bins(given, of, said, failure_prob=failure_prob)
            else:
                row, made = calibration.calibration_error(
                    given, of, said, failure_prob=failure_prob
                )
                yield [row], made
        return
    for of, own in groupby(questions, lambda part: part.of):
        found: Found = ([], [])
        for part in own:
            row, made = both_ends(part, given, failure_prob=failure_prob, interval=interval)
            _join(found, _rows(part, row), made)
        if family == "groups" and given.groups is not None and len(found[0]) > 1:
            row, gap = gaps.largest_gap(
                *found, of=of, groups=len(given.groups.names), new=given.new, n=given.units
            )
            _join(found, [replace(row, upper_by=0)], [gap])
        yield found


def _rows(part: Part, row: Statement) -> list[Statement]:
    """The error on a class and its recall; of errors among predictions, the precision alone."""
    if part.family == "recall":
        return [row, turned(row, part.otherwise)]
    return [turned(row, part.otherwise)] if part.family == "precision" else [row]


def _join(found: Found, rows: list[Statement], made: list[bounds.Certificate]) -> None:
    """Add rows whose places count in ``made`` to rows whose places count in all certificates."""
    at = len(found[1])
    found[1].extend(made)
    for row in rows:
        moved = {name: None if place is None else place + at
                 for name, place in (("upper_by", row.upper_by), ("lower_by", row.lower_by))}  # fmt: skip
        found[0].append(replace(row, **moved))
