"""Chains at many temperatures from several starts: where each stays, as one batch.

Every chain begins at a draw of the base measure N(0, base_std² I), at SGD's weights after it began there, or at SGD's
weights after it began at the network's usual first weights; and then runs at constant steps. The mean of what it sees
after its first half is its stationary value, if it has one, which chains from other starts at other places refute.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

import bounds
from experiments.runs import momentum
from pacdp import GibbsSettings, Problem
from pacdp.algorithms import SGD, SGLD, EntropySGD, build
from pacdp.certify.chain import gibbs_certificates, weights_certificates
from pacdp.chains import Keys, run_chains
from pacdp.chains.diagnostics import diagnose
from pacdp.cli.batch import derived_seed
from pacdp.cli.config import Runtime
from pacdp.cli.sweep.jobs import single
from pacdp.gibbs import estimate_gibbs
from pacdp.objective import Objective
from pacdp.posterior import LocalGibbs
from pacdp.trained import first_model, objectives

Start = Literal["base", "sgd from base", "sgd"]
Algorithm = Literal["SGLD", "Entropy-SGLD"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Chains of one algorithm on one network, one for each temperature and start."""

    problem: Problem = field(default_factory=Problem)
    algorithm: Algorithm = "SGLD"
    taus: tuple[float, ...] = (245.0,)
    starts: tuple[str, ...] = ("base", "sgd")
    base_std: float = 1.0
    step_size: float = 0.05
    """Of SGLD; of Entropy-SGLD the outer one, η'. Steps do not decay."""
    inner_step_size: float = 2.0
    inner_steps: int = 20
    momentum: float = 0.0
    """Of the innermost loop, with the noise outside it (:mod:`experiments.runs.momentum`)."""
    outer_momentum: float = 0.0
    batch_size: int = 128
    epochs: float = 40.0
    records: int = 8
    """Exact risks, evenly spaced over the second half."""
    fit: float = 10.0
    """Epochs of SGD that lead to a start."""
    fit_step: float = 0.05
    gibbs: GibbsSettings | None = None
    """Effort on the Gibbs classifier around the last weights of Entropy-SGLD; None makes none."""
    failure_prob: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.taus or not self.starts:
            raise ValueError(f"taus and starts must not be empty, got {self.taus} and {self.starts}")

    @property
    def chains(self) -> list[tuple[str, float]]:
        """Start and temperature of each chain."""
        return [(start, tau) for start in self.starts for tau in self.taus]

    def settings(self, tau: float) -> SGLD | EntropySGD:
        """Settings of the chains at this temperature."""
        if self.algorithm == "SGLD":
            return SGLD(tau=tau, step_size=self.step_size, base_std=self.base_std, batch_size=self.batch_size)
        return EntropySGD(
            tau=tau, outer_step_size=self.step_size, outer_decay=0.0, base_std=self.base_std,
            inner_step_size=self.inner_step_size, inner_steps=self.inner_steps, batch_size=self.batch_size,
        )  # fmt: skip


def climb(config: Ladder, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Run the chains and say where each was in its second half.

    Raises:
        ValueError: data, network and numbers do not fit together.
        Diverged: a weight is not finite.
    """
    del folder
    train, test = config.problem.data(root=runtime.data_root)
    every = [config.settings(tau) for _, tau in config.chains]
    objective, held_out = objectives(config.problem, every[0], train, test, device=runtime.device)
    starts = _starts(config, objective, train)
    keys = Keys.derive([config.seed] * len(every), range(len(every)))
    heavy = config.momentum or config.outer_momentum
    sampler = (
        momentum.build(every, objective, momentum=config.momentum, outer_momentum=config.outer_momentum)  # type: ignore[arg-type]
        if heavy
        else build(every, objective)
    )
    state = sampler.init(torch.stack([starts[start] for start, _ in config.chains]))
    steps = max(2, round(config.epochs * objective.n / (config.batch_size * every[0].gradients_per_step)))
    half = steps // 2
    marks = sorted({half + -(-(k * (steps - half)) // config.records) for k in range(1, config.records + 1)})
    losses, errors, risks = list[Tensor](), list[Tensor](), list[list[Any]]()
    first = objective.risks(state.weights)
    begun = time.monotonic()
    for mark in [*([half] if half else []), *marks]:
        for chunk in run_chains(sampler, state, keys, until=mark, chunk=max(1, 500 // every[0].gradients_per_step),
                                loss=objective.loss):  # fmt: skip
            state = chunk.state
            losses.append(chunk.losses)
            errors.append(chunk.errors)
        if mark > half:
            pairs = zip(objective.risks(state.weights), held_out.risks(state.weights), strict=True)
            risks.append([(*pair,) for pair in pairs])
    seconds = time.monotonic() - begun
    trace = {"loss": torch.cat(losses, dim=1).double().numpy(), "error": torch.cat(errors, dim=1).double().numpy()}
    gibbs = _gibbs(config, state.weights, objective, held_out)
    agreed = _agreement(config, trace["error"])
    found = []
    for k, (start, tau) in enumerate(config.chains):
        own = [(one.error, one.loss, other.error) for one, other in (mark[k] for mark in risks)]
        row = {"start": start, "tau": tau, "first_error": first[k].error, "r_hat": agreed[tau]}
        row |= _stays(trace, k, steps)
        row |= dict(zip(("train_error", "train_loss", "test_error"), np.mean(own, axis=0).tolist(), strict=True))
        row |= {"last_error": own[-1][0], "norm": float(state.weights[k].norm())}
        found.append(row | _bounds(config, every[k], objective, risks[-1][k][0], gibbs[k] if gibbs else None))
    prior = _prior_loss(config, objective)
    return {
        "n": objective.n, "n_test": held_out.n, "dim": objective.dim, "steps": steps, "prior_loss": prior,
        "chain_seconds": seconds / len(every), "windows": _windows(trace, steps), "chains": found,
    }  # fmt: skip


CLIMB = single(climb)
"""Jobs of this kind."""


def _starts(config: Ladder, objective: Objective, train: Any) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(derived_seed(config.seed, 17))
    base = config.base_std * torch.randn(objective.dim, generator=generator)
    usual = objective.layout.of(first_model(config.problem, train, seed=config.seed))
    found = {"base": base, "sgd from base": base, "sgd": usual}
    fitted = [start for start in config.starts if start != "base"]
    if fitted:
        settings = SGD(step_size=config.fit_step, momentum=0.9, batch_size=config.batch_size)
        sampler = build([settings] * len(fitted), objective)
        state = sampler.init(torch.stack([found[start] for start in fitted]))
        keys = Keys.derive([derived_seed(config.seed, 18)] * len(fitted), range(len(fitted)))
        steps = round(config.fit * objective.n / config.batch_size)
        for chunk in run_chains(sampler, state, keys, until=steps, chunk=500):
            state = chunk.state
        found |= dict(zip(fitted, state.weights, strict=True))
    return found


def _agreement(config: Ladder, errors: np.ndarray) -> dict[float, float | None]:
    """R-hat of the minibatches' errors in the second halves, over all starts of a temperature."""
    parts = min(1000, errors.shape[1])
    edges = np.linspace(0, errors.shape[1], parts + 1).astype(int)[:-1]
    means = np.add.reduceat(errors, edges, axis=1) / np.diff([*edges, errors.shape[1]])
    found = dict[float, float | None]()
    for tau in config.taus:
        own = [k for k, (_, at) in enumerate(config.chains) if at == tau]
        found[tau] = diagnose({"error": means[own]}).traces["error"].r_hat
    return found


def _stays(trace: Mapping[str, np.ndarray], chain: int, steps: int) -> dict[str, float]:
    """Means of the minibatches' losses and errors over the second half, with their Monte Carlo standard errors."""
    found = {}
    for name, values in trace.items():
        kept = values[chain, steps // 2 :]
        draws = bounds.effective_sample_size(kept)
        found |= {f"mean_{name}": float(kept.mean()), f"mean_{name}_mcse": float(kept.std() / draws**0.5)}
    return found


def _windows(trace: Mapping[str, np.ndarray], steps: int, count: int = 40) -> dict[str, list[list[float]]]:
    """Means over ``count`` parts of the run, [chains, count]."""
    edges = np.linspace(0, steps, min(count, steps) + 1).astype(int)
    return {
        name: [[float(row[a:b].mean()) for a, b in pairwise(edges)] for row in values] for name, values in trace.items()
    }


def _prior_loss(config: Ladder, objective: Objective, draws: int = 10) -> float:
    """Mean loss of draws of the base measure: where temperatures begin, at τ = 0."""
    generator = torch.Generator().manual_seed(derived_seed(config.seed, 20))
    weights = config.base_std * torch.randn((draws, objective.dim), generator=generator)
    return float(np.mean([one.loss for one in objective.risks(weights.to(objective.device))]))


def _gibbs(config: Ladder, weights: Tensor, objective: Objective, held_out: Objective) -> Sequence[Any] | None:
    if config.algorithm != "Entropy-SGLD" or config.gibbs is None:
        return None
    laws = [config.settings(tau).posterior(own) for (_, tau), own in zip(config.chains, weights, strict=True)]
    keys = Keys.derive([derived_seed(config.seed, 19)] * len(laws), range(len(laws)))
    return estimate_gibbs([law for law in laws if isinstance(law, LocalGibbs)], objective, held_out, config.gibbs, keys)


def _bounds(
    config: Ladder, settings: SGLD | EntropySGD, objective: Objective, risks: Any, gibbs: Any | None
) -> dict[str, Any]:
    """epsilon of the target and every bound that rests on it, all of which assume that the chain has reached it."""
    privacy = settings.target_privacy(oscillation=objective.loss.oscillation, n=objective.n, step=1)
    assert isinstance(privacy, bounds.PureDP)
    made = weights_certificates(risks, privacy=privacy, failure_prob=config.failure_prob)
    row: dict[str, Any] = {"epsilon": privacy.epsilon, "ramp": risks.ramp}
    if gibbs is not None:
        made += gibbs_certificates(
            gibbs, n=objective.n, loss=objective.loss, privacy=privacy, failure_prob=config.failure_prob
        )
        row |= {"gibbs_train_error": gibbs.error, "gibbs_test_error": gibbs.test_error, "kl_nats": gibbs.kl_nats,
                "kl_raw_nats": gibbs.kl_raw_nats}  # fmt: skip
    return row | {one.name: one.value for one in made}
