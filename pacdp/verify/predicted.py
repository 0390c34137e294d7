"""A report on predictions: its ledger, the rows that its certificates carry, and counts that must add up."""

from collections.abc import Iterator, Mapping
from typing import Any

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify import needs
from pacdp.verify.arithmetic import ball, total
from pacdp.verify.certificate import check_certificate
from pacdp.verify.claim import (
    Fields,
    Statement,
    Unchecked,
    Wrong,
    about,
    agree,
    exactly,
    fields,
    judged,
    number,
    without_unit,
)
from pacdp.verify.selfcertified import SUM, shares_of

ROUTE = "predictions"
_GAP = "largest_gap"
_CALLED = {
    "error": ("0-1 risk", "accuracy"),
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
_BY_GIVEN_LOSSES = ("error", "losses", "groups")
"""Families of which betting on examples serves no other losses than those that were given as such."""
_COMPLEMENTS = {
    "error on class ": "recall of class ",
    "share of errors among predictions of class ": "precision of class ",
    "false-alarm rate of class ": "specificity of class ",
    "error in group ": "accuracy in group ",
}
"""How a rate and one minus it are called."""


def check_predictions(report: Mapping[str, Any]) -> list[Statement]:
    """A statement on every certificate, on what all of them pay, on every row, and on counts of parts and whole."""
    r = fields(report)
    found = list[Statement]()
    for made in r.certificates:
        subject = f"{made.get('measures')} of {made.get('of')}"
        found += [
            said._replace(subject=subject) for said in check_certificate(made)
        ]
    checks = {
        "failure probability of everything together": _paid,
        "rows": _rows,
        "counts": _counts,
        "completeness": _complete,
        "gaps": _gaps,
    }
    return [
        *found,
        *(judged("report", claim, check, r) for claim, check in checks.items()),
    ]


def _paid(report: Fields) -> None:
    """The ledger is within the failure probability, and every certificate within its entry of the ledger."""
    ledger = report.details.budget
    about("the ledger's total", ledger.total, exactly(report.failure_prob))
    entries = shares_of(ledger)
    payers = _payers(report)
    spent = {name: list[arb]() for name in entries}
    for place, family in payers.items():
        made = report.certificates[place]
        if family not in entries:
            raise Wrong(f"the ledger has no entry for {family}")
        if made.name != _GAP:
            spent[family].append(exactly(made.failure_prob))
    for name, amount in entries.items():
        if not total(spent[name]) <= amount * SUM:
            raise Wrong(
                f"certificates of {name} may fail more often than {float(amount)!r}, which the ledger has"
            )
    idle = entries.keys() - set(payers.values())
    if idle and not report.not_applicable:
        raise Wrong(
            f"the ledger pays for {', '.join(sorted(idle))}, and no row is of it"
        )


def _payers(report: Fields) -> dict[int, str]:
    """Which entry of the ledger pays for each certificate: that of the rows which it is behind."""
    payers = dict[int, str]()
    for row in report.details.statements:
        for place in (row.upper_by, row.lower_by):
            if (
                place is not None
                and payers.setdefault(place, row.family) != row.family
            ):
                raise Wrong(
                    f"{row.quantity} is paid for by two entries of the ledger"
                )
    if sorted(payers) != list(range(len(report.certificates))):
        raise Wrong("a certificate is behind no row, and nothing pays for it")
    return payers


def _rows(report: Fields) -> None:
    """Both ends of every row, and what was measured, follow from the certificates that it names."""
    for row in report.details.statements:
        for end in ("upper", "lower"):
            if (row[end] is None) != (row[f"{end}_by"] is None):
                raise Wrong(
                    f"the {end} end of {_called(row)} and its certificate are not both there"
                )
            if row[f"{end}_by"] is not None:
                _check_end(row, report.certificates[row[f"{end}_by"]], end)


def _called(row: Fields) -> str:
    return f"{row.quantity} of {row.of}"


def _check_end(row: Fields, made: Fields, end: str) -> None:
    """An upper end is the certificate's value; a lower end is that of what one minus the quantity is at most."""
    above, below = _measures(row)
    mean = _mean(row, made)
    if end == "upper":
        value = made.terms[row.term] if row.term else made.value
        exact = _scaled(row, exactly(value))
        agree(f"the upper end of {_called(row)}", row.upper, exact)
        _check_same(row, made, (above, row.quantity))
    else:
        exact = _scaled(row, 1 - exactly(made.value))
        agree(f"the lower end of {_called(row)}", -number(row.lower), -exact)
        _check_same(row, made, (below, f"1 - {row.quantity}", f"1 - {above}"))
        mean = None if mean is None else 1 - mean
    if mean is not None:
        about(f"the measured {_called(row)}", row.measured, _scaled(row, mean))


def _scaled(row: Fields, mean: arb) -> arb:
    """The quantity of a row at a mean in [0, 1]."""
    low, high = (exactly(end) for end in row.range)
    return low + (high - low) * mean


def _mean(row: Fields, made: Fields) -> arb | None:
    """The mean that the certificate was made from; None where it has none."""
    inputs = made.inputs
    if row.term:
        return _gap_of_a_bin(inputs, int(row.term.removeprefix("gap_")))
    if "k" in inputs:
        return arb(inputs.k) / inputs.n
    if made.name == _GAP:
        return exactly(made.terms.empirical_gap)
    said = inputs.get("risk", inputs.get("calibration_error"))
    return None if said is None else exactly(said)


def _gap_of_a_bin(inputs: Fields, place: int) -> arb:
    names = ("counts", "corrects", "mean_confidences")
    count, correct, confidence = (
        ball(float(inputs[name].split(",")[place])) for name in names
    )
    return abs(correct / count - confidence)


def _check_same(
    row: Fields,
    made: Fields,
    expected: tuple[str, ...],
) -> None:
    """A row and its certificate are about one model, one quantity, and as many records where these are counted.

    A loss that was given as such is called as whoever gave it does, be that "error" or "Brier risk".
    """
    n = row.n if row.term else made.inputs.get("n", row.n)
    if row.of != made.of or n != row.n:
        raise Wrong(
            f"{_called(row)} rests on a certificate of {made['of']} with another n"
        )
    said = without_unit(made.measures)[0]
    weighted = {
        f"weighted {'error' if one == '0-1 risk' else one}" for one in expected
    }
    if said not in weighted.union(expected):
        raise Wrong(
            f"{_called(row)} rests on a certificate of {made.measures!r}"
        )
    if made.name == "new_examples_betting" and row.family in _BY_GIVEN_LOSSES:
        needs.require(["losses within their range"], needs.standings(made))


def _measures(row: Fields) -> tuple[str, str]:
    """What the certificates behind the upper and the lower end of a row have to bound."""
    said = row.quantity
    if row.family == "bins":
        return "MCE", ""
    if row.family == "differences":
        return _difference(row)
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


def _difference(row: Fields) -> tuple[str, str]:
    """(1 + X - Y)/2 of two models, and likewise the other way round ("Differences on the same examples")."""
    model, first = row.of.rsplit(" against ", 1)
    loss = row.quantity.split(" of ", 1)[0]
    one, other = f"{loss} of {model}", f"{loss} of {first}"
    if row.quantity != f"{one} minus {other}":
        raise Wrong(f"the difference of {row['of']} is called {row.quantity!r}")
    return f"(1 + {one} - {other})/2", f"(1 + {other} - {one})/2"


def _counts(report: Fields) -> None:
    """Errors on all classes, in all groups, and among all predictions, add up to the errors on all examples."""
    if report.unit == "example" and report.n != report.examples:
        raise Wrong(f"{report.n} records are {report.examples} examples")
    if report.n > report.examples or any(
        row.n > report.n for row in report.details.statements
    ):
        raise Wrong(
            f"a row counts more than the {report.n} records that there are"
        )
    for whole in _of_family(report, "error"):
        if whole.n != report.n:
            raise Wrong(
                f"the error of {whole['of']} rests on {whole.n} records of {report.n}"
            )
        for family in _PARTITIONS:
            parts = _parts(report, family, whole.of)
            inputs = report.certificates[whole.upper_by].inputs
            if parts and all("k" in part for part in (inputs, *parts)):
                _check_sum(report, family, parts, inputs)


def _check_sum(
    report: Fields,
    family: str,
    parts: list[Fields],
    whole: Fields,
) -> None:
    times = (
        len(parts) - 1 if family == "false-alarms" else 1
    )  # of how many classes an example is none
    k, n = (sum(part[name] for part in parts) for name in ("k", "n"))
    complete = not report.not_applicable
    more = k > whole.k or (complete and n > whole.n * times)
    if more or (complete and (k, n) != (whole.k, whole.n * times)):
        raise Wrong(
            f"{family} count {k} errors of {n}, and on all examples there are {whole.k} of {whole.n}"
        )


def _of_family(report: Fields, family: str) -> Iterator[Fields]:
    return (row for row in report.details.statements if row.family == family)


def _parts(
    report: Fields,
    family: str,
    of: str,
) -> list[Fields]:
    """The inputs of the certificates that count the errors of a family's parts."""
    begins, end = _PARTITIONS[family]
    places = list[int]()
    for row in _of_family(report, family):
        if (
            row.of == of
            and row.quantity.startswith(begins)
            and row[end] is not None
        ):
            places.append(row[end])
    return [report.certificates[place].inputs for place in places]


def _complete(report: Fields) -> None:
    """What the ledger pays for is there, for every model and every part, as far as counts show it."""
    if report.not_applicable:
        raise Unchecked(
            "nothing in the file determines which rows have no answer"
        )
    models = {row.of for row in _of_family(report, "error")}
    families = [name for name, _ in report.details.budget.entries]
    for family in families:
        _check_models(report, family, models)
    left = [
        family for family in families if not _counted(report, family, models)
    ]
    if left:
        raise Unchecked(
            f"no counts show whether all rows of {', '.join(left)} are there"
        )


def _check_models(
    report: Fields,
    family: str,
    models: set[str],
) -> None:
    rows = list(_of_family(report, family))
    there = {row.of for row in rows}
    complete = (
        len(there) == len(models) - 1
        if family == "differences"
        else there == models
    )
    if not complete:
        raise Wrong(
            f"{family} has no rows of {', '.join(sorted(models - there)) or 'a model'}"
        )
    recalls = sum(row.quantity.startswith("recall of class ") for row in rows)
    errors = sum(row.quantity.startswith("error on class ") for row in rows)
    if family == "recall" and recalls != errors:
        raise Wrong(
            "an error on a class has no row of its recall, or the other way round"
        )


def _counted(
    report: Fields,
    family: str,
    models: set[str],
) -> bool:
    """Whether counts of errors show that a family has all its parts, or it has none."""
    if family in ("top-k", "losses", "bins"):
        return False
    if family not in _PARTITIONS:
        return True
    parts = [part for model in models for part in _parts(report, family, model)]
    return all("k" in part for part in parts)


def _gaps(report: Fields) -> None:
    """The largest gap between groups is that of the ends of the groups' own rows, and fails when they do."""
    for place, gap in enumerate(report.certificates):
        if gap.name == _GAP:
            _check_gap(report, place, gap)


def _check_gap(
    report: Fields,
    place: int,
    gap: Fields,
) -> None:
    rows = [
        row
        for row in _of_family(report, "groups")
        if row.of == gap.of and row.upper_by != place
    ]
    for end in ("upper", "lower"):
        if gap.inputs[f"{end}s"] != ", ".join(
            repr(float(row[end])) for row in rows
        ):
            raise Wrong(
                f"the largest gap of {gap['of']} is not one between its groups"
            )
    behind = {row.upper_by for row in rows} | {row.lower_by for row in rows}
    failing = total(
        exactly(report.certificates[one].failure_prob) for one in behind
    )
    about("what the groups fail with", gap.failure_prob, failing)
