"""A linear head on fixed features that is drawn, exactly, from a Gibbs law around an anchor which other rows taught.

Logits are (W + D) φ, W the anchor. To second order the cross-entropy of a record is, with u = D φ, p = softmax(W φ),
g = p - e_y, and v = ½ (1 - ‖p‖²), half the trace of its Hessian, in place of that Hessian for every class,

    ℓ(D; φ, y) = ⟨g, u⟩ + ½ v ‖u‖²

up to a constant: convex, and a function of this record and of the anchor alone. The law of D has the density

    ∝ exp(-(τ/2) Σ_k d_kᵀ R d_k - (τ/N) Σ_i ℓ(D; φ_i, y_i)),      R = λ I + mean of v φ φᵀ over the anchor's rows,

so that the rows d_k of D are independent normal vectors with precision τ(A + R) and mean -(A + R)⁻¹ b_k, where one pass
over the records has made A = (1/N) Σ v φφᵀ and b_k = (1/N) Σ g_k φ: there is no chain, and nothing to converge. In the
norm of R, and with q = φᵀ R⁻¹ φ, a potential (τ/N) ℓ has at D a gradient of square (τ/N)² q ‖g + v u‖² and is
(τ/N) v q-smooth, and the rest of the exponent is τ-strongly convex, which ``gibbs_gradients`` of bounds prices.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from bounds.gibbs_around import LEAST_SCALE
from pacdp.errors import require_finite
from pacdp.features.head import Labels, Rows, require_features
from pacdp.random.keys import of_one_draw
from pacdp.store.record import record

_BATCH = 4096
_ROUNDING = 1.0 + 1e-9
"""More than the rounding, in double precision, of squared lengths that the factor of R^-1 makes, up to ``_MOST``."""
_MOST = 2.0**22
"""Of the trace of A + R over the least eigenvalue of R."""


class HeadDraw(NamedTuple):
    """What was drawn, and what each record pays for it: an example, or a person with all of theirs."""

    weights: Float64[Tensor, "classes dim"]
    """W + D."""
    squared_gradients: Float64[Tensor, " n"]
    """(τ/N)² q ‖g + v u‖² at D, rounded up; of a person no less than for the mean of these potentials."""
    smoothness: Float64[Tensor, " n"]
    """(τ/N) v q, rounded up; of a person the mean."""


@record
class GibbsHead:
    """The law that a head is drawn from; no number here may depend on the records that it is drawn with.

    Tensors are copied, so that a network whose weight is the anchor does not move it by training on.
    """

    anchor: Float64[Tensor, "classes dim"]
    """W."""
    metric: Float64[Tensor, "dim dim"]
    """R, symmetric and positive definite."""
    tau: float
    """Inverse temperature τ, in nats per unit of mean loss."""
    normaliser: int
    """N, a constant; usually how many records there will be."""
    seed: int
    """Of the one draw, by a key of its own. Trying several seeds is a choice that has to be paid for."""
    features: str
    """Where the features come from."""

    def __post_init__(self) -> None:
        dim = self.anchor.shape[-1]
        if self.anchor.ndim != 2 or self.metric.shape != (dim, dim):
            raise ValueError(
                f"expected anchor [classes, dim] and metric [dim, dim], got {list(self.anchor.shape)} and "
                f"{list(self.metric.shape)}"
            )
        if self.anchor.dtype != torch.float64 or self.metric.dtype != torch.float64:
            raise ValueError("expected anchor and metric in double precision: call .double()")
        for name in ("anchor", "metric"):
            object.__setattr__(self, name, getattr(self, name).detach().clone())
        if isinstance(self.seed, np.integer):
            object.__setattr__(self, "seed", int(self.seed))
        if not bool(self.anchor.isfinite().all() and self.metric.isfinite().all()):
            raise ValueError(
                "anchor or metric holds a NaN or an infinity: check the rows that taught them"
            )
        require_finite(tau=self.tau, normaliser=self.normaliser)
        fits = self.normaliser >= 1 and LEAST_SCALE <= self.tau / self.normaliser <= 1 / LEAST_SCALE
        if not (fits and type(self.seed) is int and 0 <= self.seed < 2**63):
            raise ValueError(
                f"expected tau/normaliser from {LEAST_SCALE:g} to {1 / LEAST_SCALE:g}, normaliser >= 1 and a whole "
                f"number >= 0 as seed, got {self.tau}, {self.normaliser} and {self.seed}"
            )

    def draw(
        self, features: Rows, labels: Labels,
        people: Labels | np.ndarray | None = None,
    ) -> HeadDraw:  # fmt: skip
        """The head that the seed draws with these records, and the tilts of each.

        With ``people`` they are the records: the potential of one is the mean of ℓ over their examples, N a constant
        as before, so that what anybody gives moves no other's potential.

        Formal guarantee: the draw is from the law above but for the rounding of double precision; a record's two
        numbers are at least those of its potential, in the norm of R.
        """
        dim, scale = len(self.metric), self.tau / self.normaliser
        require_features(features, dim, labels=labels, classes=len(self.anchor))
        whose = torch.arange(len(labels)) if people is None else torch.as_tensor(people)
        _, owners, counts = whose.unique(return_inverse=True, return_counts=True)
        shares = 1.0 / counts.double()[owners]
        precision, pull = self.metric.clone(), torch.zeros_like(self.anchor)
        for rows, slopes, curvatures in self._expanded(features, labels, shares):
            precision.addmm_((rows * curvatures[:, None]).T, rows, alpha=1.0 / self.normaliser)
            pull.addmm_(slopes.T, rows, alpha=1.0 / self.normaliser)
        if not precision.trace() <= _MOST * torch.linalg.eigvalsh(self.metric)[0]:
            raise ValueError(
                "the metric is too small in some direction for the rounding of doubles: raise ridge, or scale features"
            )
        factor = torch.linalg.cholesky(precision)
        noise = torch.randn(
            (dim, len(self.anchor)), generator=of_one_draw(self.seed), dtype=torch.float64
        ) / math.sqrt(self.tau)
        mean = torch.cholesky_solve(-pull.T, factor)
        move = mean + torch.linalg.solve_triangular(factor.T, noise, upper=True)

        lower = torch.linalg.cholesky(self.metric)
        inverse = torch.linalg.solve_triangular(lower, torch.eye(dim).double(), upper=False)
        gradients, smoothness = list[Tensor](), list[Tensor]()
        for rows, slopes, curvatures in self._expanded(features, labels, shares):
            lengths = (rows @ inverse.T).square_().sum(dim=1) * _ROUNDING
            away = slopes + curvatures[:, None] * (rows @ move)
            gradients.append(scale**2 * lengths * away.square_().sum(dim=1) * _ROUNDING)
            smoothness.append(scale * lengths * curvatures * _ROUNDING)
        squares, smooth = torch.cat(gradients), torch.cat(smoothness)
        if people is not None:  # whose examples' numbers are brought together
            none = torch.zeros(len(counts), dtype=torch.float64)
            lengths = none.index_add(0, owners, squares.sqrt() * _ROUNDING)  # ‖Σ g‖ ≤ Σ ‖g‖
            squares, smooth = lengths.square(), none.index_add(0, owners, smooth * _ROUNDING)
        return HeadDraw(self.anchor + move.T, squares, smooth)

    def _expanded(
        self, features: Tensor, labels: Tensor, shares: Tensor
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Rows, g and v, some examples at a time; g and v times their shares of a record."""
        parts = (one.split(_BATCH) for one in (features, labels, shares))
        for rows, own, share in zip(*parts, strict=True):
            rows = rows.double()
            probabilities = torch.softmax(rows @ self.anchor.T, dim=1)
            slopes = probabilities - one_hot(own, len(self.anchor))
            yield rows, share[:, None] * slopes, share * curvature(probabilities)


def curvature(probabilities: Float64[Tensor, "n classes"]) -> Float64[Tensor, " n"]:
    """v = ½ (1 - ‖p‖²), never below 0."""
    return (0.5 - 0.5 * probabilities.square().sum(dim=1)).clamp_min(0.0)


def anchored_head(
    features: Float[Tensor, "m dim"], labels: Int64[Tensor, " m"], *, classes: int, ridge: float, tau: float,
    normaliser: int, seed: int, provenance: str, decay: float = 1e-4, iterations: int = 150,
) -> GibbsHead:  # fmt: skip
    """The law around the softmax regression of these rows, which are others than those that it will be drawn with.

    Args:
        ridge: λ.
        tau, normaliser, seed: as in :class:`GibbsHead`.
        provenance: where the features come from.
        decay: of the anchor's own regression.
        iterations: of L-BFGS, at most.
    """
    require_features(features, labels=labels, classes=classes)
    rows = features.double()
    anchor = torch.zeros((classes, rows.shape[1]), dtype=torch.float64, requires_grad=True)
    search = torch.optim.LBFGS(
        [anchor], max_iter=iterations, history_size=10, line_search_fn="strong_wolfe"
    )

    def objective() -> Tensor:
        search.zero_grad()
        loss = cross_entropy(rows @ anchor.T, labels) + 0.5 * decay * anchor.square().sum()
        loss.backward()
        return loss

    search.step(objective)
    taught = anchor.detach()
    weights = curvature(torch.softmax(rows @ taught.T, dim=1))
    metric = (rows * weights[:, None]).T @ rows / len(rows)
    metric = 0.5 * (metric + metric.T) + ridge * torch.eye(rows.shape[1])
    return GibbsHead(
        anchor=taught,
        metric=metric,
        tau=tau,
        normaliser=normaliser,
        seed=seed,
        features=provenance,
    )
