"""Calibration errors of predictive probabilities. Names that papers and packages use for different numbers:

* ``ace`` is the classwise, equal-mass error of Nixon et al. 2019. netcal's ACE is another number (the unweighted mean
  gap of the top label's non-empty bins of equal width), and so is the equal-mass error of the top label.
* ``sce`` (Nixon et al.'s static calibration error) is also called classwise ECE.
* ``mce`` is torchmetrics' norm "max".

Every number is a plug-in estimate on the examples given, and biased upwards: a perfectly calibrated predictor has an
expected plug-in error above 0, more so with more bins and fewer examples.

Each function takes probabilities [n, classes] whose rows sum to 1 within 1e-4 and labels [n] in 0 .. classes - 1 and
raises ValueError otherwise. Empty bins are left out.

Bins of confidences have equal width or equal mass.

Equal width: edges ``numpy.linspace(0, 1, bins + 1)``; bin b is [edge_b, edge_b+1), closed on the left, and the last is
closed on both sides. So a confidence at an inner edge lies in the bin above it, 0 in the first bin and 1 in the last.
netcal does the same, edges included; torchmetrics does but for a confidence of exactly 1, to which it gives a bin of
its own, and for edges rounded to single precision; Guo et al. 2017 write bins closed on the right. An edge is the float
that linspace returns: of 10 bins the seventh ends at 0.7000000000000001, above 0.7; of 15 and 25 all edges are
correctly rounded. Single-precision confidences meet edges rounded to single precision, so a float32
k/25 lies in the bin of the float64.

Equal mass: each bin holds exactly n/bins of the data, so that an example at a border counts in part on both sides, and
examples of equal confidence are spread evenly over the bins that they reach. For distinct confidences and a number of
bins that divides n that is the usual split of the sorted data; otherwise it is what makes the result depend on the
empirical distribution only, neither on the order of ties nor on remainders.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bounds import _check
from pacdp.calibration.inputs import require_predictions, top_label

BINS = 15


class Bins(NamedTuple):
    """Sums over the examples of each bin; divided by ``counts`` they are means."""

    counts: Int[np.ndarray, "*groups bins"]
    confidence: Float[np.ndarray, "*groups bins"]
    correct: Float[np.ndarray, "*groups bins"]

    @property
    def gaps(self) -> Float[np.ndarray, "*groups bins"]:
        """Absolute mean gap |accuracy - confidence| of each bin; 0 where a bin is empty."""
        return np.abs(self.correct - self.confidence) / np.maximum(self.counts, 1)


def equal_width_edges(bins: int) -> Float[np.ndarray, " edges"]:
    """The bins + 1 edges in [0, 1]."""
    return np.linspace(0.0, 1.0, bins + 1)


def equal_width_index(
    confidence: Float[np.ndarray, "*shape"], *, bins: int
) -> Int[np.ndarray, "*shape"]:
    """The bin of each confidence, as the head of this module says."""
    precision = np.result_type(
        confidence, np.float16
    )  # of whole numbers too, which would cut edges
    edges = equal_width_edges(bins)[1:-1].astype(precision)
    return np.searchsorted(edges, confidence, side="right")


def equal_width(
    confidence: Float[np.ndarray, " n"], correct: Bool[np.ndarray, " n"], *, bins: int
) -> Bins:
    """Sums of one confidence an example over bins of equal width."""
    index = equal_width_index(confidence, bins=bins)
    sums = [
        np.bincount(index, weights=weights, minlength=bins) for weights in (confidence, correct)
    ]
    return Bins(np.bincount(index, minlength=bins), *sums)


def equal_width_classes(
    probabilities: Float[np.ndarray, "n classes"], labels: Int[np.ndarray, " n"], *, bins: int
) -> Bins:
    """Sums [classes, bins]: of class k, its probability is the confidence and y = k is correct."""
    classes = probabilities.shape[1]
    index = equal_width_index(probabilities, bins=bins) + bins * np.arange(classes)
    flat, shape = index.reshape(-1), (classes, bins)
    true = np.take_along_axis(index, labels[:, None], axis=1)[:, 0]
    size = classes * bins
    return Bins(
        np.bincount(flat, minlength=size).reshape(shape),
        np.bincount(flat, weights=probabilities.reshape(-1), minlength=size).reshape(shape),
        np.bincount(true, minlength=size).astype(np.float64).reshape(shape),
    )


def equal_mass_error(
    confidence: Float[np.ndarray, " n"], correct: Bool[np.ndarray, " n"], *, bins: int
) -> float:
    """Mean over bins of equal mass of |accuracy - confidence|."""
    _, block, sizes = np.unique(confidence, return_inverse=True, return_counts=True)
    gaps = np.bincount(block, weights=correct - confidence.astype(np.float64))
    mass, sums = (np.concatenate([[0.0], np.cumsum(part)]) for part in (sizes, gaps))
    cuts = np.linspace(0.0, len(confidence), bins + 1)
    return float(np.abs(np.diff(np.interp(cuts, mass, sums))).sum() / len(confidence))


def _top_label_bins(probabilities: np.ndarray, labels: np.ndarray, bins: int) -> Bins:
    _check.count(bins=bins)
    return equal_width(*top_label(probabilities=probabilities, labels=labels), bins=bins)


def ece(
    probabilities: Float[np.ndarray, "n classes"],
    labels: Int[np.ndarray, " m"],
    *,
    bins: int = BINS,
) -> float:
    """Expected calibration error of the top label: sum_b (n_b / n) |acc_b - conf_b| over bins of equal width.

    Naeini, Cooper and Hauskrecht 2015; Guo et al. 2017, eq. 3. In [0, 1].
    """
    found = _top_label_bins(probabilities, labels, bins)
    return float(np.abs(found.correct - found.confidence).sum() / len(labels))


def mce(
    probabilities: Float[np.ndarray, "n classes"],
    labels: Int[np.ndarray, " m"],
    *,
    bins: int = BINS,
) -> float:
    """Maximum calibration error of the top label: max_b |acc_b - conf_b| over non-empty bins of equal width.

    Naeini, Cooper and Hauskrecht 2015; Guo et al. 2017, eq. 5. In [0, 1]; at least ``ece``. A bin of one example can
    decide it.
    """
    return float(_top_label_bins(probabilities, labels, bins).gaps.max())


def sce(
    probabilities: Float[np.ndarray, "n classes"],
    labels: Int[np.ndarray, " m"],
    *,
    bins: int = BINS,
) -> float:
    """Static (classwise) calibration error: (1 / K) sum_k sum_b (n_kb / n) |freq_kb - conf_kb|, bins of equal width.

    Nixon et al. 2019. freq_kb is the share of label k among the examples whose p_k lies in bin b. In [0, 2 / K]; with
    many classes it is small whatever the predictor, for most p_k are near 0 and right.
    """
    _check.count(bins=bins)
    require_predictions(probabilities, labels)
    found = equal_width_classes(probabilities, labels, bins=bins)
    return float(np.abs(found.correct - found.confidence).sum() / probabilities.size)


def ace(
    probabilities: Float[np.ndarray, "n classes"],
    labels: Int[np.ndarray, " m"],
    *,
    bins: int = BINS,
) -> float:
    """Adaptive (classwise) calibration error: (1 / (K bins)) sum_k sum_b |freq_kb - conf_kb| over bins of equal mass.

    Nixon et al. 2019. In [0, 2 / K]. Not netcal's ACE; see the head of this module.
    """
    _check.count(bins=bins)
    require_predictions(probabilities, labels)
    classes = probabilities.shape[1]
    return (
        sum(equal_mass_error(probabilities[:, k], labels == k, bins=bins) for k in range(classes))
        / classes
    )
