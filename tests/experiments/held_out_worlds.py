"""Problems whose true risk is known exactly, and the whole way from data to certificate on them.

An example is one of K cells, one-hot, with a label that is wrong with a known probability. Each one-hot has a length of
its own, since rows that repeat are refused; no prediction depends on it. The network is a table: two weights a cell.
Under Gaussian weights the logit difference of a cell is Gaussian, so the risk of the randomised network is a sum of
normal distribution functions over the cells.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.random import default_rng
from scipy.special import ndtr
from torch import nn
from torch.nn import Linear

import bounds
from pacdp import GaussianPosterior, Prior, certify
from pacdp.backprop import Examples, FitSettings, Parts, PosteriorSettings, fit_prior, hold_out, train_posterior
from pacdp.certify import BoundSet, DataFree, MonteCarlo
from pacdp.data import Dataset
from pacdp.losses import bounded_cross_entropy
from tests.pacdp.toys import seeded

FAILURE_PROB = 0.2


@dataclass(frozen=True, kw_only=True)
class World:
    """How data come about, and how hard the recipe tries."""

    cells: int
    n: int
    noise: float
    """Probability of a wrong label."""
    epochs: int
    std: float
    steps: int = 40
    memorise: float = 0.0
    """How far, in standard deviations an example, the posterior is moved towards the labels after training."""
    passes: int = 2

    def data(self, seed):
        rng = default_rng([7, seed])
        where = rng.integers(self.cells, size=self.n)
        labels = (where % 2) ^ (rng.random(self.n) < self.noise)
        inputs = np.eye(self.cells, dtype=np.float32)[where]
        inputs *= 1.0 + np.arange(self.n, dtype=np.float32)[:, None] * 2.0**-20
        return Dataset("cells", inputs, labels.astype(np.int64), 2)

    def risk(self, posterior):
        """The exact risk of predicting with weights drawn anew each time."""
        mean, std = (posterior.means["weight"].double(), posterior.stds["weight"].double().expand(2, self.cells))
        score = ((mean[1] - mean[0]) / torch.hypot(std[0], std[1])).numpy()
        says_one = ndtr(score)
        right = np.where(np.arange(self.cells) % 2 == 1, says_one, 1.0 - says_one)
        return float(np.mean(right * self.noise + (1.0 - right) * (1.0 - self.noise)))


def memorised(posterior, held, strength):
    """Every cell's weights moved towards the labels it has among ``held``: no less a posterior than a trained one.

    By t standard deviations of the score with t exp(t²/2) = strength · (ones - zeros): of all laws with that divergence
    the one of least empirical risk, when the prior says nothing.
    """
    surplus = ((2 * held.labels - 1).to(held.inputs) @ held.inputs).double()
    score = surplus * 0
    for _ in range(60):
        score = 0.5 * score + 0.5 * strength * surplus * torch.exp(-0.5 * score**2)
    towards = 0.5**0.5 * posterior.stds["weight"] * torch.stack([-score, score]).float()
    return GaussianPosterior(means={"weight": posterior.means["weight"] + towards}, stds=posterior.stds)


class Case(NamedTuple):
    """What a certificate is made of."""

    posterior: GaussianPosterior
    prior: Prior
    module: nn.Module
    data: Dataset
    parts: Parts
    passes: int
    seed: int


class Steps(NamedTuple):
    """The recipe's steps, each of which a fault may replace."""

    split: Callable[[Dataset, int], Parts]
    provenance: Callable[[Prior], Prior]
    certify: Callable[[Case], float]


def certified(case):
    held, how = BoundSet.part(case.data, case.parts.bound), MonteCarlo(passes=case.passes)
    return certify(case.posterior, held, prior=case.prior, network=case.module, failure_prob=FAILURE_PROB,
                   monte_carlo=how, seed=case.seed)  # fmt: skip


SOUND = Steps(
    split=lambda data, seed: hold_out(data.n, seed=seed),
    provenance=lambda prior: prior,
    certify=lambda case: certified(case).certificate().value,
)


def violations(world, steps, *, repetitions):
    """In how many of the repetitions the certificate lies below the true risk."""
    found = 0
    module = Linear(world.cells, 2, bias=False).eval()
    nn.init.zeros_(module.weight)
    for seed in range(repetitions):
        data = world.data(seed)
        parts = steps.split(data, seed)
        generator = seeded(seed)
        settings = FitSettings(optimizer="sgd", epochs=world.epochs, batch_size=32, step_size=4.0, weight_decay=0.0)
        prior = fit_prior(module, data, parts.prior, std=world.std, settings=settings, generator=generator)
        bound = BoundSet.part(data, parts.bound)
        held = Examples(bound.inputs, bound.labels)
        posterior = train_posterior(
            prior.law, module, held, objective=bounds.objectives.f_quad, generator=generator,
            loss=bounded_cross_entropy(classes=2), failure_prob=FAILURE_PROB,
            settings=PosteriorSettings(steps=world.steps, step_size=0.02, batch_size=64),
        )  # fmt: skip
        if world.memorise:
            posterior = memorised(posterior, held, world.memorise)
        case = Case(posterior, steps.provenance(prior), module, data, parts, world.passes, seed)
        found += steps.certify(case) < world.risk(posterior)
    return found


# Faults, each as it is seen in published code.


def same_examples(data, seed):
    """The prior learns from the bound's own examples."""
    parts = hold_out(data.n, seed=seed)
    return Parts(parts.bound, parts.bound)


def forgotten(prior):
    """And nobody writes down what it has seen."""
    return Prior(law=prior.law, source=DataFree())


def one_draw_without_slack(case):
    """The error of one drawn network stands for the risk of the randomised one."""
    weights = case.posterior.sample(seeded(case.seed + 1000))
    held = BoundSet.part(case.data, case.parts.bound)
    logits = torch.func.functional_call(case.module, weights, (held.inputs,))
    risk = float((logits.argmax(dim=1) != held.labels).double().mean())
    kl_nats = case.posterior.kl_nats(case.prior.law)
    return bounds.maurer(risk=risk, kl_nats=kl_nats, n=case.parts.bound.n, failure_prob=FAILURE_PROB).value


def examples_counted_twice(case):
    """n is the size of the whole data set, half of which the prior has had."""
    made = certified(case)
    risk = made.certificate().terms["empirical_risk"]
    return bounds.maurer(risk=risk, kl_nats=made.details["kl_nats"], n=case.data.n, failure_prob=FAILURE_PROB).value
