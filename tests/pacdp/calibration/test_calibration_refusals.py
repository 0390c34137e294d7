"""What the measures of calibration refuse, in one sentence each."""

import re
from functools import partial

import numpy as np
import pytest

from pacdp import calibration as c
from tests.marks import near
from tests.refusals import refuses

GOOD, LABELS, MARKED = np.full((4, 2), 0.5), np.array([0, 1, 0, 1]), np.eye(4, 2) > 0
LOGITS = np.eye(3)
fit = partial(c.fit_temperature, private_data=False)
PREDICTIONS = [
    (GOOD[:0], LABELS[:0], "n >= 1"),
    (GOOD, LABELS[:3], "one label for each of 4"),
    (GOOD, LABELS + 1, "labels in 0 .. 1, got 1 .. 2"),
    (GOOD - 1.0, LABELS, "not logits"),
    (np.where(MARKED, np.nan, GOOD), LABELS, "got nan"),
    (GOOD * 1.001, LABELS, "sum to 1 within 0.0001, one is off by 0.001"),
]
MEASURES = [c.ace, c.nll_nats, c.macro_auc, c.summary]
REFUSED = [
    *((partial(c.ece, probabilities, labels), said) for probabilities, labels, said in PREDICTIONS),
    *((partial(measure, GOOD - 1.0, LABELS), "not logits") for measure in MEASURES),
    *((partial(measure, GOOD, LABELS > 0), "labels as a NumPy array of whole") for measure in (c.ece, *MEASURES)),
    (partial(c.ece, GOOD, LABELS - 0.5), "labels as a NumPy array of whole numbers, got float64"),
    *((partial(of, GOOD.tolist(), LABELS), "probabilities as a NumPy array of numbers, got list") for of in MEASURES),
    *((partial(of, np.ma.masked_array(GOOD, MARKED), LABELS), "got one with a mask") for of in MEASURES),
    (partial(c.ece, GOOD, np.ma.masked_equal(LABELS, 1)), "labels as a NumPy array of whole numbers, got one with"),
    (partial(c.ece, GOOD.view(np.matrix), LABELS), "got a matrix"),
    (partial(c.ece, GOOD.astype(np.longdouble), LABELS), f"got {np.dtype(np.longdouble)}"),
    (partial(c.accuracy_bands, np.full((1, 2), 9), np.full((1, 2), 3), simultaneous=True), "the same list of bins"),
    *((partial(c.ece, GOOD, LABELS, bins=bins), "bins must be a whole number")
      for bins in (0, 2.5, True, "9", None, np.array(5))),
    (partial(c.auc, np.arange(4.0), LABELS), "positive as a NumPy array of truth values, got int64"),
    (partial(fit, LOGITS, np.arange(3.0)), "labels as a NumPy array of whole numbers"),
    (partial(c.auc, np.arange(2.0), np.array([True, True])), "positive and negative examples for an AUC, got 2 and 0"),
    (partial(c.macro_auc, np.full((2, 3), 1 / 3), np.array([0, 2])), "each of 3 classes"),
    (partial(c.accuracy_bands, np.array([2]), np.array([1]), failure_prob=0.0), "failure_prob must lie"),
    (partial(c.reliability_curve, GOOD, LABELS, failure_prob="5%"), "failure_prob must be a real number"),
    (partial(c.accuracy_bands, np.array([2]), np.array([3])), "correct <= counts"),
    (partial(c.accuracy_bands, np.array([2]), np.array([1.9])), "correct as a NumPy array of whole numbers, got float"),
    (partial(fit, LOGITS, np.arange(3)), "temperature of least NLL in"),  # separable: it goes to 0
    (partial(fit, np.full((3, 3), np.inf), np.arange(3)), "finite logits"),
    (partial(fit, LOGITS, np.arange(2)), "3 labels in 0 .. 2"),
]  # fmt: skip


test_what_has_no_value_is_refused_in_one_sentence = pytest.mark.wrong_types(
    refuses([(call, re.escape(words)) for call, words in REFUSED])
)


def test_logits_over_a_tiny_temperature_are_the_largest_one():
    assert c.scaled(np.array([[1e30, 0.0]]), temperature=1e-300).tolist() == [[1.0, 0.0]]


def test_rows_off_by_rounding_are_taken():
    probabilities = np.array([[1.00005, 0.0], [0.3, 0.69995]])
    assert c.ece(probabilities, np.array([0, 1])) == near((0.0 + 1 - 0.69995) / 2)
