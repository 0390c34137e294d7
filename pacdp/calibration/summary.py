"""All numbers of one set of predictions, for result files."""

import math

import numpy as np
from jaxtyping import Float, Int

from pacdp.calibration import metrics, scores
from pacdp.calibration.inputs import top_label

_BINNED = (metrics.ece, metrics.mce, metrics.sce, metrics.ace)


def summary(
    probabilities: Float[np.ndarray, "n classes"],
    labels: Int[np.ndarray, " m"],
    *,
    bins: int = metrics.BINS,
) -> dict[str, float | int | None]:
    """Every score and calibration error by its function's name, with ``n``, ``classes``, ``bins``, ``mean_confidence``.

    ``macro_auc`` is None if a class has no example, ``nll_nats`` is None if it is infinite: a label
    had probability 0.

    Raises:
        ValueError: see ``pacdp.calibration.metrics``.
    """
    n, classes = probabilities.shape if probabilities.ndim == 2 else (0, 0)
    confidence, correct = top_label(probabilities=probabilities, labels=labels)
    nll = scores.nll_nats(probabilities, labels)
    present = len(np.unique(labels)) == classes
    return {
        "n": n,
        "classes": classes,
        "bins": bins,
        "accuracy": float(correct.mean()),
        "mean_confidence": float(confidence.mean(dtype=np.float64)),
        "macro_auc": scores.macro_auc(probabilities, labels) if present else None,
        "nll_nats": nll if math.isfinite(nll) else None,
        "brier": scores.brier(probabilities, labels),
        **{function.__name__: function(probabilities, labels, bins=bins) for function in _BINNED},
    }
