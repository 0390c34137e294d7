"""Certificates of a predictor on examples that are new to it, from counts, losses or pairs; others name its risk.

Each is declared by whoever calls. Values of losses that were themselves computed have room for their rounding.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import inf, nextafter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bounds._arithmetic import log_inverse, outward
from bounds._check import Array
from bounds.certificate import Certificate
from bounds.hypotheses import declared_by
from bounds.kl import binary_kl_upper
from bounds.means import betting_upper, clopper_pearson_upper, paired_upper, ratio_betting_upper

NEW = "new_examples"
"""What the names of certificates of predictions begin with."""
_CALLER = "the caller of bounds.clopper_pearson_upper"


def about(made: Certificate, name: str = "", *, of: str, measures: str = "0-1 risk") -> Certificate:
    """The certificate under the name of the predictor and the risk that it is about."""
    return replace(made, name=name or made.name, of=of, measures=measures)


def computed(value: float) -> float:
    """The value of a loss that was computed, with far more room than its rounding takes."""
    return min(1.0, value + 2.0**-40)


def clopper_pearson(
    errors: int, n: int, failure_prob: float, *, name: str = "test_set", of: str = ""
) -> Certificate:
    """Clopper and Pearson's bound on the 0-1 risk of a predictor that errs on ``errors`` of ``n`` examples new to it.

    Formal guarantee: see :func:`bounds.clopper_pearson_upper`.
    """
    value = clopper_pearson_upper(errors, n, failure_prob)
    reference = "Clopper and Pearson (1934)"
    made = _made(
        "clopper_pearson", value, failure_prob, errors / n, {"k": errors, "n": n}, reference, name
    )
    return replace(made, of=of)


def paired(more: int, fewer: int, n: int, failure_prob: float) -> Certificate:
    """Of half of one plus the difference of two errors, from the examples on which one model alone errs.

    Formal guarantee: see :func:`bounds.means.paired_upper`.
    """
    half = nextafter(0.5 + 0.5 * paired_upper(more, fewer, n, failure_prob), inf)
    inputs = {"more": more, "fewer": fewer, "n": n}
    where = 'docs/guarantees.md, "Differences on the same examples"'
    return _made(
        "paired", min(1.0, half), failure_prob, 0.5 + 0.5 * (more - fewer) / n, inputs, where
    )


def betting(
    losses: NDArray[Any], mean: float, failure_prob: float, weights: Array | None = None
) -> Certificate:
    """Betting on examples; by weight, on the ratio of the mean weighted loss to the mean weight.

    Formal guarantee: see :func:`bounds.betting_upper` and :func:`bounds.means.ratio_betting_upper`.
    """
    risk = min(1.0, mean)
    name, where = "betting", 'docs/guarantees.md, "Betting"'
    if weights is None:
        value = betting_upper(losses, failure_prob)
    else:
        name, where = "weighted_betting", 'docs/people.md, "Betting on a ratio"'
        value = ratio_betting_upper(losses.astype(np.float64), weights, failure_prob)
    inputs = {"risk": risk, "n": len(losses)}
    reference = f"Waudby-Smith and Ramdas 2024; {where}"
    return _made(name, computed(value), failure_prob, risk, inputs, reference)


def auc(mean: float, n: int, failure_prob: float) -> Certificate:
    """Of the share of pairs of a positive and a negative record, n of them in the smaller class, from its mean.

    Formal guarantee: see :func:`pacdp.predictions.area.area`.
    """
    risk = computed(mean)
    value = computed(binary_kl_upper(risk, outward(log_inverse(failure_prob) / n)))
    where = 'Hoeffding 1963, 5a; docs/guarantees.md, "Area under the curve"'
    return _made("auc", value, failure_prob, risk, {"risk": risk, "n": n}, where)


def _made(
    formula: str, value: float, failure_prob: float, risk: float, inputs: Mapping[str, float | int], reference: str,
    name: str = NEW,
) -> Certificate:  # fmt: skip
    return Certificate(
        name=f"{name}_{formula}",
        value=value,
        failure_prob=failure_prob,
        measures="0-1 risk",
        hypotheses=declared_by(_CALLER, formula),
        terms={"empirical_risk": risk},
        budget={"test set": failure_prob},
        of="",
        reference=reference,
        inputs={**inputs, "failure_prob": failure_prob},
    )
