"""Local entropy of a linear classifier of two weights, and the PAC-Bayes bound, as sums over a grid.

For each prior mean w the bound's posterior is found twice: as the Gibbs law, and by minimising the bound's right-hand
side over all laws on the grid, which knows nothing of local entropy.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import logsumexp

from pacdp.cli.runtime import Runtime
from pacdp.cli.sweep.jobs import Job, single
from pacdp.data import Dataset, load
from pacdp.losses import bounded_cross_entropy

_LOSS = bounded_cross_entropy(classes=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """Two weights, a grid for the integrals and one for the prior's mean."""

    dataset: str = "mnist2"
    examples: int = 500
    reach: float = 4.0
    """Prior means lie within ±reach."""
    means: int = 31
    cells: int = 161
    """Of the integrals, on ±(reach + four standard deviations of the prior)."""
    tau: float = 20.0
    gamma: float = 0.02
    rounds: int = 4000
    """Of mirror descent over all laws on the grid."""
    failure_prob: float = 0.05
    seed: int = 0

    @property
    def std(self) -> float:
        """Of the prior."""
        return (self.gamma * self.tau) ** -0.5

    def log_prior(self, weights: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Normalised over these weights."""
        found = -((weights - mean) ** 2).sum(axis=1) / (2 * self.std**2)
        return found - _log_sum(found)

    def right_hand_side(self, log_law: np.ndarray, log_prior: np.ndarray, risk: np.ndarray) -> float:
        """The linear PAC-Bayes bound (Theorem 2.1 there) at λ = n/(τ L), from a law's risk and its divergence."""
        law = np.exp(log_law)
        price = (float(np.sum(law * (log_law - log_prior))) + np.log(1.0 / self.failure_prob)) / self.tau
        return (float(law @ risk) + price) / (1.0 - 1.0 / (2.0 * self.examples / (self.tau * _LOSS.oscillation)))

    def searched(self, log_prior: np.ndarray, risk: np.ndarray) -> np.ndarray:
        """The law on the grid at which risk + KL/τ is least, by mirror descent from the uniform law."""
        law = np.full_like(log_prior, -np.log(len(log_prior)))
        for _ in range(self.rounds):
            law = law - 0.01 * (self.tau * risk + law - log_prior)
            law -= _log_sum(law)
        return law


def plane(config: Plane, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Local entropy, the bound's least right-hand side and the empirical risk at every prior mean."""
    inputs, labels = _examples(config, load(config.dataset, root=runtime.data_root)[0])

    def risks(weights: np.ndarray) -> np.ndarray:
        return np.array([float(_LOSS(torch.tensor(inputs @ w)[:, None], labels).mean()) for w in weights])

    weights, means = _grid(config.reach + 4 * config.std, config.cells), _grid(config.reach, config.means)
    risk, found = risks(weights), []
    for mean, here in zip(means, risks(means), strict=True):
        log_prior = config.log_prior(weights, mean)
        joint = log_prior - config.tau * risk
        entropy = _log_sum(joint)
        bound = config.right_hand_side(joint - entropy, log_prior, risk)
        found.append({"first": mean[0], "second": mean[1], "local_entropy_nats": entropy, "bound": bound, "risk": here})
    best, searched = int(np.argmax([row["local_entropy_nats"] for row in found])), []
    for at in (best, 0, len(found) // 2 + 3):
        log_prior = config.log_prior(weights, means[at])
        least = config.right_hand_side(config.searched(log_prior, risk), log_prior, risk)
        searched.append({"bound_of_gibbs": found[at]["bound"], "bound_searched": least})
    return {"points": found, "searched": searched}


def _examples(config: Plane, train: Dataset) -> tuple[np.ndarray, torch.Tensor]:
    """Standardised coordinates on the direction between the classes' mean images and on a random one, and labels."""
    rng = np.random.default_rng(config.seed)
    chosen = rng.permutation(train.n)[: config.examples]
    flat, odd = train.inputs[chosen].reshape(config.examples, -1).astype(np.float64), train.labels[chosen] == 1
    between = flat[odd].mean(axis=0) - flat[~odd].mean(axis=0)
    inputs = flat @ np.stack([between, rng.normal(size=flat.shape[1])], axis=1)
    return (inputs - inputs.mean(axis=0)) / inputs.std(axis=0), torch.tensor(train.labels[chosen])


def _grid(reach: float, count: int) -> np.ndarray:
    axis = np.linspace(-reach, reach, count)
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)


def _log_sum(values: np.ndarray) -> float:
    return float(np.asarray(logsumexp(values)))


PLANE = single(plane)


def plane_jobs(smoke: bool, seed: int) -> list[Job]:
    """One plane, small for ``smoke``."""
    small: dict[str, Any] = {"dataset": "digits2", "means": 5, "cells": 15, "rounds": 500} if smoke else {}
    return [Job(key="plane", kind=PLANE, config=Plane(seed=seed, **small))]
