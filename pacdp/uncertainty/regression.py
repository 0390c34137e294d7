"""Uncertainty of predicted numbers, by networks that predict a mean and a log-variance.

Member t says y | x, w_t ~ N(m_t, v_t). Under the uniform mixture of the members (law of total variance; Kendall and Gal
2017, "What Uncertainties Do We Need in Bayesian Deep Learning for Computer Vision?", eq. 9)

    Var(y | x) = (1/T) Σ (m_t - m)²  +  (1/T) Σ v_t,   m = (1/T) Σ m_t,

the first the epistemic part, which more data would shrink, the second the aleatoric, which it would not. The variance
of the means is that of the mixture (divisor T), not the estimate of a larger population's (divisor T - 1).
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor

from pacdp.calibration.inputs import require_array

Members = Float[np.ndarray, "members n"]


class Spread(NamedTuple):
    """The mixture's mean and variance, an entry an example, in the targets' units and their square."""

    mean: Float[np.ndarray, " n"]
    epistemic: Float[np.ndarray, " n"]
    """Variance of the members' means."""
    aleatoric: Float[np.ndarray, " n"]
    """Mean of the members' variances."""

    @property
    def total(self) -> Float[np.ndarray, " n"]:
        """Variance of the prediction: epistemic + aleatoric."""
        return self.epistemic + self.aleatoric


def predictive_spread(means: Members, variances: Float[np.ndarray, "others m"]) -> Spread:
    """Mean and variance of the members' mixture, in float64.

    Raises:
        ValueError: no arrays, no member or example, shapes that differ, a number that is not finite, or a variance
            below 0.
    """
    for name, given in {"means": means, "variances": variances}.items():
        require_array(name, given, "fiu", "numbers")
    if means.ndim != 2 or min(means.shape) < 1 or means.shape != variances.shape:
        raise ValueError(
            f"expected means and variances [members >= 1, n >= 1] of one shape, got {means.shape} and {variances.shape}"
        )
    if not np.isfinite(means).all():
        raise ValueError(
            "expected finite means, got NaN or infinity: leave out members that have diverged"
        )
    if not (np.isfinite(variances).all() and variances.min() >= 0.0):
        raise ValueError(
            "expected finite variances >= 0, got others: take exp of the log-variance output"
        )
    means, variances = means.astype(np.float64), variances.astype(np.float64)
    return Spread(means.mean(axis=0), means.var(axis=0), variances.mean(axis=0))


def gaussian_head(
    outputs: Float[Tensor, "*members n heads"],
) -> tuple[Float[Tensor, "*members n"], Float[Tensor, "*members n"]]:
    """Means and variances of outputs (mean, log-variance).

    Raises:
        ValueError: another number of outputs than two.
    """
    if outputs.shape[-1] != 2:
        raise ValueError(
            f"expected two outputs an example (mean, log-variance), got shape {tuple(outputs.shape)}"
        )
    return outputs[..., 0], outputs[..., 1].exp()


def gaussian_nll_nats(
    outputs: Float[Tensor, "n heads"], targets: Float[Tensor, " m"]
) -> Float[Tensor, " n"]:
    """-ln N(y; m, exp(s)) = ½(s + (y - m)² exp(-s) + ln 2π) of each example, for outputs (m, s).

    The loss of a heteroscedastic network (Nix and Weigend 1994): a number an example, which no other example enters, so
    that ``pacdp.private.train`` can take it. It may be negative. Its gradient in m grows as exp(-s), and clipping cuts
    the largest residuals most: private variances come out too small where the clipping norm is.

    Raises:
        ValueError: outputs that are not [n, 2], or targets that are not [n].
    """
    if outputs.ndim != 2 or outputs.shape[1] != 2 or targets.shape != outputs.shape[:1]:
        raise ValueError(
            f"expected outputs [n, 2] (mean, log-variance) and targets [n], got {tuple(outputs.shape)} and "
            f"{tuple(targets.shape)}"
        )
    mean, log_variance = outputs[:, 0], outputs[:, 1]
    return 0.5 * (
        log_variance + (targets - mean).square() * (-log_variance).exp() + math.log(2.0 * math.pi)
    )
