"""What rows of a report on predictions are parts of: their families, and counts that add up to those of the whole."""

from collections.abc import Iterator
from typing import Any

from pacdp.verify.arithmetic import ball, total
from pacdp.verify.claim import (
    Fields,
    Unchecked,
    about,
    require,
    same,
)
from pacdp.verify.named import ends, of_family, pairs, refused

_PARTITIONS = {
    "recall": ("error on class ", "upper"),
    "groups": ("error in group ", "upper"),
    "precision": ("precision of class ", "lower"),
    "false-alarms": ("false-alarm rate of class ", "upper"),
}
"""Families whose parts hold every example: how their rows begin, and the end that counts errors."""

OF_TWO = ("differences", "leaderboard")
"""Families whose rows are about two models."""

GIVEN = ("error", "losses", "groups")
"""Families of which betting on examples serves no other losses than those that were given as such."""

COMPLEMENTS = {
    "error on class ": "recall of class ",
    "share of errors among predictions of class ": "precision of class ",
    "false-alarm rate of class ": "specificity of class ",
    "error in group ": "accuracy in group ",
}
"""How the names of a rate and of one minus it begin."""

_REFUSED = {low: high for high, low in COMPLEMENTS.items()}
"""How the name of a rate that has no answer begins, which is that of its errors."""

_OF_PARTS = {
    begins: family
    for family, (one, _) in _PARTITIONS.items()
    for names in COMPLEMENTS.items()
    for begins in names
    if one in names
}
"""The family of a row that counts a part of all examples, by how its name begins."""

_FAMILIES = {
    *_PARTITIONS,
    *OF_TWO,
    *GIVEN,
    *"brier auc calibration bins top-k".split(),
}


def _parts(
    report: Fields, family: str
) -> Iterator[tuple[str, str, Fields]]:
    """Whose, of which name, and the inputs of the certificate that counts errors, of a family's parts."""
    begins, counting = _PARTITIONS.get(family, ("", ""))
    for row, end, place in ends(of_family(report, family)):
        if end == counting and row.quantity.startswith(begins):
            made = report.certificates[place]
            name = row.quantity.removeprefix(begins)
            yield row.of, name, made.inputs


def parts_of(report: Fields, family: str, of: str) -> list[Fields]:
    """The inputs of the certificates that count the errors of a family's parts; none of another family."""
    parts = _parts(report, family)
    return [inputs for whose, _, inputs in parts if whose == of]


def have_counts(parts: list[Fields]) -> bool:
    """Whether all of these are made from counts."""
    return all("k" in one for one in parts)


def families(report: Fields) -> None:
    """Every row is of a model with an error, of a family that there is, and of the one that adds up if it is a part.

    A loss may have been given under the name of such a row: it is none of counts.
    """
    odd = []
    models = {row.of for row in of_family(report, "error")}
    for row in report.details.statements:
        what = f"the family of {row.quantity}"
        require(
            row.family in _FAMILIES, f"{what} is {row.family!r}"
        )
        require(
            row.of in models or row.family in OF_TWO,
            f"{row.quantity} is that of {row.of!r}, of which there is no error",
        )
        for begins, family in _OF_PARTS.items():
            if (
                row.quantity.startswith(begins)
                and row.family != family
            ):
                odd.append((row, what, family))
    for row, what, family in odd:
        made = [report.certificates[at] for *_, at in ends([row])]
        if any("k" in one.inputs for one in made):
            same(what, row.family, family)
    if odd:
        raise Unchecked(
            f"{odd[0][0].quantity} may be the name of a loss that was given, and nothing shows which"
        )


def counts_of_parts(report: Fields) -> None:
    """Rows count the records that there are, plain errors are among what was measured, parts add up to the whole."""
    most = max(row.n for row in report.details.statements)
    examples = dict.get(report, "examples")
    require(
        most <= report.n <= examples,
        f"a row counts {most} records, of {report.n} and {examples} examples",
    )
    measured = {
        (one.of, one.on, one.loss) for one in report.measured
    }
    for row in report.details.statements:
        if row.family == "auc":
            classes = parts_of(report, "recall", row.of)
            sizes = [one.n for one in classes if "k" in one]
            require(
                row.n <= min([report.n // 2, *sizes]),
                f"{row.n} of {report.n} records are more than the smaller class can have",
            )
    pairs(report)
    _same_counts(report)
    for row in of_family(report, "error"):
        what = f"the error of {row.of}"
        same(f"the records behind {what}", row.n, report.n)
        made = report.certificates[row.upper_by]
        if "k" in made.inputs:
            require(
                not made.measures.startswith("0-1 risk")
                or (row.of, "bound", "zero-one") in measured,
                f"{what} is not among what was measured",
            )
            for family in _PARTITIONS:
                _add_up(report, family, row.of, made.inputs)
            _top_falls(report, row.of, made.inputs.k)
            for bins in of_family(report, "bins"):
                if bins.of == row.of:
                    _bins_add_up(report, bins, made.inputs)


def _same_counts(report: Fields) -> None:
    """Rows of one class count the same right answers and false alarms; those of all models have the same examples."""
    known = dict[Any, int]()
    for family in _PARTITIONS:
        for of, name, made in _parts(report, family):
            if "k" not in made:
                continue
            n, k = made.n, made.k
            counts = {
                "recall": {"right": n - k, "size": n},
                "precision": {"right": n - k, "alarms": k},
                "false-alarms": {"alarms": k, "size": report.n - n},
                "groups": {"in group": n},
            }
            for what, count in counts[family].items():
                whose = of if what in ("right", "alarms") else ""
                first = known.setdefault((what, whose, name), count)
                same(
                    f"what {family} of {name} of {of} count",
                    count,
                    first,
                )


def _add_up(
    report: Fields, family: str, of: str, whole: Fields
) -> None:
    """Errors on all classes, in all groups, and among all predictions, add up to the errors on all examples.

    Parts that have no answer have one record at most each; predictions of no class are errors.
    """
    parts = parts_of(report, family, of)
    if not parts or not have_counts(parts):
        return
    begins, _ = _PARTITIONS[family]
    alone = refused(report, _REFUSED.get(begins, begins), of)
    errors = sum(one.k for one in parts)
    size = sum(one.n for one in parts)
    n = whole.n
    if family == "false-alarms":
        # an example is none of all classes but one
        n *= len(parts) + alone - 1
    gone = n - size
    right = gone - (whole.k - errors)
    holds = 0 <= right <= min(gone, alone)
    if family == "false-alarms":
        # an error that names no class is none of these
        named = parts_of(report, "precision", of)
        unnamed = whole.n - sum(one.n for one in named)
        holds = (
            0 <= gone
            and errors <= whole.k <= errors + alone + unnamed
        )
    if family != "precision":
        holds = holds and gone <= alone
    require(
        holds,
        f"{family} count {errors} errors of {size}, and on all examples there are {whole.k} of {n}",
    )


def _top_falls(report: Fields, of: str, errors: int) -> None:
    """Errors of the one most probable class are the errors, and among more classes there are no more of them."""
    missed = {
        int(row.quantity.split("-")[1].split(" ")[0]): row
        for row in of_family(report, "top-k")
        if row.of == of
    }
    for k, row in sorted(missed.items()):
        said = report.certificates[row.upper_by].inputs.k
        require(
            said == errors if k == 1 else said <= errors,
            f"{row.quantity} counts {said}, and there are {errors} with fewer classes",
        )
        errors = said


def _bins_add_up(
    report: Fields, row: Fields, whole: Fields
) -> None:
    """Every example is in one bin, and right there where it is no error; their gaps make the calibration error."""
    bins = report.certificates[row.upper_by].inputs
    names = "counts corrects mean_confidences lows highs"
    counts, corrects, confidences, lows, highs = (
        [*map(float, bins[name].split(","))]
        for name in names.split()
    )
    size = sum(counts)
    # a right answer is off by 1 minus its confidence, and a wrong one by that
    least = sum(
        right * (1 - high) ** 2 + (count - right) * low**2
        for count, right, low, high in zip(
            counts, corrects, lows, highs, strict=True
        )
    )
    said = size, size - sum(corrects)
    same("what bins count", said, (whole.n, whole.k))
    gaps = total(
        abs(ball(right) - ball(count) * ball(confidence))
        for count, right, confidence in zip(
            counts, corrects, confidences, strict=True
        )
    )
    for one in of_family(report, "calibration"):
        if one.of == row.of:
            what = f"the {one.quantity} of {one.of}"
            about(what, one.measured, gaps / size)
            made = report.certificates[one.upper_by].inputs
            said = made["mean_squared_gap"] or 0.0
            require(
                least <= size * (said + 1e-6),
                f"the mean squared gap of {one.of} is {said!r}, less than that in its bins",
            )
