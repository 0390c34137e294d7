"""Snapshots of a chain in a folder: a checkpoint each, of the weights alone (:mod:`pacdp.store.checkpoint`).

The file ``snapshots-00000.safetensors`` holds the first snapshot, the next number the next one; its header says after
which ``step`` it was taken.

A snapshot is on disk when :meth:`Snapshots.append` returns. So a process that is killed at any moment leaves the first
snapshots of its chain, and of those up to a checkpoint none is missing; newer ones are dropped when the chain goes on
from there, and taken again. One process writes at a time.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from pacdp.errors import CheckpointError, Diverged
from pacdp.store.checkpoint import Checkpoint, load_checkpoint, save_checkpoint

Weights = Mapping[str, Tensor]
"""A network's parameters by name."""


def file_bytes(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """The size of a snapshot's file, at most, for parameters in single precision of names that anybody gives."""
    return 2048 + sum(512 + 4 * math.prod(shape) for shape in shapes.values())


class Snapshots:
    """The snapshots that a folder held when it was read, and those appended since.

    Iterating reads them one at a time, and gives steps and weights.
    """

    def __init__(self, folder: Path, steps: Sequence[int] = ()) -> None:
        self.folder = folder
        self.steps = list(steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[tuple[int, Weights]]:
        for number, step in enumerate(tuple(self.steps)):
            path = _path(self.folder, number)
            found = _read(path) if path.exists() else None
            if found is None or found.header["step"] != step:
                raise CheckpointError(
                    f"{self.folder} was cut back while it was read: read the folder again"
                )
            # the tensors lie in the mapped file
            yield step, {name: value.clone() for name, value in found.model.items()}

    def append(self, step: int, weights: Weights) -> None:
        """Write the weights after ``step`` steps to disk.

        Raises:
            ValueError: the step is not after the last one.
            Diverged: a weight is not finite.
            CheckpointError: the disk is full. After any error the folder is as before, and the call can be repeated.
        """
        last = self.steps[-1] if self.steps else -1
        if step <= last:
            raise ValueError(
                f"expected the step of a snapshot to be above {last}, got {step}: append in order"
            )
        if not all(bool(torch.isfinite(value).all()) for value in weights.values()):
            raise Diverged(step, "a weight")
        path = _path(self.folder, len(self))
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"cannot write {path}: {error}; choose another folder") from error
        save_checkpoint(path, Checkpoint(header={"step": step}, model=weights, state={}))
        self.steps.append(step)


def read_snapshots(folder: Path | str) -> Snapshots:
    """The snapshots in ``folder``, also while its chain still runs.

    Raises:
        CheckpointError: there are none, or one is missing, truncated, foreign, or does not follow the one before.
    """
    found = _found(Path(folder))
    if not found.steps:
        raise CheckpointError(
            f"no snapshots in {folder}: give the folder of a chain that took some"
        )
    return found


def resume_snapshots(folder: Path | str, *, up_to_step: int) -> Snapshots:
    """The snapshots of a chain that begins, or goes on from a checkpoint at step ``up_to_step``: newer ones go.

    However often a chain is resumed, its folder ends as that of one never interrupted, byte for byte.

    Raises:
        CheckpointError: as :func:`read_snapshots`, but for an empty folder.
    """
    found = _found(Path(folder))
    # the newest first: what is left is always a beginning
    while found.steps and found.steps[-1] > up_to_step:
        _path(found.folder, len(found) - 1).unlink()
        found.steps.pop()
    return found


def _path(folder: Path, number: int) -> Path:
    return folder / f"snapshots-{number:05d}.safetensors"


def _found(folder: Path) -> Snapshots:
    """The snapshots of a folder, in order."""
    found, shapes = Snapshots(folder), None
    names = {path.name for path in folder.glob("snapshots-*")}
    paths = [_path(folder, number) for number in range(len(names))]
    if names != {path.name for path in paths}:
        raise CheckpointError(
            f"{folder} lacks one of its first {len(names)} snapshots or holds a foreign one; restore it"
        )
    for path in paths:
        one = _read(path)
        own = {name: value.shape for name, value in one.model.items()}
        if found.steps and (one.header["step"] <= found.steps[-1] or own != shapes):
            raise CheckpointError(
                f"{path} does not go on from the one before: a snapshot of another chain?"
            )
        found.steps.append(one.header["step"])
        shapes = own
    return found


def _read(path: Path) -> Checkpoint:
    try:
        found = load_checkpoint(path)
    except CheckpointError as error:
        raise CheckpointError(
            f"no snapshot: {error} (pacdp at commit 126ce9c reads pacdp-snapshots/2)"
        ) from error
    step = found.header.get("step")
    if type(step) is not int or step < 0:
        raise CheckpointError(f"no snapshot: {path} says no step that it was taken after")
    return found
