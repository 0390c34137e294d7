"""Smooth calibration error: the ECE of residuals smoothed by a Gaussian kernel that chooses its own width.

Błasiok and Nakkiran 2024, "Smooth ECE: principled reliability diagrams via kernel smoothing". For confidences f_i in
[0, 1] and outcomes c_i let r_s(t) = (1/n) sum_i K_s(t, f_i) (c_i - f_i), where K_s is the Gaussian kernel of standard
deviation s reflected at 0 and 1, and smECE_s = int_0^1 |r_s(t)| dt. It does not grow with s, so smECE_s = s has one
solution, which is the smooth ECE: no bins, no width to choose, continuous in the confidences.

The reflected Gaussian is the heat kernel of [0, 1] with insulated ends, so the smoothing multiplies the k-th cosine
coefficient by exp(-(s pi k)^2 / 2). Residuals are shared between the two nearest of 4,097 nodes, which keeps sums and
means: O(n) once and O(nodes ln nodes) for each width tried.
"""

import numpy as np
import scipy  # its parts, which take long to import, where they are used
from jaxtyping import Bool, Float, Int

from pacdp.calibration.inputs import top_label

_INTERVALS = 4096


def smooth_ece(probabilities: Float[np.ndarray, "n classes"], labels: Int[np.ndarray, " m"]) -> float:
    """Smooth ECE of the top label, in [0, 1]; see the head of this module.

    Within about 1e-5 of the fixed point of the exact integral for values above 0.005; below 1/4096 the nodes are too
    coarse.

    Raises:
        ValueError: see ``pacdp.calibration.metrics``.
    """
    return smooth_error(*top_label(probabilities=probabilities, labels=labels))


def smooth_error(confidence: Float[np.ndarray, " n"], correct: Bool[np.ndarray, " n"]) -> float:
    """Smooth ECE of confidences in [0, 1] and 0-1 outcomes."""
    coefficients = scipy.fft.dct(_residuals(confidence, correct), type=1)
    frequencies = np.pi * np.arange(_INTERVALS + 1)

    def excess(width: float) -> float:
        smoothed = np.asarray(scipy.fft.idct(coefficients * np.exp(-0.5 * (width * frequencies) ** 2), type=1))
        return _integral(np.abs(smoothed)) - width

    if excess(0.0) <= 1e-12:
        return 0.0
    if excess(1.0) >= 0.0:  # all certain and wrong
        return 1.0
    return float(scipy.optimize.root_scalar(excess, bracket=(0.0, 1.0), method="brentq", xtol=1e-12).root)


def _residuals(confidence: np.ndarray, correct: np.ndarray) -> np.ndarray:
    """The density on the nodes whose trapezoid integral is the mean residual."""
    position = confidence.astype(np.float64) * _INTERVALS
    left = np.minimum(position.astype(np.int64), _INTERVALS - 1)
    share = position - left
    residual = (correct - confidence.astype(np.float64)) / len(confidence)
    mass = np.bincount(left, weights=(1.0 - share) * residual, minlength=_INTERVALS + 1)
    mass += np.bincount(left + 1, weights=share * residual, minlength=_INTERVALS + 1)
    mass[[0, -1]] *= 2.0
    return mass * _INTERVALS


def _integral(values: np.ndarray) -> float:
    return float(values.sum() - 0.5 * (values[0] + values[-1])) / _INTERVALS
