"""Private priors at the price of their noisy sums, with every choice made on rows that the bound does not use.

1. The training set is split once: some rows for choices, all others, n of them, for the bound. The choosing rows alone
   decided every number of :class:`Config`, and their features' means and covariances whiten the features of all rows.
2. Features: oriented gradients, whitened; random waves of these, whitened again; rows of length 1.
3. A linear head is made by gradient sums over all n rows with Gaussian noise, in two ways. *Kept norms*: a Langevin
   chain with momentum that clips nothing and keeps the squared norms of what the rows added; it pays for what was
   added. *Clipped*: DP-SGD on all rows in every step, which is Gaussian DP; it pays for the most that the clip allows.
4. The prior is N(head, s² I), the posterior Q = N(W, s² I) minimises the bound on the same n rows without any noise,
   for the best s of a short list that is paid for in nats.
5. R(Q) ≤ kl⁻¹(upper limit of R̂(Q) from fresh draws, (KL(Q‖P) + ln |list of s| + ln ξ(n) + Λ)/n).

The prices Λ are those of "Noisy sums" in docs/guarantees.md. They speak of what one record adds to each sum, at a fixed
n and with all records in each sum: no neighbouring data set occurs in them. Where the price of the privacy curve stands
beside them, it is that of the same mechanism under replacement of one record.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import bounds
from bounds.accounting import Event
from experiments.costs import Work, forward, gradient
from experiments.papers.runs.held_out import Clock
from experiments.papers.runs.whitened import Seen, Sight, split_and_seen
from pacdp import Assessment, BoundSet, GaussianPosterior, HeldOut, MonteCarlo, Network, Prior, Private, certify
from pacdp.algorithms import SGHMC
from pacdp.algorithms.dp_sgd import DPSGD
from pacdp.certify.accounted import weights_at
from pacdp.certify.networks import error_share
from pacdp.certify.priors import NoisySum, Source, price_of
from pacdp.certify.training import train_certified
from pacdp.certify.trajectory import realised_price
from pacdp.features import fit_mean, gaussian_errors
from pacdp.loop import train
from pacdp.losses import error_count
from pacdp.schedules import Table
from pacdp.step.accountant import privacy_claim
from pacdp.step.mechanism import Mechanism
from pacdp.step.noise import SeededRandomness

_FRESH = 1000
_STUDY = "the study, whose noise is drawn from its seed"
_START = "the study, whose heads begin at zero, on features that are whitened by rows which the bound does not use"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The head that keeps its norms: momentum on all rows, noise that shrinks as step^(-cooling/2)."""

    steps: int = 80
    tau: float = 7000.0
    step_size: float = 3.2
    friction: float = 0.1
    cooling: float = 0.4

    @property
    def settings(self) -> SGHMC:
        """As a chain of pacdp; how many rows there are is set when it is trained."""
        return SGHMC(tau=self.tau, step_size=self.step_size, friction=self.friction, cooling=self.cooling,
                     base_std=30.0)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Clipped:
    """The head that is private: DP-SGD on all rows, clipped, with noise that shrinks as step^(-cooling)."""

    steps: int = 40
    clip_norm: float = 0.3
    mu: float = 0.0735
    """Gaussian DP of the whole head, when one row is removed."""
    learning_rate: float = 11.7
    momentum: float = 0.8
    cooling: float = 0.3

    @property
    def noises(self) -> tuple[float, ...]:
        """Noise multipliers by step, such that the sum of their inverse squares is mu²."""
        shape = [((t + 1) / self.steps) ** -self.cooling for t in range(self.steps)]
        last = math.sqrt(math.fsum(one**-2 for one in shape)) / self.mu
        return tuple(last * one for one in shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything that decides the numbers; all of it was chosen on the choosing rows of MNIST's ten classes."""

    dataset: str = "mnist"
    chosen: int = 5000
    """How many rows are kept for choices; which ones is the same for all seeds."""
    compared: int = 1000
    """More kinds of features, chains and losses than earlier studies tried on all of MNIST; each certificate pays."""
    sight: Sight = field(default_factory=Sight)
    chain: Chain = field(default_factory=Chain)
    clipped: Clipped = field(default_factory=Clipped)
    stds: tuple[float, ...] = (0.15, 0.3, 0.6, 1.2)
    """The list of s, which is paid for."""
    ridge: float = 3e-4
    gain: float = 20.0
    """Of the head that the choosing rows teach: least squares with this ridge, times this gain."""
    iterations: int = 25
    """Of L-BFGS for each posterior, three times as many from a head of zeros."""
    passes: int = 50
    failure_prob: float = 0.05
    monte_carlo_share: float = 0.04
    seed: int = 0

    def work(self, size: int) -> Work:
        """What a run costs on so many rows: features, both heads, five posteriors for each s with one gradient an
        iteration, and the passes of their certificates."""
        sight, head, rows = self.sight, nn.Linear(self.sight.dim, 10, bias=False), 4096
        waves = nn.Sequential(nn.Linear(sight.first, sight.waves), nn.Linear(sight.waves, sight.dim))
        n = size - self.chosen
        learnt = self.chain.steps + 2 * self.clipped.steps + (4 + 3) * self.iterations * len(self.stds)
        return Work((
            (forward(waves, (sight.first,), rows), size / rows, 1),
            (gradient(head, (sight.dim,), rows), learnt * n / rows, 1),
            (forward(head, (sight.dim,), rows), 5 * self.passes * n / rows, 1),
        ))  # fmt: skip


MNIST = Config()
SMOKE = Config(
    dataset="digits", chosen=400, sight=Sight(orientations=8, cells=4, scale=0.7, first=40, waves=100, dim=30),
    chain=Chain(steps=5, tau=100.0), clipped=Clipped(steps=5, mu=1.0), iterations=2, passes=2,
)  # fmt: skip


class Made(NamedTuple):
    """A head, and what using it on the bound's rows costs."""

    head: Float[Tensor, "classes dim"]
    price: bounds.Price
    event: Event | None = None


def kept(seen: Seen, config: Config) -> Made:
    """A head made of noisy sums whose norms were kept, at the price of what was added."""
    settings, steps = config.chain.settings, config.chain.steps
    first = _zero(seen.dim, seen.classes)
    made = train_certified(first, seen.dataset, settings=settings, steps=steps, failure_prob=config.failure_prob,
                           seed=config.seed, fixed=seen.settings)  # fmt: skip
    ran = replace(settings, batch_size=seen.bound.n, keep_norms=True, every_record=True)
    price = realised_price(ran, made.norms, steps=steps, n=seen.bound.n, noise=_STUDY, start=_START)
    by = bounds.declared("norms of all records kept", f"the study, which kept one sum for each of {steps} gradients")
    known = tuple(by if one.name == by.name else one for one in price.hypotheses)
    return Made(made.weights["weight"], replace(price, hypotheses=known))


def clipped(seen: Seen, config: Config) -> Made:
    """A private head, at the price of the most that its clip lets a row add."""
    how, n = config.clipped, seen.bound.n
    mechanism = Mechanism(clip_norm=how.clip_norm, sample_rate=1.0, expected_batch_size=float(n), steps=how.steps,
                          grad_sample_mode="ghost", max_physical_batch=10_000)  # fmt: skip
    method = DPSGD(mechanism=mechanism, noise_multiplier=Table(values=how.noises), learning_rate=how.learning_rate,
                   momentum=how.momentum)  # fmt: skip
    run = train(
        method, _zero(seen.dim, seen.classes), TensorDataset(seen.bound.inputs, seen.bound.labels),
        loss=lambda logits, label: F.cross_entropy(logits, label, reduction="none"),
        randomness=SeededRandomness(config.seed),
    )  # fmt: skip
    assert run.event is not None
    return Made(run.weights["weight"], worst_case(run.event, start=_START), run.event)


def worst_case(event: Event, *, start: str) -> bounds.WorstCaseSum:
    """The price of clipped sums over all records, with what is known of them."""
    whose = "the settings of DP-SGD"
    known = (
        bounds.proved("records enter by noisy sums", f"{whose}: noise is added to each sum, the rest computes with it"),
        bounds.declared("noise secret or independent", _STUDY),
        bounds.proved("schedule blind to the records", f"{whose}, of which step sizes and noise are functions"),
        bounds.declared("first weights independent", start),
        bounds.proved("batches drawn without the records", f"{whose}: every record is in every batch"),
        bounds.proved("contributions bounded", f"{whose}: each contribution is clipped"),
    )
    return bounds.noisy_sum_worst_case(event=event, hypotheses=known)


def taught(seen: Seen, config: Config) -> Float[Tensor, "classes dim"]:
    """A head from the choosing rows alone, by least squares."""
    rows, labels = seen.choosing.inputs, seen.choosing.labels
    targets = F.one_hot(labels, seen.classes).to(rows) - 1.0 / seen.classes
    ridge = config.ridge * len(rows) * torch.eye(seen.dim)
    return config.gain * torch.linalg.solve(rows.T @ rows + ridge, rows.T @ targets).T.contiguous()


def conduct(config: Config, *, root: str | None = None) -> dict[str, Any]:
    """Heads, posteriors and certificates; the report of the head with kept norms, all others among its details.

    Raises:
        DataError: the data cannot be had, or choosing rows and the bound's share an image.
    """
    clock = Clock()
    seen = split_and_seen(config.dataset, config.sight, chosen=config.chosen, compared=config.compared, root=root)
    clock.lap("features")
    with_norms, private = kept(seen, config), clipped(seen, config)
    clock.lap("heads")
    found = {name: one.to_dict() for name, one in _assessments(seen, with_norms, private, config)}
    clock.lap("certificates")
    main = found.pop("kept norms")
    more = {"settings": asdict(config), "references": found, "cpu_seconds": clock.cpu}
    return {**main, "details": {**main["details"], **more}}


def _assessments(seen: Seen, norms: Made, private: Made, config: Config) -> Iterator[tuple[str, Assessment]]:
    unseen = HeldOut(rows=seen.choosing.rows)
    yield "kept norms", _with_weights(posterior(seen, norms.head, NoisySum(price=norms.price), config), norms, seen)
    of_sums = posterior(seen, private.head, NoisySum(price=private.price), config)
    yield "clipped", _with_weights(of_sums, private, seen)
    claim = privacy_claim(private.event, adjacency="add-remove")
    of_curve = Private(privacy=claim, rows=seen.bound.rows, noise=_STUDY)
    yield "clipped, by its privacy curve", posterior(seen, private.head, of_curve, config)
    yield "head of zeros", posterior(seen, torch.zeros_like(norms.head), unseen, config)
    head = taught(seen, config)
    yield "head from the choosing rows", posterior(seen, head, unseen, config)
    alone = Network(network=lambda inputs: inputs @ head.T, of="prior mean")
    yield "head from the choosing rows, counted", certify(
        alone, seen.bound, prior=unseen, test=seen.test, failure_prob=config.failure_prob, settings=seen.settings
    )  # fmt: skip


def posterior(seen: Seen, head: Float[Tensor, "classes dim"], source: Source, config: Config) -> Assessment:
    """The assessment of the best posterior around N(head, s² I) over the list of s."""
    head = head.contiguous()
    chosen = math.nextafter(math.log(len(config.stds)), math.inf) if len(config.stds) > 1 else 0.0
    paid = seen.settings.share(config.failure_prob) * (1.0 - config.monte_carlo_share)
    charge = price_of(source).charge(n=seen.bound.n, failure_prob=paid).nats
    cost = bounds.log_xi(seen.bound.n) + charge + chosen
    tried = [(_fitted(seen, head, std=std, cost=cost, config=config), std) for std in config.stds]
    (mean, _), std = min(tried, key=lambda one: one[0][1])
    how = MonteCarlo(passes=config.passes, share=config.monte_carlo_share, batch_size=4096)
    return certify(
        gaussian(mean, std), seen.bound, network=_zero(seen.dim, seen.classes).eval(),
        prior=Prior(law=gaussian(head, std), source=source, choice_nats=chosen), test=seen.test,
        failure_prob=config.failure_prob, settings=seen.settings, monte_carlo=how, seed=config.seed + _FRESH,
    )  # fmt: skip


def _fitted(seen: Seen, head: Tensor, *, std: float, cost: float, config: Config) -> tuple[Tensor, float]:
    """The posterior's mean and the value that was minimised; nothing is certified here."""
    rows, labels = seen.bound.inputs, seen.bound.labels
    iterations = config.iterations * (1 if head.any() else 3)
    mean = fit_mean(rows, labels, prior_mean=head, std=std, cost_nats=cost, iterations=iterations)
    logits = rows @ mean.T / std
    risk = sum(float(gaussian_errors(*part).sum()) for part in zip(logits.split(8192), labels.split(8192), strict=True))
    nats = float((mean - head).square().sum()) / (2.0 * std**2) + cost
    return mean, bounds.binary_kl_upper(min(1.0, risk / seen.bound.n), nats / seen.bound.n)


def _with_weights(found: Assessment, made: Made, seen: Seen) -> Assessment:
    """The same with the certificate of the head as it is, at the same price, and its errors."""
    shares = {on: _share(made.head, rows) for on, rows in (("bound", seen.bound), ("test", seen.test))}
    own = weights_at(made.price, risk=shares["bound"], examples=seen.bound, failure_prob=found.failure_prob,
                     evidence=seen.settings.standing(seen.bound))  # fmt: skip
    details = {**found.details, "errors_of_weights": shares}
    return replace(found, certificates=(*found.certificates, own), details=details)


def _share(head: Tensor, rows: BoundSet) -> float:
    return error_share(error_count(rows.inputs @ head.T, rows.labels), rows.n)


def gaussian(mean: Tensor, std: float) -> GaussianPosterior:
    """N(mean, std² I) over the weights of a linear layer."""
    return GaussianPosterior(means={"weight": mean}, stds={"weight": torch.tensor(std, dtype=mean.dtype)})


def _zero(dim: int, classes: int) -> nn.Linear:
    layer = nn.Linear(dim, classes, bias=False)
    nn.init.zeros_(layer.weight)
    return layer
