"""Reliability curves: confidence against accuracy in bins with exact bands, as data for files and figures."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from bounds import _check, clopper_pearson_lower, clopper_pearson_upper
from bounds._check import open_probability
from pacdp.calibration.inputs import require_array, top_label
from pacdp.calibration.metrics import BINS, equal_width, equal_width_edges


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReliabilityCurve:
    """The top label's accuracy in bins of equal width; NaN in ``confidence`` and ``accuracy`` where a bin is empty."""

    edges: Float[np.ndarray, " edges"]
    counts: Int[np.ndarray, " bins"]
    confidence: Float[np.ndarray, " bins"]
    """Mean confidence."""
    accuracy: Float[np.ndarray, " bins"]
    lower: Float[np.ndarray, " bins"]
    """Clopper-Pearson limits of the accuracy; 0 and 1 in empty bins."""
    upper: Float[np.ndarray, " bins"]
    failure_prob: float
    """Probability that a band misses; of all together if ``simultaneous``."""
    simultaneous: bool

    @property
    def ece(self) -> float:
        """The expected calibration error that the curve shows, norm l1."""
        gaps = np.nan_to_num(np.abs(self.accuracy - self.confidence))
        return float((self.counts * gaps).sum() / self.counts.sum())

    def columns(self) -> dict[str, list[float | int | None]]:
        """One list a column, one entry a bin, None where a bin is empty: for a result file."""
        return {
            "left": self.edges[:-1].tolist(),
            "right": self.edges[1:].tolist(),
            "count": self.counts.tolist(),
            "confidence": [None if np.isnan(value) else float(value) for value in self.confidence],
            "accuracy": [None if np.isnan(value) else float(value) for value in self.accuracy],
            "lower": self.lower.tolist(),
            "upper": self.upper.tolist(),
        }


def reliability_curve(
    probabilities: Float[np.ndarray, "n classes"],
    labels: Int[np.ndarray, " m"],
    *,
    bins: int = BINS,
    failure_prob: float = 0.05,
    simultaneous: bool = False,
) -> ReliabilityCurve:
    """Confidence, accuracy and bands of the top label in each bin.

    Formal guarantee: the bands are those of ``accuracy_bands``, for examples that the predictor has not seen. They hold
    the accuracy, not the mean confidence, which is itself a sample mean.

    Raises:
        ValueError: bins < 1, failure_prob outside (0, 1), or see ``pacdp.calibration.metrics``.
    """
    _check.count(bins=bins)
    found = equal_width(*top_label(probabilities=probabilities, labels=labels), bins=bins)
    lower, upper = accuracy_bands(
        found.counts,
        found.correct.astype(np.int64),
        failure_prob=failure_prob,
        simultaneous=simultaneous,
    )
    some = np.where(found.counts > 0, found.counts, np.nan)
    return ReliabilityCurve(
        edges=equal_width_edges(bins), counts=found.counts, confidence=found.confidence / some,
        accuracy=found.correct / some, lower=lower, upper=upper, failure_prob=failure_prob, simultaneous=simultaneous,
    )  # fmt: skip


def accuracy_bands(
    counts: Int[np.ndarray, " bins"],
    correct: Int[np.ndarray, " bins"],
    *,
    failure_prob: float = 0.05,
    simultaneous: bool = False,
) -> tuple[Float[np.ndarray, " bins"], Float[np.ndarray, " bins"]]:
    """Lower and upper Clopper-Pearson limits for the accuracy in each bin; [0, 1] where a bin is empty.

    Formal guarantee: the examples are independent and of one law, the predictor and the edges of the bins do not depend
    on them. Given how many lie in a bin, the number that are correct is binomial, so each band misses its bin's
    accuracy with probability at most ``failure_prob``, half of it on each side; with ``simultaneous`` any of them does,
    for each is then paid ``failure_prob`` / bins. This is not a statement on the data that the predictor was trained
    on, nor on bins of equal mass.

    Raises:
        ValueError: failure_prob outside (0, 1), or counts and correct that are not 0 <= correct <= counts.
    """
    open_probability(failure_prob=failure_prob)
    for name, given in {"counts": counts, "correct": correct}.items():
        require_array(name, given, "iu", "whole numbers")
    if (
        counts.ndim != 1
        or counts.shape != correct.shape
        or (correct < 0).any()
        or (correct > counts).any()
    ):
        raise ValueError(
            "expected 0 <= correct <= counts in each bin, got other numbers: count both over the same list of bins"
        )
    side = failure_prob / (2 * len(counts) if simultaneous else 2)
    bands = [
        (clopper_pearson_lower(int(k), int(n), side), clopper_pearson_upper(int(k), int(n), side))
        if n
        else (0.0, 1.0)
        for k, n in zip(correct, counts, strict=True)
    ]
    return np.array([low for low, _ in bands]), np.array([high for _, high in bands])
