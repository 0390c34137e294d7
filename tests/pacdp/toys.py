"""Small things that the tests of pacdp share: toy data, toy networks, potentials of known law, and p-values."""

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from pacdp.data import Dataset
from pacdp.losses import bounded_cross_entropy
from pacdp.models import Architecture, build
from pacdp.objective import Estimate, Objective


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def toy_data(*, n: int = 60, classes: int = 2, shape: tuple[int, ...] = (5,), seed: int = 0) -> Dataset:
    """Gaussian inputs whose labels a network can learn in part."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(n, *shape)).astype(np.float32)
    labels = np.argsort(np.argsort(inputs.reshape(n, -1)[:, :2].sum(axis=1))) * classes // n
    return Dataset("toy", inputs, labels.astype(np.int64), classes)


def toy_objective(
    data: Dataset,
    *,
    architecture: Architecture | None = None,
    batch_size: int = 10,
    clip_norm: float | None = None,
    seed: int = 0,
) -> Objective:
    architecture = architecture or Architecture(hidden=(7, 6))
    model = build(architecture, input_shape=data.inputs.shape[1:], classes=data.classes, generator=seeded(seed))
    loss = bounded_cross_entropy(classes=data.classes)
    return Objective(model, loss, data, batch_size=batch_size, clip_norm=clip_norm)


class Quadratic:
    """The potential curvature/2 |w - target|²: every coordinate is a chain of its own."""

    def __init__(self, curvature: float, target: float) -> None:
        self.curvature = curvature
        self.target = target

    def estimate(self, weights: Tensor, generator: torch.Generator) -> Estimate:
        del generator
        zero = weights.new_zeros(())
        return Estimate(self.curvature * (weights - self.target), zero, zero)


def variance_pvalue(draws: Tensor, mean: float, variance: float) -> float:
    """Two-sided, exact: the sum of squares over the variance is chi-square when the draws are N(mean, variance)."""
    square = float(((draws.double() - mean) ** 2).sum()) / variance
    law = stats.chi2(draws.numel())
    return 2 * min(law.cdf(square), law.sf(square))


def mean_pvalue(draws: Tensor, mean: float, variance: float) -> float:
    """Two-sided, exact: the mean of the draws is N(mean, variance/n)."""
    z = (float(draws.double().mean()) - mean) / (variance / draws.numel()) ** 0.5
    return 2 * stats.norm.sf(abs(z))


def assert_gaussian(draws: Tensor, mean: float, variance: float) -> None:
    """The draws are N(mean, variance), and a deviation wrong by 5%, or a mean by 10% of one, is noticed."""
    assert mean_pvalue(draws, mean, variance) > 1e-3
    assert variance_pvalue(draws, mean, variance) > 1e-3
    for wrong in (0.95, 1.05):
        assert variance_pvalue(draws, mean, wrong**2 * variance) < 1e-6
        assert mean_pvalue(draws, mean + 2 * (wrong - 1) * variance**0.5, variance) < 1e-6
