"""Calibration of predictions: the expected calibration error, of people too, and the gap in every bin.

A confidence bin is a fifteenth of [0, 1], fixed before any example was seen. For people, the mean over people of their
mean gap in a bin takes the place of the mean over examples ("Calibration error of people" in docs/guarantees.md).
"""

import math
from dataclasses import replace

import numpy as np

import bounds
from pacdp.predictions.answers import Answers
from pacdp.predictions.bounding import Found, Statement, described
from pacdp.predictions.columns import Codes
from pacdp.predictions.examples import Examples

EDGES = tuple(k / 15 for k in range(16))
MIN_COUNT = 30
"""Bins with fewer examples are not certified: by counts alone, which the gap in a bin does not decide."""


def calibration_error(examples: Examples, of: str, said: Answers, *, failure_prob: float) -> Found:
    """The expected calibration error: at most so much, whatever the number of bins."""
    if examples.people is None:
        sample = sample_of(said, examples.labels)
        error, squared = sample.calibration_error, sample.mean_squared_gap
    else:
        error, squared = _of_people(examples, said)
    n = examples.units
    made = bounds.ece_second_moment(
        calibration_error=error, mean_squared_gap=squared, n=n, failure_prob=failure_prob
    )
    made = described(
        replace(made, name="new_examples_ece"), examples, of=of, measures=f"ECE{examples.new}"
    )
    row = Statement(
        family="calibration", quantity="calibration error (ECE)", of=of, measured=error, upper=made.value, n=n
    )  # fmt: skip
    return [row], [made]


def bins(examples: Examples, of: str, said: Answers, *, failure_prob: float) -> Found:
    """The gap between confidence and accuracy in every bin with enough examples, all at once, or nothing."""
    sample = sample_of(said, examples.labels)
    certified = {
        f"gap_{place}": one for place, one in enumerate(sample.bins) if one.count >= MIN_COUNT
    }
    if not certified:
        return [], []
    made = bounds.mce_clopper_pearson(
        bins=sample.bins, min_count=MIN_COUNT, failure_prob=failure_prob
    )
    made = described(replace(made, name=f"new_examples_{made.name}"), examples, of=of)
    return [
        Statement(
            family="bins", quantity=f"calibration gap at confidence {one.low:.2f} to {one.high:.2f}", of=of,
            measured=one.gap, upper=made.terms[term], n=one.count, term=term,
        )
        for term, one in certified.items()
    ], [made]  # fmt: skip


def sample_of(said: Answers, labels: Codes | None) -> bounds.CalibrationSample:
    """Confidences and errors by bin."""
    return bounds.calibration_sample(
        confidence=_known(said.confidence), correct=said.predicted == labels, edges=EDGES
    )


def _of_people(examples: Examples, said: Answers) -> tuple[float, float]:
    """The plug-in ECE of people's mean gaps, and the mean over people of the square of their mean absolute gap."""
    owners = np.unique(_known(examples.people), return_inverse=True)[1]
    sizes, confidence = np.bincount(owners), _known(said.confidence)
    gap = (said.predicted == examples.labels) - confidence
    slot = np.minimum(
        np.searchsorted(np.asarray(EDGES), confidence, side="right") - 1, len(EDGES) - 2
    )
    means = (
        np.bincount(owners, weights=np.where(slot == b, gap, 0.0)) / sizes
        for b in range(len(EDGES) - 1)
    )
    error = math.fsum(abs(math.fsum(mean)) for mean in means) / sizes.size
    squared = math.fsum((np.bincount(owners, weights=np.abs(gap)) / sizes) ** 2) / sizes.size
    return _up(error), _up(max(squared, error * error))


def _known(column: np.ndarray | None) -> np.ndarray:
    assert column is not None
    return column


def _up(value: float) -> float:
    """Rounded up by far more than the sums' errors."""
    return min(1.0, value * (1.0 + 1e-12) + 2.0**-50)
