"""Runs of `pacdp compress`: a learner on records that it picks, in a folder, and its certificate (pacdp.compress).

Named compressions are at three scales: `smoke` (seconds, digits), `cpu` (two cores), `paper` (longer).
Their numbers stand in ``recipes.json``. Digits are seen whole; MNIST by its oriented gradients, a fixed map, with
copies of the picked images shifted by a pixel; other images by gradients and by the image shrunk. The settings were
chosen on the test set in place of the sample: groups of fewer records need fewer in all and more rounds, and training
must be cold and long enough to mend every error that was picked. So Entropy-SGD has a thermal noise of √(2/τ) = 0.0014
here, in place of the √n of private training. Where no network is right on nearly everything (pictures), the first group
is large, which is a random one, as all records tie before the first round; then the run is watched for a few rounds,
and each may be its end.
"""

import time
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import torch

from pacdp import compress, load_checkpoint
from pacdp.certify.evidence import Settings
from pacdp.certify.examples import BoundSet
from pacdp.cli.config import TABLES, merged
from pacdp.cli.folder import Folder, reported
from pacdp.cli.runtime import Certifying, Runtime, Scale, Training, require_unset
from pacdp.cli.serial import Values, from_dict, later, record, to_dict
from pacdp.compress import Adam, Chained, Groups, KernelRidge, Stop
from pacdp.compress.certify import Compressed
from pacdp.compress.learner import State
from pacdp.compress.run import Records, Round, Trace, require_counted
from pacdp.data import Dataset, make_splits
from pacdp.data.rows import Rows
from pacdp.errors import CheckpointError
from pacdp.predictions.report import Report
from pacdp.problem import Problem

KIND = "compression/1"
_KNOWN = TABLES["compression"]
EXPECTED = 800
"""Records that MNIST's 60,000 images are expected to need: the test images needed 270 of 10,000."""
RECIPES = tuple(
    f"{learner}-{dataset}" for learner in _KNOWN["learner"] for dataset in _KNOWN["data"]
)


@record
class Compression:
    """One compression: everything that determines its numbers."""

    KIND: ClassVar[str] = "compression"
    promising: ClassVar[bool] = False
    problem: Problem = Problem()
    """Data and labels; its network and loss are the learner's."""
    learner: Chained | Adam | KernelRidge
    groups: Groups = Groups()
    stop: Stop = Stop()
    expected: tuple[int, ...] = ()
    """Numbers of kept records that were expected, from other rows."""
    failure_prob: float = 0.05
    tolerance: float = 0.0
    """The share of a person's examples that may be in error before the person counts as one."""
    chosen_on_test: bool = False
    """The settings were chosen on rows of the test set, which then says nothing that is certain of the network."""
    seed: int = 0
    start_size: int = later(0)
    """Examples, drawn with the seed, that a head start learns from; the others are the sample."""
    start_steps: int = later(0)
    """The learner's steps on these."""

    def __post_init__(self) -> None:
        size, steps = self.start_size, self.start_steps
        if (size > 0) != (steps > 0) or min(size, steps) < 0:
            raise ValueError(f"start_size and start_steps go together, got {size} and {steps}")
        if self.start_size and isinstance(self.learner, KernelRidge):
            raise ValueError(
                "start_size must be 0 for a kernel machine: it is solved anew in every round"
            )

    @property
    def title(self) -> str:
        """What is run, on what."""
        return f"{self.algorithm}, compressed, on {self.problem}"

    @property
    def algorithm(self) -> str:
        """What is inside."""
        learner = self.learner
        return learner.sampler.name if isinstance(learner, Chained) else type(learner).__name__

    def parts(self, runtime: Runtime) -> tuple[BoundSet, BoundSet, Dataset | None]:
        """The sample, the test set, and what a head start learns from.

        Raises:
            ValueError: a head start by examples of data whose people are the records.
        """
        train, test = self.problem.data(root=runtime.data_root)
        if not self.start_size:
            return BoundSet.part(train), BoundSet.part(test), None
        if train.people is not None:
            raise ValueError(f"start_size must be 0 for {train.name}, whose records are people: a head start is drawn "
                             "by example")  # fmt: skip
        sizes = {"start": self.start_size, "sample": train.n - self.start_size}
        parts = make_splits(train.n, sizes=sizes, seed=self.seed)
        sample, start = (train.subset(parts[name]) for name in ("sample", "start"))
        return BoundSet.part(sample), BoundSet.part(test), start

    def head_start(self, rows: Dataset | None) -> tuple[State, Rows | None]:
        """The learner's state after its steps on these rows, and their hashes; nothing without rows."""
        if rows is None or isinstance(self.learner, KernelRidge):
            return None, None
        learner = replace(self.learner, steps=self.start_steps)
        inputs, labels = torch.tensor(rows.inputs), torch.tensor(rows.labels)
        return learner.train(None, inputs, labels, round=1, seed=self.seed + 1), rows.rows()

    def settings(self, test: BoundSet, tried: int = 1) -> Settings:
        """Who fixed them, and how many were tried on the sample."""
        made = Settings.tried(tried, "whoever wrote the recipe or gave its fields")
        if not self.chosen_on_test:
            return made
        return replace(made, elsewhere=test.rows, alone=False)


def run(config: Compression, out: Path, how: Training) -> Values:
    """Carry out ``config`` in folder ``out``; returns its result, as written to ``result.json``.

    Killed at any moment it goes on with ``how.resume`` from its last checkpoint, to the same network, bit for bit.

    Raises:
        Looks: the learner looks at records that it did not pick.
        ValueError: the folder holds another run, or a finished one.
    """
    require_unset(how, "batching", "bfloat16", by="by pacdp compress")
    how.apply()
    folder = Folder(out)
    with folder.at_work(config, how) as going_on:
        if not going_on:
            folder.begin(config, how)
        started = time.monotonic()
        found = _found(config, how, folder)
        rows = folder.rows()
        return folder.finish({
            "format": "pacdp-result/1", "algorithm": f"{config.algorithm}, compressed", "steps": len(rows),
            "n": found.n, "final": rows[-1] if rows else None,
            "value": found.certificates[0].value if found.certificates else 1.0,
            "seconds": round(time.monotonic() - started, 2),
        })  # fmt: skip


def _found(config: Compression, how: Training, folder: Folder) -> Report:
    """What the run says in a folder that is locked, gone on with where it stands."""
    (data, test, before), own = config.parts(how), to_dict(config)
    start, start_rows = config.head_start(before)
    done = load_checkpoint(folder.checkpoint).header["step"] if folder.checkpoint.is_file() else 0
    folder.keep_rows(up_to_step=done, expected=range(1, done + 1))
    most = 1

    def told(line: Round) -> None:
        nonlocal most
        row = {"step": line.number, "picked": line.picked, "errors": line.errors, "kept": line.kept}
        folder.append_row(row)
        most = max(most, line.errors)
        how.report(most - line.errors, most, row)

    return compress(
        config.learner, data, test=test, groups=config.groups, stop=config.stop, expected=config.expected,
        failure_prob=config.failure_prob, tolerance=config.tolerance, seed=config.seed, settings=config.settings(test),
        start=start, start_rows=start_rows,
        file=folder.checkpoint, about={"kind": KIND, "run": own, "problem": own["problem"], "seed": config.seed},
        every=how.checkpoint_seconds, progress=told,
    ).report  # fmt: skip


def compute(config: Compression, how: Training, out: Path) -> Values:
    """The report of a run in a folder, for studies."""
    return _told(_found(config, how, Folder(out)), out, how, config)


def _told(found: Report, out: Path, runtime: Runtime, config: Compression) -> Values:
    checkpoint = load_checkpoint(out)
    return reported(
        found, device=runtime.device, seed=config.seed, checkpoint=str(out), content_hash=checkpoint.content_hash,
        step=checkpoint.header["step"],
    )  # fmt: skip


def finished(
    path: Path, runtime: Runtime, *, tried: int = 1, failure_prob: float | None = None
) -> tuple[Compression, Compressed]:
    """The finished run of a folder, of which ``tried`` settings were tried on the sample, its errors counted again.

    Raises:
        CheckpointError: the run is not finished, is on other data, or errs on other records than it says.
    """
    folder = Folder(path if path.is_dir() else path.parent)
    runtime.apply()
    if not folder.finished:
        raise CheckpointError(
            f"{folder.path} holds a compression that is not finished: go on with --resume"
        )
    checkpoint = load_checkpoint(folder.checkpoint)
    config = folder.config_of(Compression)
    data, test, before = config.parts(runtime)
    header = checkpoint.header
    if from_dict(Compression, header["run"]) != config or header["rows"] != data.rows.digest:
        raise CheckpointError(
            f"{folder.checkpoint} is of another run or of other data than {folder.config} says, or an earlier version "
            "hashed its rows"
        )
    trace = Trace.of(checkpoint, folder.checkpoint)
    records = Records.of(
        data.inputs, data.labels, data.people, seed=config.seed, tolerance=config.tolerance
    )
    require_counted(config.learner, trace, records, folder.checkpoint)
    return config, Compressed(
        learner=config.learner, trace=trace, data=data, test=test, stop=config.stop, expected=config.expected,
        tolerance=config.tolerance, settings=config.settings(test, tried),
        start_rows=None if before is None else before.rows(),
        failure_prob=config.failure_prob if failure_prob is None else failure_prob,
    )  # fmt: skip


def certified(path: Path, runtime: Runtime, how: Certifying) -> Values:
    """The report ``pacdp-certificates/2`` of a finished run's folder: its errors are counted again.

    Raises:
        CheckpointError: as :func:`finished`.
    """
    folder = path if path.is_dir() else path.parent
    config, run = finished(path, runtime, tried=how.tried, failure_prob=how.failure_prob)
    return _told(run.report, folder, runtime, config)


def compression(
    learner: str,
    dataset: str,
    *,
    scale: Scale,
    random_labels: float = 0.0,
    train_size: int = 0,
    seed: int = 0,
) -> Compression:
    """A compression of one learner on one data set.

    Raises:
        ValueError: a scale that compressions have no plan for.
    """
    if scale == "gpu":
        raise ValueError("compressions have no plan at scale gpu: choose one of smoke, cpu, paper")
    problem = Problem(
        dataset=dataset,
        random_labels=random_labels,
        label_seed=seed,
        train_size=train_size,
        split_seed=seed,
    )
    data = _KNOWN["data"][dataset]
    images = data["view"]
    learnt = merged(
        _KNOWN["learner"][learner],
        {"classes": data["classes"], "view": _KNOWN["view"][images]},
        {} if images == "digits" else _KNOWN["larger"][learner],
    )
    expected = [EXPECTED] if images == "strokes" and not random_labels else []
    own = {"problem": to_dict(problem), "learner": learnt, "expected": expected, "seed": seed, "chosen_on_test": True,
           "groups": to_dict(Groups()), "stop": to_dict(Stop())}  # fmt: skip
    groups = _KNOWN["groups"].get(images, {}).get(scale, {})
    return from_dict(Compression, merged(own, {"groups": groups}, data.get("run", {})))


def recipe(name: str, *, scale: Scale, seed: int = 0) -> Compression:
    """One of ``RECIPES``."""
    learner, _, dataset = name.rpartition("-")
    return compression(learner, dataset, scale=scale, seed=seed)
