"""The area under the ROC curve: how often a positive example has the larger score, of one positive and one negative."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

import bounds
from bounds._rounding import log_inverse, outward
from pacdp.predictions.answers import Answers
from pacdp.predictions.bounding import (
    NEW,
    Found,
    Statement,
    below_one,
    certificate,
    computed,
    described,
)
from pacdp.predictions.columns import Codes, Floats
from pacdp.predictions.examples import Examples


def area(
    examples: Examples, of: str, said: Answers, *, failure_prob: float, interval: bool
) -> Found:
    """1 - AUC ≤ kl⁻¹(what was measured of it, ln(1/δ)/m) of two classes; m records are in the smaller of them.

    Each person serves for one class, which a fixed coin chooses, with the examples of it, and persons count alike
    ("Area under the curve" in docs/guarantees.md). Nothing is certified where a class has fewer than two records.
    """
    assert said.confidence is not None
    assert examples.labels is not None
    label, people = examples.labels, examples.people
    whose, side = np.arange(examples.n), label
    if people is not None:
        whose, side = people, np.random.default_rng(0).integers(0, 2, examples.units)[people]
    score = np.where(said.predicted == 1, said.confidence, 1.0 - said.confidence)
    below, above = (_weighed(score, whose, (label == c) & (side == c)) for c in (0, 1))
    n = min(below.records, above.records)
    if n < 2:
        return [], []
    wins = 0.5 * (below.share(above.scores, "left") + below.share(above.scores, "right"))
    measured = min(1.0, float((above.weights * wins).sum()))
    asked = {"1 - AUC": 1.0 - measured} | ({"AUC": measured} if interval else {})
    each = failure_prob / len(asked)
    made = [_at_most(risk, n, each) for risk in asked.values()]
    named = [
        described(one, examples, of=of, measures=name + examples.new)
        for name, one in zip(asked, made, strict=True)
    ]
    row = Statement(
        family="auc",
        quantity="AUC",
        of=of,
        measured=measured,
        lower=below_one(0.0, 1.0, made[0].value),
        upper=made[1].value if interval else None,
        n=n,
        lower_by=0,
        upper_by=1 if interval else None,
    )
    return [row], named


class _Scores(NamedTuple):
    """The scores of one class in order, the weight of each, and how many records have them."""

    scores: Floats
    weights: Floats
    records: int

    def share(self, scores: Floats, side: Literal["left", "right"]) -> Floats:
        """The weight of those below each of some scores, or not above it."""
        grown = np.append(0.0, self.weights.cumsum())
        return grown[np.searchsorted(self.scores, scores, side=side)]


def _weighed(score: Floats, whose: Codes, rows: NDArray[np.bool_]) -> _Scores:
    """All records weigh alike, and share their weight out to their examples."""
    sizes = np.bincount(whose[rows], minlength=1)
    records = int((sizes > 0).sum())
    order = score[rows].argsort(kind="stable")
    return _Scores(score[rows][order], 1.0 / (sizes[whose[rows]][order] * records), records)


def _at_most(risk: float, n: int, failure_prob: float) -> bounds.Certificate:
    risk = computed(risk)
    value = computed(bounds.binary_kl_upper(risk, outward(log_inverse(failure_prob) / n)))
    where = 'Hoeffding 1963, 5a; docs/guarantees.md, "Area under the curve"'
    return certificate(NEW, "auc", value, failure_prob, risk, {"risk": risk, "n": n}, where)
