"""A Gaussian linear head on fixed features: its exact error, and the mean that minimises a PAC-Bayes bound.

With weights N(W, s² I) and features φ of length 1, the logits of an example are independent N(W_k φ, s²), whence

    P(no error) = ∫ Π_{k≠y} Φ((W_y - W_k) φ / s + t) dN(t; 0, 1)

by one-dimensional quadrature, differentiable in W: no surrogate loss, no sampling. Relative to the prior N(W₀, s² I),
KL = ‖W - W₀‖² / (2 s²). What is returned carries no guarantee: its error is certified from fresh draws.
"""

import math

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

Rows = Float[Tensor, "n dim"]
Labels = Int64[Tensor, " n"]
Logits = Float[Tensor, "n classes"]
_NODES = 9
_BATCH = 8192


def require_features(
    features: Tensor, dim: int | None = None, *, labels: Tensor | None = None, classes: int = 0
) -> None:
    """Refuse what is no table of finite real numbers, of ``dim`` columns where that is known, and labels that do not
    name one of the classes for each row; raises ValueError.
    """
    if not isinstance(features, Tensor) or features.requires_grad:
        raise ValueError(
            f"features must be a tensor without a gradient, got {type(features).__name__}: call torch.from_numpy on an "
            "array, and .detach() on what a network made"
        )
    if features.is_complex():  # of which .double() keeps the real parts alone
        raise ValueError(
            f"features must be real numbers, got {features.dtype}: give real and imaginary parts as columns"
        )
    if features.ndim != 2 or not features.numel() or dim not in (None, features.shape[1]):
        wanted = "" if dim is None else f" of {dim} numbers"
        raise ValueError(f"expected features as rows{wanted}, got {list(features.shape)}")
    if not bool(features.isfinite().all()):
        raise ValueError("features hold a NaN or an infinity: check that the inputs are finite")
    if labels is None:
        return
    whole = isinstance(labels, Tensor) and labels.dtype == torch.int64
    fits = whole and labels.shape == features.shape[:1]
    if not fits or not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise ValueError(
            f"labels must be a tensor of int64 from 0 to {classes - 1}, one for each of {len(features)} rows of "
            f"features, got {len(labels)} of {getattr(labels, 'dtype', 'no type')}: call torch.from_numpy on an array, "
            "and say how many classes there are"
        )


def gaussian_errors(logits: Logits, labels: Labels) -> Float[Tensor, " n"]:
    """P(argmax ≠ label) for logits N(``logits``, 1), independent over the classes; by nine Gauss-Hermite nodes."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    at = torch.as_tensor(nodes).to(logits)
    share = torch.as_tensor(weights / weights.sum()).to(logits)
    others = torch.ones_like(logits, dtype=torch.bool).scatter(1, labels[:, None], False)
    gaps = (logits.gather(1, labels[:, None]) - logits)[others].view(len(logits), -1)
    return 1.0 - torch.special.log_ndtr(gaps[:, :, None] + at).sum(dim=1).exp() @ share


def errors_and_slopes(logits: Logits, labels: Labels) -> tuple[float, Logits]:
    """The sum of :func:`gaussian_errors`, and its derivative by the logits."""
    leaf = logits.detach().requires_grad_()
    with torch.enable_grad():
        wrong = gaussian_errors(leaf, labels).sum()
        (slopes,) = torch.autograd.grad(wrong, leaf)
    return float(wrong.detach()), slopes


def fit_mean(
    features: Rows, labels: Labels, *, prior_mean: Float[Tensor, "classes dim"],
    std: float, cost_nats: float, iterations: int,
) -> Float[Tensor, "classes dim"]:  # fmt: skip
    """W that minimises f_quad = (√(R̂ + c/2) + √(c/2))², c = (KL + ``cost_nats``)/n, from W₀ on, by L-BFGS.

    Args:
        features: rows of length at most 1 (shorter ones have less noise than is assumed here).
        prior_mean: W₀.
        std: s, of posterior and prior.
        cost_nats: what the bound adds to KL: ln ξ(n) and the cost of the private prior.
        iterations: at most so many; 0 returns W₀.

    Raises:
        ValueError: std or cost_nats not positive, or features that are no rows of real numbers.
    """
    require_features(features, labels=labels, classes=len(prior_mean))
    if not (std > 0.0 and cost_nats > 0.0):
        raise ValueError(f"expected std > 0 and cost_nats > 0, got {std} and {cost_nats}")
    if iterations < 1:
        return prior_mean.clone()
    n = len(labels)
    move = torch.zeros_like(prior_mean, requires_grad=True)
    start = prior_mean / std
    search = torch.optim.LBFGS(
        [move], max_iter=iterations, history_size=10, line_search_fn="strong_wolfe"
    )

    def objective() -> Tensor:
        weights = start + move.detach()
        risk, slope = 0.0, torch.zeros_like(weights)
        for part, own in zip(features.split(_BATCH), labels.split(_BATCH), strict=True):
            wrong, by_logits = errors_and_slopes(part @ weights.T, own)
            risk += wrong / n
            slope.addmm_(by_logits.T, part, alpha=1.0 / n)
        kl = float(move.detach().square().sum()) / 2.0
        half = (kl + cost_nats) / (2.0 * n)
        upper, lower = math.sqrt(max(risk, 0.0) + half), math.sqrt(half)
        by_half = (upper + lower) * (1.0 / upper + 1.0 / lower)
        move.grad = slope * ((upper + lower) / upper) + move.detach() * (by_half / (2.0 * n))
        return torch.tensor((upper + lower) ** 2, dtype=move.dtype)

    search.step(objective)
    return (start + move.detach()) * std
