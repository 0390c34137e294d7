"""Logistic heads on fixed features, one against the rest: a Gibbs law that nobody draws, the nearest Gaussian.

In coordinates z = (turn (φ - centre), bias), which other rows fixed, the law of the weights of each head is ∝ exp(-U),

    U(w) = τ ‖w‖²/2 + (τ/N) Σ_i [ln(1 + e^u_i) - y_i u_i],      u_i = ⟨z_i, w⟩,

and the Gaussian N(m, C) nearest to it has E ∇U = 0 and C⁻¹ = E ∇²U: the means of both are one-dimensional, so that
Newton's method on weights and then on (m, C) finds it without a draw. Nothing here carries a guarantee but that the
coordinates of a record are a function of that record; ``bounds.gibbs_around`` prices whatever Gaussian it is given.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from bounds.gibbs_around import Array, margins, sigmoid_moments
from pacdp.errors import require_finite
from pacdp.features.head import Labels, Rows, require_features
from pacdp.store.record import record

_STEPS, _ROUNDS = 12, 3
_SMALL = 1e-9


@record
class RidgeHeads:
    """The law; no number here may depend on the records that it is conditioned on."""

    centre: Float64[Tensor, " dim"]
    turn: Float64[Tensor, "dim dim"]
    bias: float
    tau: float
    """Inverse temperature τ, in nats per unit of mean loss."""
    normaliser: int
    """N, a constant; usually how many records there are."""
    classes: int
    """Two classes have one head, more have one each."""
    features: str
    """Where the features come from."""

    def __post_init__(self) -> None:
        require_finite(tau=self.tau, normaliser=self.normaliser)

    def rows(self, features: Rows) -> Array:
        """z for each record, in double precision; where a record's coordinates are rounded, they are those."""
        require_features(features, len(self.centre))
        parts = [(part.double() - self.centre) @ self.turn.T for part in features.split(4096)]
        turned = torch.cat(parts)
        return torch.cat([turned, torch.full((len(turned), 1), self.bias).double()], 1).numpy()

    def targets(self, labels: Labels) -> list[Array]:
        """What each head is to say of each record, 0 or 1."""
        of = range(1, 2) if self.classes == 2 else range(self.classes)
        return [(labels.numpy() == k).astype(np.float64) for k in of]


def ridge_heads(
    features: Float[Tensor, "m dim"], *, classes: int, ridge: float, share: float, bias: float, tau: float,
    normaliser: int, provenance: str,
) -> RidgeHeads:  # fmt: skip
    """The law in the directions of these rows, which are others than those that it will be conditioned on.

    Args:
        ridge, share: a direction of variance v is divided by the root of max(ridge, share · v): the law prefers
            directions in which features vary.
        bias: the last coordinate of every record.
        tau, normaliser, classes: as in :class:`RidgeHeads`.
        provenance: where the features come from.
    """
    require_features(features)
    rows = features.double()
    centre = rows.mean(dim=0)
    variances, directions = torch.linalg.eigh((rows - centre).T @ (rows - centre) / len(rows))
    turn = directions.T / (share * variances).clamp_min(ridge).sqrt()[:, None]
    return RidgeHeads(centre=centre, turn=turn, bias=bias, tau=tau, normaliser=normaliser, classes=classes,
                      features=provenance)  # fmt: skip


class Normal(NamedTuple):
    """N(mean, factor factorᵀ/τ) over the weights of one head."""

    mean: Array
    factor: Array


@record(eq=False)
class UndrawnHeads:
    """Independent Gaussians over the weights of the heads, around the Gibbs law of the records."""

    law: RidgeHeads
    around: tuple[Normal, ...]
    """One a head; they may depend on the records in any way."""
    exact_below: int = 2
    """K of ``bounds.gibbs_around``: above 2 the bound on the divergence looks at all pairs of records."""

    def __post_init__(self) -> None:
        dim, heads = len(self.law.centre) + 1, 1 if self.law.classes == 2 else self.law.classes
        shapes = [(one.mean.shape, one.factor.shape) for one in self.around]
        if shapes != [((dim,), (dim, dim))] * heads:
            raise ValueError(
                f"expected {heads} Gaussians over {dim} weights, with a mean and a square factor each, got {shapes}"
            )


def nearest(
    law: RidgeHeads,
    features: Rows,
    labels: Labels,
    exact_below: int = 2,
) -> UndrawnHeads:
    """The Gaussians around the law of these records."""
    require_features(features, labels=labels, classes=law.classes)
    rows = law.rows(features)
    single = rows.astype(np.float32)
    around = tuple(_nearest(rows, single, own, law) for own in law.targets(labels))
    return UndrawnHeads(law=law, around=around, exact_below=exact_below)


def _nearest(rows: Array, single: np.ndarray, targets: Array, law: RidgeHeads) -> Normal:
    """Newton's steps on the weights, and then on the mean and the covariance of the Gaussian."""
    divisor, dim = law.normaliser, rows.shape[1]

    def hessian(curvatures: Array) -> Array:
        scaled = single * np.sqrt(curvatures / divisor).astype(np.float32)[:, None]
        return (scaled.T @ scaled).astype(np.float64) + np.eye(dim)

    def loss(weights: Array) -> float:
        margin = rows @ weights
        whole = np.logaddexp(0.0, margin) - targets * margin
        return float(whole.sum()) / divisor + 0.5 * float(weights @ weights)

    weights, now, curve = np.zeros(dim), math.inf, np.eye(dim)
    for _ in range(_STEPS):
        p = 1.0 / (1.0 + np.exp(-(rows @ weights)))
        curve, slope = hessian(p * (1.0 - p)), rows.T @ (p - targets) / divisor + weights
        step, length, now = np.linalg.solve(curve, slope), 1.0, loss(weights)
        while loss(weights - length * step) > now and length > 1e-3:
            length *= 0.5
        weights = weights - length * step
        if slope @ step < _SMALL:
            break
    for _ in range(_ROUNDS):
        factor = _factor(curve)
        (first, *_), square, _ = sigmoid_moments(margins(rows, weights, factor, law.tau), 2)
        curve = hessian(first - square)
        weights = weights - np.linalg.solve(curve, rows.T @ (first - targets) / divisor + weights)
    return Normal(weights, _factor(curve))


def _factor(precision: Array) -> Array:
    """A with A Aᵀ the inverse of the precision."""
    return np.asarray(np.linalg.inv(np.linalg.cholesky(precision)).T, dtype=np.float64)
