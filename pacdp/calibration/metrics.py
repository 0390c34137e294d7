"""Calibration errors of predictive probabilities. Names that papers and packages use for different numbers:

* ``ace`` is the classwise, equal-mass error of Nixon et al. 2019. netcal's ACE is another number (the unweighted mean
  gap of the top label's non-empty bins of equal width), and so is the equal-mass error of the top label.
* ``sce`` (Nixon et al.'s static calibration error) is also called classwise ECE.
* ``mce`` is torchmetrics' norm "max".

Every number is a plug-in estimate on the examples given, and biased upwards: a perfectly calibrated predictor has an
expected plug-in error above 0, more so with more bins and fewer examples.

Each function takes probabilities [n, classes] whose rows sum to 1 within 1e-4 and labels [n] in 0 .. classes - 1 and
raises ValueError otherwise. How bins are closed is written in ``pacdp.calibration.binning``; empty bins are left out.
"""

import numpy as np
from jaxtyping import Float, Int

from pacdp.calibration.binning import Bins, equal_mass_error, equal_width, equal_width_classes
from pacdp.calibration.inputs import require_bins, require_predictions, top_label

BINS = 15


def _top_label_bins(probabilities: np.ndarray, labels: np.ndarray, bins: int) -> Bins:
    require_bins(bins)
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
    require_bins(bins)
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
    require_bins(bins)
    require_predictions(probabilities, labels)
    classes = probabilities.shape[1]
    return (
        sum(equal_mass_error(probabilities[:, k], labels == k, bins=bins) for k in range(classes))
        / classes
    )
