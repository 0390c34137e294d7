"""What probabilities say beside errors: calibration, bin by bin and in all, and the area under the ROC curve.

A confidence bin is a fifteenth of [0, 1], fixed before any example was seen. For people, the mean over people of their
mean gap in a bin takes the place of the mean over examples ("Calibration error of people" in docs/guarantees.md).
"""

from dataclasses import replace

import bounds
from bounds.reliability import people_calibration
from pacdp.predictions.answers import Answers
from pacdp.predictions.area import area
from pacdp.predictions.bounding import NEW, Found, Statement, auc_upper, below_one, described
from pacdp.predictions.columns import Codes
from pacdp.predictions.examples import Examples

EDGES = tuple(k / 15 for k in range(16))
MIN_COUNT = 30
"""Bins with fewer examples are not certified: by counts alone, which the gap in a bin does not decide."""


def calibration_error(examples: Examples, of: str, said: Answers, *, failure_prob: float) -> Found:
    """The expected calibration error: at most so much, whatever the number of bins."""
    assert said.confidence is not None
    if examples.people is None:
        sample = sample_of(said, examples.labels)
        error, squared = sample.calibration_error, sample.mean_squared_gap
    else:
        correct = said.predicted == examples.labels
        error, squared = people_calibration(said.confidence, correct, examples.people, EDGES)
    n = examples.units
    made = bounds.ece_second_moment(
        calibration_error=error, mean_squared_gap=squared, n=n, failure_prob=failure_prob
    )
    made = described(
        replace(made, name=f"{NEW}_ece"), examples, of=of, measures=f"ECE{examples.new}"
    )
    called = "calibration error (ECE)"
    row = Statement(
        family="calibration", quantity=called, of=of, measured=error, upper=made.value, n=n
    )
    return [row], [made]


def bins(examples: Examples, of: str, said: Answers, *, failure_prob: float) -> Found:
    """The gap between confidence and accuracy in every bin with enough examples, all at once, or nothing."""
    all_bins = sample_of(said, examples.labels).bins
    certified = {f"gap_{k}": one for k, one in enumerate(all_bins) if one.count >= MIN_COUNT}
    if not certified:
        return [], []
    made = bounds.mce_clopper_pearson(bins=all_bins, min_count=MIN_COUNT, failure_prob=failure_prob)
    made = described(replace(made, name=f"{NEW}_{made.name}"), examples, of=of)
    return [
        Statement(
            family="bins", quantity=f"calibration gap at confidence {one.low:.2f} to {one.high:.2f}", of=of,
            measured=one.gap, upper=made.terms[term], n=one.count, term=term
        )
        for term, one in certified.items()
    ], [made]  # fmt: skip


def sample_of(said: Answers, labels: Codes | None) -> bounds.CalibrationSample:
    """Confidences and errors by bin."""
    assert said.confidence is not None
    return bounds.calibration_sample(
        confidence=said.confidence, correct=said.predicted == labels, edges=EDGES
    )


def auc(
    examples: Examples, of: str, said: Answers, *, failure_prob: float, interval: bool
) -> Found:
    """The area under the ROC curve of two classes, or nothing where one of them has fewer than two records."""
    assert said.score is not None
    measured, n = area(said.score, examples.labels == 1, examples.people)
    if n < 2:
        return [], []
    asked = {"1 - AUC": 1.0 - measured} | ({"AUC": measured} if interval else {})
    each = failure_prob / len(asked)
    made = [
        described(auc_upper(mean, n, each), examples, of=of, measures=name + examples.new)
        for name, mean in asked.items()
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
    return [row], made
