"""What the jobs of a study would cost, from their configurations: chains, private runs, priors with their posteriors.

Chains of one kind go as one batch, as they do when they are carried out. Left out are reading the data, compiling, and
what is done once: so a time is a lower end of what a clock would show, near it where runs are long, and is told as "at
least".
"""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import torch
from torch import nn

from experiments.claims import Claim, seeds_named
from experiments.costs import (
    H100,
    TWO_CORES,
    Machine,
    Pass,
    Work,
    at_least,
    forward,
    gradient,
    of_seconds,
    told,
    total,
    update,
)
from experiments.papers.chains import EXAMPLES
from experiments.papers.runs.bayesian import CNN
from experiments.papers.runs.held_out import HeldOutConfig
from experiments.papers.runs.held_out import network as held_out_network
from experiments.papers.runs.knolle import PlainConfig
from experiments.papers.runs.p3sgd import Plain, Training
from experiments.papers.runs.p3sgd import network as p3sgd_network
from experiments.tables import ordered, part
from pacdp import Architecture, spots
from pacdp.cli.config import Run
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.recipes import Scale
from pacdp.cli.run import kind
from pacdp.cli.sweep.jobs import Job
from pacdp.models import Norm, build, parameter_count

SHAPES: dict[str, tuple[int, ...]] = {
    **{"digits": (1, 8, 8), "mnist": (1, 28, 28), "mnist-writers": (1, 28, 28), "cifar10": (3, 32, 32)},
    **{"malaria": (1, 50, 50), "xrays": (1, 64, 64), "xrays224": (1, 224, 224), "xrays-mixed": (1, 64, 64)},
    **{"spots": (spots.COUNT,), "backbone": (1280,), "gaussian-process": (1,)},
}
"""Of an example, by the data set's name without the number of its classes, or by its features' name."""
SIZES = EXAMPLES | {
    **{"mnist-writers": 60_000, "malaria": 21_947, "xrays": 5_216, "xrays224": 5_216, "xrays-mixed": 4_700},
    **{"gaussian-process": 100},
}
TESTED = {
    **{"digits": 360, "malaria": 5_611, "xrays": 624, "xrays224": 624, "xrays-mixed": 1_140, "gaussian-process": 100}
}
"""Examples to test on, where they are not 10,000."""
Alone = PrivateConfig | HeldOutConfig | PlainConfig | Training
"""Configurations of runs that go one by one."""
_RECORDS: dict[str, tuple[tuple[int, int], ...]] = {
    "digits": ((9, 1), (12, 119)),
    "malaria": ((65, 101), (97, 19), (130, 9), (164, 8), (197, 4), (240, 2), (305, 2), (331, 4), (353, 1), (385, 4),
                (482, 1), (547, 2), (614, 2), (687, 2)),
    "mnist-writers": ((19, 1), (46, 6), (65, 74), (97, 425), (129, 33)),
    "xrays": ((1, 3011), (2, 296), (3, 156), (4, 56), (5, 47), (6, 35), (7, 21), (8, 13), (9, 6), (10, 4), (11, 4),
              (13, 1), (14, 2), (16, 1), (30, 1)),
}  # fmt: skip
"""Records of a person, and how many people have so many or a little more, of the training sets by person."""
PEOPLE = {name: sum(count for _, count in found) for name, found in _RECORDS.items()}
"""In those training sets, which private runs by person take as public."""
_JUDGED = 1000
"""Examples at a time where risks are counted."""
_UPDATES = {"chain": 12, "optimizer": 8, "noise": 8}
"""Operations on all weights that a step makes beside the gradient."""


def cost(jobs: Sequence[Job], machine: Machine = H100) -> str:
    """For sentences: what they would cost together.

    Raises:
        ValueError: one is of a kind whose cost is not known.
    """
    return told(of_jobs(jobs), machine)


def on_a_gpu(jobs: Callable[[Scale, int], list[Job]]) -> Callable[[pl.DataFrame, Scale, Claim], str]:
    """What settles a study's open claims where they wait for longer runs of its own networks: its runs at scale gpu,
    with what they cost; those of scale paper where the table has that scale already."""

    jobs = functools.cache(jobs)  # a study asks for each of its open claims

    def settled_by(table: pl.DataFrame, scale: Scale, claim: Claim) -> str:
        larger: Scale = "paper" if scale in ("gpu", "paper") else "gpu"
        return f"these runs at scale {larger}, {cost(jobs(larger, 0))}"

    return settled_by


def by_seeds(
    jobs: Callable[[Scale, int], list[Job]], otherwise: str = "the seeds, which halve the noise of means"
) -> Callable[[pl.DataFrame, Scale, Claim], str]:
    """What settles a study's open claims where they wait for seeds: as many as the claim says, with what all cost.

    Args:
        otherwise: how four times the seeds are told of a claim that names no number.
    """

    jobs = functools.cache(jobs)

    def settled_by(table: pl.DataFrame, scale: Scale, claim: Claim) -> str:
        column = next((name for name in ("data", "problem", "bench", "dataset") if name in table.columns), "")
        named = [name for name in ordered(table, column) if claim.sentence.startswith(name)]
        own = sorted(named, key=len)[-1:]  # "mnist2" begins with "mnist"
        rows = part(table, **{column: own[0]}) if own else table
        runs = [job for job in jobs(scale, 0) if _counted(job) and (not own or job.tags.get(column) == own[0])]
        where = f" on {own[0]}" if own else ""
        told = claim.settled_by or f"four times {otherwise}"
        number = seeds_named(told)
        if not claim.settled_by and "seed" in table.columns:
            number = 4 * rows["seed"].n_unique()
        found = _of_a_seed(rows, runs)
        if found is None:
            return f"{told}; all runs of one seed{where} take an unknown time"
        seconds, say = found
        return f"{told}; {every_run(say, seconds, number, where)}"

    return settled_by


def every_run(say: Callable[[float], str], seconds: float, seeds: int, where: str = "") -> str:
    """For sentences: what all runs of one seed take, and those of so many."""
    whole = f", of {seeds} seeds {say(seeds * seconds)}" if seeds > 1 else ""
    return f"all runs of one seed{where} take {say(seconds)}{whole}"


def _counted(job: Job) -> bool:
    return isinstance(_config(job), Run | Alone) or hasattr(_config(job), "work")


def measured(table: pl.DataFrame) -> float:
    """Seconds of one core that all runs of one seed took, by the table's column of that name."""
    return float(table.unique(["seed", "seconds"])["seconds"].sum()) / table["seed"].n_unique()


def _of_a_seed(table: pl.DataFrame, jobs: Sequence[Job]) -> tuple[float, Callable[[float], str]] | None:
    """Seconds, and how they are told: measured of one thread where the table has those of its runs, estimated
    otherwise; None where neither is known."""
    if "seconds" in table.columns:
        return measured(table), of_seconds
    if "seconds_per_epoch" in table.columns:
        taken = dict(table.drop_nulls("seconds_per_epoch").select("run", "seconds_per_epoch").iter_rows())
        known = [(taken[job.key], job.config.config.sampling) for job in jobs if job.key in taken]
        spent = sum(seconds * one.sample_rate * one.steps for seconds, one in known)
        if seeds := len({job.config.seed for job in jobs if job.key in taken}):
            return spent / seeds, of_seconds
    seeds = len({job.tags.get("seed", job.config.seed) for job in jobs}) if jobs else 0
    try:
        return (of_jobs(jobs).seconds(TWO_CORES) / seeds, _estimated) if seeds else None
    except ValueError:  # such as of a network that is cut down to small images
        return None


def _estimated(seconds: float) -> str:
    return f"{at_least(seconds)}, estimated"


def cost_or_none(jobs: Sequence[Job]) -> str:
    """The same, or that it is not known."""
    try:
        return cost(jobs)
    except ValueError:
        return "whose cost is not known beforehand"


def of_jobs(jobs: Iterable[Job]) -> Work:
    """Cost of all jobs, chains of one kind as one batch.

    Raises:
        ValueError: one is of a kind whose cost is not known.
    """
    batches: dict[str, list[Run]] = {}
    found = []
    for job in jobs:
        config = _config(job)
        if isinstance(config, Run):
            batches.setdefault(kind(config), []).append(config)
        elif isinstance(config, Alone):
            found.append(_of_one(replace(config, seed=0)))
        elif hasattr(config, "work"):  # it says itself what it asks for
            found.append(config.work(SIZES[config.dataset]))
        else:
            raise ValueError(f"the cost of {job.key}, a {type(config).__name__}, is not known: say how to count it")
    return total([*found, *(of_chain(runs[0]).beside(len(runs)) for runs in batches.values())])


def _config(job: Job) -> Any:
    """What decides the cost: of a run with its judgement, the training."""
    return getattr(job.config, "config", getattr(job.config, "training", job.config))


@functools.cache
def _of_one(config: Alone) -> Work:
    match config:
        case PrivateConfig():
            return of_private(config)
        case HeldOutConfig():
            return of_held_out(config)
        case PlainConfig():
            return of_plain(config)
        case Training():
            return of_training(config)


def of_chain(run: Run) -> Work:
    """Cost of one chain: its gradients, and its records with what they look at of the Gibbs classifier."""
    problem = run.problem
    name, n = _plain(problem.dataset), problem.train_size or SIZES[problem.dataset]
    classes = 2 if problem.dataset.endswith("2") else 10
    batch = run.sampler.batch_size
    step, judged, weights = _passes(problem.architecture, SHAPES[name], classes, batch)
    moved = update(weights, _UPDATES["chain"])
    parts = [(step, run.epochs * n / batch, 1), (moved, run.epochs * n / batch, 1)]
    draws = 1.0 * (n + _tested(name))
    if hasattr(run.sampler, "gamma"):
        track = run.track
        parts += [(one, run.records * track.epochs * n / batch, 1) for one in (step, moved)]
        draws += track.prior_draws * n + track.test_draws * _tested(name)
    return Work((*parts, (judged, run.records * draws / _JUDGED, 1)))


def of_private(config: PrivateConfig) -> Work:
    """Cost of a private run: a gradient by example for all that take part, clipped, added up, and noised once a step.

    By example, every weight's gradient is written once and read twice beside the passes; ghost clipping makes a second
    pass instead.
    """
    sampling, size = config.sampling, float(SIZES[config.dataset])
    module, shape = _network(config.architecture, config.hidden, config.norm, _seen(config.dataset, config.features))
    batch = min(sampling.max_physical, round(sampling.sample_rate * size))
    weights, parts = parameter_count(module), sampling.steps * sampling.sample_rate * size / batch
    passes = gradient(module, shape, batch)
    by_example = passes if sampling.grad_sample_mode == "ghost" else update(weights * batch, 2)
    once = update(weights, _UPDATES["noise"])
    return Work((
        (passes, parts, 1), (by_example, parts, 1), (once, float(sampling.steps), 1),
        (forward(module, shape, _JUDGED), (size + _tested(config.dataset)) / _JUDGED, 1),
    ))  # fmt: skip


def of_plain(config: PlainConfig) -> Work:
    """Cost of a run without privacy."""
    seen = _seen(config.dataset, config.features)
    return _epochs(*_network(config.architecture, config.hidden, "none", seen), config)


def of_training(config: Training) -> Work:
    """Cost of a run of P3SGD's studies, without its attack.

    Private steps go as :class:`pacdp.step.sums.ByContribution` makes them: so many people at once under vmap, each
    padded to as many batches as the one of them with the most records has; a gradient for each batch, then the losses
    of the same batches at every candidate. Records look at all examples.
    """
    shape, size = _seen(config.dataset, config.features), SIZES[config.dataset]
    module = p3sgd_network(config.network, shape, 10, generator=torch.Generator())
    judged = (config.records + 1.0) * (size + _tested(config.dataset)) / _JUDGED
    records = Work(((forward(module, shape, _JUDGED), judged, 1),))
    if isinstance(config.strategy, Plain):
        return records + _epochs(module, shape, config.strategy, size)
    sampling, method = config.strategy.sampling, config.strategy.method
    sampled, scales = sampling.sample_rate * PEOPLE[config.dataset], getattr(method, "noise_scales", (1.0,))
    people = max(1, min(sampling.max_physical, round(sampled)))
    width = getattr(method, "local_batch_size", 0) or round(most_records(config.dataset, people, 1))
    parts, weights = sampling.steps * max(1.0, sampled / people), parameter_count(module)
    passes = parts * most_records(config.dataset, people, width)
    learnt = Pass((*gradient(module, shape, people * width).operations, *update(people * weights, 3).operations), 3)
    lost = forward(module, shape, people * width)._replace(calls=1)
    return records + Work((
        (learnt, passes, 1), (lost, passes * (len(scales) if len(scales) > 1 else 0), 1),
        (update(people * weights, 3), parts, 1), (update(weights, _UPDATES["noise"]), sampling.steps * len(scales), 1),
    ))  # fmt: skip


def most_records(dataset: str, people: int, width: int) -> float:
    """The mean number of batches, so wide, that the most records among so many people fill, from below."""
    mean, below, everybody = 0.0, 0, PEOPLE[dataset]
    for records, count in _RECORDS[dataset]:
        chance = ((below + count) / everybody) ** people - (below / everybody) ** people
        mean, below = mean + math.ceil(records / width) * chance, below + count
    return mean


def _epochs(module: nn.Module, shape: tuple[int, ...], config: PlainConfig | Plain, size: int = 0) -> Work:
    size = size or SIZES[getattr(config, "dataset", "")]
    steps = config.epochs * size / config.batch_size
    moved = update(parameter_count(module), _UPDATES["optimizer"])
    return Work(((gradient(module, shape, config.batch_size), steps, 1), (moved, steps, 1)))


def of_held_out(config: HeldOutConfig) -> Work:
    """Cost of a prior's training, a posterior's, and the Monte Carlo passes of the certificate.

    A pass with fresh weights for every example is counted as three of the network, of means, variances and draws, and
    as writing and reading the weights of every example once.
    """
    name, n = _plain(config.dataset), SIZES[config.dataset]
    module = held_out_network(config, input_shape=SHAPES[name], classes=10, generator=torch.Generator())
    seen, weights = round(config.prior_share * n), parameter_count(module)
    counted = n - seen
    prior = gradient(module, SHAPES[name], config.fit.batch_size)
    learnt = gradient(module, SHAPES[name], config.posterior.batch_size)
    judged = forward(module, SHAPES[name], _JUDGED)
    steps, drawn = config.fit.epochs * seen / config.fit.batch_size, float(config.posterior.steps)
    return Work((
        (prior, steps, 1), (update(weights, _UPDATES["optimizer"]), steps + 2.0 * drawn, 1), (learnt, drawn, 1),
        (update(weights * _JUDGED, 1), config.passes * counted / _JUDGED, 1),
        (judged, (3.0 * config.passes * counted + n + _tested(name)) / _JUDGED, 1),
    ))  # fmt: skip


@functools.cache
def _passes(architecture: Architecture, shape: tuple[int, ...], classes: int, batch: int) -> tuple[Pass, Pass, int]:
    module: nn.Module = build(architecture, input_shape=shape, classes=classes, generator=torch.Generator())
    return gradient(module, shape, batch), forward(module, shape, _JUDGED), parameter_count(module)


def _network(
    name: str, hidden: tuple[int, ...], norm: Norm, shape: tuple[int, ...]
) -> tuple[nn.Module, tuple[int, ...]]:
    """A network of private runs without what methods put into it, and the shape of what it sees."""
    name, hidden = ("fc", ()) if name == "linear" else (name, hidden)
    name = "cnn5" if name == CNN else name  # as many layers, of about the same widths
    chosen = Architecture(name=name, hidden=hidden, norm=norm)  # type: ignore[arg-type]
    return build(chosen, input_shape=shape, classes=10, generator=torch.Generator()), shape


def _seen(dataset: str, features: str) -> tuple[int, ...]:
    return SHAPES[_plain(dataset) if features == "pixels" else features]


def _tested(dataset: str) -> int:
    return TESTED.get(_plain(dataset), 10_000)


def _plain(dataset: str) -> str:
    name = dataset.removesuffix("2")
    if name not in SHAPES:
        raise ValueError(f"the shape of {dataset} is not known: choose one of {', '.join(SHAPES)}")
    return name
