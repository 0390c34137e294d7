"""Bins of confidences, of equal width or of equal mass, and the sums that the metrics are made of.

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
    edges = equal_width_edges(bins)[1:-1].astype(confidence.dtype)
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
