"""Snapshots of chains, streamed to disk in bounded memory.

A snapshot is the weights of all chains at one step, float32 [chains, dim]; ``shards`` says how a folder holds them. A
process killed at any moment leaves a folder with the first snapshots of the chain.

The shard being filled lies in one buffer. Flush *before* writing a checkpoint: the folder then lacks no snapshot up to
the checkpoint's step, and newer ones are dropped on resumption. One process writes at a time.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from pacdp.chains.shards import FORMAT as FORMAT
from pacdp.chains.shards import SHARD_BYTES as SHARD_BYTES
from pacdp.chains.shards import (
    STEP_BYTES,
    WORKPLACE,
    Shard,
    capacity_of,
    header_bytes,
    name_of,
    shards_of,
    weights_of,
    write,
)
from pacdp.chains.shards import WeightsShape as WeightsShape
from pacdp.errors import CheckpointError, Diverged


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinning:
    """Which steps leave a snapshot: burn_in + every, burn_in + 2 every, ..., at most ``keep`` of them.

    Raises:
        ValueError: burn_in < 0, every < 1 or keep < 1.
    """

    burn_in: int
    every: int
    keep: int

    def __post_init__(self) -> None:
        if self.burn_in < 0 or self.every < 1 or self.keep < 1:
            raise ValueError(f"expected burn_in >= 0, every >= 1 and keep >= 1, got {self}")

    def takes(self, step: int) -> bool:
        """Whether the weights after ``step`` steps are a snapshot."""
        return self.count(step) > self.count(step - 1)

    def count(self, step: int) -> int:
        """Number of snapshots up to ``step``: what a store holds at a checkpoint there."""
        return min(self.keep, max(0, step - self.burn_in) // self.every)


@runtime_checkable
class Snapshots(Protocol):
    """A growing list of snapshots; iterating gives steps and copies of their weights [chains, dim], one at a time."""

    @property
    def steps(self) -> Sequence[int]:
        """Return the steps after which the snapshots were taken, in order."""
        ...

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[tuple[int, Tensor]]: ...

    def append(self, step: int, weights: Float[Tensor, "*chains dim"]) -> None:
        """Take a snapshot; weights [dim] will do for one chain.

        Raises:
            ValueError: not after the last step, not float32 [chains, dim], or no room left in memory.
            Diverged: a weight is not finite.
            CheckpointError: the disk is full. After any error the store is as before, and the call can be repeated.
        """
        ...

    def flush(self) -> None:
        """Make what was appended as durable as the store can.

        Raises:
            CheckpointError: the disk is full; the store is as before.
        """
        ...


class MemorySnapshots:
    """At most ``keep`` snapshots in one buffer; they end with the process."""

    def __init__(self, *, shape: WeightsShape, keep: int, device: torch.device | str = "cpu") -> None:
        if keep < 1:
            raise ValueError(f"expected keep >= 1 snapshots, got {keep}")
        self.shape = shape
        self.steps: list[int] = []
        self._buffer = torch.empty((keep, shape.chains, shape.dim), device=device)

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[tuple[int, Tensor]]:
        for row, step in enumerate(self.steps):
            yield step, self._buffer[row].clone()

    def append(self, step: int, weights: Float[Tensor, "*chains dim"]) -> None:
        """Copy the weights into the buffer; a full one raises ValueError."""
        weights = _accepted(self.shape, self.steps, step, weights)
        if len(self) == len(self._buffer):
            raise ValueError(f"the buffer holds keep={len(self)} snapshots already: raise keep or thin the chain more")
        self._buffer[len(self)].copy_(weights)
        self.steps.append(step)

    def flush(self) -> None:
        """Do nothing: memory can be no more durable than it is."""
        pass


class SnapshotFolder:
    """The snapshots that a folder held when it was read; iterating reads them one at a time."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shape = shards[0].shape
        self.steps = [step for shard in shards for step in shard.steps]
        self._shards = tuple(shards)

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[tuple[int, Tensor]]:
        for shard in self._shards:
            yield from weights_of(shard)


def read_snapshots(folder: Path | str) -> SnapshotFolder:
    """The snapshots in ``folder``, also while its chain still runs; only headers are read before iteration.

    Raises:
        CheckpointError: no snapshots, or a shard missing, truncated or foreign.
    """
    return SnapshotFolder(shards_of(Path(folder)))


class DiskSnapshots:
    """Snapshots in a folder, of which one shard lies in memory; iterating flushes first."""

    def __init__(self, folder: Path, *, shape: WeightsShape, capacity: int, steps: Sequence[int], full: int) -> None:
        self.folder = folder
        self.shape = shape
        self.steps = list(steps)
        self._full = full  # shards on disk that no append will touch
        self._buffer = torch.empty((capacity, shape.chains, shape.dim))
        self._durable = False

    @classmethod
    def create(cls, folder: Path | str, *, shape: WeightsShape, shard_bytes: int = SHARD_BYTES) -> "DiskSnapshots":
        """Begin a folder whose shards are files of at most ``shard_bytes``.

        Raises:
            ValueError: one snapshot is larger than that.
            CheckpointError: the folder holds snapshots already, or cannot be written.
        """
        folder = Path(folder)
        store = cls(folder, shape=shape, capacity=capacity_of(shape, shard_bytes), steps=(), full=0)
        if any(folder.glob("snapshots-*")):
            raise CheckpointError(f"{folder} holds snapshots already: open it to go on, or choose another folder")
        store.flush()
        return store

    @classmethod
    def open(cls, folder: Path | str, *, up_to_step: int, shape: WeightsShape | None = None) -> "DiskSnapshots":
        """Go on from a checkpoint at step ``up_to_step``: newer snapshots are dropped from the folder.

        However often a chain is resumed, its folder ends as that of one never interrupted, byte for byte.

        Raises:
            CheckpointError: no snapshots, a shard missing, truncated or foreign, or snapshots of another ``shape``.
        """
        folder = Path(folder)
        shards = shards_of(folder)
        if shape not in (None, shards[0].shape):
            raise CheckpointError(f"{folder} holds snapshots of {shards[0].shape}, not of {shape}: open the run's own")
        kept = [shard for shard in shards if shard.steps and shard.steps[0] <= up_to_step] or shards[:1]
        steps = [step for shard in kept for step in shard.steps if step <= up_to_step]
        store = cls(folder, shape=kept[0].shape, capacity=kept[0].capacity, steps=steps, full=len(kept) - 1)
        for row, (_, weights) in zip(store._filled(), weights_of(kept[-1]), strict=False):
            row.copy_(weights)
        shutil.rmtree(folder / WORKPLACE, ignore_errors=True)
        for shard in shards[: len(kept) - 1 : -1]:
            shard.path.unlink()  # the newest first: what is left is always a beginning of the chain
        store._durable = steps[-1:] == list(kept[-1].steps[-1:])
        store.flush()
        return store

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[tuple[int, Tensor]]:
        self.flush()
        yield from read_snapshots(self.folder)

    def append(self, step: int, weights: Float[Tensor, "*chains dim"]) -> None:
        """Copy the weights into the buffer, which is written first if it is full."""
        weights = _accepted(self.shape, self.steps, step, weights)
        if len(self._filled()) == len(self._buffer):
            self.flush()
            self._full += 1
        self._buffer[len(self._filled())].copy_(weights)
        self.steps.append(step)
        self._durable = False

    def flush(self) -> None:
        """Write what the buffer holds to its file, unless that is done already."""
        if not self._durable:
            capacity = len(self._buffer)
            path = self.folder / name_of(self._full)
            write(Shard(path, self.shape, capacity, tuple(self.steps[self._full * capacity :])), self._filled())
            self._durable = True

    def _filled(self) -> Tensor:
        return self._buffer[: len(self.steps) - self._full * len(self._buffer)]


def require_space(folder: Path | str, *, shape: WeightsShape, snapshots: int, shard_bytes: int = SHARD_BYTES) -> None:
    """Refuse to start where ``snapshots`` more would not fit, with one shard twice while the new replaces the old.

    Raises:
        CheckpointError: too little room on the disk of ``folder``.
    """
    disk = next(path for path in (Path(folder).absolute(), *Path(folder).absolute().parents) if path.exists())
    capacity = capacity_of(shape, shard_bytes)
    headers = (2 + snapshots // capacity) * header_bytes(shape)
    needed = headers + (snapshots + min(snapshots, capacity)) * (shape.bytes + STEP_BYTES)
    if (free := shutil.disk_usage(disk).free) < needed:
        raise CheckpointError(
            f"{folder} has {free} bytes free, {snapshots} snapshots need {needed}: make room or thin the chain more"
        )


def _accepted(shape: WeightsShape, earlier: Sequence[int], step: int, weights: Tensor) -> Tensor:
    last = earlier[-1] if earlier else -1
    if step <= last:
        raise ValueError(f"expected the step of a snapshot to be above {last}, got {step}: append in order")
    full = (shape.chains, shape.dim)
    fits = tuple(weights.shape) in (full, full[shape.chains == 1 :])
    if not fits or weights.dtype != torch.float32:
        raise ValueError(
            f"expected weights as float32 [chains, dim] = {list(full)}, got {weights.dtype} {list(weights.shape)}"
        )
    if not bool(torch.isfinite(weights).all()):
        raise Diverged(step, "a weight")
    return weights.detach().reshape(full)
