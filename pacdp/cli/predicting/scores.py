"""Scores of evaluations as losses in [0, 1], by a range that is declared or known of the score.

What the scores were is never asked: forty times the worst grade of 1 to 10 would pass for forty
ones of 0 to 1. Whether a score is 0 or 1, and so counted exactly, is known of it too.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pacdp.cli.serial import record
from pacdp.cli.terminal import word
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


@record
class Chosen:
    """The losses that answers are certified by.

    Attributes:
        losses: [answers] each, by name.
        by: who says what range and direction the scores have.
        remarks: which scores were left out, and why; which score judges which task.
    """

    losses: Mapping[str, Losses]
    by: str
    remarks: tuple[str, ...] = ()


class _Score(NamedTuple):
    """One score as a loss: its name, the losses [answers], and what is taken for true of it."""

    name: str
    losses: Losses
    by: str


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
    found, refused = _usable(common if metric is None else [metric], scores, within)
    if not found:
        raise ValueError(
            next(iter(refused.values()), "there is no score that all answers have: log one")
        )
    if metric is None:
        refused |= {name: f"{len(scores) - count} of {len(scores)} answers have none"
                    for name, count in have.items() if count < len(scores)}  # fmt: skip
    remarks = tuple(f"the score {name} is left out: {why}" for name, why in sorted(refused.items()))
    return _chosen({one.name: one.losses for one in found}, found, remarks)


def _of_each_task(scores: Scores, tasks: Sequence[str]) -> Chosen:
    """One loss, which in each task is that of the first score that all of its answers have."""
    parts = dict[str, _Score]()
    together = np.zeros(len(scores))
    for task in dict.fromkeys(tasks):
        rows = [row for row, own in enumerate(tasks) if own == task]
        own = [scores[row] for row in rows]
        names = [name for name in own[0] if all(name in one for one in own)]
        found, refused = _usable(names, own, None)
        if not found:
            why = next(iter(refused.values()), "there is none that all of its answers have")
            raise ValueError(f"task {task!r} has no score to certify: {why}")
        parts[task] = found[0]
        together[rows] = found[0].losses
    exact = all(one.losses.dtype == np.bool_ for one in parts.values())
    remarks = (f"the loss of task {task!r} is {one.name}" for task, one in parts.items())
    losses = {_OWN: together == 1.0 if exact else together}
    return _chosen(losses, parts.values(), tuple(remarks))


def _chosen(
    losses: Mapping[str, Losses], found: Iterable[_Score], remarks: tuple[str, ...]
) -> Chosen:
    by = "; ".join(dict.fromkeys(one.by for one in found))
    return Chosen(losses=losses, by=by, remarks=remarks)


def _usable(
    names: Sequence[str], scores: Scores, within: Range | None
) -> tuple[list[_Score], dict[str, str]]:
    """The scores that can be used, and why others cannot."""
    found, refused = list[_Score](), dict[str, str]()
    for name in names:
        try:
            found.append(_score(name, [own[name] for own in scores], within))
        except ValueError as error:
            refused[name] = str(error)
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
    exact = truths or (within is None and base in _RIGHT_OR_WRONG)
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
    return _Score(
        called if (low, high) == (0.0, 1.0) else f"({called})/{high - low:g}",
        worst > 0.5 if exact else worst.clip(0.0, 1.0),
        f"{said}: {name} {lies}, and {'less' if less else 'more'} is better",
    )
