"""The questions that can be asked of predictions, each a mean of losses in [0, 1] over some of the examples.

Which examples a question is about (a class, a predicted class, a group) is a condition: given which rows meet it, these
are independent draws of the law given the condition, so that bounds on one mean apply to them
("Conditional rates" in docs/guarantees.md).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bounds
from bounds.people import errors_of_people
from pacdp.predictions.answers import Answers
from pacdp.predictions.bounding import Part
from pacdp.predictions.columns import Codes, Name
from pacdp.predictions.examples import Examples

FAMILIES = ("error", "recall", "precision", "false-alarms", "groups", "differences", "leaderboard", "brier",
            "auc", "calibration", "bins", "top-k", "losses")  # fmt: skip
"""What can be asked, by the entries of the ledger that pay for it."""
_BY_NAME = ("top-k", "leaderboard", "auc")
"""What is certified where it is asked by name alone."""
_OTHER = "more than two classes, as of two it is the error on the other one"
_TOP = re.compile(r"top-([1-9]\d{0,8})")


def asked(
    examples: Examples, ask: Sequence[str] | str | None
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The families that are asked, "error" first, and the sizes k of top-k.

    Raises:
        ValueError: an unknown word, or one that needs what was not given.
    """
    can = _possible(examples)
    if ask is None:
        return tuple(one for one in FAMILIES if one not in _BY_NAME and can[one] is None), ()
    words: list[Any] = (
        list(ask) if isinstance(ask, Iterable) and not isinstance(ask, str) else [ask]
    )
    if not words:
        raise ValueError(
            'ask must name what to certify, got nothing: leave it out for all, or pass ["error"]'
        )
    chosen, sizes = {"error"}, set[int]()
    for word in words:
        found = _TOP.fullmatch(str(word))
        family = "top-k" if found else str(word)
        if family not in FAMILIES or str(word) == "top-k":
            raise ValueError(
                f"ask must be among {', '.join(FAMILIES[:-2])}, losses, top-5 and the like, got {word!r}"
            )
        if missing := can[family]:
            raise ValueError(
                f"ask names {word!r}, which needs {missing}: give these, or leave it out"
            )
        if found and int(found[1]) >= len(examples.classes):
            raise ValueError(
                f"ask names {word!r} of {len(examples.classes)} classes, which cannot err: ask for less"
            )
        chosen.add(family)
        sizes |= {int(found[1])} if found else set()
    if "leaderboard" in chosen:  # all pairs, those with the first among them
        chosen.discard("differences")
    return tuple(name for name in FAMILIES if name in chosen), tuple(sorted(sizes))


def _possible(examples: Examples) -> dict[str, str | None]:
    """What each family lacks; None where it can be asked."""
    answers = tuple(examples.models.values())
    labels = None if examples.labels is not None else "labels and predictions"
    soft = None if all(said.confidence is not None for said in answers) else "probabilities"
    counted = soft or (None if examples.weights is None else "examples without weights")
    alike = len({main_loss(examples, said)[0] for said in answers}) == 1
    further = any(len(said.losses) > (said.predicted is None) for said in answers)
    pairs = None if len(answers) > 1 and alike else "the same of two models, by their names"
    return {
        "error": None, "recall": labels, "precision": labels, "brier": soft, "top-k": soft,
        "false-alarms": labels or (None if len(examples.classes) > 2 else _OTHER),
        "groups": None if examples.groups is not None else "groups",
        "differences": pairs, "leaderboard": pairs,
        "calibration": counted, "bins": counted or (None if examples.people is None else "examples, not people"),
        "auc": counted or (None if len(examples.classes) == 2 else "two classes"),
        "losses": None if further else "losses"
    }  # fmt: skip


def parts(examples: Examples, families: Sequence[str], sizes: Sequence[int]) -> Iterator[Part]:
    """Every question of these families that is a mean of losses; calibration is none."""
    people, weights = examples.people, examples.weights
    for family in families:
        for of, said in examples.models.items():
            for rows, part in _questions(examples, of, said, family, sizes):
                about = slice(None) if rows is None else rows
                losses = part.losses[about]
                if people is None:
                    heavy = weights if weights is None else weights[about]
                    yield replace(part, losses=losses, weights=heavy)
                else:
                    sample = _of_people(losses, people[about])
                    yield replace(part, losses=losses[:0], sample=sample)


def _of_people(losses: Any, people: Codes) -> bounds.PeopleSample | None:
    """Who has examples that a question is about, and the sums of their losses; None where nobody has one."""
    if losses.dtype != np.bool_:
        return bounds.people_sample(losses=losses, people=people) if losses.size else None
    return errors_of_people(np.bincount(people), np.bincount(people[losses]))


def main_loss(examples: Examples, said: Answers) -> tuple[str, str, NDArray[Any]]:
    """What the plain error is called, its complement, and the loss of every example."""
    if said.predicted is not None:
        return "0-1 risk", "accuracy", said.predicted != examples.labels
    name, column = next(iter(said.losses.items()))
    return name, f"1 - {name}", column


def _questions(
    examples: Examples, of: str, said: Answers, family: str, sizes: Sequence[int]
) -> Iterator[tuple[NDArray[np.bool_] | None, Part]]:
    """The questions of a family on one model, with the losses of all examples, and which of these each is about."""
    measures, otherwise, wrong = main_loss(examples, said)
    called = measures.replace("0-1 risk", "error")
    given = said.predicted is None
    match family:
        case "error":
            yield None, Part(family=family, of=of, measures=measures, otherwise=otherwise, losses=wrong,
                             given=given)  # fmt: skip
        case "recall" | "precision" | "false-alarms":
            yield from _by_class(examples, of, said, family)
        case "groups" if examples.groups is not None:
            names = examples.groups.names
            for place, name in enumerate(names):
                where = f"in group {shown(name)}"
                yield examples.groups.codes == place, Part(
                    family=family, of=of, losses=wrong, both=len(names) > 1, measures=f"{called} {where}",
                    otherwise=f"{otherwise} {where}", empty="nobody is in it", given=given,
                )  # fmt: skip
        case "differences" | "leaderboard":
            # every later model beside the first, or beside all before
            before = list(examples.models)[: list(examples.models).index(of)]
            for first in before[:1] if family == "differences" else before:
                other = main_loss(examples, examples.models[first])[2]
                counted = wrong.dtype == other.dtype == np.bool_
                apart = wrong.astype(np.float64) - other
                alone = examples.people is None and examples.weights is None
                exact = alone and counted
                yield None, Part(
                    family=family, of=f"{of} against {first}", both=True, low=-1.0, given=given,
                    losses=apart.astype(np.int8) if exact else 0.5 + 0.5 * apart,
                    named=f"{called} of {of} minus {called} of {first}",
                    measures=f"(1 + {called} of {of} - {called} of {first})/2",
                    otherwise=f"(1 + {called} of {first} - {called} of {of})/2",
                )  # fmt: skip
        case "brier" if said.half_brier is not None:
            half = "half the Brier risk"
            yield None, Part(family=family, of=of, losses=said.half_brier, high=2.0, named="Brier risk", measures=half,
                             otherwise=f"1 - {half}")  # fmt: skip
        case "top-k" if said.rank is not None:
            for k in sizes:
                yield None, Part(family=family, of=of, losses=said.rank > k, measures=f"top-{k} error",
                                 otherwise=f"top-{k} accuracy")  # fmt: skip
        case "losses":
            for name, column in [*said.losses.items()][
                given:
            ]:  # the first may be that of the headline
                yield None, Part(family=family, of=of, losses=column, measures=name, otherwise=f"1 - {name}",
                                 given=True)  # fmt: skip
        case _:  # calibration and its bins are no means
            return


def _by_class(
    examples: Examples, of: str, said: Answers, family: str
) -> Iterator[tuple[NDArray[np.bool_] | None, Part]]:
    """A rate of errors for each class: of the examples of it, of those predicted to be it, or of all others."""
    for place, name in enumerate(examples.classes):
        label = shown(name)
        is_it, said_so = examples.labels == place, said.predicted == place
        rows, errors, measures, otherwise, empty = {
            "recall": (is_it, ~said_so, "error on", "recall of", f"no example has the label {label}"),
            "precision": (said_so, ~is_it, "share of errors among predictions of", "precision of",
                          f"no example is predicted to be {label}"),
            "false-alarms": (~is_it, said_so, "false-alarm rate of", "specificity of",
                             f"every example has the label {label}")
        }[family]  # fmt: skip
        yield rows, Part(family=family, of=of, losses=errors, measures=f"{measures} class {label}",
                         otherwise=f"{otherwise} class {label}", empty=empty)  # fmt: skip


def shown(name: Name) -> str:
    """A class or a group as rows write it."""
    return repr(str(name)) if isinstance(name, str) else str(name)
