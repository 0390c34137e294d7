"""What follows from rows of a report on predictions: numbers that have names, ranks of models, what rates are."""

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal, InvalidOperation

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import ZERO, log_choose
from pacdp.verify.claim import (
    Fields,
    agree,
    exactly,
    hold,
    number,
    require,
    same,
)


def of_family(report: Fields, family: str) -> list[Fields]:
    """The rows of a family."""
    rows = report.details.statements
    return [row for row in rows if row.family == family]


def refused(report: Fields, begins: str, of: str = "") -> int:
    """How many rows whose names begin so, of this model or of any, have no answer."""
    models = {row.of for row in of_family(report, "error")}
    names = [str(one.name) for one in report.not_applicable]
    whose = [
        [one for one in models if name.endswith(f" of {one}")]
        for name in names
        if name.startswith(begins)
    ]
    # one model may be called as another one's name ends
    own = [max(each, key=len, default="") for each in whose]
    return own.count(of) if of else len(own)


def ranks(report: Fields) -> None:
    """A model's ranks count the models that the ends of differences tell apart from it."""
    board = list[Fields](report.details["leaderboard"] or [])
    rows = of_family(report, "leaderboard")
    if not board and not rows:
        return
    below = set()
    for row in rows:
        one, other = row.of.rsplit(" against ", 1)
        if row.upper < 0:
            below.add((one, other))
        if row.lower > 0:
            below.add((other, one))
    errors = {
        row.of: row.measured for row in of_family(report, "error")
    }
    due = []
    for of in sorted(errors, key=lambda of: errors[of]):
        better = {a for a, b in below if b == of}
        worse = {b for a, b in below if a == of}
        tied = sorted(errors.keys() - better - worse - {of})
        best = 1 + len(better)
        worst = len(errors) - len(worse)
        due.append((of, errors[of], best, worst, tied))
    said = [
        (
            one.of,
            one.measured,
            one.best,
            one.worst,
            sorted(one.tied),
        )
        for one in board
    ]
    same("what is said of the models", said, due)


def _harmonic(p: arb, r: arb) -> arb:
    return 2 * p * r / (p + r) if p + r > 0 else ZERO


_NAMED_FORMS: dict[
    str, tuple[tuple[str, ...], Callable[..., arb]]
] = {
    "sensitivity": (("recall +",), lambda a: a),
    "specificity": (("recall -",), lambda b: b),
    "balanced accuracy": (
        ("recall +", "recall -"),
        lambda a, b: (a + b) / 2,
    ),
    "positive predictive value": (("precision +",), lambda p: p),
    "F1": (("precision +", "recall +"), _harmonic),
    "negative predictive value": (("precision -",), lambda p: p),
}
"""Numbers with names as growing functions of the rows of the positive class (+) and of the other one (-)."""


_BESIDE = """
row.n = n
row.family = due.family
row.range = due.range
row.term = due.term
row.upper_by = due.upper_by
row.lower_by = due.lower_by
"""
_OF_CLASSES = ("error on", "share of errors among predictions of")
"""How refusals begin that are about recall, or precision."""
_OF_SEVERAL = {"family": "named", "range": [0.0, 1.0], "term": ""}
"""What stands beside a named row: what beside its part does, or what beside one of several parts has to."""


def named(report: Fields) -> None:
    """Sensitivity, specificity and the like, of every model, follow from the rows of recall and precision."""
    said = list[Fields](report.details["named"] or [])
    positive = report.details["positive"]
    if positive is None and not said:
        return
    due = {}
    for of in {row.of for row in of_family(report, "error")}:
        own = {}
        classes = set()
        for row in report.details.statements:
            rate, _, label = row.quantity.partition(" of class ")
            if row.of == of and rate in ("recall", "precision"):
                classes.add(label)
                sign = "+" if label == positive else "-"
                own[f"{rate} {sign}"] = row
        least = 2
        if any(
            refused(report, f"{one} class ", of)
            for one in _OF_CLASSES
        ):
            # of which too few examples may be
            classes.add(positive)
            least = 1
        require(
            least <= len(classes) <= 2 and positive in classes,
            f"the positive class is {positive}, of {sorted(classes)}",
        )
        for name, (parts, form) in _NAMED_FORMS.items():
            if own.keys() >= {*parts}:
                rows = [own[part] for part in parts]
                due[of, name] = form, rows
    there = sorted((row.of, row.quantity) for row in said)
    same("the named rows", there, sorted(due))
    for row in said:
        _follows(row, *due[row.of, row.quantity])


def _follows(
    row: Fields, form: Callable[..., arb], parts: list[Fields]
) -> None:
    """Each end of a named row, and what was measured, is this function of its parts, rounded outwards."""
    due = parts[0] if len(parts) == 1 else _OF_SEVERAL
    n = min(one.n for one in parts)
    hold(_BESIDE, row=row, due=due, n=n)
    for end in ("measured", "lower", "upper"):
        values = [one[end] for one in parts]
        what = f"{end} of {row.quantity} of {row.of}"
        if None in values:
            same(what, row[end], None)
            continue
        side = -1 if end == "lower" else 1
        exact = side * form(*map(exactly, values))
        below = int(end == "measured")
        agree(what, side * number(row[end]), exact, below=below)


def of_people(report: Fields) -> list[str]:
    """The remark on what recall and precision are, which is due where people are counted."""
    entries = dict(report.details.budget.entries)
    rates = {"recall", "precision", "false-alarms"}
    if report.unit == "example" or not rates & entries.keys():
        return []
    return [
        f"every {report.unit} counts alike: recall and precision of a class are means of each one's own share, not "
        "shares of all examples"
    ]


def ends(rows: list[Fields]) -> Iterator[tuple[Fields, str, int]]:
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


def pairs(report: Fields) -> None:
    """Of two models, the examples on which one alone errs are among its errors, and differ by as much as these do."""
    errors = {
        row.of: report.certificates[row.upper_by].inputs
        for row in of_family(report, "error")
    }
    apart = {}
    for row, end, place in ends(report.details.statements):
        made = report.certificates[place].inputs
        if "more" in made:
            side = -1 if end == "lower" else 1
            models = row.of.rsplit(" against ", 1)[::side]
            one, other = (errors[of].k for of in models)
            both = made.more + made.fewer
            require(
                made.more - made.fewer == one - other
                and made.more <= one
                and made.fewer <= other
                and apart.setdefault(row.of, both) == both,
                f"the counts of {row.quantity} are not those of the two errors, or not those of its other end",
            )


def alike(kind: str, names: Iterable[str]) -> Iterator[str]:
    """The first two names, as Python writes them, that differ by spaces, case, a letter's form or a number's zeros."""
    first = {}
    for name in names:
        text = unicodedata.normalize("NFKC", name).casefold()
        bare = "".join(text.split())
        try:
            number = Decimal(bare.strip("'"))
        except InvalidOperation:
            number = Decimal("nan")
        key = number if number.is_finite() else bare
        other = first.setdefault(key, name)
        if other != name:
            yield (
                f"the {kind} {other} and {name} differ by a space, case or zeros alone, and count as two: if they are "
                "one, write them alike"
            )
            return


def made_of_errors(
    model: str, whole: Fields, parts: list[Fields]
) -> Iterator[str]:
    """Groups each of which holds errors alone or none, where chance would bring that more rarely than 1e-6.

    k errors on n examples do in at most 2^groups of the n over k ways; each example that is in none of them may be a
    group that has no answer.
    """
    rare = 1e-6 * log_choose(whole.n, whole.k).exp()
    pure = all(one.k in (0, one.n) for one in parts)
    groups = len(parts) + whole.n - sum(one.n for one in parts)
    if pure and arb(2) ** groups < rare:
        yield (
            f"in every group {model} errs always or never: if groups were made from the errors, their rows say "
            "nothing, since groups must be settled beforehand"
        )
