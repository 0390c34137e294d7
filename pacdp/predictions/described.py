"""Whose the examples are, in which groups, by which weights; and remarks on what in them should be looked at."""

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacdp.predictions import columns, order
from pacdp.predictions.answers import Answers
from pacdp.predictions.columns import Coded, Codes, Name, require_rows
from pacdp.predictions.examples import Examples
from pacdp.predictions.parts import main_loss
from pacdp.store.record import Values

_ZEROS = re.compile(r"(?<![\d.,])0+(?=\d)")
"""Those that a number begins with, as in p007, but no decimals."""

_LEARNT_FROM = ("train", "training", "val", "valid", "validation")
"""What the parts of data are called that a model learns from, or is chosen by."""


def described(
    found: Examples, *, groups: Any = None, people: Any = None, weights: Any = None, ids: Any = None
) -> Examples:
    """The same examples with their groups, people and weights.

    Raises:
        ValueError: one of them does not fit; the sentence says which.
    """
    if people is not None and weights is not None:
        raise ValueError(
            "give people or weights, not both: people are counted alike, whatever their examples weigh"
        )
    given = {"groups": groups, "people": people, "ids": ids}
    coded = {name: columns.coded(name, one) for name, one in given.items() if one is not None}
    heavy = None if weights is None else columns.weights(weights)
    rows = {name: one.n for name, one in coded.items()}
    require_rows(found.n, **rows, weights=None if heavy is None else heavy.size)
    if "ids" in coded:
        _require_different(coded["ids"])
    owners = coded.get("people")
    if owners is not None and not any(owners.codes):
        raise ValueError(
            f"people must be at least two, got {owners.names[0]!r} in every row: one person says nothing of others; "
            "leave people out only if the examples are independent"
        )
    return _by_content(replace(
        found, remarks=(*found.remarks, *_remarks(found, coded)), groups=coded.get("groups"), weights=heavy,
        people=None if owners is None else owners.codes
    ))  # fmt: skip


def _by_content(found: Examples) -> Examples:
    """The same examples sorted by all that is known of them, so that no sum depends on where a row stood in a file.

    Counts of errors do not, whoever made them, and stay as they are.
    """
    known = [column for said in found.models.values() for column in said.columns()]
    if found.weights is None and all(column.dtype.kind != "f" for column in known):
        return found
    given: Values = {
        name: getattr(found, name) for name in ("labels", "groups", "people", "weights")
    }
    own = {name: column for name, column in given.items() if column is not None}
    plain = (one.codes if isinstance(one, Coded) else one for one in own.values())
    order = np.lexsort([*known, *plain])
    models = {name: said.taken(order) for name, said in found.models.items()}
    return replace(found, models=models, **{name: column[order] for name, column in own.items()})


def _require_different(ids: Coded) -> None:
    """Refuse an example that stands twice."""
    seen = np.bincount(ids.codes)
    if seen.max() > 1:
        twice = int(seen.argmax())
        first, second = np.flatnonzero(ids.codes == twice)[:2]
        raise ValueError(
            f"ids must be different in every row, got {ids.names[twice]!r} in rows {int(first)} and {int(second)}: "
            "drop the copies, or pass people=ids where one example was answered several times"
        )


def _remarks(found: Examples, coded: Mapping[str, Coded]) -> Iterator[str]:
    """What should be looked at, before the rows are brought into another order."""
    people, groups = coded.get("people"), coded.get("groups")
    told = {"classes": found.classes, "models": tuple(found.models)}
    told |= {what: coded[what].names for what in ("people", "groups", "ids") if what in coded}
    for what, names in told.items():
        yield from alike(what, names)
    for name in filter(found.classes.__contains__, columns.NOT_KNOWN):
        yield (
            f"a class is called {str(name)!r}, as some write a missing value: if it is one, fill it in, for "
            f"{columns.LEFT_OUT}"
        )
    given = [one.predicted for one in found.models.values() if one.predicted is not None]
    for place, name in enumerate(found.classes):
        odd = name in columns.UNLABELLED and len(found.classes) > 2 and len(given) > 0
        if odd and not np.isin(place, given):
            yield (
                f"a class is called {str(name)!r}, as some mark examples without a label, and no prediction names it: "
                "if nobody labelled them, leave these examples out, as each counts as an error"
            )
    for model, answers in found.models.items():
        if answers.confidence is not None and (ties := int((answers.predicted == -1).sum())):
            yield (
                f"{_rows(ties, model)} {'ties' if ties == 1 else 'tie'} for the largest probability, which counts as "
                "an error that names no class: precision and false alarms of what argmax or predict() names there may "
                "be worse; give its predictions to pacdp.certify_predictions to certify them"
            )
        if groups is not None and _made_from_errors(answers, found.labels, groups):
            yield (
                f"in every group {model} errs always or never: if groups were made from the errors, "
                "their rows say nothing, since groups must be settled beforehand"
            )
    for name in () if groups is None else groups.names:
        if str(name).strip().casefold() in _LEARNT_FROM:
            yield (
                f"a group is called {str(name)!r}: if the model learnt from its rows, or was chosen by them, leave "
                "them out, as they count in the error of all"
            )
    if groups is not None and people is None:
        yield from _perhaps_people(found, groups)
    repeated = 0
    counted = "n" if people is None else "the mean of a person"
    for model, answers in found.models.items() if "ids" not in coded else ():
        # rounded probabilities may well repeat: so this is no refusal
        soft = np.zeros(0) if answers.mark is None else answers.mark[~np.isnan(answers.mark)]
        if copies := soft.size - np.unique(soft).size:
            repeated += copies
            yield (
                f"{_rows(copies, model)} {'repeats' if copies == 1 else 'repeat'} the probabilities and label of "
                f"another row to the last digit: if examples stand twice, {counted} counts them "
                "twice; give ids to have that checked"
            )
    if people is not None:
        sizes = np.bincount(people.codes)
        most = int(sizes.argmax())
        if sizes[most] >= max(0.1 * people.n, 10.0 * float(np.median(sizes))):
            yield (
                f"{sizes[most] / people.n:.0%} of all rows are of one person, {people.names[most]!r}, and count as "
                "one: if it stands for all whose names are not known, their errors hardly count; name each of them"
            )
        return
    answers = found.models.items()
    said = [column for _, one in answers for column in one.columns()]
    labels = {} if found.labels is None else {"labels": found.labels}
    named = {
        f"predictions of {of}": one.predicted for of, one in answers if one.predicted is not None
    }
    looked: dict[str, NDArray[Any]] = {**labels, **named}
    if found.labels is None and not found.remarks:  # which real labels that were looked at have
        _, _, looked["losses"] = main_loss(found, next(iter(found.models.values())))
    scores = [one.score for _, one in answers if one.score is not None]
    # ids say that no row stands twice, not that no example does
    rows = [] if repeated or "ids" in coded else [*said, *labels.values()]
    by = [*said, *scores, *([] if groups is None else [groups.codes])]
    told = list(order.told_by_order(rows, looked, by))
    if not told and found.labels is not None:
        _, _, wrong = main_loss(found, next(iter(found.models.values())))
        looked_through = [found.labels * len(found.classes) + one for one in (*given, wrong)]
        within = [] if groups is None else [groups.codes]
        told = order.told_within_labels(found.labels, wrong, within, [*by, *looked_through])
    yield from told


def _perhaps_people(found: Examples, groups: Coded) -> Iterator[str]:
    """Groups as scikit-learn means them: those whose examples are alike, such as a patient's."""
    many = len(groups.names)
    if 20 < many < found.n < 10 * many:
        yield (
            f"there are {many} groups of {found.n / many:.1f} rows on average: if a group is "
            "a person or a record, whose rows are not independent, give it as people"
        )


def _rows(n: int, model: str) -> str:
    return f"{n} row{'s' * (n != 1)} of {model}"


def spelling(name: Name) -> str | Decimal:
    """A name without what spaces, case, the form of a letter and zeros about a number make of it."""
    plain = "".join(unicodedata.normalize("NFKC", str(name)).casefold().split())
    plain = _ZEROS.sub("", plain)
    if plain[:1] not in "+-.0123456789":
        return plain
    with suppress(InvalidOperation):  # Decimal of a text that is no number
        plain = number if (number := Decimal(plain)).is_finite() else plain
    return plain


def alike(what: str, names: Sequence[Name]) -> Iterator[str]:
    """Two names with one spelling."""
    seen = dict[str | Decimal, Name]()
    for one in names:
        if not isinstance(one, str):
            return
        if (other := seen.setdefault(spelling(one), one)) != one:
            yield (
                f"the {what} {str(other)!r} and {str(one)!r} differ by a space, case or zeros alone, and count "
                "as two: if they are one, write them alike"
            )
            return


def _made_from_errors(answers: Answers, labels: Codes | None, groups: Coded) -> bool:
    """Whether each group holds errors alone or none, while chance would have mixed them.

    k errors on n examples lie in whole groups in at most 2^groups of the n over k ways.
    """
    wrong: NDArray[Any] = np.asarray(answers.predicted != labels)
    if answers.predicted is None:
        wrong = next(iter(answers.losses.values()))
    if wrong.dtype != np.bool_:
        return False
    sizes, errors = np.bincount(groups.codes), np.bincount(groups.codes, weights=wrong)
    n, k = wrong.size, int(wrong.sum())
    log_ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    pure = bool(((errors == 0) | (errors == sizes)).all())
    return pure and sizes.size * math.log(2.0) - log_ways < order.RARE
