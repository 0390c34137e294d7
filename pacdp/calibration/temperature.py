"""Temperature scaling: one number T that divides all logits, fitted to held-out labels (Guo et al. 2017, section 4.2).

The predicted class does not change, so neither does the accuracy. The mean NLL of softmax(z / T) is convex in
1/T, so its least value lies where its slope, which grows with 1/T, is 0.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy  # its parts, which take long to import, where they are used
from jaxtyping import Float, Int

from pacdp.calibration.inputs import require_array

_RANGE = (1e-3, 1e3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Temperature:
    """A fitted temperature and what it was fitted on."""

    temperature: float
    nll_before_nats: float
    """Mean NLL of the examples at temperature 1."""
    nll_nats: float
    """The same at ``temperature``; on the examples of the fit, so optimistic."""
    n: int
    private_data: bool
    """Whether the examples need protection: then the number must not be released under a privacy claim that does not
    pay for it."""


def scaled(
    logits: Float[np.ndarray, "n classes"], *, temperature: float
) -> Float[np.ndarray, "n classes"]:
    """softmax(logits / temperature), in float64.

    Raises:
        ValueError: a temperature that is not positive and finite, or logits that are not finite.
    """
    if not (0.0 < temperature < math.inf):
        raise ValueError(f"expected a finite temperature > 0, got {temperature}")
    _require_logits(logits)
    below = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    with np.errstate(over="ignore"):  # far below the largest, at a small temperature, is never
        return scipy.special.softmax(below / temperature, axis=1)


def fit_temperature(
    logits: Float[np.ndarray, "n classes"], labels: Int[np.ndarray, " m"], *, private_data: bool
) -> Temperature:
    """The T in [0.001, 1000] of least mean NLL of softmax(logits / T), to a relative 1e-11.

    Two-class networks with one logit f: pass ``numpy.stack([0 * f, f], axis=1)``.

    Formal guarantee: none, and no privacy. T is an exact function of the examples: with ``private_data`` the fit is not
    differentially private, whatever the training was, and the result says so. Fit on public data; or treat T, and all
    that is computed with it, as private. Certificates of the scaled predictor must not use the examples of the fit.

    Args:
        logits: finite, of examples that the network was not trained on.
        labels: in 0 .. classes - 1.
        private_data: whether the examples need protection; there is no default because only the caller knows.

    Raises:
        ValueError: shapes or values out of range, or no least T in the range: every label has the largest logit (T
            would go to 0), or the labels' logits are no larger than the others on average (T would go to infinity).
    """
    _require_logits(logits)
    require_array("labels", labels, "iu", "whole numbers")
    if labels.shape != (len(logits),) or labels.min() < 0 or labels.max() >= logits.shape[1]:
        raise ValueError(
            f"expected {len(logits)} labels in 0 .. {logits.shape[1] - 1}, one a row, got {labels.shape}"
        )
    values = logits.astype(np.float64)
    margins = values - np.take_along_axis(values, labels[:, None], axis=1)

    def slope(log_inverse: float) -> float:
        return float(
            (scipy.special.softmax(margins * math.exp(log_inverse), axis=1) * margins)
            .sum(axis=1)
            .mean()
        )

    ends = (-math.log(_RANGE[1]), -math.log(_RANGE[0]))
    if not slope(ends[0]) < 0.0 < slope(ends[1]):
        raise ValueError(
            f"expected a temperature of least NLL in [{_RANGE[0]:g}, {_RANGE[1]:g}], there is none: every label has "
            "the largest logit, or logits know nothing of the labels; take more or other examples"
        )
    inverse = math.exp(
        scipy.optimize.root_scalar(slope, bracket=ends, method="brentq", xtol=1e-12).root
    )
    return Temperature(
        temperature=1.0 / inverse,
        nll_before_nats=_nll(margins),
        nll_nats=_nll(margins * inverse),
        n=len(labels),
        private_data=private_data,
    )


def _nll(margins: np.ndarray) -> float:
    return float(scipy.special.logsumexp(margins, axis=1).mean())


def _require_logits(logits: np.ndarray) -> None:
    require_array("logits", logits, "fiu", "numbers")
    if (
        logits.ndim != 2
        or logits.shape[0] < 1
        or logits.shape[1] < 2
        or not np.isfinite(logits).all()
    ):
        raise ValueError(
            f"expected finite logits [n >= 1, classes >= 2], got shape {logits.shape} or values NaN or inf"
        )
