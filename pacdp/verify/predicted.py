"""A report on predictions: its ledger, the rows that its certificates carry, and counts that must add up."""

from collections.abc import Callable, Iterator
from typing import Any

from pacdp.verify import remarks
from pacdp.verify.arithmetic import ZERO, total
from pacdp.verify.claim import (
    Fields,
    Unchecked,
    about,
    agree,
    exactly,
    number,
    require,
    same,
    without_unit,
)
from pacdp.verify.measured import SHARED, mean_of, sizes
from pacdp.verify.needs import require_named, standings, units
from pacdp.verify.selfcertified import SUM, shares_of

ROUTE = "predictions"
_GAP = "largest_gap"
_CALLED = {
    "error": ("error", "accuracy"),
    "Brier risk": ("half the Brier risk", "1 - half the Brier risk"),
    "calibration error (ECE)": ("ECE", ""),
    "largest gap between groups": ("largest gap between groups", ""),
}
"""What the certificates of a row bound, above and below, where they call it by another name."""
_PARTITIONS = {
    "recall": ("error on class ", "upper"),
    "groups": ("error in group ", "upper"),
    "precision": ("precision of class ", "lower"),
    "false-alarms": ("false-alarm rate of class ", "upper"),
}
"""Families whose parts hold every example: how their rows begin, and the end that counts errors."""
_GIVEN = ("error", "losses", "groups")
"""Families of which betting on examples serves no other losses than those that were given as such."""
_NAMED = {"groups": "error in group ", "classes": "error on class "}
"""How the rows begin that name a group, or a class."""
_COMPLEMENTS = {
    "error on class ": "recall of class ",
    "share of errors among predictions of class ": "precision of class ",
    "false-alarm rate of class ": "specificity of class ",
    "error in group ": "accuracy in group ",
}
"""How the names of a rate and of one minus it begin."""


def _data(_: Fields) -> None:
    raise Unchecked(
        "the counts and means were not compared with the data, so that counts which were changed alike everywhere "
        "are not seen, nor remarks on rows"
    )


def _of_family(report: Fields, family: str) -> list[Fields]:
    return [
        row
        for row in report.details.statements
        if row.family == family
    ]


def _ends(rows: list[Fields]) -> Iterator[tuple[Fields, str, int]]:
    """Both ends of every row, and the places of the certificates behind them."""
    for row in rows:
        for end in ("upper", "lower"):
            place = getattr(row, f"{end}_by")
            require(
                (getattr(row, end) is None) == (place is None),
                f"the {end} end of {row.quantity} and its certificate are not both there",
            )
            if place is not None:
                yield row, end, place


def _parts(report: Fields, family: str, of: str) -> list[Fields]:
    """The inputs of the certificates that count the errors of a family's parts."""
    begins, counting = _PARTITIONS[family]
    return [
        report.certificates[place].inputs
        for row, end, place in _ends(_of_family(report, family))
        if (row.of, end) == (of, counting)
        and row.quantity.startswith(begins)
    ]


def _counted(parts: list[Fields]) -> bool:
    return all("k" in one for one in parts)


def _remarks(report: Fields) -> None:
    """What names and counts show to be odd is remarked on."""
    errors = _of_family(report, "error")
    due = [
        *remarks.of_names("models", [repr(one.of) for one in errors])
    ]
    quantities = [row.quantity for row in report.details.statements]
    for kind, begins in _NAMED.items():
        names = [
            one.removeprefix(begins)
            for one in quantities
            if one.startswith(begins)
        ]
        due += remarks.of_names(kind, names)
    for row in errors:
        whole = report.certificates[row.upper_by].inputs
        parts = _parts(report, "groups", row.of)
        if _counted([whole, *parts]):
            due += remarks.of_groups(row.of, whole, parts)
    if report.not_applicable:
        due = []  # some rows are not there
    remarks.require_due(report.details.remarks, due)


def _paid(report: Fields) -> None:
    """The ledger is within the failure probability, and every certificate within its entry of the ledger.

    The entry that pays for a certificate is that of the rows which it is behind.
    """
    ledger = report.details.budget
    about(
        "the ledger's total",
        ledger.total,
        exactly(report.failure_prob),
    )
    payers = dict[int, str]()
    for row, _, place in _ends(report.details.statements):
        family = payers.setdefault(place, row.family)
        same(f"what pays for {row.quantity}", row.family, family)
    require(
        sorted(payers) == list(range(len(report.certificates))),
        "a certificate is behind no row, and nothing pays for it",
    )
    entries = shares_of(ledger)
    spent = dict.fromkeys(entries, ZERO)
    for place, family in payers.items():
        require(
            family in entries, f"the ledger has no entry for {family}"
        )
        made = report.certificates[place]
        if made.name != _GAP:
            spent[family] += exactly(made.failure_prob)
    for name, amount in entries.items():
        require(
            spent[name] <= amount * SUM,
            f"certificates of {name} may fail more often than {float(amount)!r}, which the ledger has",
        )
    idle = entries.keys() - set(payers.values())
    require(
        not idle or report.not_applicable,
        f"the ledger pays for {', '.join(sorted(idle))}, and no row is of it",
    )


def _rows(report: Fields) -> None:
    """Both ends of every row, and what was measured, follow from the certificates that it names.

    An upper end is the certificate's value; a lower end is that of what one minus the quantity is at most.
    """
    for row, end, place in _ends(report.details.statements):
        made = report.certificates[place]
        called = f"{row.quantity} of {row.of}"
        low, high = map(exactly, row.range)
        width = high - low
        share = exactly(
            made.terms[row.term] if row.term else made.value
        )
        mean = _mean(row, made)
        above, below = _measures(row)
        names = {above, row.quantity}
        what = f"the {end} end of {called}"
        if end == "upper":
            agree(what, row.upper, low + width * share)
        else:
            agree(what, -number(row.lower), width * share - high)
            names = {below, *(f"1 - {name}" for name in names)}
        _check_same(row, made, report.unit, names)
        if mean is not None:
            about(
                f"the measured {called}",
                row.measured,
                low + width * (mean if end == "upper" else 1 - mean),
            )


def _check_same(
    row: Fields, made: Fields, unit: str, names: set[str]
) -> None:
    """They are about one model, one quantity, and as many records where these are counted.

    A loss that was given as such is called as whoever gave it does, be that "error" or "Brier risk".
    """
    same(
        f"what the certificate of {row.quantity} is about",
        (made.of, row.n if row.term else made.inputs.get("n", row.n)),
        (row.of, row.n),
    )
    said = _plain(without_unit(made.measures, unit))
    require(
        {said, said.removeprefix("weighted ")}
        & set(map(_plain, names)),
        f"{row.quantity} rests on a certificate of {made.measures!r}",
    )
    for one in units(made):
        same(f"the unit of {row.quantity}", one, unit)
    if made.name == "new_examples_betting" and row.family in _GIVEN:
        require_named(["losses within their range"], standings(made))


def _plain(name: str) -> str:
    """An error has two names."""
    return name.replace("0-1 risk", "error")


def _mean(row: Fields, made: Fields) -> Any:
    """The mean that the certificate was made from; None where it has none."""
    if not row.term:
        return mean_of(made)
    place = int(row.term.removeprefix("gap_"))
    count, correct, confidence = (
        exactly(float(made.inputs[name].split(",")[place]))
        for name in ("counts", "corrects", "mean_confidences")
    )
    return abs(correct / count - confidence)


def _measures(row: Fields) -> tuple[str, str]:
    """What the certificates behind the upper and the lower end of a row have to bound.

    Of two models it is (1 + X - Y)/2, and likewise the other way round ("Differences on the same examples").
    """
    said = row.quantity
    if row.family == "bins":
        return "MCE", ""
    if row.family == "differences":
        model, first = row.of.rsplit(" against ", 1)
        loss = said.split(" of ", 1)[0]
        one = f"{loss} of {model}"
        other = f"{loss} of {first}"
        same("the name of a difference", said, f"{one} minus {other}")
        return (
            f"(1 + {one} - {other})/2",
            f"(1 + {other} - {one})/2",
        )
    if said in _CALLED:
        return _CALLED[said]
    if said.startswith("top-"):
        return said, said.replace("error", "accuracy")
    for pair in _COMPLEMENTS.items():
        for one, other in (pair, pair[::-1]):
            if said.startswith(one):
                return said, said.replace(one, other, 1)
    return said, f"1 - {said}"


def _counts(report: Fields) -> None:
    """Rows count the records that there are, plain errors are among what was measured, parts add up to the whole."""
    n = report.n
    most = max(row.n for row in report.details.statements)
    require(
        most <= n <= report.examples,
        f"a row counts {most} records, of {n} and {report.examples} examples",
    )
    measured = {(one.of, one.on, one.loss) for one in report.measured}
    for whole in _of_family(report, "error"):
        same(
            f"the records behind the error of {whole.of}", whole.n, n
        )
        made = report.certificates[whole.upper_by]
        if "k" in made.inputs:
            require(
                not made.measures.startswith("0-1 risk")
                or (whole.of, "bound", "zero-one") in measured,
                f"the error of {whole.of} is not among what was measured",
            )
            for family in _PARTITIONS:
                parts = _parts(report, family, whole.of)
                if parts and _counted(parts):
                    _check_parts(report, family, parts, made.inputs)


def _check_parts(
    report: Fields, family: str, parts: list[Fields], own: Fields
) -> None:
    """Errors on all classes, in all groups, and among all predictions, add up to the errors on all examples."""
    errors = sum(one.k for one in parts)
    size = sum(one.n for one in parts)
    whole = own.n
    if (
        family == "false-alarms"
    ):  # an example is none of all classes but one
        whole *= len(parts) - 1
    require(
        (errors, size) == (own.k, whole)
        or (report.not_applicable and errors <= own.k),
        f"{family} count {errors} errors of {size}, and on all examples there are {own.k} of {whole}",
    )


def _complete(report: Fields) -> None:
    """What the ledger pays for is there, for every model and every part, as far as counts show it."""
    if report.not_applicable:
        raise Unchecked(
            "nothing in the file determines which rows have no answer"
        )
    left = list[str]()
    models = {row.of for row in _of_family(report, "error")}
    for family, _ in report.details.budget.entries:
        rows = _of_family(report, family)
        there = {row.of for row in rows}
        whole = there == models
        if family == "differences":
            whole = len(there) == len(models) - 1
        missing = models - there or "a model"
        require(whole, f"{family} has no rows of {missing}")
        if family == "recall":
            recalls, errors = map(
                [row.quantity.split(" ")[0] for row in rows].count,
                ("recall", "error"),
            )
            same("the number of rows of recall", recalls, errors)
        shown = family not in ("top-k", "losses", "bins")
        if family in _PARTITIONS:
            shown = all(
                _counted(_parts(report, family, of)) for of in models
            )
        if not shown:
            left.append(family)
    if left:
        raise Unchecked(
            f"no counts show whether all rows of {', '.join(left)} are there"
        )


def _gaps(report: Fields) -> None:
    """The largest gap between groups is that of the ends of the groups' own rows, and fails when they do."""
    for place, gap in enumerate(report.certificates):
        if gap.name != _GAP:
            continue
        rows = [
            row
            for row in _of_family(report, "groups")
            if row.of == gap.of and row.upper_by != place
        ]
        for end in ("upper", "lower"):
            same(
                f"the {end} ends of groups",
                gap.inputs[f"{end}s"],
                ", ".join(repr(float(row[end])) for row in rows),
            )
        exact = total(
            exactly(report.certificates[one].failure_prob)
            for one in {one for *_, one in _ends(rows)}
        )
        about("what the groups fail with", gap.failure_prob, exact)


OF_PREDICTIONS: dict[str, Callable[[Fields], object]] = {
    "failure probability of everything together": _paid,
    "rows": _rows,
    "counts": _counts,
    "completeness": _complete,
    "gaps": _gaps,
    "remarks": _remarks,
    "the data": _data,
    "numbers of rows": sizes,
    **SHARED,
}
"""What is asked of a report on predictions."""
