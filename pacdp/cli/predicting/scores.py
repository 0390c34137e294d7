"""Scores of evaluations as losses in [0, 1], by a range that is declared or known of the score.

What the scores were is never asked: forty times the worst grade of 1 to 10 would pass for forty
ones of 0 to 1. Whether a score is 0 or 1, and so counted exactly, is known of it too.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pacdp.cli.terminal import refusing, word
from pacdp.predictions.columns import Losses

Range = tuple[float, float]
Scores = Sequence[Mapping[str, tuple[Any, bool]]]
"""The scores of each answer, by name, and whether less of each is better."""
WORDS = {"c": 1.0, "i": 0.0, "p": 0.5, "n": 0.0, "yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}
"""Scores in words, as inspect_ai turns them into numbers."""
_RIGHT_OR_WRONG = frozenset({
    "acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match", "pct_stereotype",
    "prompt_level_strict_acc", "prompt_level_loose_acc", "answer", "choice", "exact", "includes",
    "match", "pattern",
})  # fmt: skip
"""Scores of lm-evaluation-harness and scorers of inspect_ai that are 0 or 1."""
_SHARES = frozenset({"accuracy", "f1", "model_graded_fact", "model_graded_qa", "pass@1"})
"""Those that lie in 0 to 1."""
_OWN = "loss by the first score of each task"


class Chosen(NamedTuple):
    """The losses that answers are certified by.

    Attributes:
        losses: [answers] each, by name.
        by: who says what range and direction the scores have.
        remarks: which scores were left out, and why; which score judges which task.
    """

    losses: Mapping[str, Losses]
    by: str
    remarks: tuple[str, ...] = ()


_Score = tuple[str, Losses, str]
"""One score as a loss: its name, the losses [answers], and what is taken for true of it."""


def is_score(value: Any) -> bool:
    """Whether this is a finite number, a truth value, or a word that stands for a score."""
    if isinstance(value, str):
        return value.lower() in WORDS
    return isinstance(value, bool | int | float) and abs(value) < 1e300


def losses_of(
    scores: Scores,
    tasks: Sequence[str],
    *,
    metric: str | None = None,
    within: Range | None = None,
) -> Chosen:
    """The losses of answers, one for each score that all of them have.

    Where tasks share no score, there is one loss, by the first score of each task.

    Args:
        scores: of each answer, such that ``is_score``.
        tasks: the task of each answer.
        metric: the only score to use.
        within: its range; by default what is known of it.

    Raises:
        ValueError: no score that all answers have, none whose range is known, or a score outside
            its range.
    """
    if within is not None and not -math.inf < within[0] < within[1] < math.inf:
        raise ValueError(
            f"--range must be two numbers, the lower one first, got {within[0]:g} {within[1]:g}: pass the "
            "least and the largest score that there can be, such as --range 1 10"
        )
    have = Counter(name for own in scores for name in own)
    common = [name for name, count in have.items() if count == len(scores)]
    there = ", ".join(common) or "none"
    if metric is not None and metric not in common:
        raise ValueError(f"--metric {metric} is no score of every answer: choose among {there}")
    if within is not None and metric is None and len(common) != 1:
        raise ValueError(f"--range is that of one score: choose it by --metric, among {there}")
    if not common and len(set(tasks)) > 1:
        return _of_each_task(scores, tasks)
    found, refused = _usable(scores, metric, within)
    remarks = (f"the score {name} is left out: {why}" for name, why in sorted(refused.items()))
    by = "; ".join(dict.fromkeys(by for _, _, by in found))
    return Chosen({name: losses for name, losses, _ in found}, by, tuple(remarks))


def _of_each_task(scores: Scores, tasks: Sequence[str]) -> Chosen:
    """One loss, which in each task is that of the first score that all of its answers have."""
    firsts = dict[str, _Score]()
    together, exact = np.zeros(len(scores)), True
    for task in dict.fromkeys(tasks):
        rows = [row for row, own in enumerate(tasks) if own == task]
        with refusing(f"task {task!r} has no score to certify", ValueError):
            (firsts[task], *_), _ = _usable([scores[row] for row in rows], None, None)
        losses = together[rows] = firsts[task][1]
        exact &= losses.dtype == np.bool_
    by = "; ".join(dict.fromkeys(by for _, _, by in firsts.values()))
    remarks = (f"the loss of task {task!r} is {name}" for task, (name, _, _) in firsts.items())
    return Chosen({_OWN: together == 1.0 if exact else together}, by, tuple(remarks))


def _usable(
    scores: Scores, metric: str | None, within: Range | None
) -> tuple[list[_Score], dict[str, str]]:
    """The scores that all answers have and that can be used, one at least, and why others cannot."""
    found, refused = list[_Score](), dict[str, str]()
    for name, count in Counter(name for own in scores for name in own).items():
        try:
            if metric not in (None, name):
                continue
            if count < len(scores):
                raise ValueError(f"{len(scores) - count} of {len(scores)} answers have none")
            found.append(_score(name, [own[name] for own in scores], within))
        except ValueError as error:
            refused[name] = str(error)
    if not found:
        raise ValueError(
            next(iter(refused.values()), "there is no score that all answers have: log one")
        )
    return found, refused


def _score(name: str, scores: Sequence[tuple[Any, bool]], within: Range | None) -> _Score:
    """One score of all answers."""
    values, directions = zip(*scores, strict=True)
    less = directions[0]
    if len(set(directions)) > 1:
        raise ValueError(
            f"more of {name} is better in one task and less in another: give one of them"
        )
    base, truths = name.split(",")[0], all(isinstance(one, bool) for one in values)
    words = all(isinstance(one, str) for one in values)
    exact = within in (None, (0.0, 1.0)) and (
        truths or (within is None and base in _RIGHT_OR_WRONG)
    )
    hint = f"pass --metric {word(name)} --range LOW HIGH with the least and the largest"
    if within is None and not (exact or words or base in _SHARES):
        raise ValueError(f"the range of {name} is not known, nor read off the scores: {hint}")
    low, high = within or (0.0, 1.0)
    x = np.array([WORDS[one.lower()] if isinstance(one, str) else float(one) for one in values])
    lies = "is 0 or 1" if exact else f"lies in {low:g} to {high:g}"
    odd = (x != 0.0) & (x != 1.0) if exact else (x < low) | (x > high)
    if odd.any():
        raise ValueError(f"{name} {lies} as far as is known, and {x[odd][0]:g} stands here: {hint}")
    worst = (x - low if less else high - x) / (high - low)
    said = "known of scores of this name or type" if within is None else "whoever passed --range"
    called = f"{high:g} - {name}"  # such as "1 - acc" or "(10 - grade)/9"
    if less:
        called = f"{name} - {low:g}" if low else name
    return (
        called if (low, high) == (0.0, 1.0) else f"({called})/{high - low:g}",
        worst > 0.5 if exact else worst.clip(0.0, 1.0),
        f"{said}: {name} {lies}, and {'less' if less else 'more'} is better",
    )
