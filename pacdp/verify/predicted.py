"""A report on predictions: its ledger, the rows that its certificates carry, and counts that must add up."""

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify import needs, remarks
from pacdp.verify.arithmetic import total
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
from pacdp.verify.measured import SHARED, same_rows
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
    "recall": ("error on class ", "upper_by"),
    "groups": ("error in group ", "upper_by"),
    "precision": ("precision of class ", "lower_by"),
    "false-alarms": ("false-alarm rate of class ", "upper_by"),
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


def _remarks(report: Fields) -> None:
    """What names and counts show to be odd is remarked on."""
    rows = report.details.statements
    errors = _of_family(report, "error")
    due = [
        *remarks.of_names("models", (repr(one.of) for one in errors))
    ]
    for kind, begins in _NAMED.items():
        said = (row.quantity for row in rows)
        names = (
            one.removeprefix(begins)
            for one in said
            if one.startswith(begins)
        )
        due += remarks.of_names(kind, names)
    for row in errors:
        whole = report.certificates[row.upper_by].inputs
        parts = _parts(report, "groups", row.of)
        if all("k" in one for one in (whole, *parts)):
            due += remarks.of_groups(row.of, whole, parts)
    if report.not_applicable:
        due = []  # some rows are not there
    remarks.require_due(report.details.remarks, due)


def _paid(report: Fields) -> None:
    """The ledger is within the failure probability, and every certificate within its entry of the ledger.

    The entry that pays for a certificate is that of the rows which it is behind.
    """
    ledger = report.details.budget
    payers = dict[int, str]()
    about(
        "the ledger's total",
        ledger.total,
        exactly(report.failure_prob),
    )
    entries = shares_of(ledger)
    for row in report.details.statements:
        for place in {row.upper_by, row.lower_by} - {None}:
            family = payers.setdefault(place, row.family)
            same(f"what pays for {row.quantity}", row.family, family)
    require(
        sorted(payers) == list(range(len(report.certificates))),
        "a certificate is behind no row, and nothing pays for it",
    )
    spent = {name: list[arb]() for name in entries}
    for place, family in payers.items():
        made = report.certificates[place]
        require(
            family in entries, f"the ledger has no entry for {family}"
        )
        if made.name != _GAP:
            spent[family].append(exactly(made.failure_prob))
    for name, amount in entries.items():
        require(
            total(spent[name]) <= amount * SUM,
            f"certificates of {name} may fail more often than {float(amount)!r}, which the ledger has",
        )
    idle = entries.keys() - set(payers.values())
    require(
        not idle or report.not_applicable,
        f"the ledger pays for {', '.join(sorted(idle))}, and no row is of it",
    )


def _rows(report: Fields) -> None:
    """Both ends of every row, and what was measured, follow from the certificates that it names."""
    for row in report.details.statements:
        for end in ("upper", "lower"):
            place = row[f"{end}_by"]
            require(
                (row[end] is None) == (place is None),
                f"the {end} end of {row.quantity} and its certificate are not both there",
            )
            if place is not None:
                made = report.certificates[place]
                _check_end(row, made, end == "upper", report.unit)


def _check_end(
    row: Fields,
    made: Fields,
    upper: bool,
    unit: str,
) -> None:
    """An upper end is the certificate's value; a lower end is that of what one minus the quantity is at most."""
    called = f"{row.quantity} of {row.of}"
    low, high = (exactly(end) for end in row.range)
    above, below = _measures(row)
    share = exactly(made.terms[row.term] if row.term else made.value)
    mean = _mean(row, made)
    names = {above, row.quantity}
    if upper:
        exact = low + (high - low) * share
        agree(f"the upper end of {called}", row.upper, exact)
    else:
        exact = high - (high - low) * share
        agree(f"the lower end of {called}", -number(row.lower), -exact)
        names = {below, *(f"1 - {name}" for name in names)}
    _check_same(row, made, unit, names)
    if mean is not None:
        exact = low + (high - low) * (mean if upper else 1 - mean)
        about(f"the measured {called}", row.measured, exact)


def _check_same(
    row: Fields,
    made: Fields,
    unit: str,
    names: set[str],
) -> None:
    """They are about one model, one quantity, and as many records where these are counted.

    A loss that was given as such is called as whoever gave it does, be that "error" or "Brier risk".
    """
    n = row.n if row.term else made.inputs.get("n", row.n)
    what = f"what the certificate of {row.quantity} is about"
    same(what, (made.of, n), (row.of, row.n))
    said = _plain(without_unit(made.measures, unit))
    require(
        {_plain(name) for name in names}
        & {said, said.removeprefix("weighted ")},
        f"{row.quantity} rests on a certificate of {made.measures!r}",
    )
    for one in made.hypotheses:
        if one.name == needs.RECORDS:
            same(f"the unit of {row.quantity}", one.unit, unit)
    if made.name == "new_examples_betting" and row.family in _GIVEN:
        ranged = ["losses within their range"]
        needs.require_named(ranged, needs.standings(made))


def _plain(name: str) -> str:
    """An error has two names."""
    return name.replace("0-1 risk", "error")


def _mean(row: Fields, made: Fields) -> arb | None:
    """The mean that the certificate was made from; None where it has none."""
    inputs = made.inputs
    if row.term:
        place = int(row.term.removeprefix("gap_"))
        names = ("counts", "corrects", "mean_confidences")
        count, correct, confidence = (
            exactly(float(inputs[name].split(",")[place]))
            for name in names
        )
        return abs(correct / count - confidence)
    if "k" in inputs:
        return inputs.k / arb(inputs.n)
    said = inputs.get("risk", inputs.get("calibration_error"))
    if made.name == _GAP:
        said = made.terms.empirical_gap
    return None if said is None else exactly(said)


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
        return f"(1 + {one} - {other})/2", f"(1 + {other} - {one})/2"
    if said in _CALLED:
        return _CALLED[said]
    if said.startswith("top-"):
        return said, said.replace("error", "accuracy")
    for error, right in _COMPLEMENTS.items():
        if said.startswith(error):
            return said, said.replace(error, right, 1)
        if said.startswith(right):
            return said, said.replace(right, error, 1)
    return said, f"1 - {said}"


def _counts(report: Fields) -> None:
    """Rows count the records that there are, plain errors are among what was measured, parts add up to the whole."""
    n = report.n
    if report.unit == "example":
        same("the number of examples", report.examples, n)
    most = max(row.n for row in report.details.statements)
    require(
        most <= n <= report.examples,
        f"a row counts {most} records, of {n} and {report.examples} examples",
    )
    measured = {(one.of, one.on, one.loss) for one in report.measured}
    for whole in _of_family(report, "error"):
        same(f"the records behind the error of {whole.of}", whole.n, n)
        made = report.certificates[whole.upper_by]
        if "k" in made.inputs:
            require(
                not made.measures.startswith("0-1 risk")
                or (whole.of, "bound", "zero-one") in measured,
                f"the error of {whole.of} is not among what was measured",
            )
            _check_parts(report, whole.of, made.inputs)


def _check_parts(report: Fields, of: str, own: Fields) -> None:
    """Errors on all classes, in all groups, and among all predictions, add up to the errors on all examples."""
    for family in _PARTITIONS:
        parts = _parts(report, family, of)
        if not parts or not all("k" in one for one in parts):
            continue
        times = 1
        # an example is none of all classes but one
        if family == "false-alarms":
            times = len(parts) - 1
        errors, size = (
            sum(one[key] for one in parts) for key in ("k", "n")
        )
        whole_size = own.n * times
        require(
            (errors, size) == (own.k, whole_size)
            or (report.not_applicable and errors <= own.k),
            f"{family} count {errors} errors of {size}, and on all examples there are {own.k} of {whole_size}",
        )


def _of_family(report: Fields, family: str) -> list[Fields]:
    return [
        one for one in report.details.statements if one.family == family
    ]


def _parts(
    report: Fields,
    family: str,
    of: str,
) -> list[Fields]:
    """The inputs of the certificates that count the errors of a family's parts."""
    begins, end = _PARTITIONS[family]
    return [
        report.certificates[row[end]].inputs
        for row in _of_family(report, family)
        if row.of == of
        and row.quantity.startswith(begins)
        and row[end] is not None
    ]


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
            kinds = [row.quantity.split(" ")[0] for row in rows]
            recalls, errors = map(kinds.count, ("recall", "error"))
            same("the number of rows of recall", recalls, errors)
        parts = list[Fields]()
        for of in models if family in _PARTITIONS else ():
            parts += _parts(report, family, of)
        counted = all("k" in part for part in parts)
        if family in ("top-k", "losses", "bins") or not counted:
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
            ends = ", ".join(repr(float(row[end])) for row in rows)
            same(
                f"the {end} ends of groups",
                gap.inputs[f"{end}s"],
                ends,
            )
        behind = {row.upper_by for row in rows} | {
            row.lower_by for row in rows
        }
        failing = [
            report.certificates[one].failure_prob for one in behind
        ]
        exact = total(map(exactly, failing))
        about("what the groups fail with", gap.failure_prob, exact)


OF_PREDICTIONS = {
    "failure probability of everything together": _paid,
    "rows": _rows,
    "counts": _counts,
    "completeness": _complete,
    "gaps": _gaps,
    "remarks": _remarks,
    "the data": _data,
    "numbers of rows": same_rows,
    **SHARED,
}
"""What is asked of a report on predictions."""
