"""A rigorous certificate on ten-class MNIST from a prior that learnt, privately, from all examples of the bound.

1. Fixed features: aligned oriented gradients (:mod:`pacdp.features`); no example enters them.
2. A private centre: one noisy mean of the features, subtracted from each, which are scaled to length 1 again.
3. A private linear head on those: full-batch DP-SGD from zero. What it releases is Gaussian DP exactly.
4. The prior P is N(head, s² I); the posterior Q = N(W, s² I) minimises the bound on the same examples, without privacy.
5. R(Q) ≤ kl⁻¹(upper limit of R̂(Q) from fresh draws, (KL(Q‖P) + ln ξ(n) + Λ)/n), Λ the cost of centre and head.

No example is held out and no Markov chain has to be stationary. Beside it stand the private head used as it is, the
prior alone, a prior that saw nothing, and the test set. Each holds with probability 1 - ``failure_prob`` by itself.

The few numbers of :class:`Settings` were chosen by looking at runs on MNIST, and ``compared`` pays for that: each
certificate has failure_prob/J for the J settings of a list fixed beforehand, so that all of them hold at once, over the
examples and each setting's own private randomness, and any of them may be chosen by any look at the data. That is a
statement about the certificates; what the J runs reveal of the examples adds up: publishing one of J releases, chosen
by looking at the examples, costs what ``privacy_claim(joined(*events))`` says, discarded runs included.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import bounds
from bounds.accounting import Event
from experiments.runs.held_out import of_a_list, sizes
from pacdp import Assessment, BoundSet, DataFree, GaussianPosterior, MonteCarlo, Network, Prior, Private, certify
from pacdp.algorithms.dp_sgd import DPSGD
from pacdp.certify.priors import Source
from pacdp.cli.config import Runtime
from pacdp.data import load
from pacdp.features import OrientedGradients, fit_mean, transform, unit
from pacdp.loop import train
from pacdp.schedules import Table
from pacdp.step.accountant import privacy_claim
from pacdp.step.event import joined
from pacdp.step.mechanism import Mechanism
from pacdp.step.noise import Randomness, SeededRandomness

NOISE = "the study, whose noise is drawn from its seed"
Sets = list[BoundSet]
"""Training and test set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that is fixed before the examples are seen."""

    dataset: str = "mnist"
    orientations: int = 12
    cells: int = 7
    scale: float = 1.0
    centre_mu: float = 0.005
    """Gaussian DP of the centre (remove direction)."""
    head_mu: float = 0.02
    """Gaussian DP of the head."""
    steps: int = 60
    clip_norm: float = 0.03
    path: float = 2000.0
    """Σ step size · clip_norm: how far the head could come if all clipped gradients agreed."""
    std: float = 1.0
    """s, of prior and posterior."""
    iterations: int = 20
    """Of L-BFGS for the posterior."""
    passes: int = 20
    """Draws of the posterior for each example."""
    failure_prob: float = 0.05
    monte_carlo_share: float = 0.04
    """The part of failure_prob that pays for the draws."""
    compared: int = 1
    """Settings of a list fixed beforehand, any of which may be chosen by looking at the examples."""
    seed: int = 0
    max_physical_batch: int = 10_000

    @property
    def of_the_step(self) -> float:
        """The failure probability of each certificate's PAC-Bayes step."""
        return self.failure_prob / self.compared * (1.0 - self.monte_carlo_share)


# Settings were tried on MNIST; the certificates hold for every combination of these at once. The last six are those of
# the features which Settings does not name.
_LEVELS = tuple(a * 10**-k for k in (1, 2, 3, 4) for a in (1, 2, 5))
_SHARES = tuple(round(0.01 * k, 2) for k in range(10, 31))
FEATURES_TRIED = {
    "orientations": (8, 12, 16), "cells": (4, 7, 14), "scale": (0.7, 1.0, 1.4), "sharpness": (1, 2, 4, 8),
    "pooling": (0.5, 0.7, 1.0), "alignment": (None, 0.25, 0.5, 0.75, 1.0), "spread_y": _SHARES, "spread_x": _SHARES,
}  # fmt: skip
TRIED = FEATURES_TRIED | {
    "centre_mu": _LEVELS, "head_mu": _LEVELS, "steps": (20, 60, 200, 600), "clip_norm": (0.01, 0.03, 0.1, 0.3, 1.0),
    "path": tuple(a * 10.0**k for k in (2, 3, 4) for a in (1, 2, 5)), "std": (0.5, 1.0, 2.0),
    "passes": (10, 20, 50, 100), "monte_carlo_share": (0.02, 0.04, 0.1, 0.2),
}  # fmt: skip
MNIST = Settings(head_mu=0.01, clip_norm=0.01, path=1000.0, iterations=60, passes=100, compared=sizes(TRIED))
SMOKE = Settings(
    dataset="digits", orientations=8, cells=4, scale=0.7, centre_mu=0.1, head_mu=0.3, steps=5, path=100.0,
    iterations=3, passes=2,
)  # fmt: skip


class Outcome(NamedTuple):
    """What the private part gave away; everything else that looks at examples is not private."""

    head: Tensor
    event: Event | None
    sets: Sets
    """As the head saw them."""
    assessments: dict[str, Assessment]
    """"posterior" is the one; "private_prior" is the prior itself, "independent_prior" a prior that saw nothing, on
    features without a centre, "zero_head" one whose centre alone is private."""
    alone: Assessment
    """The private head, used as it is."""

    def to_dict(self) -> dict[str, Any]:
        """JSON values in the form ``pacdp-certificates/2``, with references in the details."""
        references = {name: one.to_dict() for name, one in self.assessments.items()}
        del references["posterior"]
        found = self.assessments["posterior"].joined(self.alone)
        return replace(found, details={**found.details, "references": references}).to_dict()


def private_centre(rows: Tensor, *, mu: float, randomness: Randomness) -> tuple[Tensor, Event | None]:
    """Mean of unit rows plus Gaussian noise, mu-GDP: one full-batch step of DP-SGD on ½‖c - row‖² from c = 0."""
    ones = TensorDataset(torch.ones(len(rows), 1), rows)
    centre, event = _released(
        ones, zero_head(1, rows.shape[1]), lambda centre, row: 0.5 * (centre - row).square().sum(dim=1), clip_norm=1.0,
        noise=1.0 / mu, steps=[1.0], most=2000, randomness=randomness,
    )  # fmt: skip
    return centre.reshape(-1), event


def private_head(
    rows: Tensor, labels: Tensor, *, classes: int, settings: Settings,
    randomness: Randomness,
) -> tuple[Tensor, Event | None]:  # fmt: skip
    """Full-batch DP-SGD on cross-entropy with step sizes that fall linearly; head_mu-GDP."""
    count = settings.steps
    mean_step = settings.path / (settings.clip_norm * count)
    return _released(
        TensorDataset(rows, labels), zero_head(rows.shape[1], classes),
        lambda logits, label: F.cross_entropy(logits, label, reduction="none"), clip_norm=settings.clip_norm,
        noise=math.sqrt(count) / settings.head_mu, most=settings.max_physical_batch, randomness=randomness,
        steps=[2.0 * mean_step * (1.0 - t / count) for t in range(count)],
    )  # fmt: skip


def _released(
    data: TensorDataset, module: nn.Linear, loss: Any, *, clip_norm: float, noise: float, steps: list[float],
    most: int, randomness: Randomness,
) -> tuple[Tensor, Event | None]:  # fmt: skip
    """The weights after full-batch DP-SGD."""
    mechanism = Mechanism(
        clip_norm=clip_norm, sample_rate=1.0, expected_batch_size=float(len(data)), steps=len(steps),
        grad_sample_mode="ghost", max_physical_batch=most,
    )  # fmt: skip
    algorithm = DPSGD(mechanism=mechanism, noise_multiplier=noise, learning_rate=Table(values=tuple(steps)))
    run = train(algorithm, module, data, loss=loss, randomness=randomness)
    return run.weights["weight"], run.event


def conduct(settings: Settings, *, root: str | None = None, references: bool = True) -> Outcome:
    """Features, private prior, posterior, draws, certificates.

    Args:
        root: where the data lie; see :func:`pacdp.data.load`.
        references: whether to compute the certificates that are there for comparison.
    """
    data = load(settings.dataset, root=root)
    features = OrientedGradients(size=data[0].inputs.shape[-1], orientations=settings.orientations,
                                 cells=settings.cells, scale=settings.scale)  # fmt: skip
    raw = [BoundSet(inputs=transform(features, one.inputs), labels=torch.tensor(one.labels), people=one.people)
           for one in data]  # fmt: skip
    randomness = SeededRandomness(settings.seed)
    centre, spent = private_centre(raw[0].inputs, mu=settings.centre_mu, randomness=randomness)
    sets = [replace(one, inputs=unit(one.inputs - centre)) for one in raw]
    rows = sets[0]
    head, more = private_head(
        rows.inputs, rows.labels, classes=data[0].classes, settings=settings, randomness=randomness
    )
    event, nothing = joined(spent, more), torch.zeros_like(head)
    (whole, nats), (half, less) = (_private(one, rows, settings) for one in (event, spent))
    found = {"posterior": assessed(head, whole, nats, sets, settings)}
    if references:
        blind = -math.log(settings.of_the_step)
        found["private_prior"] = assessed(head, whole, nats, sets, settings, descends=False)
        found["zero_head"] = assessed(nothing, half, less, sets, settings)
        found["independent_prior"] = assessed(nothing, DataFree(), blind, raw, settings)
    alone = certify(
        Network(network=lambda inputs: inputs @ head.T, of="private head"), rows, prior=whole, test=sets[1],
        failure_prob=settings.failure_prob, settings=of_a_list(settings.compared),
    )  # fmt: skip
    return Outcome(head, event, sets, found, replace(alone, certificates=alone.certificates[:1]))


def certified(settings: Settings, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """A job's report; nothing is kept in ``folder``."""
    return conduct(settings, root=runtime.data_root).to_dict()


def _private(event: Event | None, rows: BoundSet, settings: Settings) -> tuple[Private, float]:
    """The claim, which is about the images that the rows were made of, one by one, and its cost."""
    claim = privacy_claim(event, adjacency="add-remove")
    cost = bounds.transfer_cost(privacy=claim, n=rows.n, failure_prob=settings.of_the_step)
    return Private(privacy=claim, rows=rows.rows, noise=NOISE), cost.nats


def assessed(
    prior: Tensor, source: Source, nats: float, sets: Sets, settings: Settings, *, descends: bool = True,
    fresh: int = 1000,
) -> Assessment:  # fmt: skip
    """Of the posterior that descends the bound from the prior's mean, or of the prior.

    L-BFGS runs longer where the prior knows nothing of labels. Posteriors were compared by draws of the seeds
    themselves, and certificates draw ``fresh`` seeds further on.

    Args:
        nats: what the source of the prior costs.
    """
    rows, test = sets
    mean = prior if not descends else fit_mean(
        rows.inputs, rows.labels, prior_mean=prior, std=settings.std, cost_nats=bounds.log_xi(rows.n) + nats,
        iterations=settings.iterations * (1 if prior.any() else 3),
    )  # fmt: skip
    law, before = (
        GaussianPosterior(means={"weight": one}, stds={"weight": torch.tensor(settings.std)}) for one in (mean, prior)
    )
    network = zero_head(prior.shape[1], len(prior)).eval()
    return certify(
        law, rows, network=network, prior=Prior(law=before, source=source), test=test,
        failure_prob=settings.failure_prob, settings=of_a_list(settings.compared), seed=settings.seed + fresh,
        monte_carlo=MonteCarlo(passes=settings.passes, share=settings.monte_carlo_share, batch_size=4096),
    )  # fmt: skip


def zero_head(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer of zeros without bias."""
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.zeros_(layer.weight)
    return layer
