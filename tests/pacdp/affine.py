"""Exact laws of affine Gaussian recursions, and tests of draws against them."""

from typing import NamedTuple

import numpy as np
import torch
from scipy import linalg, stats

KEPT, REJECTED = 1e-4, 1e-6
"""Right code stays above the first at every check; a noise scale wrong by 5% falls below the second at some."""


class Law(NamedTuple):
    """N(mean, covariance)."""

    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def at(cls, point):
        """A point."""
        return cls(np.asarray(point, float), np.zeros((len(point), len(point))))

    def moved(self, matrix, shift=0.0, noise=0.0):
        """The law of matrix x + shift + N(0, noise)."""
        return Law(matrix @ self.mean + shift, matrix @ self.covariance @ matrix.T + noise)

    def of(self, part):
        """The law of some coordinates."""
        return Law(self.mean[part], self.covariance[part, part])


def pvalues(draws, law):
    """p-values of whitened draws [n, d]: of the mean and of the squared length (exact), and of the products of pairs of
    coordinates (normal approximation).
    """
    factor = np.linalg.cholesky(law.covariance)
    white = linalg.solve_triangular(factor, (np.asarray(draws, float) - law.mean).T, lower=True)
    d, n = white.shape
    found = {"mean": float(stats.chi2(d).sf(n * (white.mean(axis=1) ** 2).sum()))}
    for name, square, freedom in [("length", (white**2).sum(), n * d)] + [
        (f"variance {i}", (white[i] ** 2).sum(), n) for i in range(d)
    ]:
        found[name] = float(2 * min(stats.chi2(freedom).sf(square), stats.chi2(freedom).cdf(square)))
    for i in range(d):
        for j in range(i):
            found[f"pair {i} {j}"] = float(2 * stats.norm.sf(abs((white[i] * white[j]).sum()) / n**0.5))
    return found


def smallest(draws, law):
    """Bonferroni's p-value of all of :func:`pvalues`."""
    found = pvalues(draws, law)
    return min(1.0, len(found) * min(found.values()))


def blocks(weights, dim):
    """[chains, blocks x dim] as draws [chains x blocks, dim]."""
    return weights.reshape(-1, dim)


def states(sampler, keys, start, *, steps, copies=1):
    """Step number and state along a run of ``keys.count`` chains of ``copies`` blocks each, in double precision."""
    state = sampler.init(torch.tensor(start, dtype=torch.float64).repeat(keys.count, copies))
    for step in range(1, steps + 1):
        state, _ = sampler.step(state, keys)
        assert state.step == step
        yield step, state


def plant(monkeypatch, module, *, stream, factor=1.05):
    """Give the noise of ``stream`` in a sampler's module a scale wrong by ``factor``."""
    name = "langevin" if hasattr(module, "langevin") else "normal_like"
    original = getattr(module, name)

    def wrong(x, **given):
        if given["stream"] != stream:
            return original(x, **given)
        if name == "normal_like":
            return factor * original(x, **given)
        return original(x, **{**given, "scale": factor * np.asarray(given.get("scale", 0.0))})

    monkeypatch.setattr(module, name, wrong)
