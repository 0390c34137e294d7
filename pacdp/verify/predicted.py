"""A report on predictions: its ledger, the rows that its certificates carry, and counts that must add up."""

import re
from math import sqrt
from typing import Any

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import ZERO, largest, least, total
from pacdp.verify.claim import (
    Checks,
    Fields,
    Unchecked,
    about,
    agree,
    exactly,
    number,
    require,
    same,
)
from pacdp.verify.measured import (
    SHARED,
    SUM,
    mean_of,
    require_due,
    shares_of,
    sizes,
    without_unit,
)
from pacdp.verify.named import (
    alike,
    ends,
    made_of_errors,
    named,
    of_family,
    of_people,
    ranks,
    refused,
)
from pacdp.verify.needs import require_named, standings
from pacdp.verify.parts import (
    COMPLEMENTS,
    GIVEN,
    OF_TWO,
    counts_of_parts,
    families,
    have_counts,
    parts_of,
)

_GAP = "largest_gap"
_BY_WEIGHT = "new_examples_weighted_betting"
_WIDEST = "largest gap between groups"
_BRIER = "half the Brier risk"
_CALLED = {
    "error": ("error", "accuracy"),
    "Brier risk": (_BRIER, f"1 - {_BRIER}"),
    "calibration error (ECE)": ("ECE", ""),
    _WIDEST: (_WIDEST, ""),
}
"""What the certificates of a row bound, above and below, where they call it by another name."""
_OF_LOSSES = ("betting", "weighted_betting", "new_person_betting")
_OF_COUNTS = (*_OF_LOSSES, "clopper_pearson", "paired", _GAP)
_BOUNDS = {
    "brier": _OF_LOSSES,
    "auc": ("auc",),
    "calibration": ("ece",),
    "bins": ("mce_clopper_pearson",),
}
"""By which bounds rows of a family are certified; those of another one, by counts or by betting."""
_NAMED = {"groups": "error in group ", "classes": "error on class "}
"""How the rows begin that name a group, or a class."""

_CUT_OFF = re.compile(
    r"every prediction is cut off at (\S+) and (\S+) before its error is taken"
)
_OVER = re.compile(r"(absolute|squared) error over (\S+)")
"""Between which ends real numbers lie, and the largest error that is possible there."""


def _paid(report: Fields) -> None:
    """The ledger is within the failure probability, and every certificate within its entry of the ledger.

    The entry that pays for a certificate is that of the rows which it is behind.
    """
    ledger = report.details.budget
    whole = exactly(report.failure_prob)
    about("the ledger's total", ledger.total, whole)
    payers = {}
    for row, _, place in ends(report.details.statements):
        family = payers.setdefault(place, row.family)
        same(f"what pays for {row.quantity}", row.family, family)
    every = {*range(len(report.certificates))}
    same("the certificates behind rows", {*payers}, every)
    spent = dict.fromkeys(payers.values(), ZERO)
    for place, family in payers.items():
        made = report.certificates[place]
        if made.name == _GAP:
            same("what pays for gaps", family, "groups")
        else:
            spent[family] += exactly(made.failure_prob)
    entries = shares_of(ledger)
    idle = entries.keys() - spent.keys()
    require(
        not idle or report.not_applicable,
        f"the ledger pays for {', '.join(sorted(idle))}, and no row is of it",
    )
    for name, amount in spent.items():
        require(
            name in entries and amount <= entries[name] * SUM,
            f"certificates of {name} may fail more often than the ledger has for them",
        )


def _rows(report: Fields) -> None:
    """Both ends of every row, and what was measured, follow from the certificates that it names.

    An upper end is the certificate's value; a lower end is that of what one minus the quantity is at most.
    """
    for row, end, place in ends(report.details.statements):
        made = report.certificates[place]
        same(f"the range of {row.quantity}", row.range, _range(row))
        low, high = map(exactly, row.range)
        width = high - low
        value = made.terms[row.term] if row.term else made.value
        mean = _bin_gap(row, made) if row.term else mean_of(made)
        above, below = _measures(row)
        names = {above, row.quantity}
        what = f"the {end} end of {row.quantity} of {row.of}"
        side = -1 if end == "lower" else 1
        from_there = (low if side > 0 else -high) + width * exactly(
            value
        )
        agree(what, side * number(row[end]), from_there)
        if end == "lower":
            names = {below, *(f"1 - {name}" for name in names)}
            mean = None if mean is None else 1 - mean
        _check_same(row, made, report.unit, names)
        if mean is not None:
            what = f"the measured {row.quantity} of {row.of}"
            about(what, row.measured, low + width * mean)


def _range(row: Fields) -> list[float]:
    """Between which values a quantity lies: differences from -1 on, the Brier risk up to 2, all others from 0 to 1."""
    low = -1.0 if row.family in OF_TWO else 0.0
    return [low, 2.0 if row.family == "brier" else 1.0]


def _bin(row: Fields, made: Fields) -> dict[str, arb]:
    """What a certificate's inputs say of the bin of a row."""
    place = int(row.term.removeprefix("gap_"))
    names = "counts corrects mean_confidences lows highs"
    return {
        name: exactly(float(made.inputs[name].split(",")[place]))
        for name in names.split()
    }


def _bin_gap(row: Fields, made: Fields) -> arb:
    """|share of right answers - mean confidence| in the bin of a row."""
    own = _bin(row, made)
    share = own["corrects"] / own["counts"]
    return abs(share - own["mean_confidences"])


def _check_same(
    row: Fields, made: Fields, unit: str, names: set[str]
) -> None:
    """They are about one model, one quantity, and as many records where these are counted.

    A loss that was given as such is called as whoever gave it does, be that "error" or "Brier risk".
    """
    n = made.inputs.get("n", row.n)
    if row.term:
        own = _bin(row, made)
        place = int(row.term.removeprefix("gap_"))
        same("the term of a bin", row.term, f"gap_{place}")
        n = own["counts"]
        low = float(own["lows"])
        high = float(own["highs"])
        said = (
            f"calibration gap at confidence {low:.2f} to {high:.2f}"
        )
        same("the name of a bin", row.quantity, said)
    what = f"the certificate of {row.quantity}"
    kinds = _BOUNDS.get(row.family, _OF_COUNTS)
    kind = made.name.removeprefix("new_examples_")
    require(
        kind in kinds,
        f"{what} is {made.name!r}, which no row of {row.family} has",
    )
    same(f"what {what} is about", (made.of, n), (row.of, row.n))
    # an error has two names
    plain = [one.replace("0-1 risk", "error") for one in names]
    said = without_unit(made.measures, unit)
    said = said.replace("0-1 risk", "error")
    require(
        said in plain or said.removeprefix("weighted ") in plain,
        f"{what} bounds {made.measures!r}",
    )
    if made.name == "new_examples_betting" and row.family in GIVEN:
        require_named(
            ["losses within their range"], standings(made)
        )


def _measures(row: Fields) -> tuple[str, str]:
    """What the certificates behind the upper and the lower end of a row have to bound.

    Of two models it is (1 + X - Y)/2, and likewise the other way round ("Differences on the same examples").
    """
    said = row.quantity
    if row.family == "bins":
        return "MCE", ""
    if row.family in OF_TWO:
        models = row.of.rsplit(" against ", 1)
        loss = said.partition(f" of {models[0]} minus ")[0]
        one, other = (f"{loss} of {model}" for model in models)
        same(
            "the name of a difference", said, f"{one} minus {other}"
        )
        return (
            f"(1 + {one} - {other})/2",
            f"(1 + {other} - {one})/2",
        )
    given = said == "Brier risk" and row.family != "brier"
    if said in _CALLED and not given:
        return _CALLED[said]
    if said.startswith("top-"):
        return said, said.replace("error", "accuracy")
    for pair in COMPLEMENTS.items():
        for one, other in (pair, pair[::-1]):
            if said.startswith(one):
                return said, said.replace(one, other, 1)
    return said, f"1 - {said}"


def _complete(report: Fields) -> None:
    """What the ledger pays for is there, for every model and every part, as far as counts show it."""
    if report.not_applicable:
        raise Unchecked(
            "nothing in the file determines which rows have no answer"
        )
    left = []
    models = {row.of for row in of_family(report, "error")}
    others = len(models) - 1
    pairs = {
        "differences": others,
        "leaderboard": len(models) * others // 2,
    }
    for family, _ in report.details.budget.entries:
        rows = of_family(report, family)
        there = {row.of for row in rows}
        whole = there == models
        if family in pairs:
            whole = len(there) == pairs[family]
        if family in ("bins", "losses"):  # which not all have
            whole = there <= models
        missing = models - there or "a model"
        require(whole, f"{family} has no rows of {missing}")
        if family == "recall":
            kinds = [row.quantity.split(" ")[0] for row in rows]
            recalls = kinds.count("recall")
            same("rows of recall", recalls, kinds.count("error"))
        counted = all(
            have_counts(parts_of(report, family, of))
            for of in models
        )
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
            for row in of_family(report, "groups")
            if row.of == gap.of and row.upper_by != place
        ]
        for end in ("upper", "lower"):
            own = ", ".join(repr(float(row[end])) for row in rows)
            what = f"the {end} ends of groups"
            same(what, gap.inputs[f"{end}s"], own)
        errors = [exactly(row.measured) for row in rows]
        widest = largest(errors) - least(errors)
        about(
            "the gap that was measured",
            gap.terms.empirical_gap,
            widest,
        )
        exact = total(
            exactly(report.certificates[one].failure_prob)
            for one in {one for *_, one in ends(rows)}
        )
        about("what the groups fail with", gap.failure_prob, exact)
        by_weight = {
            report.certificates[row.upper_by].name == _BY_WEIGHT
            for row in rows
        }
        said = gap.measures.startswith("weighted ")
        same("whether the gap is by weight", {said}, by_weight)


def _remarks(report: Fields) -> None:
    """What names and counts show to be odd is remarked on."""
    errors = of_family(report, "error")
    due = [*alike("models", [repr(one.of) for one in errors])]
    quantities = [row.quantity for row in report.details.statements]
    for kind, begins in _NAMED.items():
        named = [
            one for one in quantities if one.startswith(begins)
        ]
        names = [one.removeprefix(begins) for one in named]
        if not refused(report, begins):
            due += alike(kind, names)
    for row in errors:
        whole = report.certificates[row.upper_by].inputs
        parts = parts_of(report, "groups", row.of)
        if parts and have_counts([whole, *parts]):
            due += made_of_errors(row.of, whole, parts)
    due += of_people(report)
    # a gap is by weight where its groups are
    kinds = {one.name for one in report.certificates} - {_GAP}
    if _BY_WEIGHT in kinds:
        same("the bounds of rows by weight", kinds, {_BY_WEIGHT})
        due += [
            "every row is by weight, of the population that the weights make"
        ]
    require_due(report.details.remarks, due)


def _widths(report: Fields) -> None:
    """Errors of real numbers are over the width of the range that a remark names, or over its square."""
    said = [
        found
        for one in report.details["remarks"] or ()
        if (found := _CUT_OFF.fullmatch(one))
    ]
    rows = report.details.statements
    if not said:
        if any(_OVER.match(row.quantity) for row in rows):
            raise Unchecked(
                "no remark says where predictions are cut off"
            )
        return
    low, high = map(float, said[0].groups())
    width = high - low
    # each end has six digits, and so has the width
    off = 1e-5 * (abs(low) + abs(high) + width)
    for row in rows:
        over = _OVER.match(row.quantity)
        largest = float(over[2]) if over else width
        if over and over[1] == "squared":
            largest = sqrt(largest)
        require(
            abs(largest - width) <= off,
            f"{row.quantity} is over another width than that of {low:g} to {high:g}, where predictions are cut off",
        )


def _data(_: Any) -> None:
    raise Unchecked(
        "the counts and means were not compared with the data, so that counts which were changed alike everywhere "
        "are not seen, nor remarks on rows"
    )


OF_PREDICTIONS: Checks = {
    "failure probability of everything together": _paid,
    "families": families,
    "rows": _rows,
    "ranges of errors": _widths,
    "counts": counts_of_parts,
    "completeness": _complete,
    "gaps": _gaps,
    "named rows": named,
    "ranks": ranks,
    "remarks": _remarks,
    "the data": _data,
    "numbers of rows": sizes,
    **SHARED,
}
"""What is asked of a report on predictions."""
