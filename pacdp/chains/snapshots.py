"""Snapshots of chains, streamed to disk in bounded memory.

A snapshot is the weights of all chains at one step, float32 [chains, dim]. Format ``pacdp-snapshots/1``: a folder of
safetensors shards ``snapshots-00000.safetensors``, ... with one tensor ``weights`` [snapshots, chains, dim] each; under
the metadata key ``pacdp`` one JSON object holds the steps of the snapshots, names and shapes of the parameters in the
order of a row, how they are laid out, and ``capacity``, the snapshots of a full shard: every shard but the last is
full. No code runs on load. A shard is written whole or not at all (rename), so that a process killed at any moment
leaves a folder with the first snapshots of the chain.

The shard being filled lies in one buffer. Flush *before* writing a checkpoint: the folder then lacks no snapshot up to
the checkpoint's step, and newer ones are dropped on resumption. One process writes at a time.
"""

import json
import math
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from pacdp.errors import CheckpointError, Diverged

FORMAT = "pacdp-snapshots/1"
SHARD_BYTES = 64 * 2**20
_MOST_IN_A_SHARD = 2**16  # keeps the header, which lists the steps, far below the limit of safetensors' readers
_STEP_BYTES = 24
_WORKPLACE = ".partial"  # a folder, since safetensors may leave files of its own naming when killed


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


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsShape:
    """What a snapshot is: the parameters that lie one after the other in each chain's row.

    Raises:
        ValueError: chains < 1, no parameters, a name twice, or a size below 1.
    """

    chains: int
    parameters: tuple[tuple[str, tuple[int, ...]], ...]
    """Name and shape of each, in the order of the row."""
    layout: str
    """How a parameter fills its part of the row, such as ``row-major``."""

    def __post_init__(self) -> None:
        names = {name for name, _ in self.parameters}
        sizes = [self.chains, *(size for _, shape in self.parameters for size in shape)]
        if not names or len(names) < len(self.parameters) or min(sizes) < 1:
            raise ValueError(f"expected chains >= 1 and parameters of different names and positive sizes, got {self}")

    @property
    def dim(self) -> int:
        """Weights of one chain."""
        return sum(math.prod(shape) for _, shape in self.parameters)

    @property
    def bytes(self) -> int:
        """Bytes of one snapshot."""
        return 4 * self.chains * self.dim


class Snapshots(Protocol):
    """A growing list of snapshots; iterating gives steps and copies of their weights [chains, dim], one at a time."""

    @property
    def steps(self) -> Sequence[int]: ...
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
        weights = _accepted(self.shape, self.steps, step, weights)
        if len(self) == len(self._buffer):
            raise ValueError(f"the buffer holds keep={len(self)} snapshots already: raise keep or thin the chain more")
        self._buffer[len(self)].copy_(weights)
        self.steps.append(step)

    def flush(self) -> None:
        pass


class _Shard(NamedTuple):
    path: Path
    shape: WeightsShape
    capacity: int
    steps: tuple[int, ...]


class SnapshotFolder:
    """The snapshots that a folder held when it was read; iterating reads them one at a time."""

    def __init__(self, shards: Sequence[_Shard]) -> None:
        self.shape = shards[0].shape
        self.steps = [step for shard in shards for step in shard.steps]
        self._shards = tuple(shards)

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[tuple[int, Tensor]]:
        for shard in self._shards:
            yield from _weights(shard)


def read_snapshots(folder: Path | str) -> SnapshotFolder:
    """The snapshots in ``folder``, also while its chain still runs; only headers are read before iteration.

    Raises:
        CheckpointError: no snapshots, or a shard missing, truncated or foreign.
    """
    return SnapshotFolder(_shards(Path(folder)))


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
        store = cls(folder, shape=shape, capacity=_capacity(shape, shard_bytes), steps=(), full=0)
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
        shards = _shards(folder)
        if shape not in (None, shards[0].shape):
            raise CheckpointError(f"{folder} holds snapshots of {shards[0].shape}, not of {shape}: open the run's own")
        kept = [shard for shard in shards if shard.steps and shard.steps[0] <= up_to_step] or shards[:1]
        steps = [step for shard in kept for step in shard.steps if step <= up_to_step]
        store = cls(folder, shape=kept[0].shape, capacity=kept[0].capacity, steps=steps, full=len(kept) - 1)
        for row, (_, weights) in zip(store._filled(), _weights(kept[-1]), strict=False):
            row.copy_(weights)
        shutil.rmtree(folder / _WORKPLACE, ignore_errors=True)
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
        weights = _accepted(self.shape, self.steps, step, weights)
        if len(self._filled()) == len(self._buffer):
            self.flush()
            self._full += 1
        self._buffer[len(self._filled())].copy_(weights)
        self.steps.append(step)
        self._durable = False

    def flush(self) -> None:
        if not self._durable:
            capacity = len(self._buffer)
            path = self.folder / _name(self._full)
            _write(_Shard(path, self.shape, capacity, tuple(self.steps[self._full * capacity :])), self._filled())
            self._durable = True

    def _filled(self) -> Tensor:
        return self._buffer[: len(self.steps) - self._full * len(self._buffer)]


def require_space(folder: Path | str, *, shape: WeightsShape, snapshots: int, shard_bytes: int = SHARD_BYTES) -> None:
    """Refuse to start where ``snapshots`` more would not fit, with one shard twice while the new replaces the old.

    Raises:
        CheckpointError: too little room on the disk of ``folder``.
    """
    disk = next(path for path in (Path(folder).absolute(), *Path(folder).absolute().parents) if path.exists())
    capacity = _capacity(shape, shard_bytes)
    headers = (2 + snapshots // capacity) * _header_bytes(shape)
    needed = headers + (snapshots + min(snapshots, capacity)) * (shape.bytes + _STEP_BYTES)
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


def _name(index: int) -> str:
    return f"snapshots-{index:05d}.safetensors"


def _header(shard: _Shard) -> str:
    return json.dumps({
        "format": FORMAT, "chains": shard.shape.chains, "dim": shard.shape.dim, "dtype": "float32",
        "parameters": shard.shape.parameters, "layout": shard.shape.layout, "capacity": shard.capacity,
        "steps": shard.steps,
    })  # fmt: skip


def _header_bytes(shape: WeightsShape) -> int:
    return 512 + len(json.dumps(_header(_Shard(Path(), shape, _MOST_IN_A_SHARD, ()))))


def _capacity(shape: WeightsShape, shard_bytes: int) -> int:
    least = _header_bytes(shape) + shape.bytes + _STEP_BYTES
    if shard_bytes < least:
        raise ValueError(f"shard_bytes={shard_bytes} cannot hold a snapshot of {shape.bytes} bytes: pass {least}")
    return min((shard_bytes - _header_bytes(shape)) // (shape.bytes + _STEP_BYTES), _MOST_IN_A_SHARD)


def _write(shard: _Shard, weights: Tensor) -> None:
    workplace = shard.path.parent / _WORKPLACE
    try:
        workplace.mkdir(parents=True, exist_ok=True)
        temporary = workplace / shard.path.name
        save_file({"weights": weights}, temporary, metadata={"pacdp": _header(shard)})
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(shard.path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"cannot write {shard.path}: {error}; free space or choose another folder") from error
    finally:
        shutil.rmtree(workplace, ignore_errors=True)


def _read(path: Path) -> _Shard:
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_slice(name) for name in file.keys()}
            found = {name: (part.get_dtype(), list(part.get_shape())) for name, part in tensors.items()}
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is truncated or no safetensors file ({error}); restore it") from error
    try:
        header: Any = json.loads(metadata["pacdp"])
        written_as = header["format"]
    except (KeyError, TypeError, ValueError, RecursionError):
        header, written_as = {}, None
    if written_as != FORMAT:
        raise CheckpointError(f"{path} is a safetensors file but holds no {FORMAT} (it says {written_as!r})")
    try:
        return _described(path, header, found)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} holds {found}, which its header does not describe; restore it") from error


def _described(path: Path, header: dict[str, Any], found: dict[str, Any]) -> _Shard:
    parameters = tuple((name, tuple(sizes)) for name, sizes in header["parameters"])
    shape = WeightsShape(chains=header["chains"], parameters=parameters, layout=header["layout"])
    shard = _Shard(path, shape, header["capacity"], tuple(header["steps"]))
    same = json.loads(_header(shard)) == header
    increasing = all(type(b) is int and a < b for a, b in pairwise((-1, *shard.steps)))
    fits = found == {"weights": ("F32", [len(shard.steps), shape.chains, shape.dim])}
    if not (same and increasing and fits and max(1, len(shard.steps)) <= shard.capacity <= _MOST_IN_A_SHARD):
        raise ValueError("the header contradicts itself or the tensor")
    return shard


def _shards(folder: Path) -> list[_Shard]:
    paths = sorted(folder.glob("snapshots-*"))
    if not paths:
        raise CheckpointError(f"no snapshots in {folder}: give the folder of a chain that took some")
    if {path.name for path in paths} != {_name(index) for index in range(len(paths))}:
        raise CheckpointError(f"{folder} lacks one of its first {len(paths)} shards or holds a foreign one; restore it")
    shards = [_read(folder / _name(index)) for index in range(len(paths))]
    for before, shard in pairwise(shards):
        whole = len(before.steps) == before.capacity and before.steps[-1:] < shard.steps[:1]
        if not whole or (shard.shape, shard.capacity) != (before.shape, before.capacity):
            raise CheckpointError(f"{shard.path} does not go on from {before.path.name}: a shard of another chain?")
    return shards


def _weights(shard: _Shard) -> Iterator[tuple[int, Tensor]]:
    if _read(shard.path).steps[: len(shard.steps)] != shard.steps:
        raise CheckpointError(f"{shard.path} was cut back while it was read: read the folder again")
    with safe_open(shard.path, framework="pt", device="cpu") as file:
        part = file.get_slice("weights")
        for row, step in enumerate(shard.steps):
            yield step, part[row].clone()  # a slice lies in the mapped file
