"""Chains at many temperatures from several starts: where each stays, as one batch.

Every chain begins at a draw of the base measure N(0, base_std² I), or at SGD's weights after it began at the network's
usual first weights, and then runs at constant steps. The mean of what it sees after its first half is its stationary
value, if it has one, which chains from the other start at another place refute.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

import bounds
from bounds.monte_carlo import effective_sample_size
from experiments.runs.gibbs import FAILURE_PROB, certified, drawn
from pacdp.algorithms import SGD, SGLD, EntropySGD, build
from pacdp.certify.chain import gibbs_certificates, weights_certificates
from pacdp.certify.chain_files import first_model, objectives
from pacdp.certify.gibbs import GibbsEstimate, GibbsSettings, estimate_gibbs
from pacdp.chains import Keys, Trace, run_chains
from pacdp.chains.diagnostics import diagnose
from pacdp.cli.figures import names
from pacdp.cli.run import derived_seed
from pacdp.cli.runtime import Runtime
from pacdp.cli.sweep.jobs import single
from pacdp.objective import Objective, Risks
from pacdp.posterior import LocalGibbs
from pacdp.problem import Problem

LABELS = {"true": 0.0, "random": 1.0}
"""Share of labels that are drawn anew."""
QUICK = GibbsSettings(epochs=2.0, prior_draws=5, test_draws=5)
BRIEF = GibbsSettings(epochs=1.0, prior_draws=2, test_draws=2)
"""Of runs that show that everything works."""
ENTROPY: dict[str, Any] = {"algorithm": "Entropy-SGLD", "gibbs": QUICK, "step_size": 0.5}
"""Ladders of Entropy-SGLD. Its outer steps are large enough to move (docs/entropy_sgld.md says why)."""
BOUNDS = tuple(name for name in names.CONVERGED if name != "test_set_clopper_pearson")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Chains of one algorithm on one network, one for each temperature and start."""

    problem: Problem = field(default_factory=Problem)
    algorithm: Literal["SGLD", "Entropy-SGLD"] = "SGLD"
    taus: tuple[float, ...] = (245.0,)
    starts: tuple[str, ...] = ("base", "sgd")
    base_std: float = 1.0
    step_size: float = 0.05
    """Of SGLD; of Entropy-SGLD the outer one, η'. Steps do not decay."""
    inner_step_size: float = 2.0
    inner_steps: int = 20
    batch_size: int = 128
    epochs: float = 40.0
    records: int = 8
    """Exact risks, evenly spaced over the second half."""
    fit: float = 10.0
    """Epochs of SGD that lead to the start "sgd"."""
    fit_step: float = 0.05
    beta: float = 1.0
    """β of Entropy-SGLD."""
    gibbs: GibbsSettings | None = None
    """Effort on the Gibbs classifier around the last weights of Entropy-SGLD; None makes none."""
    seed: int = 0

    @property
    def chains(self) -> list[tuple[str, float]]:
        """Start and temperature of each chain."""
        return [(start, tau) for start in self.starts for tau in self.taus]

    def settings(self, tau: float) -> SGLD | EntropySGD:
        """Settings of the chains at this temperature."""
        if self.algorithm == "SGLD":
            return SGLD(tau=tau, step_size=self.step_size, base_std=self.base_std, batch_size=self.batch_size)
        return EntropySGD(
            tau=tau, beta=self.beta, outer_step_size=self.step_size, outer_decay=0.0, base_std=self.base_std,
            inner_step_size=self.inner_step_size, inner_steps=self.inner_steps, batch_size=self.batch_size,
        )  # fmt: skip


def climb(config: Ladder, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Run the chains and say where each was in its second half."""
    train, test = config.problem.data(root=runtime.data_root)
    every = [config.settings(tau) for _, tau in config.chains]
    objective, held_out = objectives(config.problem, every[0], train, test, device=runtime.device)
    starts = _starts(config, objective, train)
    keys = Keys.derive([config.seed] * len(every), range(len(every)))
    sampler = build(every, objective)
    state = sampler.init(torch.stack([starts[start] for start, _ in config.chains]))
    steps = max(2, round(config.epochs * objective.n / (config.batch_size * every[0].gradients_per_step)))
    half = steps // 2
    marks = sorted({half + -(-(k * (steps - half)) // config.records) for k in range(1, config.records + 1)})
    seen, risks, ends = list[Tensor](), list[list[tuple[float, float]]](), list[Risks]()
    trace = Trace.start(steps)
    for mark in [half, *marks]:
        for chunk in run_chains(sampler, state, keys, until=mark, chunk=max(1, 500 // every[0].gradients_per_step),
                                loss=objective.loss):  # fmt: skip
            state = chunk.state
            seen.append(chunk.errors)
            trace = trace.extended(chunk)
        if mark > half:
            ends = objective.risks(state.weights)
            pairs = zip(ends, held_out.risks(state.weights), strict=True)
            risks.append([(here.error, there.error) for here, there in pairs])
    errors, exact = torch.cat(seen, dim=1).double().numpy(), np.mean(risks, axis=0).tolist()
    gibbs = _gibbs(config, state.weights, objective, held_out)
    draws = drawn(every, sampler, state, keys)
    energies, found = trace.arrays()["energy"], []
    for k, (start, tau) in enumerate(config.chains):
        kept = errors[k, half:]
        privacy = every[k].target_privacy(oscillation=objective.loss.oscillation, n=objective.n, step=1)
        assert isinstance(privacy, bounds.PureDP)
        found.append({
            "start": start, "tau": tau, "epsilon": privacy.epsilon, "mean_error": float(kept.mean()),
            "mean_error_mcse": float(kept.std() / effective_sample_size(kept) ** 0.5),
            "train_error": exact[k][0], "test_error": exact[k][1], "r_hat": _r_hat(energies, config, tau),
            "drawn": certified(every[k], state.weights[k], [one[k] for one in draws], objective, held_out),
        } | _certified(ends[k], gibbs[k], objective, privacy))  # fmt: skip
    return {"n": objective.n, "n_test": held_out.n, "dim": objective.dim, "steps": steps, "chains": found}


def _r_hat(energies: np.ndarray, config: Ladder, tau: float) -> float | None:
    """R-hat of the minibatch loss, over the halves of the second halves of the chains at this temperature."""
    return diagnose({"energy": energies[[own == tau for _, own in config.chains]]}).traces["energy"].r_hat


CLIMB = single(climb)


def _starts(config: Ladder, objective: Objective, train: Any) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(derived_seed(config.seed, 17))
    base = config.base_std * torch.randn(objective.dim, generator=generator)
    sampler = build([SGD(step_size=config.fit_step, momentum=0.9, batch_size=config.batch_size)], objective)
    state = sampler.init(objective.layout.of(first_model(config.problem, train, seed=config.seed))[None])
    keys = Keys.derive([derived_seed(config.seed, 18)], range(1))
    for chunk in run_chains(sampler, state, keys, until=round(config.fit * objective.n / config.batch_size), chunk=500):
        state = chunk.state
    return {"base": base, "sgd": state.weights[0]}


def _gibbs(
    config: Ladder, weights: Tensor, objective: Objective, held_out: Objective
) -> Sequence[GibbsEstimate | None]:
    """The Gibbs classifier around each chain's last weights; None of SGLD, which has none."""
    if config.algorithm == "SGLD" or config.gibbs is None:
        return [None] * len(weights)
    laws = [config.settings(tau).posterior(own) for (_, tau), own in zip(config.chains, weights, strict=True)]
    keys = Keys.derive([derived_seed(config.seed, 19)] * len(laws), range(len(laws)))
    return estimate_gibbs([law for law in laws if isinstance(law, LocalGibbs)], objective, held_out, config.gibbs, keys)


def _certified(
    risks: Risks, gibbs: GibbsEstimate | None, objective: Objective, privacy: bounds.PureDP
) -> dict[str, float]:
    """Every bound of the last weights and of their Gibbs classifier, all of which take the chain for at rest."""
    own: dict[str, Any] = {"privacy": privacy, "failure_prob": FAILURE_PROB}
    made, row = weights_certificates(risks, **own), {}
    if gibbs is not None:
        made += gibbs_certificates(gibbs, n=objective.n, loss=objective.loss, **own)
        row = {"gibbs_train_error": gibbs.error, "gibbs_test_error": gibbs.test_error, "kl_nats": gibbs.kl_nats,
               "kl_raw_nats": gibbs.kl_raw_nats}  # fmt: skip
    return row | {one.name: one.value for one in made}
