"""Routes to a certificate from the same few labelled records, on the same fixed features.

- count: a classifier fitted to one half, its errors counted on the other;
- prior that saw nothing: a Gaussian head learnt on all records (:mod:`pacdp.features.head_law`);
- prior from half: the same head, learnt on one half, is the prior of one learnt and certified on the other half;
- private prior: a head that full-batch DP-SGD released of all records is the prior's mean;
- compression: the classifier of the count, run on records that it picks itself, certified on all.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import bounds
from experiments.papers.runs import private_prior
from experiments.papers.runs.held_out import Clock
from pacdp import BoundSet, DataFree, HeldOut, MonteCarlo, Network, Prior, Private, certify
from pacdp.certify import Assessment
from pacdp.certify.networks import error_share
from pacdp.compress import Estimator, Groups, Stop, compress
from pacdp.data import Dataset, load
from pacdp.features import SimplexHead, fit_law
from pacdp.features.head_law import HeadLaw, corners
from pacdp.features.named import seen_through
from pacdp.losses import error_count
from pacdp.step.accountant import privacy_claim
from pacdp.step.noise import SeededRandomness

COUNT, NOTHING, HALF, PRIVATE, COMPRESSED = (
    "held-out count", "PAC-Bayes, prior that saw nothing", "PAC-Bayes, prior from half", "PAC-Bayes, private prior",
    "compression",
)  # fmt: skip
ROUTES = (COUNT, NOTHING, HALF, PRIVATE, COMPRESSED)

_TESTED = 5000


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
    sharpness: float = 4.0
    """How much smaller the noise of the prior from half is than that of the posterior which the half had by itself."""
    rounds: int = 8
    iterations: int = 8
    passes: int = 50
    failure_prob: float = 0.05
    seed: int = 0


class Sample(NamedTuple):
    """The records of one draw, and others of the same training set to test on."""

    data: BoundSet
    test: BoundSet
    classes: int
    first: np.ndarray
    """Places of the examples of one half of the records."""
    second: np.ndarray


def sample(config: SmallConfig, *, root: str | None = None) -> Sample:
    """Records drawn by the seed, through fixed features of length 1."""
    train, _ = load(config.dataset, root=root)
    generator = np.random.default_rng(config.seed)
    owners = np.arange(train.n) if train.people is None else train.people
    order = generator.permutation(np.unique(owners))
    who, others = order[: config.n], order[config.n : config.n + _TESTED]
    if not len(others):
        raise ValueError(f"{config.dataset} has {len(who)} records, which leaves none of {config.n} to test on")
    places, rest = (_places(owners, some, config) for some in (who, others))
    halves = np.isin(owners[places], who[: config.n // 2])
    return Sample(
        _bound(train, places, config), _bound(train, rest, config), train.classes, np.flatnonzero(halves),
        np.flatnonzero(~halves),
    )  # fmt: skip


def _places(owners: np.ndarray, who: np.ndarray, config: SmallConfig) -> np.ndarray:
    places = np.flatnonzero(np.isin(owners, who))
    return places[np.unique(owners[places], return_index=True)[1]] if config.one_each else places


def _bound(data: Dataset, places: np.ndarray, config: SmallConfig) -> BoundSet:
    own = Dataset(data.name, data.inputs[places], data.labels[places], data.classes)
    rows = torch.tensor(seen_through(own, config.features).inputs)
    people = None if config.one_each or data.people is None else data.people[places].astype(np.int64)
    return BoundSet(inputs=rows / rows.norm(dim=1, keepdim=True).clamp_min(1e-6), labels=torch.tensor(own.labels),
                    people=people)  # fmt: skip


def conduct(config: SmallConfig, *, root: str | None = None) -> dict[str, Any]:
    """All routes from one sample: the first one's report, the others among its references."""
    drawn, reports = sample(config, root=root), dict[str, dict[str, Any]]()
    for name in config.routes:
        clock = Clock()
        found, tested = ROUTE[name](drawn, config)
        clock.lap("route")
        report = found.to_dict()
        more = {"test_error": tested, "n_test": drawn.test.units, "route": name, "cpu_seconds": clock.cpu}
        reports[_slug(name)] = report | {"details": {**report["details"], **more}}
    first, *others = reports.values()
    names = list(reports)[1:]
    return first | {"details": {**first["details"], "references": dict(zip(names, others, strict=True))}}


def _slug(name: str) -> str:
    return name.replace(",", "").replace(" ", "_")


Made = tuple[Assessment, float]


def _count(drawn: Sample, config: SmallConfig) -> Made:
    first, second = (_part(drawn.data, places) for places in (drawn.first, drawn.second))
    made = Estimator(estimator=_machine(config), classes=drawn.classes)
    state = made.train(None, first.inputs, first.labels, round=1, seed=config.seed)
    network = Network(network=lambda rows: made.outputs(state, rows), of="the machine of one half")
    found = certify(network, second, prior=HeldOut(rows=first.rows), failure_prob=config.failure_prob)
    return found, _error(made.outputs(state, drawn.test.inputs), drawn.test)


def _nothing(drawn: Sample, config: SmallConfig) -> Made:
    return _head(drawn.data, drawn.test, _law(drawn.data, drawn.classes, config), DataFree(), config)


def _half(drawn: Sample, config: SmallConfig) -> Made:
    """In the coordinates in which the first half's posterior is N(mean, I)."""
    first, second = (_part(drawn.data, places) for places in (drawn.first, drawn.second))
    before = _law(first, drawn.classes, config)
    mean = torch.linalg.solve_triangular(before.factor.double(), before.mean.double().T, upper=False).T.float()
    first, second, test = (
        BoundSet(inputs=one.inputs @ before.factor, labels=one.labels, people=one.people)
        for one in (first, second, drawn.test)
    )
    law = _law(second, drawn.classes, config, prior_mean=config.sharpness * mean)
    return _head(second, test, law, HeldOut(rows=first.rows), config)


def _private(drawn: Sample, config: SmallConfig) -> Made:
    if drawn.data.people is not None:
        raise ValueError("the private prior hides images, and here people are the records")
    settings = private_prior.Settings(head_mu=config.head_mu, steps=config.steps, clip_norm=config.clip_norm,
                                      path=config.path)  # fmt: skip
    head, event = private_prior.private_head(
        drawn.data.inputs, drawn.data.labels, classes=drawn.classes, settings=settings,
        randomness=SeededRandomness(config.seed),
    )  # fmt: skip
    claim = privacy_claim(event, adjacency="add-remove")
    cost = bounds.transfer_cost(privacy=claim, n=drawn.data.n, failure_prob=config.failure_prob).nats
    law = _law(drawn.data, drawn.classes, config, prior_mean=corners(drawn.classes) @ head, extra_nats=cost)
    source = Private(privacy=claim, rows=drawn.data.rows, noise="the study, whose noise is drawn from its seed")
    return _head(drawn.data, drawn.test, law, source, config)


def _compressed(drawn: Sample, config: SmallConfig) -> Made:
    learner = Estimator(estimator=_machine(config), classes=drawn.classes)
    size = max(5, config.n // 50)
    found = compress(learner, drawn.data, groups=Groups(sizes=(size,)), stop=Stop(rounds=(40,)),
                     failure_prob=config.failure_prob, seed=config.seed)  # fmt: skip
    return found.assessment, _error(found(drawn.test.inputs), drawn.test)


ROUTE: dict[str, Callable[[Sample, SmallConfig], Made]] = {
    COUNT: _count, NOTHING: _nothing, HALF: _half, PRIVATE: _private, COMPRESSED: _compressed,
}  # fmt: skip


def _machine(config: SmallConfig) -> Any:
    from sklearn.svm import SVC  # a list of studies starts without it

    return SVC(C=config.softness)


def _law(data: BoundSet, classes: int, config: SmallConfig, **more: Any) -> HeadLaw:
    return fit_law(data.inputs, data.labels, classes=classes, n=data.units, failure_prob=0.9 * config.failure_prob,
                   rounds=config.rounds, iterations=config.iterations, **more)  # fmt: skip


def _head(data: BoundSet, test: BoundSet, law: HeadLaw, source: Any, config: SmallConfig) -> Made:
    module = SimplexHead(data.inputs.shape[1], len(law.mean) + 1).eval()
    found = certify(
        law.posterior(), data, prior=Prior(law=law.prior(), source=source), network=module, test=test,
        failure_prob=config.failure_prob, seed=config.seed + 1000,
        monte_carlo=MonteCarlo(passes=config.passes, batch_size=1024),
    )  # fmt: skip
    return found, found.error("randomised", "test") or 0.0


def _part(data: BoundSet, places: np.ndarray) -> BoundSet:
    at = torch.as_tensor(places)
    people = None if data.people is None else data.people[places]
    return BoundSet(inputs=data.inputs[at], labels=data.labels[at], people=people)


def _error(outputs: Tensor, test: BoundSet) -> float:
    if test.people is None:
        return error_share(error_count(outputs, test.labels), test.n)
    wrong = (outputs.argmax(dim=1) != test.labels).double().numpy()
    _, owner, sizes = np.unique(test.people, return_inverse=True, return_counts=True)
    return math.fsum(wrong / sizes[owner]) / len(sizes)
