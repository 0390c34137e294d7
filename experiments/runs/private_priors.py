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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import bounds
from bounds.accounting import Event
from pacdp import GaussianPosterior, HeldOut, Network, Prior, Private, Report, Settings, certify
from pacdp.algorithms import SGHMC
from pacdp.algorithms.dp_sgd import DPSGD
from pacdp.backprop import hold_out
from pacdp.certify import BoundSet, MonteCarlo
from pacdp.certify.priors import NoisySum, Source
from pacdp.certify.trajectory import realised_price, train_certified
from pacdp.cli.runtime import Runtime
from pacdp.data import Dataset, load
from pacdp.data.rows import require_apart
from pacdp.features import OrientedGradients, RandomWaves, fit_mean, gaussian_errors, transform, unit
from pacdp.loop import train
from pacdp.losses import cross_entropies
from pacdp.schedules import Schedule, Table
from pacdp.step.accountant import privacy_claim
from pacdp.step.mechanism import Mechanism
from pacdp.step.noise import SeededRandomness

KEPT, CLIPPED, CURVE = "kept norms", "clipped", "clipped, by its privacy curve"
ZEROS, TAUGHT, COUNTED = "head of zeros", "head from the choosing rows", "head from the choosing rows, counted"
"""Routes: the prior's head and how it is paid for; the last is no prior, its errors are counted."""
NOISE = "the study, whose noise is drawn from its seed"
_START = "the study, whose heads begin at zero, on features that are whitened by rows which the bound does not use"
_RIDGE = 1e-3
"""Added to the shares of variance, so that directions of little variance are not blown up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """How images are seen: oriented gradients, whitened, random waves of these, whitened again."""

    orientations: int = 16
    cells: int = 9
    scale: float = 0.7
    first: int = 150
    """Directions of most variance of the gradients that are kept, divided by their standard deviation's root."""
    waves: int = 1500
    gain: float = 1.0
    dim: int = 200
    """Directions of most variance of the waves that are kept, divided by their standard deviation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The head that keeps its norms: momentum on all rows, noise that shrinks as step^(-cooling/2)."""

    steps: int = 80
    tau: float = 7000.0
    step_size: float = 3.2
    friction: float = 0.1
    cooling: float = 0.4


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


SMOKE = Config(
    dataset="digits", chosen=400, sight=Sight(cells=4, first=40, waves=100, dim=30), chain=Chain(steps=5),
    iterations=2, passes=2,
)  # fmt: skip


class Seen(NamedTuple):
    """The rows, as features of length 1."""

    choosing: BoundSet
    bound: BoundSet
    test: BoundSet
    dataset: Dataset
    """The bound's rows once more, in the form that chains are trained on."""
    settings: Settings

    def head(self) -> nn.Linear:
        """A layer of zeros."""
        return zero_head(self.bound, self.dataset.classes)


def zero_head(rows: BoundSet, classes: int) -> nn.Linear:
    """A linear layer of zeros without bias."""
    layer = nn.Linear(rows.inputs.shape[1], classes, bias=False).eval()
    nn.init.zeros_(layer.weight)
    return layer


def split_and_seen(config: Config, *, root: str | None = None) -> Seen:
    """The data set, split, as features; all that features know of data is what the choosing rows say.

    A choosing row that is the image of one of the bound's rows is refused.
    """
    sight = config.sight
    data, held_out = load(config.dataset, root=root)
    # the seed of the split is that of all runs: rows that choices were made on stay those
    parts = hold_out(data.n, prior_share=config.chosen / data.n, seed=0)
    sets = [BoundSet.part(data, parts.prior), BoundSet.part(data, parts.bound), BoundSet.part(held_out)]
    require_apart(sets[0].rows, sets[1].rows, ("the choosing rows", "the bound's rows"))
    gradients = OrientedGradients(
        size=data.inputs.shape[-1], orientations=sight.orientations, cells=sight.cells, scale=sight.scale
    )
    waves = RandomWaves(inputs=sight.first, dim=sight.waves, gain=sight.gain, seed=0)
    rows = whitened([transform(gradients, one.inputs.numpy()) for one in sets], dim=sight.first, power=0.25)
    rows = whitened([transform(waves, one.numpy()) for one in rows], dim=sight.dim, power=0.5)
    choosing, bound, test = (BoundSet(inputs=one, labels=own.labels) for one, own in zip(rows, sets, strict=True))
    by = (
        f"chosen on {choosing.n} rows that the bound does not use, but for the kinds of features and chains, which "
        f"earlier studies had tried: among {config.compared}, all paid for"
    )
    known = bounds.declared("settings fixed beforehand", by)
    settings = Settings(count=config.compared, hypothesis=known, elsewhere=choosing.rows)
    return Seen(choosing, bound, test, replace(data.subset(parts.bound), inputs=bound.inputs.numpy()), settings)


def whitened(rows: list[Float[Tensor, "_ inputs"]], *, dim: int, power: float) -> list[Float[Tensor, "_ dim"]]:
    """Each less the mean of the first, along the first's ``dim`` directions of most variance, over variance^power.

    Variances are shares of the whole, and _RIDGE is added to them; rows are scaled to length 1.
    """
    first = rows[0].double()
    mean = first.mean(dim=0)
    variances, directions = torch.linalg.eigh((first - mean).T @ (first - mean) / len(first))
    shares = variances.flip(0).clamp_min(0.0) / variances.clamp_min(0.0).sum()
    turn = directions.flip(1)[:, :dim] * (shares[:dim] + _RIDGE) ** -power
    return [unit(one @ turn.float() - (mean @ turn).float()) for one in rows]


def kept(seen: Seen, config: Config) -> tuple[Tensor, NoisySum]:
    """A head made of noisy sums whose norms were kept, at the price of what was added."""
    how, n = config.chain, seen.bound.n
    chain = SGHMC(
        tau=how.tau, step_size=how.step_size, friction=how.friction, cooling=how.cooling, base_std=30.0,
        batch_size=n, keep_norms=True, every_record=True,
    )  # fmt: skip
    made = train_certified(seen.head(), seen.dataset, settings=chain, steps=how.steps, seed=config.seed)
    price = realised_price(chain, made.norms, steps=how.steps, n=n, noise=NOISE, start=_START)
    by = bounds.declared(
        "norms of all records kept", f"the study, which kept one sum for each of {how.steps} gradients"
    )
    known = tuple(by if one.name == by.name else one for one in price.hypotheses)
    return made.weights["weight"], NoisySum(price=replace(price, hypotheses=known))


def clipped(seen: Seen, config: Config) -> tuple[Tensor, Event]:
    """A private head, and what released it."""
    how = config.clipped
    shape = [((t + 1) / how.steps) ** -how.cooling for t in range(how.steps)]
    last = math.sqrt(math.fsum(one**-2 for one in shape)) / how.mu
    return released(
        seen.bound, seen.head(), steps=how.steps, clip_norm=how.clip_norm, seed=config.seed, momentum=how.momentum,
        noise_multiplier=Table(values=tuple(last * one for one in shape)), learning_rate=how.learning_rate,
    )  # fmt: skip


def released(
    rows: BoundSet,
    head: nn.Linear,
    *,
    steps: int,
    clip_norm: float,
    noise_multiplier: Schedule | float,
    seed: int,
    **how: Any,
) -> tuple[Tensor, Event]:
    """The weights after DP-SGD on all rows in every step."""
    mechanism = Mechanism(clip_norm=clip_norm, noise_multiplier=noise_multiplier, sample_rate=1.0,
                          expected_batch_size=float(rows.n), steps=steps, grad_sample_mode="ghost",
                          max_physical_batch=10_000)  # fmt: skip
    run = train(
        DPSGD(**how), head, TensorDataset(rows.inputs, rows.labels), mechanism=mechanism,
        loss=cross_entropies, randomness=SeededRandomness(seed),
    )  # fmt: skip
    assert run.event is not None
    return run.weights["weight"], run.event


def worst_case(event: Event) -> bounds.WorstCaseSum:
    """The price of clipped sums over all records, with what is known of them."""
    whose = "the settings of DP-SGD"
    known = (
        bounds.proved("records enter by noisy sums", f"{whose}: noise is added to each sum, the rest computes with it"),
        bounds.declared("noise secret or independent", NOISE),
        bounds.proved("schedule blind to the records", f"{whose}, of which step sizes and noise are functions"),
        bounds.declared("first weights independent", _START),
        bounds.proved("batches drawn without the records", f"{whose}: every record is in every batch"),
        bounds.proved("contributions bounded", f"{whose}: each contribution is clipped"),
    )
    return bounds.noisy_sum_worst_case(event=event, hypotheses=known)


def taught(seen: Seen, config: Config) -> Float[Tensor, "classes dim"]:
    """A head from the choosing rows alone, by least squares."""
    rows, classes = seen.choosing.inputs, seen.dataset.classes
    targets = F.one_hot(seen.choosing.labels, classes).to(rows) - 1.0 / classes
    ridge = config.ridge * len(rows) * torch.eye(rows.shape[1])
    return config.gain * torch.linalg.solve(rows.T @ rows + ridge, rows.T @ targets).T.contiguous()


def conduct(config: Config, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Heads, posteriors and certificates; the report of the head with kept norms, all others among its details."""
    seen = split_and_seen(config, root=runtime.data_root)
    reports = {route: one.to_dict() for route, one in _assessments(seen, config)}
    main = reports.pop(KEPT)
    return {**main, "details": {**main["details"], "references": reports}}


def _assessments(seen: Seen, config: Config) -> Iterator[tuple[str, Report]]:
    (private, event), blind, unseen = clipped(seen, config), taught(seen, config), HeldOut(rows=seen.choosing.rows)
    claim = privacy_claim(event, adjacency="add-remove")
    priors: dict[str, tuple[Tensor, Source]] = {
        KEPT: kept(seen, config),
        CLIPPED: (private, NoisySum(price=worst_case(event))),
        CURVE: (private, Private(privacy=claim, rows=seen.bound.rows, noise=NOISE)),
        ZEROS: (torch.zeros_like(blind), unseen),
        TAUGHT: (blind, unseen),
    }
    for route, (head, source) in priors.items():
        yield route, posterior(seen, head.contiguous(), source, config)
    alone = Network(network=lambda inputs: inputs @ blind.T, of="prior mean")
    yield COUNTED, certify(alone, seen.bound, seen=unseen, test=seen.test, ask="error",
                           failure_prob=config.failure_prob, settings=seen.settings)  # fmt: skip


def posterior(seen: Seen, head: Float[Tensor, "classes dim"], source: Source, config: Config) -> Report:
    """The assessment of the best posterior around N(head, s² I) over the list of s."""
    bound, nats = seen.bound, math.nextafter(math.log(len(config.stds)), math.inf)
    paid = seen.settings.share(config.failure_prob) * (1.0 - config.monte_carlo_share)
    cost = bounds.log_xi(bound.n) + source.price.charge(n=bound.n, failure_prob=paid).nats + nats
    tried = list[tuple[float, Tensor, float]]()
    for std in config.stds:
        mean = fit_mean(bound.inputs, bound.labels, prior_mean=head, std=std, cost_nats=cost,
                        iterations=config.iterations * (1 if head.any() else 3))  # fmt: skip
        risk = float(gaussian_errors(bound.inputs @ mean.T / std, bound.labels).mean())
        kl = float((mean - head).square().sum()) / (2.0 * std**2)
        tried.append((bounds.binary_kl_upper(min(1.0, risk), (kl + cost) / bound.n), mean, std))
    _, mean, std = min(tried, key=lambda one: one[0])
    law, prior = (
        GaussianPosterior(means={"weight": at}, stds={"weight": torch.tensor(std, dtype=at.dtype)})
        for at in (mean, head)
    )
    return certify(
        law, bound, network=seen.head(), prior=Prior(law=prior, source=source, choice_nats=nats), test=seen.test,
        failure_prob=config.failure_prob, settings=seen.settings, seed=config.seed + 1000,  # draws that chose nothing
        monte_carlo=MonteCarlo(passes=config.passes, share=config.monte_carlo_share, batch_size=4096),
    )  # fmt: skip
