"""What every metric takes: predictive probabilities and labels, refused in one sentence or brought to one form."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

ROW_SUM_TOLERANCE = 1e-4


class TopLabel(NamedTuple):
    """The largest probability of each example, and whether its class was right."""

    confidence: Float[np.ndarray, " n"]
    """In [0, 1], in the precision of the probabilities."""
    correct: Bool[np.ndarray, " n"]


def require_array(name: str, given: object, kinds: str, what: str) -> None:
    """Check that an argument is a NumPy array whose numbers are of one of these kinds, as ``dtype.kind`` names them.

    Raises:
        ValueError: it is something else, or has a mask, is a matrix or wider than a double, which would count wrongly
            or fail deep inside.
    """
    odd = {np.ma.MaskedArray: "one with a mask", np.matrix: "a matrix"}
    found = [said for kind, said in odd.items() if isinstance(given, kind)]
    plain = isinstance(given, np.ndarray) and given.dtype.kind in kinds and given.itemsize <= 8
    if found or not plain:
        kind = found[0] if found else getattr(given, "dtype", type(given).__name__)
        raise ValueError(
            f"expected {name} as a NumPy array of {what}, got {kind}: convert it, a tensor by .numpy()"
        )


def require_probabilities(probabilities: Float[np.ndarray, "n classes"]) -> None:
    """Check what predictive probabilities are.

    Raises:
        ValueError: no array of numbers, no example, fewer than two classes, an entry that is negative or not finite,
            or a row whose sum is not 1 within 1e-4.
    """
    require_array("probabilities", probabilities, "fiu", "numbers")
    if probabilities.ndim != 2 or probabilities.shape[0] < 1 or probabilities.shape[1] < 2:
        raise ValueError(
            f"expected probabilities [n >= 1, classes >= 2], got shape {probabilities.shape}"
        )
    if not probabilities.min() >= 0.0:  # false for NaN as well
        raise ValueError(
            f"expected probabilities >= 0, got {probabilities.min()}: pass softmax outputs, not logits"
        )
    off = float(np.abs(probabilities.sum(axis=1, dtype=np.float64) - 1.0).max())
    if not off <= ROW_SUM_TOLERANCE:
        raise ValueError(
            f"expected rows of probabilities that sum to 1 within {ROW_SUM_TOLERANCE:g}, one is off by {off:.3g}: "
            "normalise them, in float32 or float64"
        )


def require_predictions(
    probabilities: Float[np.ndarray, "n classes"], labels: Int[np.ndarray, " m"]
) -> None:
    """Check what every metric assumes of its arguments; m must equal n.

    Raises:
        ValueError: see :func:`require_probabilities`; labels that are no whole numbers, another number of them, or a
            label outside 0 .. classes - 1.
    """
    require_probabilities(probabilities)
    require_array("labels", labels, "iu", "whole numbers")
    n, classes = probabilities.shape
    if labels.shape != (n,):
        raise ValueError(
            f"expected one label for each of {n} rows of probabilities, got labels of {labels.shape}"
        )
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(
            f"expected labels in 0 .. {classes - 1}, got {labels.min()} .. {labels.max()}: number the classes from 0"
        )


def top_label(
    *, probabilities: Float[np.ndarray, "n classes"], labels: Int[np.ndarray, " m"]
) -> TopLabel:
    """The confidence max_k p_k and whether the label is that class; of equal largest probabilities the first counts.

    Raises:
        ValueError: see :func:`require_predictions`.
    """
    require_predictions(probabilities, labels)
    predicted = probabilities.argmax(axis=1)
    confidence = np.minimum(np.take_along_axis(probabilities, predicted[:, None], axis=1)[:, 0], 1)
    return TopLabel(confidence, predicted == labels)
