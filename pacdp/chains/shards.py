"""The files of a snapshot folder: safetensors shards, each written whole or not at all. No code runs on load.

Format ``pacdp-snapshots/1``: one tensor ``weights`` [snapshots, chains, dim] a shard; under the metadata key ``pacdp``
one JSON object holds the steps of the snapshots, names and shapes of the parameters in the order of a row, how they are
laid out, and ``capacity``, the snapshots of a full shard: every shard but the last is full.
"""

import json
import math
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from pacdp.errors import CheckpointError

FORMAT = "pacdp-snapshots/1"
SHARD_BYTES = 64 * 2**20
STEP_BYTES = 24
WORKPLACE = ".partial"  # a folder, since safetensors may leave files of its own naming when killed
_MOST_IN_A_SHARD = 2**16  # keeps the header, which lists the steps, far below the limit of safetensors' readers


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


class Shard(NamedTuple):
    """One file: what its header says."""

    path: Path
    shape: WeightsShape
    capacity: int
    steps: tuple[int, ...]


def name_of(index: int) -> str:
    """File name of shard number ``index``, from 0."""
    return f"snapshots-{index:05d}.safetensors"


def _header(shard: Shard) -> str:
    return json.dumps({
        "format": FORMAT, "chains": shard.shape.chains, "dim": shard.shape.dim, "dtype": "float32",
        "parameters": shard.shape.parameters, "layout": shard.shape.layout, "capacity": shard.capacity,
        "steps": shard.steps,
    })  # fmt: skip


def header_bytes(shape: WeightsShape) -> int:
    """Bytes that a file's header takes, without the steps it lists (``STEP_BYTES`` each), at most."""
    return 512 + len(json.dumps(_header(Shard(Path(), shape, _MOST_IN_A_SHARD, ()))))


def capacity_of(shape: WeightsShape, shard_bytes: int) -> int:
    """Snapshots that a file of ``shard_bytes`` holds.

    Raises:
        ValueError: not even one.
    """
    least = header_bytes(shape) + shape.bytes + STEP_BYTES
    if shard_bytes < least:
        raise ValueError(f"shard_bytes={shard_bytes} cannot hold a snapshot of {shape.bytes} bytes: pass {least}")
    return min((shard_bytes - header_bytes(shape)) // (shape.bytes + STEP_BYTES), _MOST_IN_A_SHARD)


def write(shard: Shard, weights: Tensor) -> None:
    """Write ``weights`` [snapshots, chains, dim] so that the path holds the old file or the whole new one.

    Raises:
        CheckpointError: the disk is full or the folder cannot be written; the file that was there is untouched.
    """
    workplace = shard.path.parent / WORKPLACE
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


def _read(path: Path) -> Shard:
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


def _described(path: Path, header: dict[str, Any], found: dict[str, Any]) -> Shard:
    parameters = tuple((name, tuple(sizes)) for name, sizes in header["parameters"])
    shape = WeightsShape(chains=header["chains"], parameters=parameters, layout=header["layout"])
    shard = Shard(path, shape, header["capacity"], tuple(header["steps"]))
    same = json.loads(_header(shard)) == header
    increasing = all(type(b) is int and a < b for a, b in pairwise((-1, *shard.steps)))
    fits = found == {"weights": ("F32", [len(shard.steps), shape.chains, shape.dim])}
    if not (same and increasing and fits and max(1, len(shard.steps)) <= shard.capacity <= _MOST_IN_A_SHARD):
        raise ValueError("the header contradicts itself or the tensor")
    return shard


def shards_of(folder: Path) -> list[Shard]:
    """The shards of a folder in order; only headers are read.

    Raises:
        CheckpointError: no snapshots, or a shard missing, truncated or foreign.
    """
    paths = sorted(folder.glob("snapshots-*"))
    if not paths:
        raise CheckpointError(f"no snapshots in {folder}: give the folder of a chain that took some")
    if {path.name for path in paths} != {name_of(index) for index in range(len(paths))}:
        raise CheckpointError(f"{folder} lacks one of its first {len(paths)} shards or holds a foreign one; restore it")
    shards = [_read(folder / name_of(index)) for index in range(len(paths))]
    for before, shard in pairwise(shards):
        whole = len(before.steps) == before.capacity and before.steps[-1:] < shard.steps[:1]
        if not whole or (shard.shape, shard.capacity) != (before.shape, before.capacity):
            raise CheckpointError(f"{shard.path} does not go on from {before.path.name}: a shard of another chain?")
    return shards


def weights_of(shard: Shard) -> Iterator[tuple[int, Tensor]]:
    """Steps and copies of weights [chains, dim], one at a time.

    Raises:
        CheckpointError: the file has changed since its header was read.
    """
    if _read(shard.path).steps[: len(shard.steps)] != shard.steps:
        raise CheckpointError(f"{shard.path} was cut back while it was read: read the folder again")
    with safe_open(shard.path, framework="pt", device="cpu") as file:
        part = file.get_slice("weights")
        for row, step in enumerate(shard.steps):
            yield step, part[row].clone()  # a slice lies in the mapped file
