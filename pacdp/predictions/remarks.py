"""Remarks on predictions: what their rows, names and groups look like where something may be amiss.

Copies and groups are spoken of where chance would bring them with probability at most 1e-6. Who
shuffles the copies of a file, or splits a group that was made from errors, goes unseen.
"""

import math
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pacdp.predictions.answers import Answers
from pacdp.predictions.columns import Coded, Codes, Name

_RARE = math.log(1e-6)


def remarks(
    models: Mapping[str, Answers],
    labels: Codes | None,
    *,
    classes: Sequence[Name],
    people: Coded | None,
    groups: Coded | None,
    known_once: bool,
) -> tuple[str, ...]:
    """What should be looked at, before the rows are brought into another order.

    Args:
        models: what each model said of n examples.
        labels: int64 [n], or None.
        classes: their names.
        people: whose the examples are, or None.
        groups: the group of each, or None.
        known_once: whether names of the examples say that none stands twice.
    """
    said = list[str]()
    told = {"classes": classes, "models": tuple(models), "people": people, "groups": groups}
    for what, names in told.items():
        said += _alike(what, names.names if isinstance(names, Coded) else names or ())
    for model, answers in models.items():
        said += _tied(model, answers)
        if groups is not None:
            said += _made_from_errors(model, answers, labels, groups)
    if known_once:
        return tuple(said)
    if repeated := [one for pair in models.items() for one in _repeats(*pair)]:
        said += repeated
    elif people is None:
        said += _copied([column for one in models.values() for column in one.columns()], labels)
    return tuple(said)


def _alike(what: str, names: Sequence[Name]) -> Iterator[str]:
    """Two names that differ by spaces, case or the form of a letter alone."""
    seen = dict[str, Name]()
    for one in names:
        if not isinstance(one, str):
            return
        plain = "".join(unicodedata.normalize("NFKC", one).casefold().split())
        if (other := seen.setdefault(plain, one)) != one:
            yield (
                f"the {what} {other!r} and {one!r} differ by a space or by case alone, and count "
                "as two: if they are one, write them alike"
            )
            return


def _tied(model: str, answers: Answers) -> Iterator[str]:
    """Ties for the largest probability, which are no prediction."""
    if answers.confidence is not None and (ties := int((answers.predicted == -1).sum())):
        yield (
            f"{ties} rows of {model} tie for the largest probability and count as errors, where "
            "predict() names one of the classes: give predictions to certify what it names"
        )


def _made_from_errors(
    model: str, answers: Answers, labels: Codes | None, groups: Coded
) -> Iterator[str]:
    """Groups each of which holds errors alone or none, while chance would have mixed them.

    k errors on n examples lie in whole groups in at most 2^groups of the n over k ways.
    """
    if answers.predicted is not None:
        wrong = answers.predicted != labels
    else:
        wrong = next(iter(answers.losses.values()))
    if wrong.dtype != np.bool_:
        return
    sizes, errors = np.bincount(groups.codes), np.bincount(groups.codes, weights=wrong)
    n, k = wrong.size, int(wrong.sum())
    log_ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    pure = ((errors == 0) | (errors == sizes)).all()
    if pure and sizes.size * math.log(2.0) - log_ways < _RARE:
        yield (
            f"in every group {model} errs always or never: if groups were made from the errors, "
            "their rows say nothing, since groups must be settled beforehand"
        )


def _repeats(model: str, answers: Answers) -> Iterator[str]:
    """Answers that repeat another to the last digit, where they are not all 0 and 1.

    Rounded probabilities may well repeat: so this is no refusal.
    """
    if answers.mark is not None:
        soft = answers.mark[~np.isnan(answers.mark)]
        if copies := soft.size - np.unique(soft).size:
            yield (
                f"{copies} rows of {model} repeat the probabilities and label of another row to "
                "the last digit: if examples stand twice, n counts them twice; give ids to have "
                "that checked"
            )


def _copied(columns: list[NDArray[np.generic]], labels: Codes | None) -> Iterator[str]:
    """The same rows several times over in the same order, as copies of a file bring them."""
    columns = [np.nan_to_num(one) for one in (*columns, *([] if labels is None else [labels]))]
    n, times = columns[0].size, 1
    for prime in _prime_factors(n):
        blocks = [one.reshape(times * prime, -1) for one in columns]
        if all((one == one[0]).all() for one in blocks):
            times *= prime
    if times == 1:
        return
    shares = [np.unique(one, return_counts=True)[1] / n for one in columns]
    agree = min(float(share @ share) for share in shares)  # how often two rows have the same
    if (n - n // times) * math.log(agree) < _RARE:
        yield (
            f"the {n // times} first rows stand {times} times over: if these are copies, records "
            "are not independent and n counts each of them as often; drop the copies, or give ids"
        )


def _prime_factors(n: int) -> Iterator[int]:
    factor = 2
    while factor * factor <= n:
        while n % factor == 0:
            yield factor
            n //= factor
        factor += 1
    if n > 1:
        yield n
