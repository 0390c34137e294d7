"""Routes to a certificate from the same few labelled records, on the same fixed features.

- count: a classifier fitted to one half, its errors counted on the other;
- prior that saw nothing: a Gaussian head learnt on all records (:mod:`pacdp.features.head_law`);
- prior from half: the same head, learnt on one half, is the prior of one learnt and certified on the other half;
- private prior: a head that full-batch DP-SGD released of all records is the prior's mean;
- compression: the classifier of the count, run on records that it picks itself, certified on all;
- trajectory: a linear layer that chains with noise teach on all records, at the price of what was realised;
- drawn head: one half teaches an anchor, and a head around it is drawn exactly with the other half;
- law that nobody draws: a fifth fixes coordinates, the others the law of logistic heads and Gaussians around it.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import bounds
from bounds.accounting import Event
from experiments.runs.private_priors import NOISE, released, zero_head
from pacdp import HeldOut, Network, Prior, Private, certify
from pacdp.algorithms import SGHMC
from pacdp.certify import BoundSet, DataFree, MonteCarlo, Report
from pacdp.certify.outputs import error_share
from pacdp.certify.priors import Source
from pacdp.certify.trajectory import train_certified
from pacdp.cli.runtime import Runtime
from pacdp.compress import Estimator, Groups, Stop, compress
from pacdp.data import Dataset, load
from pacdp.features import SimplexHead, anchored_head, fit_law, nearest, ridge_heads, unit
from pacdp.features.backbone import embed
from pacdp.features.head_law import HeadLaw, corners
from pacdp.features.named import seen_through
from pacdp.losses import error_count
from pacdp.predictions.report import Measured
from pacdp.schedules import Table
from pacdp.step.accountant import privacy_claim

ROUTES = COUNT, NOTHING, HALF, PRIVATE, COMPRESSED = (
    "held-out count", "PAC-Bayes, prior that saw nothing", "PAC-Bayes, prior from half", "PAC-Bayes, private prior",
    "compression",
)  # fmt: skip

GIBBS = TRAJECTORY, DRAWN, UNDRAWN = "trajectory", "drawn head", "law that nobody draws"

_TESTED = 5000
_LENGTH = 3.0
"""Of the chain's steps."""
_DECAY = 1e-4
"""Of the anchor's own regression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallConfig:
    """Everything that decides the numbers; nothing here was chosen by a certificate."""

    dataset: str
    features: str
    n: int
    """Records: images, or patients."""
    one_each: bool = False
    """Whether one image of each patient is taken, so that images are independent records."""
    routes: tuple[str, ...] = ROUTES
    softness: float = 10.0
    """C of the support vector machine."""
    head_mu: float = 0.1
    """Gaussian DP of the private prior's head."""
    steps: int = 40
    clip_norm: float = 0.03
    path: float = 1000.0
    """Σ step size · clip_norm: how far the head could come if all clipped gradients agreed."""
    sharpness: float = 4.0
    """How much smaller the noise of the prior from half is than that of the posterior which the half had by itself."""
    rounds: int = 8
    iterations: int = 8
    passes: int = 50
    cold: float = 0.2
    """τ over the records that the drawn head counts."""
    cold_around: float = 1.0
    """The same of the law that nobody draws."""
    cold_noise: float = 0.02
    """τ of the chain's noise over its records."""
    chain_steps: int = 200
    each: int = 20
    """Images of one patient that are seen through the backbone."""
    failure_prob: float = 0.05
    seed: int = 0


class Sample(NamedTuple):
    """The records of one draw with both of their halves, a fifth and the rest, and others of the same training set to
    test on."""

    data: BoundSet
    first: BoundSet
    second: BoundSet
    fifth: BoundSet
    rest: BoundSet
    test: BoundSet
    classes: int


def sample(config: SmallConfig, *, root: str | None = None) -> Sample:
    """Records drawn by the seed, through fixed features of length 1."""
    train = _loaded(config, root)
    owners = np.arange(train.n) if train.people is None else train.people
    order, half = np.random.default_rng(config.seed).permutation(np.unique(owners)), config.n // 2
    ends = [(0, config.n), (0, half), (half, config.n), (0, config.n // 5), (config.n // 5, config.n),
            (config.n, config.n + _TESTED)]  # fmt: skip
    parts: list[Any] = [_bound(train, owners, order[start:end], config) for start, end in ends]
    return Sample(*parts, classes=train.classes)


def _loaded(config: SmallConfig, root: str | None) -> Dataset:
    """The training set; where the backbone sees it, some images of each patient."""
    if config.features != "backbone":
        return load(config.dataset, root=root)[0]
    return _embedded(config.dataset, 1 if config.one_each else config.each, root)


@lru_cache(maxsize=1)
def _embedded(dataset: str, each: int, root: str | None) -> Dataset:
    """The first images of each patient, in rows of the backbone."""
    train, _ = load(dataset, root=root)
    assert train.people is not None
    seen = Counter[int]()
    kept = [place for place, one in enumerate(train.people.tolist()) if seen.update([one]) or seen[one] <= each]
    return replace(train, inputs=embed(train.inputs[kept]), labels=train.labels[kept], people=train.people[kept])


def _bound(data: Dataset, owners: np.ndarray, some: np.ndarray, config: SmallConfig) -> BoundSet:
    places, people = np.flatnonzero(np.isin(owners, some)), None
    if config.one_each:
        places = places[np.unique(owners[places], return_index=True)[1]]
    elif data.people is not None:
        people = data.people[places]
    labels, seen = data.labels[places], data.inputs[places]
    if config.features != "backbone":
        seen = seen_through(Dataset(data.name, seen, labels, data.classes), config.features).inputs
    rows = unit(torch.tensor(seen))
    return BoundSet(inputs=rows, labels=torch.tensor(labels), people=people)


def small_sample(config: SmallConfig, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """A job's report: all routes from one sample, the first one's with the others among its references."""
    drawn, reports = sample(config, root=runtime.data_root), dict[str, dict[str, Any]]()
    for name in config.routes:
        found, tested = ROUTE[name](drawn, config)
        report, more = found.to_dict(), {"test_error": tested, "n_test": drawn.test.units, "route": name}
        reports[name.replace(",", "").replace(" ", "_")] = report | {"details": report["details"] | more}
    first = reports.pop(next(iter(reports)))
    return first | {"details": first["details"] | {"references": reports}}


Made = tuple[Report, float | None]
"""With the error on the test records."""


def _count(drawn: Sample, config: SmallConfig) -> Made:
    made, of = Estimator(estimator=_machine(config), classes=drawn.classes), "the machine of one half"
    state = made.train(None, drawn.first.inputs, drawn.first.labels, round=1, seed=config.seed)
    network = Network(network=lambda rows: made.outputs(state, rows), of=of)
    source = HeldOut(rows=drawn.first.rows)
    found = certify(network, drawn.second, seen=source, test=drawn.test, ask="error", failure_prob=config.failure_prob)
    return found, found.error(of, "test")


def _nothing(drawn: Sample, config: SmallConfig) -> Made:
    return _head(drawn.data, drawn.test, _law(drawn.data, drawn.classes, config), DataFree(), config)


def _half(drawn: Sample, config: SmallConfig) -> Made:
    """In the coordinates in which the first half's posterior is N(mean, I)."""
    before = _law(drawn.first, drawn.classes, config)
    mean = torch.linalg.solve_triangular(before.factor.double(), before.mean.double().T, upper=False).T.float()
    first, second, test = (
        replace(one, inputs=one.inputs @ before.factor) for one in (drawn.first, drawn.second, drawn.test)
    )
    law = _law(second, drawn.classes, config, prior_mean=config.sharpness * mean)
    return _head(second, test, law, HeldOut(rows=first.rows), config)


def _private(drawn: Sample, config: SmallConfig) -> Made:
    data, classes = drawn.data, drawn.classes
    head, event = private_head(data, classes, config)
    claim = privacy_claim(event, adjacency="add-remove")
    cost = bounds.transfer.transfer_cost(privacy=claim, n=data.n, failure_prob=config.failure_prob).nats
    law = _law(data, classes, config, prior_mean=corners(classes) @ head, extra_nats=cost)
    return _head(data, drawn.test, law, Private(privacy=claim, rows=data.rows, noise=NOISE), config)


def private_head(data: BoundSet, classes: int, config: SmallConfig) -> tuple[Tensor, Event]:
    """Full-batch DP-SGD with step sizes that fall linearly; head_mu-GDP."""
    count = config.steps
    mean = config.path / (config.clip_norm * count)
    return released(
        data, zero_head(data, classes), steps=count, clip_norm=config.clip_norm, seed=config.seed,
        noise_multiplier=math.sqrt(count) / config.head_mu,
        learning_rate=Table(values=tuple(2.0 * mean * (1.0 - t / count) for t in range(count))),
    )  # fmt: skip


def _compressed(drawn: Sample, config: SmallConfig) -> Made:
    learner = Estimator(estimator=_machine(config), classes=drawn.classes)
    found = compress(learner, drawn.data, groups=Groups(sizes=(max(5, config.n // 50),)), stop=Stop(rounds=(40,)),
                     failure_prob=config.failure_prob, seed=config.seed)  # fmt: skip
    return found.report, error_share(error_count(found(drawn.test.inputs), drawn.test.labels), drawn.test.n)


def _trajectory(drawn: Sample, config: SmallConfig) -> Made:
    """A linear layer from 0, whose chain sees all records in every step."""
    data, classes = drawn.data, drawn.classes
    network = nn.Linear(data.inputs.shape[1], 1 if classes == 2 else classes)
    for one in network.parameters():
        nn.init.zeros_(one)
    sampler = SGHMC(tau=config.cold_noise * data.units, step_size=_LENGTH, friction=0.2, cooling=0.5, base_std=30.0)
    unit_of = "example" if data.people is None else "patient"
    known = Dataset("small", data.inputs.numpy(), data.labels.numpy(), classes, people=data.people, unit=unit_of)
    made = train_certified(network.eval(), known, settings=sampler, steps=config.chain_steps,
                           failure_prob=config.failure_prob, seed=config.seed)  # fmt: skip
    network.load_state_dict(made.weights)
    judged = certify(network, drawn.test, seen=HeldOut(rows=data.rows), ask="error", failure_prob=config.failure_prob)
    risk = float(made.certificate.inputs["risk"])
    measured = Measured(of=made.certificate.of, on="bound", mean=risk, n=data.units)
    found = Report.of([made.certificate, measured], data, route="released", failure_prob=config.failure_prob)
    return found, judged.measured[0].mean


def _drawn(drawn: Sample, config: SmallConfig) -> Made:
    first, second, test = (replace(one, inputs=_with_ones(one.inputs)) for one in
                           (drawn.first, drawn.second, drawn.test))  # fmt: skip
    law = anchored_head(
        first.inputs, first.labels, classes=drawn.classes, ridge=0.01, tau=config.cold * second.units,
        normaliser=second.units, seed=config.seed, provenance=config.features, decay=_DECAY,
    )  # fmt: skip
    found = certify(law, second, prior=HeldOut(rows=first.rows), test=test, failure_prob=config.failure_prob)
    return found, found.error("drawn head", "test")


def _undrawn(drawn: Sample, config: SmallConfig) -> Made:
    fifth, rest = drawn.fifth, drawn.rest
    heads = ridge_heads(
        fifth.inputs, classes=drawn.classes, ridge=2e-3, share=0.5, bias=3.0, tau=config.cold_around * rest.units,
        normaliser=rest.units, provenance=config.features,
    )  # fmt: skip
    law = nearest(heads, rest.inputs, rest.labels)
    found = certify(law, rest, prior=HeldOut(rows=fifth.rows), test=drawn.test, failure_prob=config.failure_prob)
    return found, found.error("mean weights", "test")


def _with_ones(rows: Tensor) -> Tensor:
    return torch.cat([rows, torch.ones(len(rows), 1)], dim=1)


ROUTE: dict[str, Callable[[Sample, SmallConfig], Made]] = dict(
    zip((*ROUTES, *GIBBS), (_count, _nothing, _half, _private, _compressed, _trajectory, _drawn, _undrawn), strict=True)
)


def _machine(config: SmallConfig) -> Any:
    from sklearn.svm import SVC  # a list of studies starts without it

    return SVC(C=config.softness)


def _law(data: BoundSet, classes: int, config: SmallConfig, **more: Any) -> HeadLaw:
    return fit_law(data.inputs, data.labels, classes=classes, n=data.units, failure_prob=0.9 * config.failure_prob,
                   rounds=config.rounds, iterations=config.iterations, **more)  # fmt: skip


def _head(data: BoundSet, test: BoundSet, law: HeadLaw, source: Source, config: SmallConfig) -> Made:
    found = certify(
        law.posterior(), data, prior=Prior(law=law.prior(), source=source), test=test,
        network=SimplexHead(data.inputs.shape[1], len(law.mean) + 1).eval(), failure_prob=config.failure_prob,
        seed=config.seed + 1000, monte_carlo=MonteCarlo(passes=config.passes, batch_size=1024),
    )  # fmt: skip
    return found, found.error("randomised", "test")
