"""Certificates from predictions alone: whatever the framework, and without one."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

import bounds
from bounds import _check
from pacdp.predictions import columns
from pacdp.predictions.bounding import (
    Found,
    Part,
    Statement,
    answer,
    largest_gap,
)
from pacdp.predictions.columns import Name
from pacdp.predictions.described import described
from pacdp.predictions.examples import Examples, judged, of_losses, real_numbers
from pacdp.predictions.named import named, ranks
from pacdp.predictions.parts import asked, parts, shown
from pacdp.predictions.report import Measured, Refusal, Report
from pacdp.predictions.soft import MIN_COUNT, auc, bins, calibration_error
from pacdp.store.record import Values


@np.errstate(divide="warn", over="warn", under="ignore", invalid="warn")  # whatever the caller has
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
    positive: Name | None = None,
    within: Sequence[float | int] | None = None,
) -> Report:
    """What a model's predictions on examples that are new to it say of its errors on others of the same law.

    Half of ``failure_prob`` pays for the first row, the plain error; the other half is shared out among all else.

    >>> found = pacdp.certify_predictions(labels, predictions, groups=hospital, people=patient)
    >>> print(found.headline())

    Formal guarantee: all rows hold at once with probability at least 1 - failure_prob, if the examples (of ``people``:
    the people) are independent draws of one law that the model did not see, and neither their number nor anything that
    was asked depends on them.

    Args:
        labels: one whole number, text or truth value an example.
        predictions: likewise, of one model, not of cross-validation, in which each fold's model saw the other folds;
            or {model: predictions} for several models on the same examples, the first of which is that of the first
            row, and the one the others are compared with.
        probabilities: in the place of predictions, [n, classes], rows that sum to one; or {model: probabilities}.
        losses: further losses in [0, 1] by name, {name: [n]}; alone, the first of them is that of the first row.
            Truth values and whole numbers are errors, which are counted; floats are bounded by betting, whatever they
            are. The report takes for true that all others are errors, or lie in [0, 1], too.
        classes: all classes, in the order of the columns of ``probabilities``; by default those of the labels, or the
            numbers of the columns. A class called like a gap, such as "NA", must stand here.
        groups: a name for each example: the error in each group, and the largest gap between groups.
        people: whose each example is, where somebody has several: then people are counted, not examples.
        weights: of each example, in (0, 1]: the error is then that of the weighted population. A weight follows from
            its example by a rule that the others did not make: divide by the largest that is possible, not by theirs.
        ids: a name for each example, to have it checked that none stands twice.
        failure_prob: of everything together.
        ask: some of error, recall, precision, false-alarms, groups, differences, leaderboard (of all pairs of models),
            brier, auc (of two classes), calibration, bins, top-5 (or another number), losses; by default all that can
            be asked but top-5, auc and leaderboard. What is not asked is not paid for.
        interval: whether every row has a lower end too, at half its failure probability each.
        within: the least and the largest value that labels can have, known without these examples: then labels and
            predictions are real numbers, predictions are cut off there, and rows are absolute and squared errors.
        positive: of two classes the one that is looked for: adds the rows of :meth:`Report.named`, at no cost.

    Raises:
        ValueError: something is missing or does not fit; the sentence names the argument and what to do.
    """
    _check.open_probability(failure_prob=failure_prob)
    if not isinstance(interval, bool):
        raise ValueError(f"interval must be True or False, got {interval!r}")
    columns.require_one_order(labels=labels, predictions=predictions, probabilities=probabilities, losses=losses,
                              groups=groups, people=people, weights=weights, ids=ids)  # fmt: skip
    given = examples(labels, predictions, probabilities, losses=losses, classes=classes, within=within, groups=groups,
                     people=people, weights=weights, ids=ids)  # fmt: skip
    return certified(
        given, failure_prob=float(failure_prob), ask=ask, interval=interval, positive=positive
    )


def examples(
    labels: Any,
    predictions: Any = None,
    probabilities: Any = None,
    *,
    losses: Any = None,
    classes: Sequence[Name] | None = None,
    within: Sequence[float | int] | None = None,
    **about: Any,
) -> Examples:
    """The examples that :func:`pacdp.certify_predictions` was given, checked; ``about`` goes to :func:`described`.

    Raises:
        ValueError: something is missing or does not fit; the sentence says which argument.
    """
    if predictions is not None and probabilities is not None:
        raise ValueError(
            "give predictions or probabilities, not both: predictions follow from probabilities, leave them out"
        )
    if within is not None:
        if probabilities is not None or losses is not None or classes is not None:
            raise ValueError("within goes with labels and predictions alone: leave the rest out")
        alone = about.get("people") is None
        return described(real_numbers(labels, predictions, within, alone=alone), **about)
    answers = predictions if probabilities is None else probabilities
    if answers is None and losses is None:
        raise ValueError(
            "give predictions, probabilities or losses: without them there is nothing to certify"
        )
    if labels is None and answers is not None:
        raise ValueError("give labels: predictions and probabilities are judged by them")
    if labels is not None and answers is None:
        raise ValueError("give predictions or probabilities beside the labels, or losses alone")
    if labels is None and classes is not None:
        raise ValueError("classes go with labels, and losses alone have none: leave them out")
    found = None if labels is None else judged(labels, predictions, probabilities, classes)
    if losses is not None:
        found = of_losses(losses, found)
    assert found is not None
    return described(found, **about)


_SILENT = (
    ("bins", "calibration gaps", f"no bin has {MIN_COUNT} examples: gather more"),
    ("auc", "AUC", "a class has one record or none: gather more"),
)
"""What is said of families that came to nothing, for every model or for some."""


def certified(
    given: Examples,
    *,
    failure_prob: float,
    ask: Sequence[str] | str | None = None,
    interval: bool = False,
    positive: Name | None = None,
) -> Report:
    """The report on examples that were checked."""
    families, sizes = asked(given, ask)
    questions = list(parts(given, families, sizes))
    refused = {part: why for part in questions if (why := _unanswered(part, given))}
    # questions without an answer have their share too, so that no count of examples decides one
    ways = Counter(part.family for part in questions)
    ways.update(dict.fromkeys({"auc", "calibration", "bins"} & {*families}, len(given.models)))
    paying = [family for family in families if ways[family]]
    # half for the error, the rest in equal parts for all others; all for the error where it is alone
    shares = dict.fromkeys(paying, 1.0) | {"error": max(1.0, len(paying) - 1.0)}
    budget = bounds.FailureBudget.split(failure_prob, **shares)
    statements, certificates = list[Statement](), list[bounds.Certificate]()
    for family in paying:
        own = [part for part in questions if part.family == family and part not in refused]
        share = budget.share(family, ways[family])
        for rows, made in _of_family(given, family, own, failure_prob=share, interval=interval):
            statements += [row.after(len(certificates)) for row in rows]
            certificates += made
    refusals = [
        Refusal(name=f"{part.measures} of {part.of}", reason=why) for part, why in refused.items()
    ]
    there = {(row.family, row.of) for row in statements}
    for family, name, why in _SILENT:
        silent = [of for of in given.models if (family, of) not in there and family in paying]
        one_by_one = len(silent) < len(given.models)
        names = [f"{name} of {of}" for of in silent] if one_by_one else [name]
        refusals += [Refusal(name=one, reason=why) for one in names]
    counted = given.labels is not None and given.weights is None
    inputs: Any = [made.inputs for made in certificates]
    errors = [row for row in statements if counted and row.family == "error"]
    measured = [
        Measured(of=row.of, on="bound", mean=row.measured, n=given.units,
                 errors=inputs[row.upper_by].get("k"))
        for row in errors
    ]  # fmt: skip
    remarks = given.remarks
    if given.people is not None and {*families} & {"recall", "precision", "false-alarms"}:
        each = f"every {given.unit} counts alike: recall and precision of a class are means of each one's own share, "
        remarks = (*remarks, f"{each}not shares of all examples")
    if given.weights is not None:
        remarks = (*remarks, "every row is by weight, of the population that the weights make")
    found = Report.of(
        [*certificates, *refusals, *measured], given, route="predictions", failure_prob=failure_prob,
        statements=tuple(statements), budget=budget, remarks=remarks,
    )  # fmt: skip
    details: Values = {}
    if positive is not None:
        called = shown(positive)
        both = [*map(shown, given.classes)] if {*families} & {"recall", "precision"} else ()
        rows = [row for of in given.models for row in named(statements, called, of, both)]
        details = {"positive": called, "named": rows}
    if "leaderboard" in families:
        details["leaderboard"] = ranks(statements, tuple(given.models))
    return replace(found, details=details)


def _unanswered(part: Part, given: Examples) -> str:
    """Why a question about some of the examples has no answer: fewer than two records that it is about."""
    if part.n >= 2 or not part.empty:
        return ""
    alone = f"it would rest on one {given.unit}, which says next to nothing: gather more"
    return alone if part.n else f"{part.empty}: gather some"


def _of_family(
    given: Examples, family: str, questions: list[Part], *, failure_prob: float, interval: bool
) -> Iterator[Found]:
    """What is found of the questions of one family, each of which may fail with ``failure_prob``."""
    if family == "auc":
        for of, said in given.models.items():
            yield auc(given, of, said, failure_prob=failure_prob, interval=interval)
    if family in ("calibration", "bins"):
        form = bins if family == "bins" else calibration_error
        for of, said in given.models.items():
            yield form(given, of, said, failure_prob=failure_prob)
    for of, own in groupby(questions, lambda part: part.of):
        found = [answer(part, given, failure_prob=failure_prob, interval=interval) for part in own]
        yield from found
        if family == "groups" and given.groups is not None and len(found) > 1:
            yield largest_gap(found, given, of=of, groups=len(given.groups.names))
