"""Theorem 3.1 of Dziugaite and Roy (2018): where the local entropy is largest, the PAC-Bayes bound is smallest.

A linear classifier has two weights, on the direction between the classes' mean images and on a random one, so that
every integral over weights is a sum over a grid. For each prior mean w the bound's posterior is found twice: as the
Gibbs law, and by minimising the bound's right-hand side over all laws on the grid, which knows nothing of local
entropy.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from scipy.special import logsumexp

from experiments.claims import Claim, judging
from experiments.figures import local_entropy as figures
from experiments.study import Done, Row, Study, columns, drawing, tabled
from pacdp.cli.config import Runtime
from pacdp.cli.recipes import Scale
from pacdp.cli.sweep.jobs import Job, single
from pacdp.data import load
from pacdp.losses import bounded_cross_entropy


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


def plane(config: Plane, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Local entropy, the bound's least right-hand side and the empirical risk at every prior mean."""
    del folder
    train, _ = load(config.dataset, root=runtime.data_root)
    rng = np.random.default_rng(config.seed)
    chosen = rng.permutation(train.n)[: config.examples]
    flat, odd = train.inputs[chosen].reshape(config.examples, -1).astype(np.float64), train.labels[chosen] == 1
    between = flat[odd].mean(axis=0) - flat[~odd].mean(axis=0)
    inputs = flat @ np.stack([between, rng.normal(size=flat.shape[1])], axis=1)
    inputs = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
    loss = bounded_cross_entropy(classes=2)
    std = (config.gamma * config.tau) ** -0.5
    axis = np.linspace(-config.reach - 4 * std, config.reach + 4 * std, config.cells)
    weights = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    labels = torch.tensor(train.labels[chosen])
    risk = np.array([float(loss(torch.tensor(inputs @ w)[:, None], labels).mean()) for w in weights])
    means = np.linspace(-config.reach, config.reach, config.means)
    found = []
    for mean in np.stack(np.meshgrid(means, means, indexing="ij"), axis=-1).reshape(-1, 2):
        log_prior = -((weights - mean) ** 2).sum(axis=1) / (2 * std**2)
        log_prior -= logsumexp(log_prior)
        joint = log_prior - config.tau * risk
        entropy = float(logsumexp(joint))
        gibbs = _right_hand_side(config, joint - entropy, log_prior, risk, loss.oscillation)
        here = float(loss(torch.tensor(inputs @ mean)[:, None], labels).mean())
        found.append({"first": mean[0], "second": mean[1], "local_entropy_nats": entropy, "bound": gibbs, "risk": here})
    best = max(found, key=lambda row: row["local_entropy_nats"])
    searched = []
    for row in (best, found[0], found[len(found) // 2 + 3]):
        mean = np.array([row["first"], row["second"]])
        log_prior = -((weights - mean) ** 2).sum(axis=1) / (2 * std**2)
        log_prior -= logsumexp(log_prior)
        law = _searched(log_prior, risk, config)
        least = _right_hand_side(config, law, log_prior, risk, loss.oscillation)
        searched.append({"bound_of_gibbs": row["bound"], "bound_searched": least})
    return {"points": found, "searched": searched, "std": std, "n": config.examples}


def _right_hand_side(
    config: Plane, log_law: np.ndarray, log_prior: np.ndarray, risk: np.ndarray, width: float
) -> float:
    """The linear PAC-Bayes bound (Theorem 2.1 there) at λ = n/(τ L), from a law's risk and its divergence."""
    law = np.exp(log_law)
    scale = config.examples / (config.tau * width)
    kl = float(np.sum(law * (log_law - log_prior)))
    price = (kl + np.log(1.0 / config.failure_prob)) / config.tau
    return (float(law @ risk) + price) / (1.0 - 1.0 / (2.0 * scale))


def _searched(log_prior: np.ndarray, risk: np.ndarray, config: Plane) -> np.ndarray:
    """The law on the grid at which risk + KL/τ is least, by mirror descent from the uniform law."""
    law = np.full_like(log_prior, -np.log(len(log_prior)))
    for _ in range(config.rounds):
        slope = config.tau * risk + law - log_prior
        law = law - 0.01 * slope
        law -= logsumexp(law)
    return law


PLANE = single(plane)


def jobs(scale: Scale, seed: int) -> list[Job]:
    """One plane, smaller at scale smoke."""
    small = {"dataset": "digits2", "means": 5, "cells": 21, "rounds": 1500} if scale == "smoke" else {}
    return [Job(key="plane", kind=PLANE, config=Plane(seed=seed, **small))]


COLUMNS = columns(
    (pl.String, "what"), (pl.Float64, "first second local_entropy_nats bound risk bound_of_gibbs bound_searched")
)


def rows(done: Done) -> Iterator[Row]:
    """A row a prior mean, and one a search over all laws."""
    yield from ({"what": "mean", **row} for row in done.result["points"])
    yield from ({"what": "search", **row} for row in done.result["searched"])


def claims(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """Theorem 3.1, on the grid."""
    del scale
    means, searches = (table.filter(pl.col("what") == what) for what in ("mean", "search"))
    by_entropy, by_bound = means.sort("local_entropy_nats", descending=True), means.sort("bound")
    where = [tuple(one.select("first", "second").row(0)) for one in (by_entropy, by_bound)]
    told = " and ".join(f"({a:.2f}, {b:.2f})" for a, b in where)
    sentence = "Theorem 3.1: the weights that maximise local entropy are those that minimise the PAC-Bayes bound."
    yield Claim(sentence, where[0] == where[1], f"argmax and argmin over {means.height} prior means: {told}")
    same = by_entropy["first"].to_list() == by_bound["first"].to_list()
    same &= by_entropy["second"].to_list() == by_bound["second"].to_list()
    yield Claim("Local entropy orders all prior means as the bound does, the other way round.", same, "ranks compared")
    apart = (searches["bound_searched"] / searches["bound_of_gibbs"] - 1.0).abs().max()
    least = (searches["bound_searched"] / searches["bound_of_gibbs"] - 1.0).min()
    sentence = "No law has a smaller bound than the Gibbs law, and a search over all laws ends at it."
    holds = float(str(least)) > -1e-9 and float(str(apart)) < 1e-3
    yield Claim(sentence, holds, f"{searches.height} searches; largest relative difference {float(str(apart)):.1e}")
    lowest = means.sort("risk").select("first", "second").row(0)
    sentence = "Local entropy is largest at other weights than those of least empirical risk (not in the paper)."
    yield Claim(sentence, lowest != where[0], f"least risk at ({lowest[0]:.2f}, {lowest[1]:.2f})")


NOTES = (
    "Two weights on two coordinates of images, so that local entropy, divergence and bound are sums over a grid: what "
    "is shown is the theorem, not a network. The bound's prior is chosen with the data in view, which privacy has to "
    "pay for: the bound here is the function that is minimised, and no certificate.",
)

LOCAL_ENTROPY = Study(
    name="local-entropy",
    title="Local entropy and the PAC-Bayes bound whose prior it chooses",
    paper="Dziugaite and Roy (2018), Theorem 3.1",
    jobs=jobs,
    table=tabled(rows, COLUMNS),
    draw=drawing(figure=figures.draw),
    judge=judging(claims=claims, notes=lambda table, scale: NOTES),
)
STUDIES = (LOCAL_ENTROPY,)
