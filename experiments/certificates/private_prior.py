"""A rigorous certificate on ten-class MNIST from a prior that learnt, privately, from all examples of the bound.

1. Fixed features: aligned oriented gradients (:mod:`pacdp.features`); no example enters them.
2. A private centre: one noisy mean of the features, subtracted from each, which are scaled to length 1 again.
3. A private linear head on those: full-batch DP-SGD from zero. What it releases is Gaussian DP exactly.
4. The prior P is N(head, s² I); the posterior Q = N(W, s² I) minimises the bound on the same examples, without privacy.
5. R(Q) ≤ kl⁻¹(upper limit of R̂(Q) from fresh draws, (KL(Q‖P) + ln ξ(n) + Λ)/n), Λ the cost of centre and head.

No example is held out and no Markov chain has to be stationary. Beside it stand the private head used as it is, the
prior alone, a prior that saw nothing, and the test set. Each holds with probability 1 - ``failure_prob`` by itself.

The few numbers of :class:`Settings` were chosen by looking at runs on MNIST's training set. As in most published
certificates that choice is not paid for: the probability statement is one about settings fixed before the sample. To
pay, run all J candidates, account for all of them together (:func:`claim_for_choice`), and charge ln J.
"""

import functools
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import bounds
from pacdp.data import load
from pacdp.features import OrientedGradients, fit_mean, transform, unit
from pacdp.losses import margins, zero_one
from pacdp.posterior import GaussianPosterior
from pacdp.private import DPSGD, Mechanism, MechanismHistory, SeededRandomness, Table, privacy_claim, train
from pacdp.private.randomness import Randomness
from pacdp.stochastic import MonteCarloRisk, mean_risk

MONTE_CARLO, PAC_STEP = "Monte Carlo", "PAC step"


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
    monte_carlo: float = 0.002
    """The part of failure_prob that pays for the draws."""
    seed: int = 0
    max_physical_batch: int = 10_000

    @property
    def budget(self) -> bounds.FailureBudget:
        """The failure probability and what it is spent on."""
        ledger = bounds.FailureBudget(self.failure_prob).spend(MONTE_CARLO, self.monte_carlo)
        return ledger.spend(PAC_STEP, self.failure_prob - self.monte_carlo)


MNIST = Settings()
SMOKE = Settings(
    dataset="digits", orientations=8, cells=4, scale=0.7, centre_mu=0.1, head_mu=0.3, steps=20, path=100.0, std=1.0,
    iterations=10,
)  # fmt: skip


class Released(NamedTuple):
    """What the private part gave away; everything else that looks at examples is not private."""

    centre: Float[Tensor, " dim"]
    head: Float[Tensor, "classes dim"]
    history: MechanismHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Certificates by name, measurements, CPU seconds."""

    settings: Settings
    certificates: dict[str, bounds.Certificate]
    """"posterior" is the one; see the module's head for "private_weights", "private_prior", "independent_prior"."""
    measured: dict[str, float]
    seconds: dict[str, float] = field(default_factory=dict)
    posterior: GaussianPosterior
    prior: GaussianPosterior
    released: Released

    def to_dict(self) -> dict[str, Any]:
        """JSON values: settings, certificates, measurements, what ran privately."""
        return {
            "settings": asdict(self.settings), "measured": self.measured, "seconds": self.seconds,
            "certificates": {name: made.to_dict() for name, made in self.certificates.items()},
            "history": self.released.history.to_dict(),
        }  # fmt: skip


def claim_for_choice(histories: Sequence[MechanismHistory]) -> bounds.PrivacyClaim:
    """The privacy of J private runs together: what it costs to choose among them by looking at the examples.

    Formal guarantee: a prior that is any function of all J releases costs this. To let the examples pick one of J
    priors, take their equal mixture, which adds ln J to each divergence: such a choice is a part of the posterior. Runs
    that were looked at and discarded count.

    Raises:
        ValueError: no run.
    """
    if not histories:
        raise ValueError("histories must be those of all runs that were looked at, got none")
    return privacy_claim(
        functools.reduce(MechanismHistory.followed_by, histories, MechanismHistory()), adjacency="add-remove"
    )


def private_centre(
    rows: Float[Tensor, "n dim"], *, mu: float, randomness: Randomness
) -> tuple[Tensor, MechanismHistory]:
    """Mean of unit rows plus Gaussian noise, mu-GDP: one full-batch step of DP-SGD on ½‖c - row‖² from c = 0."""
    n, dim = rows.shape
    run = train(
        DPSGD(
            mechanism=_full_batch(n, clip_norm=1.0, steps=1, most=2000), noise_multiplier=1.0 / mu, learning_rate=1.0
        ),
        _zero(nn.Linear(1, dim, bias=False)), TensorDataset(torch.ones(n, 1), rows),
        loss=lambda centre, row: 0.5 * (centre - row).square().sum(dim=1), randomness=randomness,
    )  # fmt: skip
    return run.weights["weight"].reshape(-1), run.history


def private_head(
    rows: Float[Tensor, "n dim"], labels: Int64[Tensor, " n"], *, classes: int, settings: Settings,
    randomness: Randomness,
) -> tuple[Float[Tensor, "classes dim"], MechanismHistory]:  # fmt: skip
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
    return run.weights["weight"], run.history


def conduct(settings: Settings, *, randomness: Randomness | None = None, references: bool = True) -> Outcome:
    """Features, private prior, posterior, draws, certificates.

    Args:
        randomness: of the private part; from the seed by default. Weights that are published for their privacy's sake
            need ``SystemRandomness()``.
        references: whether to compute the certificates that are there for comparison.
    """
    clock = _Clock()
    data, held_out = load(settings.dataset)
    features = OrientedGradients(
        size=data.inputs.shape[-1], orientations=settings.orientations, cells=settings.cells, scale=settings.scale
    )
    raw, raw_test = transform(features, data.inputs), transform(features, held_out.inputs)
    labels, test_labels = torch.tensor(data.labels), torch.tensor(held_out.labels)
    clock.stop("features")
    randomness = SeededRandomness(settings.seed) if randomness is None else randomness
    centre, spent = private_centre(raw, mu=settings.centre_mu, randomness=randomness)
    rows, test_rows = unit(raw - centre), unit(raw_test - centre)
    head, more = private_head(rows, labels, classes=data.classes, settings=settings, randomness=randomness)
    released = Released(centre, head, spent.followed_by(more))
    clock.stop("private head")
    claim = privacy_claim(released.history, adjacency="add-remove")
    step = functools.partial(bounds.private_pac_bayes, n=data.n, privacy=claim)
    prior, posterior, made = _posterior(rows, labels, head, claim, settings, clock)
    risk = _drawn(rows, labels, posterior, settings)
    clock.stop("draws")
    kl_nats = posterior.kl_nats(prior)
    certificates = {"posterior": _certificate(risk, functools.partial(step, kl_nats=kl_nats), settings)}
    measured = {
        "n": float(data.n), "dim": float(rows.shape[1]), "kl_nats": kl_nats, "transfer_nats": made,
        "train_error_of_head": _error(rows, labels, head), "test_error_of_head": _error(test_rows, test_labels, head),
        "train_error_of_posterior": risk.mean,
        "test_error_of_posterior": _drawn(test_rows, test_labels, posterior, settings).mean,
        "test_error_of_mean": _error(test_rows, test_labels, posterior.means["weight"]),
    }  # fmt: skip
    if references:
        certificates |= _references(raw, rows, labels, released, claim, step, settings)
        clock.stop("references")
    return Outcome(
        settings=settings, certificates=certificates, measured=measured, seconds=clock.seconds, posterior=posterior,
        prior=prior, released=released,
    )  # fmt: skip


def _posterior(
    rows: Tensor, labels: Tensor, head: Tensor, claim: bounds.PrivacyClaim, settings: Settings, clock: "_Clock"
) -> tuple[GaussianPosterior, GaussianPosterior, float]:
    n = len(rows)
    transfer = bounds.transfer_cost(privacy=claim, n=n, failure_prob=settings.budget.spent[PAC_STEP]).nats
    mean = fit_mean(rows, labels, prior_mean=head, std=settings.std, cost_nats=bounds.log_xi(n) + transfer,
                    iterations=settings.iterations)  # fmt: skip
    clock.stop("posterior")
    return _gaussian(head, settings.std), _gaussian(mean, settings.std), transfer


def _references(
    raw: Tensor, rows: Tensor, labels: Tensor, released: Released, claim: bounds.PrivacyClaim,
    step: functools.partial[bounds.Certificate], settings: Settings,
) -> dict[str, bounds.Certificate]:  # fmt: skip
    """The head as it is; the prior alone; and a prior N(0, s² I) on features without a centre, which cost nothing."""
    n, failure_prob = len(rows), settings.budget.spent[PAC_STEP]
    alone = _drawn(rows, labels, _gaussian(released.head, settings.std), settings)
    nothing = torch.zeros_like(released.head)
    blind = fit_mean(raw, labels, prior_mean=nothing, std=settings.std, iterations=3 * settings.iterations,
                     cost_nats=bounds.log_xi(n) - math.log(failure_prob))  # fmt: skip
    law, start = _gaussian(blind, settings.std), _gaussian(nothing, settings.std)
    independent = functools.partial(bounds.maurer, kl_nats=law.kl_nats(start), n=n)
    return {
        "private_weights": bounds.private_kl_chernoff(
            risk=_error(rows, labels, released.head), n=n, privacy=claim, failure_prob=settings.failure_prob
        ),
        "private_prior": _certificate(alone, functools.partial(step, kl_nats=0.0), settings),
        "independent_prior": _certificate(_drawn(raw, labels, law, settings), independent, settings),
    }


def _certificate(
    risk: MonteCarloRisk, step: functools.partial[bounds.Certificate], settings: Settings
) -> bounds.Certificate:
    return bounds.overall_certificate(risk=risk.upper(settings.monte_carlo), bound=step, budget=settings.budget)


def _drawn(rows: Tensor, labels: Tensor, law: GaussianPosterior, settings: Settings) -> MonteCarloRisk:
    classes, dim = law.means["weight"].shape
    network = nn.Linear(dim, classes, bias=False).eval()
    return mean_risk(network, law, inputs=rows, labels=labels, loss=zero_one(), passes=settings.passes,
                     seed=settings.seed, batch_size=4096)  # fmt: skip


def _gaussian(mean: Tensor, std: float) -> GaussianPosterior:
    return GaussianPosterior(means={"weight": mean}, stds={"weight": torch.tensor(std, dtype=mean.dtype)})


def _error(rows: Tensor, labels: Tensor, weights: Tensor) -> float:
    return int((~(margins(rows @ weights.T, labels) > 0)).sum()) / len(labels)


def _full_batch(n: int, *, clip_norm: float, steps: int, most: int) -> Mechanism:
    return Mechanism(clip_norm=clip_norm, sample_rate=1.0, expected_batch_size=float(n), steps=steps,
                     grad_sample_mode="ghost", max_physical_batch=most)  # fmt: skip


def _zero(layer: nn.Linear) -> nn.Linear:
    nn.init.zeros_(layer.weight)
    return layer


class _Clock:
    """CPU seconds of this process, by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.process_time()

    def stop(self, stage: str) -> None:
        now = time.process_time()
        self.seconds[stage] = now - self._last
        self._last = now
