"""The exponential mechanism over finitely many networks: a pure private choice by their errors.

With k_j errors of network j on the n examples and weights π_j fixed in advance,

    P(j) ∝ π_j exp(-epsilon k_j / 2).

Replacing one example changes each k_j by at most 1, so the unnormalised weights move by a factor of at most
exp(epsilon/2), and so does their sum: epsilon-DP for replace-one neighbours (McSherry and Talwar 2007, Theorem 6).
This is the Gibbs distribution at inverse temperature n epsilon / 2 per unit of mean error. The networks must not depend
on the examples, or only by a mechanism whose privacy is added.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor, nn

import bounds
from pacdp.losses import error_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A network that was drawn, and what drawing it cost."""

    index: int
    """The private choice."""
    epsilon: float
    """Replace-one privacy of the choice."""

    @property
    def privacy(self) -> bounds.PureDP:
        """For the bounds of ``bounds.printed.private_pac_bayes`` and :func:`bounds.transfer.transfer_cost`."""
        return bounds.PureDP(
            epsilon=self.epsilon, adjacency="replace-one", status="exact mechanism"
        )


@torch.no_grad()
def error_counts(
    networks: list[nn.Module],
    inputs: Tensor,
    labels: Int64[Tensor, " n"],
    *,
    batch_size: int = 2000,
) -> Int64[np.ndarray, " networks"]:
    """Errors of each network, in eval mode, on the examples; a tie is an error.

    Formal guarantee: where each network treats examples one by one, replacing an example moves each count by at most 1.
    """
    counts = [
        sum(
            error_count(
                network(inputs[start : start + batch_size]), labels[start : start + batch_size]
            )
            for start in range(0, len(labels), batch_size)
        )
        for network in networks
    ]
    return np.array(counts, dtype=np.int64)


def log_probabilities(
    errors: Int64[np.ndarray, " networks"],
    *,
    epsilon: float,
    weights: Float64[np.ndarray, " networks"] | None = None,
) -> Float64[np.ndarray, " networks"]:
    """ln P(j).

    Args:
        errors: counts k_j.
        epsilon: replace-one privacy of a draw; 0 ignores the errors.
        weights: π_j > 0, in any unit; equal by default. They may not depend on the examples.

    Raises:
        ValueError: no network, a negative count, an epsilon that is no finite number >= 0, or weights not positive.
    """
    if errors.ndim != 1 or not len(errors) or errors.min() < 0:
        raise ValueError(f"expected errors of at least one network, counts >= 0, got {errors!r}")
    if not (math.isfinite(epsilon) and epsilon >= 0.0):
        raise ValueError(f"expected epsilon to be a finite number >= 0, got {epsilon}")
    base = np.ones(len(errors)) if weights is None else np.asarray(weights, dtype=np.float64)
    if base.shape != errors.shape or not (np.isfinite(base) & (base > 0.0)).all():
        raise ValueError(
            f"expected one positive weight for each of {len(errors)} networks, got {base!r}"
        )
    exponent = np.log(base) - 0.5 * epsilon * (errors - errors.min())
    return exponent - np.logaddexp.reduce(exponent)


def select(
    errors: Int64[np.ndarray, " networks"], *, epsilon: float, generator: np.random.Generator,
    weights: Float64[np.ndarray, " networks"] | None = None,
) -> Selection:  # fmt: skip
    """One draw of the exponential mechanism.

    Formal guarantee: the index is epsilon-DP for replace-one neighbours if ``errors`` moves by at most 1 in each
    coordinate between them, up to the rounding of double precision.

    Raises:
        ValueError: as for :func:`log_probabilities`.
    """
    probabilities = np.exp(log_probabilities(errors, epsilon=epsilon, weights=weights))
    index = int(generator.choice(len(errors), p=probabilities / probabilities.sum()))
    return Selection(index=index, epsilon=float(epsilon))
