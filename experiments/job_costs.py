"""What the jobs of a study would cost, from their configurations: chains, private runs, priors with their posteriors.

Chains of one kind go as one batch, as they do when they are carried out. Left out are reading the data, compiling, and
what is done once: so a time is a lower end of what a clock would show, near it where runs are long.
"""

import functools
from collections.abc import Callable, Iterable, Sequence

import polars as pl
import torch
from torch import nn

from experiments.claims import Claim
from experiments.costs import H100, Machine, Pass, Work, forward, gradient, told, total, update
from experiments.papers.chains import EXAMPLES
from experiments.papers.runs.held_out import HeldOutConfig
from experiments.papers.runs.held_out import network as held_out_network
from pacdp import Architecture
from pacdp.cli.config import Run
from pacdp.cli.private.algorithms import Public
from pacdp.cli.private.algorithms import network as private_network
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.recipes import Scale
from pacdp.cli.run import kind
from pacdp.cli.sweep.jobs import Job
from pacdp.models import build, parameter_count

SHAPES = {"digits": (1, 8, 8), "mnist": (1, 28, 28), "cifar10": (3, 32, 32)}
"""Of an example, by the data set's name without the number of its classes."""
TESTED = {"digits": 360, "mnist": 10_000, "cifar10": 10_000}
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

    def settled_by(table: pl.DataFrame, scale: Scale, claim: Claim) -> str:
        larger: Scale = "paper" if scale in ("gpu", "paper") else "gpu"
        return f"these runs at scale {larger}, {cost(jobs(larger, 0))}"

    return settled_by


def cost_or_none(jobs: Sequence[Job]) -> str:
    """The same, or that it is not known."""
    try:
        return cost(jobs)
    except ValueError:
        return "whose cost is not known beforehand"


def of_jobs(jobs: Iterable[Job]) -> Work:
    """Of all jobs, chains of one kind as one batch.

    Raises:
        ValueError: one is of a kind whose cost is not known.
    """
    batches: dict[str, list[Run]] = {}
    found = []
    for job in jobs:
        config = job.config
        if isinstance(config, Run):
            batches.setdefault(kind(config), []).append(config)
        elif isinstance(config, PrivateConfig):
            found.append(of_private(config))
        elif isinstance(config, HeldOutConfig):
            found.append(of_held_out(config))
        else:
            raise ValueError(f"the cost of {job.key}, a {type(config).__name__}, is not known: say how to count it")
    return total([*found, *(of_chain(runs[0]).beside(len(runs)) for runs in batches.values())])


def of_chain(run: Run) -> Work:
    """Of one chain: its gradients, and its records with what they look at of the Gibbs classifier."""
    problem = run.problem
    name, n = _plain(problem.dataset), problem.train_size or EXAMPLES[problem.dataset]
    classes = 2 if problem.dataset.endswith("2") else 10
    batch = run.sampler.batch_size
    step, judged, weights = _passes(problem.architecture, SHAPES[name], classes, batch)
    moved = update(weights, _UPDATES["chain"])
    parts = [(step, run.epochs * n / batch, 1), (moved, run.epochs * n / batch, 1)]
    draws = 1.0 * (n + TESTED[name])
    if hasattr(run.sampler, "gamma"):
        track = run.track
        parts += [(one, run.records * track.epochs * n / batch, 1) for one in (step, moved)]
        draws += track.prior_draws * n + track.test_draws * TESTED[name]
    return Work((*parts, (judged, run.records * draws / _JUDGED, 1)))


def of_private(config: PrivateConfig) -> Work:
    """Of a private run: a gradient by example for all that take part, clipped, added up, and noised once a step.

    By example, every weight's gradient is written once and read twice beside the passes.
    """
    name, sampling = _plain(config.dataset), config.sampling
    public = Public(input_shape=SHAPES[name], classes=10, size=float(EXAMPLES[config.dataset]))
    module = private_network(config, public, device="cpu")
    batch = min(sampling.max_physical, round(sampling.sample_rate * public.size))
    weights, parts = parameter_count(module), sampling.steps * sampling.sample_rate * public.size / batch
    by_example = update(weights * batch, 2)
    once = update(weights, _UPDATES["noise"])
    passes = ((gradient(module, public.input_shape, batch), parts, 1), (by_example, parts, 1))
    judged = (forward(module, public.input_shape, _JUDGED), (public.size + TESTED[name]) / _JUDGED, 1)
    return Work((*passes, (once, float(sampling.steps), 1), judged))


def of_held_out(config: HeldOutConfig) -> Work:
    """Of a prior's training, a posterior's, and the Monte Carlo passes of the certificate, each with drawn weights.

    Weights drawn for every example take as many passes with one draw as there are examples in a group; the estimate
    takes three passes of the network for one with drawn weights: of the means, of the variances, and of the draws.
    """
    name, n = _plain(config.dataset), EXAMPLES[config.dataset]
    module = held_out_network(config, input_shape=SHAPES[name], classes=10, generator=torch.Generator())
    seen, weights = round(config.prior_share * n), parameter_count(module)
    counted = n - seen
    prior = gradient(module, SHAPES[name], config.fit.batch_size)
    learnt = gradient(module, SHAPES[name], config.posterior.batch_size)
    judged = forward(module, SHAPES[name], _JUDGED)
    steps, drawn = config.fit.epochs * seen / config.fit.batch_size, float(config.posterior.steps)
    return Work((
        (prior, steps, 1), (update(weights, _UPDATES["optimizer"]), steps + 2.0 * drawn, 1), (learnt, drawn, 1),
        (judged, (3.0 * config.passes * counted + n + TESTED[name]) / _JUDGED, 1),
    ))  # fmt: skip


@functools.cache
def _passes(architecture: Architecture, shape: tuple[int, ...], classes: int, batch: int) -> tuple[Pass, Pass, int]:
    module: nn.Module = build(architecture, input_shape=shape, classes=classes, generator=torch.Generator())
    return gradient(module, shape, batch), forward(module, shape, _JUDGED), parameter_count(module)


def _plain(dataset: str) -> str:
    name = dataset.removesuffix("2")
    if name not in SHAPES:
        raise ValueError(f"the shape of {dataset} is not known: choose one of {', '.join(SHAPES)}")
    return name
