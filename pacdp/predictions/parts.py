"""The questions that can be asked of predictions, each a mean of losses in [0, 1] over some of the examples.

Which examples a question is about (a class, a predicted class, a group) is a condition: given which rows meet it, these
are independent draws of the law given the condition, so that bounds on one mean apply to them
("Conditional rates" in docs/guarantees.md).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bounds.people import PeopleSample
from pacdp.predictions.answers import Answers
from pacdp.predictions.columns import Name
from pacdp.predictions.examples import Examples

FAMILIES = ("error", "recall", "precision", "false-alarms", "groups", "differences", "brier", "calibration", "bins",
            "top-k", "losses")  # fmt: skip
"""What can be asked, by the entries of the ledger that pay for it."""
_TOP = re.compile(r"top-([1-9]\d{0,8})")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """One question: the mean of a loss over the examples that meet a condition.

    Attributes:
        family: the entry of the ledger that pays for it.
        of: the model.
        measures: what the mean is called in certificates, such as "error on class 'cat'".
        otherwise: what one minus it is called, such as "recall of class 'cat'".
        rows: which examples, as a mask; None for all of them.
        losses: of these examples, in [0, 1].
        low: the quantity that is reported is low + (high - low) mean.
        high: see ``low``.
        named: the reported quantity where it is not the mean.
        both: whether both ends are always asked.
        empty: what is missing where no example meets the condition.
        given: whether the losses were given as such, and do not follow from labels and what a model said.
        sample: who has such examples and the sums of their losses, where people are counted; None where nobody has.
    """

    family: str
    of: str
    measures: str
    otherwise: str
    losses: NDArray[Any]
    rows: NDArray[np.bool_] | None = None
    low: float = 0.0
    high: float = 1.0
    named: str = ""
    both: bool = False
    empty: str = ""
    given: bool = False
    sample: PeopleSample | None = None


def asked(
    examples: Examples, ask: Sequence[str] | str | None
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The families that are asked, "error" first, and the sizes k of top-k.

    Raises:
        ValueError: an unknown word, or one that needs what was not given.
    """
    can = _possible(examples)
    if ask is None:
        return tuple(name for name in FAMILIES if name != "top-k" and can[name] is None), ()
    words = [ask] if isinstance(ask, str) else list(ask)
    if not words:
        raise ValueError(
            'ask must name what to certify, got nothing: leave it out for all, or pass ["error"]'
        )
    chosen, sizes = ["error"], list[int]()
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
        chosen.append(family)
        sizes += [int(found[1])] if found else []
    return tuple(name for name in FAMILIES if name in chosen), tuple(sorted(set(sizes)))


def parts(examples: Examples, families: Sequence[str], sizes: Sequence[int]) -> Iterator[Part]:
    """Every question of these families that is a mean of losses; calibration is none."""
    for family in families:
        for of, said in examples.models.items():
            if family in _OF_CLASSES:
                yield from _by_class(examples, of, said, family)
            elif family == "top-k":
                yield from _top(of, said, sizes)
            elif family in _ASKED:
                yield from _ASKED[family](examples, of, said)


def main_loss(examples: Examples, said: Answers) -> tuple[str, str, NDArray[Any]]:
    """What the plain error is called, its complement, and the loss of every example."""
    if said.predicted is not None:
        return "0-1 risk", "accuracy", said.predicted != examples.labels
    name, column = next(iter(said.losses.items()))
    return name, f"1 - {name}", column


def _possible(examples: Examples) -> dict[str, str | None]:
    """What each family lacks; None where it can be asked."""
    answers = tuple(examples.models.values())
    labels = None if examples.labels is not None else "labels and predictions"
    soft = None if all(said.confidence is not None for said in answers) else "probabilities"
    counted = soft or (None if examples.weights is None else "examples without weights")
    alike = len({main_loss(examples, said)[0] for said in answers}) == 1
    further = any(len(said.losses) > (said.predicted is None) for said in answers)
    return {
        "error": None, "recall": labels, "precision": labels, "false-alarms": labels, "brier": soft, "top-k": soft,
        "groups": None if examples.groups is not None else "groups",
        "differences": None if len(answers) > 1 and alike else "the same of two models, by their names",
        "calibration": counted, "bins": counted or (None if examples.people is None else "examples, not people"),
        "losses": None if further else "losses"
    }  # fmt: skip


def _error(examples: Examples, of: str, said: Answers) -> Iterator[Part]:
    measures, otherwise, wrong = main_loss(examples, said)
    yield Part(family="error", of=of, measures=measures, otherwise=otherwise, losses=wrong,
               given=said.predicted is None)  # fmt: skip


def _by_class(examples: Examples, of: str, said: Answers, family: str) -> Iterator[Part]:
    """A rate of errors for each class: of the examples of it, of those predicted to be it, or of all others."""
    for place, name in enumerate(examples.classes):
        shown, is_it, said_so = _shown(name), examples.labels == place, said.predicted == place
        rows, wrong, measures, otherwise, empty = {
            "recall": (is_it, ~said_so, "error on", "recall of", f"no example has the label {shown}"),
            "precision": (said_so, ~is_it, "share of errors among predictions of", "precision of",
                          f"no example is predicted to be {shown}"),
            "false-alarms": (~is_it, said_so, "false-alarm rate of", "specificity of",
                             f"every example has the label {shown}")
        }[family]  # fmt: skip
        yield Part(
            family=family, of=of, rows=rows, losses=wrong[rows], measures=f"{measures} class {shown}",
            otherwise=f"{otherwise} class {shown}", empty=empty
        )  # fmt: skip


def _groups(examples: Examples, of: str, said: Answers) -> Iterator[Part]:
    assert examples.groups is not None
    measures, otherwise, wrong = main_loss(examples, said)
    for place, name in enumerate(examples.groups.names):
        rows = examples.groups.codes == place
        yield Part(
            family="groups", of=of, rows=rows, losses=wrong[rows], both=len(examples.groups.names) > 1,
            measures=f"{measures.replace('0-1 risk', 'error')} in group {_shown(name)}",
            otherwise=f"{otherwise} in group {_shown(name)}", given=said.predicted is None
        )  # fmt: skip


def _difference(examples: Examples, of: str, said: Answers) -> Iterator[Part]:
    """Every later model beside the first: half of one plus the difference of their losses on the same example."""
    first, reference = next(iter(examples.models.items()))
    if of == first:
        return
    measures, _, mine = main_loss(examples, said)
    theirs, _, other = main_loss(examples, reference)
    assert measures == theirs
    called = measures.replace("0-1 risk", "error")
    yield Part(
        family="differences", of=f"{of} against {first}", losses=0.5 + 0.5 * (mine.astype(float) - other), both=True,
        low=-1.0, named=f"{called} of {of} minus {called} of {first}",
        measures=f"(1 + {called} of {of} - {called} of {first})/2",
        otherwise=f"(1 + {called} of {first} - {called} of {of})/2", given=said.predicted is None
    )  # fmt: skip


def _brier(examples: Examples, of: str, said: Answers) -> Iterator[Part]:
    assert said.half_brier is not None
    yield Part(
        family="brier", of=of, losses=said.half_brier, high=2.0, named="Brier risk", measures="half the Brier risk",
        otherwise="1 - half the Brier risk"
    )  # fmt: skip


def _top(of: str, said: Answers, sizes: Sequence[int]) -> Iterator[Part]:
    assert said.rank is not None
    for k in sizes:
        yield Part(
            family="top-k",
            of=of,
            losses=said.rank > k,
            measures=f"top-{k} error",
            otherwise=f"top-{k} accuracy",
        )


def _losses(examples: Examples, of: str, said: Answers) -> Iterator[Part]:
    own = list(said.losses.items())
    for name, column in own[said.predicted is None :]:  # the first may be that of the headline
        yield Part(family="losses", of=of, losses=column, measures=name, otherwise=f"1 - {name}",
                   given=True)  # fmt: skip


def _shown(name: Name) -> str:
    return repr(name) if isinstance(name, str) else str(name)


_OF_CLASSES = ("recall", "precision", "false-alarms")
_ASKED = {
    "error": _error, "groups": _groups, "differences": _difference, "brier": _brier, "losses": _losses
}  # fmt: skip
