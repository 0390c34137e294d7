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

import functools
import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import bounds
from bounds.accounting import Event, event_to_dict
from experiments.papers.runs.held_out import Clock, of_a_list, sizes
from pacdp import Assessment, BoundSet, DataFree, GaussianPosterior, MonteCarlo, Network, Prior, Private, certify
from pacdp import Settings as Choice
from pacdp.algorithms.dp_sgd import DPSGD
from pacdp.certify.networks import error_share
from pacdp.certify.priors import Source
from pacdp.data import load
from pacdp.features import OrientedGradients, fit_mean, transform, unit
from pacdp.loop import train
from pacdp.losses import error_count
from pacdp.schedules import Table
from pacdp.step.accountant import privacy_claim
from pacdp.step.event import joined
from pacdp.step.mechanism import Mechanism
from pacdp.step.noise import Randomness, SeededRandomness

_FRESH = 1000
"""Posteriors were compared by draws of the seeds themselves."""


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
    def each(self) -> float:
        """The failure probability of each certificate."""
        return self.failure_prob / self.compared


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
_SEEN = sizes(TRIED)
MNIST = Settings(centre_mu=0.005, head_mu=0.01, clip_norm=0.01, path=1000.0, iterations=60, passes=100, compared=_SEEN)
SMOKE = Settings(
    dataset="digits", orientations=8, cells=4, scale=0.7, centre_mu=0.1, head_mu=0.3, steps=5, path=100.0, std=1.0,
    iterations=3,
)  # fmt: skip


class Released(NamedTuple):
    """What the private part gave away; everything else that looks at examples is not private."""

    centre: Float[Tensor, " dim"]
    head: Float[Tensor, "classes dim"]
    event: Event | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Assessments by name, the private head's own certificate, measurements, CPU seconds."""

    settings: Settings
    assessments: dict[str, Assessment]
    """"posterior" is the one; "private_prior" is the prior itself, "independent_prior" a prior that saw nothing, on
    features without a centre, "zero_head" one whose centre alone is private."""
    head: Assessment
    """The private head, used as it is."""
    measured: dict[str, float]
    seconds: dict[str, float] = field(default_factory=dict)
    released: Released

    def to_dict(self) -> dict[str, Any]:
        """JSON values in the form ``pacdp-certificates/2``, with references in the details."""
        found = self.assessments["posterior"].joined(self.head)
        details = {
            **found.details,
            "settings": asdict(self.settings),
            "numbers": self.measured,
            "cpu_seconds": self.seconds,
            "references": {name: each.to_dict() for name, each in self.assessments.items() if name != "posterior"},
            "event": None if self.released.event is None else event_to_dict(self.released.event),
        }
        return replace(found, details=details).to_dict()


def private_centre(rows: Float[Tensor, "n dim"], *, mu: float, randomness: Randomness) -> tuple[Tensor, Event | None]:
    """Mean of unit rows plus Gaussian noise, mu-GDP: one full-batch step of DP-SGD on ½‖c - row‖² from c = 0."""
    n, dim = rows.shape
    run = train(
        DPSGD(
            mechanism=_full_batch(n, clip_norm=1.0, steps=1, most=2000), noise_multiplier=1.0 / mu, learning_rate=1.0
        ),
        _zero(nn.Linear(1, dim, bias=False)), TensorDataset(torch.ones(n, 1), rows),
        loss=lambda centre, row: 0.5 * (centre - row).square().sum(dim=1), randomness=randomness,
    )  # fmt: skip
    return run.weights["weight"].reshape(-1), run.event


def private_head(
    rows: Float[Tensor, "n dim"], labels: Int64[Tensor, " n"], *, classes: int, settings: Settings,
    randomness: Randomness,
) -> tuple[Float[Tensor, "classes dim"], Event | None]:  # fmt: skip
    """Full-batch DP-SGD on cross-entropy with step sizes that fall linearly; head_mu-GDP."""
    steps = settings.steps
    mean_step = settings.path / (settings.clip_norm * steps)
    run = train(
        DPSGD(
            mechanism=_full_batch(
                len(rows), clip_norm=settings.clip_norm, steps=steps, most=settings.max_physical_batch
            ),
            noise_multiplier=math.sqrt(steps) / settings.head_mu,
            learning_rate=Table(values=tuple(2.0 * mean_step * (1.0 - t / steps) for t in range(steps))),
        ),
        _zero(nn.Linear(rows.shape[1], classes, bias=False)), TensorDataset(rows, labels),
        loss=lambda logits, label: F.cross_entropy(logits, label, reduction="none"), randomness=randomness,
    )  # fmt: skip
    return run.weights["weight"], run.event


def conduct(
    settings: Settings, *, root: str | None = None, randomness: Randomness | None = None, references: bool = True
) -> Outcome:
    """Features, private prior, posterior, draws, certificates.

    Args:
        root: where the data lie; see :func:`pacdp.data.load`.
        randomness: of the private part; from the seed by default. Weights that are published for their privacy's sake
            need ``SystemRandomness()``.
        references: whether to compute the certificates that are there for comparison.
    """
    clock = Clock()
    data, held_out = load(settings.dataset, root=root)
    features = OrientedGradients(
        size=data.inputs.shape[-1], orientations=settings.orientations, cells=settings.cells, scale=settings.scale
    )
    raw, raw_test = transform(features, data.inputs), transform(features, held_out.inputs)
    labels, test_labels = torch.tensor(data.labels), torch.tensor(held_out.labels)
    clock.lap("features")
    randomness = SeededRandomness(settings.seed) if randomness is None else randomness
    centre, spent = private_centre(raw, mu=settings.centre_mu, randomness=randomness)
    rows = BoundSet(inputs=unit(raw - centre), labels=labels, people=data.people)
    test_rows = BoundSet(inputs=unit(raw_test - centre), labels=test_labels)
    head, more = private_head(rows.inputs, labels, classes=data.classes, settings=settings, randomness=randomness)
    released = Released(centre, head, joined(spent, more))
    clock.lap("private head")
    claim, centre_claim = (privacy_claim(event, adjacency="add-remove") for event in (released.event, spent))
    assess = functools.partial(_assessed, settings=settings)
    mean = _descended(rows, head, claim, settings)
    clock.lap("posterior")
    found = {"posterior": assess(mean, head, rows, test_rows, _private(claim, rows))}
    clock.lap("draws")
    if references:
        found["private_prior"] = assess(head, head, rows, test_rows, _private(claim, rows))
        nothing = torch.zeros_like(head)
        source: Source = _private(centre_claim, rows)
        found["zero_head"] = assess(_descended(rows, nothing, centre_claim, settings), nothing, rows, test_rows, source)
        raw_rows, raw_tests = (BoundSet(inputs=x, labels=y) for x, y in ((raw, labels), (raw_test, test_labels)))
        blind = _descended(raw_rows, nothing, None, settings)
        found["independent_prior"] = assess(blind, nothing, raw_rows, raw_tests, DataFree())
        clock.lap("references")
    error = _error(rows, head)
    transfer = bounds.transfer_cost(privacy=claim, n=data.n, failure_prob=settings.each).nats
    as_it_is = Network(network=lambda inputs: inputs @ head.T, of="private head")
    alone = certify(
        as_it_is, rows, prior=_private(claim, rows), test=test_rows, failure_prob=settings.failure_prob,
        settings=_choice(settings),
    )  # fmt: skip
    return Outcome(
        settings=settings, assessments=found, released=released, seconds=clock.cpu,
        head=replace(alone, certificates=alone.certificates[:1]),
        measured={
            "n": float(data.n), "n_test": float(held_out.n), "dim": float(head.shape[1]), "transfer_nats": transfer,
            "train_error_of_head": error, "test_error_of_head": _error(test_rows, head),
        },
    )  # fmt: skip


def _descended(
    rows: BoundSet, head: Tensor, claim: bounds.PrivacyClaim | None, settings: Settings
) -> Float[Tensor, "classes dim"]:
    """The posterior's mean: L-BFGS on the bound, from the prior's; longer where the prior knows nothing of labels."""
    n, failure_prob = rows.n, settings.each * (1.0 - settings.monte_carlo_share)
    cost = -math.log(failure_prob) if claim is None else bounds.transfer_cost(
        privacy=claim, n=n, failure_prob=failure_prob
    ).nats  # fmt: skip
    longer = 1 if head.any() else 3
    return fit_mean(rows.inputs, rows.labels, prior_mean=head, std=settings.std, cost_nats=bounds.log_xi(n) + cost,
                    iterations=longer * settings.iterations)  # fmt: skip


def _assessed(
    mean: Tensor, prior_mean: Tensor, rows: BoundSet, test: BoundSet, source: Source, *, settings: Settings
) -> Assessment:
    classes, dim = mean.shape
    how = MonteCarlo(passes=settings.passes, share=settings.monte_carlo_share, batch_size=4096)
    return certify(
        _gaussian(mean, settings.std), rows, network=nn.Linear(dim, classes, bias=False).eval(),
        prior=Prior(law=_gaussian(prior_mean, settings.std), source=source), test=test,
        failure_prob=settings.failure_prob, settings=_choice(settings), monte_carlo=how, seed=settings.seed + _FRESH,
    )  # fmt: skip


def _choice(settings: Settings) -> Choice:
    return of_a_list(settings.compared)


def _private(claim: bounds.PrivacyClaim, rows: BoundSet) -> Private:
    """The claim is about the images that these rows were made of, one by one."""
    return Private(privacy=claim, rows=rows.rows, noise="the study, whose noise is drawn from its seed")


def _gaussian(mean: Tensor, std: float) -> GaussianPosterior:
    return GaussianPosterior(means={"weight": mean}, stds={"weight": torch.tensor(std, dtype=mean.dtype)})


def _error(rows: BoundSet, weights: Tensor) -> float:
    return error_share(error_count(rows.inputs @ weights.T, rows.labels), rows.n)


def _full_batch(n: int, *, clip_norm: float, steps: int, most: int) -> Mechanism:
    return Mechanism(clip_norm=clip_norm, sample_rate=1.0, expected_batch_size=float(n), steps=steps,
                     grad_sample_mode="ghost", max_physical_batch=most)  # fmt: skip


def _zero(layer: nn.Linear) -> nn.Linear:
    nn.init.zeros_(layer.weight)
    return layer
