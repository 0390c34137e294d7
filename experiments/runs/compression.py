"""Runs of sample compression: one learner after the other, and one at growing numbers of images beside a count.

For the count the same learner, a kernel machine, is run on one half of the images and judged on the other. It picks its
records there too, which for a count it need not.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.study import Row
from pacdp.certify import BoundSet
from pacdp.cli.compressing import Compression, compression, compute
from pacdp.cli.folder import Folder, provenance
from pacdp.cli.runtime import Runtime
from pacdp.cli.sweep.jobs import Job, single
from pacdp.compress import Groups, Stop
from pacdp.compress.certify import compress
from pacdp.data import make_splits
from pacdp.losses import error_count

SIZES = (500, 1000, 2000, 5000, 10_000, 20_000, 60_000)
COMPRESSED, COUNTED = "compression of all", "count on a held-out half"
PLAN = {
    "digits": ("entropy-sgd", "entropy-sgld", "sgd", "adam", "kernel"),
    "digits2": ("entropy-sgd",),
    "mnist2": ("entropy-sgd", "entropy-sgld", "sgd", "kernel"),
    "mnist": ("entropy-sgd", "sgd", "kernel"),
    "malaria": ("adam",),
    "xrays": ("adam",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A compression of one part of the examples, counted on the other, which may be empty."""

    compression: Compression
    held_out: int
    """Examples of the other part, drawn with the seed."""

    @property
    def seed(self) -> int:
        """The compression's."""
        return self.compression.seed


def _counted(config: Counted, runtime: Runtime, folder: Path) -> Row:
    made, seed = config.compression, config.seed
    data, test = made.problem.data(root=runtime.data_root)
    parts = make_splits(data.n, sizes={"rest": config.held_out, "sample": data.n - config.held_out}, seed=seed)
    rest = data.subset(parts["rest"]) if config.held_out else None
    tests = BoundSet.part(test)
    found = compress(made.learner, data.subset(parts["sample"]), test=rest, groups=made.groups, stop=made.stop,
                     seed=seed, failure_prob=made.failure_prob, settings=made.settings(tests),
                     file=Folder(folder).checkpoint, every=runtime.checkpoint_seconds)  # fmt: skip
    errors = None if found.trace.best is None else error_count(found(tests.inputs), tests.labels)
    report = found.report.to_dict(provenance=provenance(device=runtime.device, seed=seed))
    return report | {"details": {**report["details"], "test_errors": errors, "n_test": tests.n}}


COMPRESSION, COUNT = single(compute), single(_counted)


def jobs(smoke: bool, seed: int) -> list[Job]:
    """Every learner on full data, then both routes at every number of images; for ``smoke`` a kernel on digits."""
    if smoke:
        return [_learner("kernel", "digits", compression("kernel", "digits", scale="smoke", train_size=200, seed=seed)),
                *_routes(compression("kernel", "digits2", scale="smoke", train_size=200, seed=seed))]  # fmt: skip
    sized = [compression("kernel", "mnist2", scale="cpu", train_size=n, seed=seed) for n in SIZES]
    return [*_learners(seed), *(job for one in sized for job in _routes(one))]


def _routes(config: Compression) -> Iterator[Job]:
    n = config.problem.train_size
    config = replace(config, groups=Groups(sizes=(10, 3), starts=(0, 60)), expected=())
    tags = {"dataset": config.problem.dataset, "labels": "true", "learner": "kernel", "n": n}
    for route, held_out in ((COMPRESSED, 0), (COUNTED, n // 2)):
        key, own = f"routes-{'held-out' if held_out else 'all'}-{n}", Counted(compression=config, held_out=held_out)
        yield Job(key=key, kind=COUNT, config=own, tags=tags | {"route": route})


def _learners(seed: int) -> Iterator[Job]:
    def made(learner: str, dataset: str, **how: Any) -> Compression:
        return compression(learner, dataset, scale="cpu", seed=seed, **how)

    for dataset, learners in PLAN.items():
        for learner in learners:
            config = made(learner, dataset)
            if learner == "sgd" and dataset != "digits":  # may go on mending what it has just unlearnt
                config = replace(config, stop=Stop(rounds=(240,)))
            yield _learner(learner, dataset, config)
    yield _learner("kernel", "cifar10", made("kernel", "cifar10", train_size=10_000))
    config = made("adam", "cifar10")
    config = replace(config, learner=replace(config.learner, steps=1), start_size=40_000, start_steps=6000,
                     groups=Groups(sizes=(20,)), stop=Stop(rounds=(1,)))  # fmt: skip
    yield _learner("adam", "cifar10", config, "-start")
    config = made("entropy-sgd", "mnist2", random_labels=1.0, train_size=2000)
    config = replace(config, groups=Groups(sizes=(50,)), chosen_on_test=False, expected=())
    yield _learner("entropy-sgd", "mnist2", config, "-random")


def _learner(learner: str, dataset: str, config: Compression, what: str = "") -> Job:
    labels = "random" if config.problem.random_labels else "true"
    tags = {"dataset": dataset, "labels": labels, "learner": learner}
    return Job(key=f"compress-{learner}-{dataset}{what}", kind=COMPRESSION, config=config, tags=tags)
