"""A Gaussian linear head whose covariance is learnt as well: the posterior that descends a PAC-Bayes bound.

Logits are z C, with z = W φ of one number less than there are classes and C the corners of a regular simplex: the law
of the answers is that of independent weights for every class, without the direction in which all logits move together.
The prior is W ~ N(W₀, I), the posterior N(W, Σ) for every row, Σ = L Lᵀ one for all. At an example z has the variance
v = φᵀ Σ φ in every coordinate, so that the probability of an error is a one-dimensional integral
(:func:`pacdp.features.head.gaussian_errors`), and the divergence is

    KL = ½ ‖W - W₀‖² + ½ (classes - 1) (tr Σ - dim - ln det Σ).

With λ the number of errors that a nat may cost, the best Σ is (I + 2λ/(classes - 1) · mean of (∂error/∂v) φ φᵀ)⁻¹: few
directions, those in which features are long, are worth their price. Rounds of L-BFGS on W and of this equation for Σ
alternate. Nothing here carries a guarantee: what is returned is certified from fresh draws and its own divergence.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

import bounds
from pacdp.features.head import Labels, Rows, errors_and_slopes, require_features
from pacdp.posterior import GaussianPosterior

_BATCH = 10_000
_MEMORY = 0.4
"""Of the old precision in the new one, after the first round."""
_LEAST_PRECISION = 0.2
_MOST_EXCHANGE = 4.0
"""Errors on n examples that a nat may cost, as a share of n: where the bound is close to 1 its slope says more."""


class SimplexHead(nn.Module):
    """Rows [n, dim] to logits [n, classes] through classes - 1 numbers: no bias, a parameter ``weight.weight``."""

    def __init__(self, dim: int, classes: int) -> None:
        """
        Raises:
            ValueError: fewer than one dimension or than two classes.
        """
        super().__init__()
        if dim < 1 or classes < 2:
            raise ValueError(f"expected dim >= 1 and classes >= 2, got {dim} and {classes}")
        self.weight = nn.Linear(dim, classes - 1, bias=False)
        nn.init.zeros_(self.weight.weight)
        self.register_buffer("corners", corners(classes), persistent=True)

    def forward(self, rows: Rows) -> Float[Tensor, "n classes"]:
        """Logits that add up to 0."""
        return self.weight(rows) @ self.get_buffer("corners")


def corners(classes: int) -> Float[Tensor, "rows classes"]:
    """A regular simplex in classes - 1 rows: column k is the corner of class k, and CᵀC = I - 1/classes."""
    made = torch.zeros((classes - 1, classes), dtype=torch.float64)
    for row in range(
        classes - 1
    ):  # Helmert's rows: orthonormal, each orthogonal to the vector of ones
        made[row, : row + 1] = 1.0
        made[row, row + 1] = -(row + 1.0)
        made[row] /= math.sqrt((row + 1.0) * (row + 2.0))
    return made.float()


class HeadLaw(NamedTuple):
    """N(mean, factor factorᵀ) for each row of a :class:`SimplexHead`, against the prior N(prior_mean, I)."""

    mean: Float[Tensor, "rows dim"]
    factor: Float[Tensor, "dim dim"]
    prior_mean: Float[Tensor, "rows dim"]

    def posterior(self) -> GaussianPosterior:
        """The law as a posterior over the weights of a :class:`SimplexHead`."""
        return self._law(self.mean, {"weight.weight": self.factor})

    def prior(self) -> GaussianPosterior:
        """The law that the divergence is from."""
        return self._law(self.prior_mean, {})

    def _law(self, mean: Tensor, factors: dict[str, Tensor]) -> GaussianPosterior:
        return GaussianPosterior(
            means={"weight.weight": mean}, stds={"weight.weight": torch.tensor(1.0)}, factors=factors,
            buffers={"corners": corners(len(mean) + 1)},
        )  # fmt: skip


def fit_law(
    features: Rows, labels: Labels, *, classes: int, n: int, failure_prob: float,
    extra_nats: float = 0.0, prior_mean: Tensor | None = None, rounds: int = 8, iterations: int = 10,
    few: int = 10_000,
) -> HeadLaw:  # fmt: skip
    """The law that kl⁻¹(R̂, (KL + ``extra_nats`` + ln ξ(n) + ln 1/failure_prob)/n) is small at.

    Args:
        features: rows, all of which the certificate will use.
        n: independent records of the bound; people where they are counted.
        failure_prob: of the PAC-Bayes step.
        extra_nats: what else the certificate adds to the divergence.
        prior_mean: W₀, by default 0.
        rounds: of L-BFGS, each followed by a new covariance; 0 returns the prior.
        iterations: of L-BFGS in a round.
        few: of the examples, evenly spaced, are enough for all rounds but the last two.
    """
    require_features(features, labels=labels, classes=classes)
    step = max(1, len(labels) // few)
    descent = _Descent(features[::step].contiguous(), labels[::step], classes, prior_mean)
    exchange = n / 3.0
    descent.spread(0.1 * exchange * torch.ones(len(descent.labels)), first=True) if rounds else None
    for place in range(rounds):
        if place == max(0, rounds - 2):
            descent.look_at(features, labels)
        descent.move(exchange, iterations)
        risk, by_variance = descent.risk()
        exchange = exchange_rate(risk, descent.kl() + extra_nats, n=n, failure_prob=failure_prob)
        if place < rounds - 1:
            descent.spread(exchange * by_variance, first=False)
    return HeadLaw(descent.mean(), descent.factor, descent.prior_mean)


def exchange_rate(risk: float, nats: float, *, n: int, failure_prob: float) -> float:
    """λ of kl⁻¹: its derivative by the risk over that by the divergence; kept within what a descent can use."""
    found = bounds.objectives.f_kl(
        min(max(risk, 1e-6), 0.999), nats, n=n, failure_prob=failure_prob
    )
    by_risk, by_kl = float(found.by_risk), float(found.by_kl_nats)
    return min(by_risk / by_kl, _MOST_EXCHANGE * n) if by_kl > 0.0 else n / 3.0


class _Descent:
    """W = W₀ + u Lᵀ, in which the posterior's own covariance is the unit of length."""

    def __init__(
        self, features: Tensor, labels: Tensor, classes: int, prior_mean: Tensor | None
    ) -> None:
        self.corners = corners(classes).to(features)
        self.rows, self.dim = classes - 1, features.shape[1]
        zero = torch.zeros((self.rows, self.dim), dtype=features.dtype)
        self.prior_mean = zero if prior_mean is None else prior_mean
        self.away = zero.clone()
        self.factor = torch.eye(self.dim, dtype=features.dtype)
        self.precision = torch.eye(self.dim, dtype=features.dtype)
        self.look_at(features, labels)

    def look_at(self, features: Tensor, labels: Tensor) -> None:
        """Go on with these examples."""
        self.features, self.labels = features, labels
        lengths = [(part @ self.factor).norm(dim=1) for part in features.split(_BATCH)]
        self.deviations = torch.cat(lengths).clamp_min(1e-12)

    def mean(self) -> Tensor:
        return self.prior_mean + self.away

    def kl(self) -> float:
        wide = self.factor.double()
        spread = float(wide.square().sum()) - self.dim - 2.0 * float(wide.diagonal().log().sum())
        return 0.5 * float(self.away.double().square().sum()) + 0.5 * self.rows * spread

    def risk(self) -> tuple[float, Tensor]:
        """The mean probability of an error, and its derivative by each example's variance."""
        risk, _, by_variance = self._slopes(self.mean())
        return risk, by_variance

    def _slopes(self, weights: Tensor) -> tuple[float, Tensor, Tensor]:
        risk, slope, by_variance = 0.0, torch.zeros_like(weights), torch.empty_like(self.deviations)
        for rows in torch.arange(len(self.labels)).split(_BATCH):
            at = slice(int(rows[0]), int(rows[-1]) + 1)
            part, std = self.features[at], self.deviations[at, None]
            logits = (part @ weights.T / std) @ self.corners
            wrong, by_logits = errors_and_slopes(logits, self.labels[at])
            risk += wrong / len(self.labels)
            by_variance[at] = -(logits * by_logits).sum(1) / (2.0 * std[:, 0].square())
            slope.addmm_((by_logits @ self.corners.T / std).T, part, alpha=1.0 / len(self.labels))
        return risk, slope, by_variance

    def move(self, exchange: float, iterations: int) -> None:
        """L-BFGS on λ R̂ + ½‖W - W₀‖² at the present covariance."""
        start = torch.linalg.solve_triangular(self.factor, self.away.T, upper=False).T.contiguous()
        start.requires_grad_()
        search = torch.optim.LBFGS(
            [start], max_iter=iterations, history_size=10, line_search_fn="strong_wolfe"
        )

        def objective() -> Tensor:
            away = start.detach() @ self.factor.T
            risk, slope, _ = self._slopes(self.prior_mean + away)
            start.grad = (exchange * slope + away) @ self.factor
            return torch.tensor(exchange * risk + 0.5 * float(away.double().square().sum()))

        search.step(objective)
        self.away = start.detach() @ self.factor.T

    def spread(self, weights: Tensor, *, first: bool) -> None:
        """Σ⁻¹ = I + 2/(classes - 1) · mean of weights · φ φᵀ, and its factor."""
        share = 2.0 * weights / (self.rows * len(self.labels))
        gram = torch.eye(self.dim, dtype=self.features.dtype)
        for rows in torch.arange(len(self.labels)).split(_BATCH):
            part = self.features[rows[0] : rows[-1] + 1]
            gram.addmm_((part * share[rows, None]).T, part)
        self.precision = gram if first else _MEMORY * self.precision + (1.0 - _MEMORY) * gram
        values, vectors = torch.linalg.eigh(self.precision.double())
        covariance = (vectors / values.clamp_min(_LEAST_PRECISION)) @ vectors.T
        self.factor = torch.linalg.cholesky(covariance).to(self.features.dtype).tril()
        self.look_at(self.features, self.labels)
