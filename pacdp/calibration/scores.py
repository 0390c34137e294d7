"""Scores of predictive probabilities: accuracy, log-likelihood, Brier, area under the ROC curve.

Arguments as in ``pacdp.calibration.metrics``. NLL and Brier are proper: their expectation is least at the true
probabilities, which no calibration error alone guarantees.

``summary`` has all numbers of one set of predictions, for result files.
"""

import math

import numpy as np
import scipy  # its parts, which take long to import, where they are used
from jaxtyping import Bool, Float, Int

from pacdp.calibration import metrics
from pacdp.calibration.inputs import require_array, require_predictions, top_label

_BINNED = (metrics.ece, metrics.mce, metrics.sce, metrics.ace)


def accuracy(probabilities: Float[np.ndarray, "n classes"], labels: Int[np.ndarray, " m"]) -> float:
    """Share of examples whose label has the largest probability; of equal ones the first class is the prediction."""
    return float(top_label(probabilities=probabilities, labels=labels).correct.mean())


def nll_nats(probabilities: Float[np.ndarray, "n classes"], labels: Int[np.ndarray, " m"]) -> float:
    """Mean negative log-likelihood -ln p_y in nats, in [0, inf].

    Infinite where a label had probability 0: float32 softmax rounds below about 1e-45 to that. Unlike scikit-learn's
    log_loss this puts no floor under the probabilities.
    """
    require_predictions(probabilities, labels)
    true = np.take_along_axis(probabilities, labels[:, None], axis=1)[:, 0].astype(np.float64)
    with np.errstate(divide="ignore"):
        return float(-np.log(np.minimum(true, 1.0)).mean()) + 0.0  # turns -0 into 0


def brier(probabilities: Float[np.ndarray, "n classes"], labels: Int[np.ndarray, " m"]) -> float:
    """Mean of sum_k (p_k - 1{y = k})^2 (Brier 1950), in [0, 2]: for two classes twice the one-column score."""
    require_predictions(probabilities, labels)
    return float(np.square(_outcomes(probabilities, labels) - probabilities).sum() / len(labels))


def auc(scores: Float[np.ndarray, " n"], positive: Bool[np.ndarray, " m"]) -> float:
    """Chance that a positive example scores above a negative one, ties counted half: the area under the ROC curve.

    Rank statistic of Mann and Whitney 1947. In [0, 1]; 1/2 for scores that know nothing.

    Raises:
        ValueError: scores that are not finite, another number of outcomes, outcomes that are no truth values, or one of
            the two kinds has no example.
    """
    require_array("scores", scores, "fiu", "numbers")
    require_array("positive", positive, "b", "truth values")
    if scores.ndim != 1 or positive.shape != scores.shape or not np.isfinite(scores).all():
        raise ValueError(
            f"expected finite scores [n] and n outcomes, got {scores.shape} and {positive.shape}"
        )
    count = int(np.count_nonzero(positive))
    others = len(scores) - count
    if not (count and others):
        raise ValueError(
            f"expected positive and negative examples for an AUC, got {count} and {others}"
        )
    ranks = float(scipy.stats.rankdata(scores)[positive].sum())
    return (ranks - count * (count + 1) / 2) / (count * others)


def macro_auc(
    probabilities: Float[np.ndarray, "n classes"], labels: Int[np.ndarray, " m"]
) -> float:
    """Unweighted mean over classes of the AUC of p_k for label k against the rest; two classes: the AUC of p_1.

    The same as scikit-learn's ``roc_auc_score(multi_class="ovr", average="macro")``. In [0, 1].

    Raises:
        ValueError: a class without an example, or with no other; see also ``pacdp.calibration.metrics``.
    """
    require_predictions(probabilities, labels)
    classes = probabilities.shape[1]
    found = np.bincount(labels, minlength=classes)
    if not found.all():
        missing = np.flatnonzero(found == 0).tolist()
        raise ValueError(
            f"expected an example of each of {classes} classes for the macro AUC, got none of {missing}"
        )
    chosen = range(1, 2) if classes == 2 else range(classes)
    return float(np.mean([auc(probabilities[:, k], labels == k) for k in chosen]))


def _outcomes(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    outcomes = np.zeros(probabilities.shape)
    np.put_along_axis(outcomes, labels[:, None], 1.0, axis=1)
    return outcomes


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
    confidence, correct = top_label(probabilities=probabilities, labels=labels)
    n, classes = probabilities.shape
    nll = nll_nats(probabilities, labels)
    present = len(np.unique(labels)) == classes
    return {
        "n": n,
        "classes": classes,
        "bins": bins,
        "accuracy": float(correct.mean()),
        "mean_confidence": float(confidence.mean(dtype=np.float64)),
        "macro_auc": macro_auc(probabilities, labels) if present else None,
        "nll_nats": nll if math.isfinite(nll) else None,
        "brier": brier(probabilities, labels),
        **{function.__name__: function(probabilities, labels, bins=bins) for function in _BINNED},
    }
