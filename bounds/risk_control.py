"""Thresholds chosen so that a risk stays below a target with a stated probability: risk control.

A rule with a threshold (answer or abstain, alarm or not, which labels to list) is tried on records that its predictor
did not see. Each threshold that is tested gets an upper confidence limit of its risk, exact for errors and by betting
for other losses, and the tests are arranged so that together they fail with at most ``failure_prob``: in a fixed
sequence, from several starts, or one by one (Bonferroni). Rules whose risk cannot fall as the threshold rises need no
list of thresholds: ``bounds.monotone_control``. Proofs: docs/guarantees.md, "Thresholds that control a risk". Arguments
out of range raise ValueError.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bounds._arrays import Array, as_given, doubles
from bounds._check import door, nonnegative
from bounds._rounding import inward
from bounds._threshold_tests import Controlled, RiskControl, control, descending, finite, losses_of, parts_of, scores_of
from bounds.budget import FailureBudget


@door()
def control_risk(
    *,
    losses: ArrayLike,
    thresholds: Sequence[float],
    target: float,
    failure_prob: float,
    starts: int = 1,
    groups: ArrayLike | None = None,
) -> RiskControl:
    """The last threshold at which a risk passes its test, for losses that were computed at every threshold.

    From each of ``starts`` equally spaced positions of the list, at failure_prob/starts, thresholds are tested in their
    order until one fails. One start is fixed-sequence testing; as many starts as thresholds are Bonferroni's tests, and
    then the certificate's value is the limit at the chosen threshold, in place of the target.

    Formal guarantee: records drawn independently from one law, which neither the rule nor the list of thresholds
    depends on, give a risk at the chosen threshold of at most ``certificate.value`` ≤ target with probability at least
    1 - failure_prob; with ``groups``, the risk of each group, given which group each record belongs to.

    Args:
        losses: one row a record and one column a threshold. Of type bool or whole numbers 0 and 1 they are errors and
            get the exact bound; floats in [0, 1] get the betting bound, even where all of them are 0 or 1.
        thresholds: fixed beforehand, the safest first: the order of the tests.
        target: what the risk is to stay below.
        failure_prob: probability that the risk at the chosen threshold exceeds the certificate's value.
        starts: how many positions the tests start from.
        groups: one whole number or text a record: one threshold is to do for every group, at no further cost.
    """
    table, exact = losses_of(losses, dimension=2)
    listed = finite(thresholds)
    if table.shape[1] != len(listed) or len(set(listed)) < len(listed):
        raise ValueError(
            f"thresholds must be different numbers, one for each of the {table.shape[1]} columns of losses, got "
            f"{len(listed)}; give each column its threshold."
        )
    what = Controlled("control_risk", "rule", "risk", target, failure_prob)
    return control(
        what,
        lambda position: table[:, position],
        n=len(table),
        thresholds=listed,
        starts=starts,
        groups=groups,
        exact=exact,
    )


@door()
def control_selective_risk(
    *,
    confidence: ArrayLike,
    losses: ArrayLike,
    thresholds: Sequence[float],
    target: float,
    failure_prob: float,
    starts: int | None = None,
    groups: ArrayLike | None = None,
) -> RiskControl:
    """The threshold at which a predictor that abstains below it answers most and still errs rarely where it answers.

    The predictor answers where its confidence is at least the threshold. Its selective risk is the mean loss among the
    records that it answers, R = E[loss | answered]; ``share`` is the share answered. Thresholds are tested from the
    highest down. By default each is a start (Bonferroni), because at the highest few records are left to judge by.

    Formal guarantee: that of ``control_risk``, for the selective risk.

    Args:
        confidence: one number a record.
        losses: one loss a record, of the answer it would get: bool or whole numbers for errors, floats in [0, 1] else.
        thresholds: fixed beforehand, in any order.
        target: what the selective risk is to stay below.
        failure_prob: as in ``control_risk``; so are starts and groups.
    """
    values, exact = losses_of(losses, dimension=1)
    confident = scores_of("confidence", confidence, len(values))
    listed = descending(thresholds)
    starts = len(listed) if starts is None else starts

    def answered(position: int) -> Array:
        return np.where(confident >= listed[position], values, np.nan)

    risk = "selective 0-1 risk" if exact else "selective risk"
    what = Controlled("control_selective_risk", "predictor where it answers", risk, target, failure_prob)
    return control(what, answered, n=len(values), thresholds=listed, starts=starts, groups=groups, exact=exact)


@door(most_labels=nonnegative)
def control_set_size(
    *,
    scores: ArrayLike,
    thresholds: Sequence[float],
    most_labels: float,
    failure_prob: float,
    starts: int = 1,
    groups: ArrayLike | None = None,
) -> RiskControl:
    """The lowest threshold at which the mean size of prediction sets stays below ``most_labels``.

    The set of a record holds the labels whose score is at least the threshold. The risk is its size over the number of
    labels K, so that the certificate bounds the mean size by K times its value. Thresholds are tested from the highest
    down. ``control_miscoverage`` fixes what the sets miss, this function what they cost.

    Formal guarantee: that of ``control_risk``, for the mean size over K and the target most_labels/K.

    Args:
        scores: one row a record and one column a label.
        thresholds: fixed beforehand, in any order.
        most_labels: what the mean number of labels in a set is to stay below, from 0 to K.
        failure_prob: as in ``control_risk``; so are starts and groups.
    """
    table = doubles("scores", scores)
    if table.ndim != 2 or table.size == 0 or np.isnan(table).any():
        raise ValueError(f"scores must be one row a record and one column a label, none NaN, got shape {table.shape}.")
    labels, listed = table.shape[1], descending(thresholds)
    target = min(1.0, inward(most_labels / labels))

    def sizes(position: int) -> Array:
        return (table >= listed[position]).sum(axis=1) / labels

    measures = "mean set size as a share of the labels"
    what = Controlled("control_set_size", "prediction sets", measures, target, failure_prob)
    return control(
        what, sizes, n=len(table), thresholds=listed, starts=starts, groups=groups, exact=False, labels=labels
    )


def control_groups(
    control: Callable[..., RiskControl],
    *,
    groups: ArrayLike,
    records: Mapping[str, ArrayLike],
    failure_prob: float,
    **settings: Any,
) -> dict[str, RiskControl]:
    """A threshold of its own for each group: ``control`` on the records of each, at failure_prob over their number.

    Formal guarantee: given which group each record belongs to, all certificates hold together with probability at least
    1 - failure_prob; each by itself with its own.

    Args:
        control: a function of this room or of ``bounds.monotone_control``.
        groups: one whole number or text a record.
        records: the arguments of ``control`` that have one entry a record, by name.
        failure_prob: of all groups together.
        settings: the other arguments of ``control``, the same for each group.
    """
    if not callable(control):
        raise ValueError(f"control must be a function such as control_selective_risk, got {control!r}.")
    arrays = _arrays(records)
    parts = parts_of(groups, len(next(iter(arrays.values()))))
    level = FailureBudget(failure_prob).spend("groups", failure_prob).share("groups", len(parts))
    found: dict[str, RiskControl] = {}
    for name, part in parts.items():
        own = {argument: array[part] for argument, array in arrays.items()}
        made = control(**own, failure_prob=level, **settings)
        certificate = replace(made.certificate, of=f"{made.certificate.of} in group {name}")
        found[name] = replace(made, certificate=certificate)
    return found


def _arrays(records: Any) -> dict[str, NDArray[Any]]:
    """``records`` as arrays of one length, by the names of their arguments."""
    given: dict[Any, Any] = dict(cast(Mapping[Any, Any], records)) if isinstance(records, Mapping) else {}
    arrays = {str(name): as_given(values) for name, values in given.items()}
    lengths = {array.shape[:1] for array in arrays.values()}
    if len(lengths) != 1 or () in lengths:
        raise ValueError(
            "records must be arrays with one entry a record, by the names of their arguments, got "
            f"{sorted(map(str, given))}; pass for example {{'scores': scores}}."
        )
    return arrays
