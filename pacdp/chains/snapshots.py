"""Snapshots of a chain in a folder: one safetensors file each, written whole or not at all. No code runs on load.

Format ``pacdp-snapshots/2``: the file ``snapshots-00000.safetensors`` holds the first snapshot, the next number the
next one. Each holds one tensor ``weights`` [dim], float32; under the metadata key ``pacdp`` one JSON object says after
which step it was taken, the names and shapes of the parameters in the order of the weights, and how they are laid out.

A snapshot is on disk when :meth:`Snapshots.append` returns. So a process that is killed at any moment leaves the first
snapshots of its chain, and of those up to a checkpoint none is missing; newer ones are dropped when the chain goes on
from there, and taken again. One process writes at a time.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from pacdp.errors import CheckpointError, Diverged
from pacdp.store.files import replacing

FORMAT = "pacdp-snapshots/2"
_EARLIER = {"pacdp-snapshots/1": "commit f26159e"}
"""Formats that are no longer read, and the version of pacdp that reads them."""
_LARGEST_STEP = 2**63 - 1


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
        """Number of snapshots up to ``step``: what a folder holds at a checkpoint there."""
        return min(self.keep, max(0, step - self.burn_in) // self.every)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsShape:
    """What a snapshot is: parameters that lie one after the other in a vector.

    Raises:
        ValueError: no parameters, a name twice, or a size below 1.
    """

    parameters: tuple[tuple[str, tuple[int, ...]], ...]
    """Name and shape of each, in the order of the vector."""
    layout: str
    """How a parameter fills its part of the vector, such as ``row-major``."""

    def __post_init__(self) -> None:
        names = {name for name, _ in self.parameters}
        sizes = [size for _, shape in self.parameters for size in shape]
        if not names or len(names) < len(self.parameters) or min(sizes, default=1) < 1:
            raise ValueError(
                f"expected parameters of different names and positive sizes, got {self}"
            )

    @property
    def dim(self) -> int:
        """The number of weights."""
        return sum(math.prod(shape) for _, shape in self.parameters)

    @property
    def file_bytes(self) -> int:
        """The size of a snapshot's file, at most."""
        return 512 + len(json.dumps(self.header(_LARGEST_STEP))) + 4 * self.dim

    def header(self, step: int) -> str:
        """What a file says of the snapshot in it."""
        return json.dumps(
            {"format": FORMAT, "step": step, "parameters": self.parameters, "layout": self.layout}
        )


class Snapshots:
    """The snapshots that a folder held when it was read, and those appended since.

    Iterating reads them one at a time, and gives steps and weights [dim].
    """

    def __init__(self, folder: Path, shape: WeightsShape, steps: Sequence[int]) -> None:
        self.folder = folder
        self.shape = shape
        self.steps = list(steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[tuple[int, Tensor]]:
        for number, step in enumerate(tuple(self.steps)):
            path = _path(self.folder, number)
            if not path.exists() or _read(path) != (self.shape, step):
                raise CheckpointError(
                    f"{self.folder} was cut back while it was read: read the folder again"
                )
            with safe_open(path, framework="pt", device="cpu") as file:
                weights = file.get_tensor("weights").clone()  # the tensor lies in the mapped file
            yield step, weights

    def append(self, step: int, weights: Float[Tensor, " dim"]) -> None:
        """Write the weights after ``step`` steps to disk.

        Raises:
            ValueError: the step is not after the last one, or the weights are not float32 [dim].
            Diverged: a weight is not finite.
            CheckpointError: the disk is full. After any error the folder is as before, and the call can be repeated.
        """
        last = self.steps[-1] if self.steps else -1
        if step <= last:
            raise ValueError(
                f"expected the step of a snapshot to be above {last}, got {step}: append in order"
            )
        if weights.shape != (self.shape.dim,) or weights.dtype != torch.float32:
            raise ValueError(
                f"expected weights as float32 [dim] = [{self.shape.dim}], got {weights.dtype} {list(weights.shape)}"
            )
        if not bool(torch.isfinite(weights).all()):
            raise Diverged(step, "a weight")
        path = _path(self.folder, len(self))
        data = save({"weights": weights.detach()}, metadata={"pacdp": self.shape.header(step)})
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                file.write(data)
        except OSError as error:
            raise CheckpointError(
                f"cannot write {path}: {error}; free space or choose another folder"
            ) from error
        self.steps.append(step)


def read_snapshots(folder: Path | str) -> Snapshots:
    """The snapshots in ``folder``, also while its chain still runs; only headers are read before iteration.

    Raises:
        CheckpointError: there are none, or one is missing, truncated, foreign, or does not follow the one before.
    """
    found = _found(Path(folder))
    if found is None:
        raise CheckpointError(
            f"no snapshots in {folder}: give the folder of a chain that took some"
        )
    return found


def resume_snapshots(folder: Path | str, *, shape: WeightsShape, up_to_step: int) -> Snapshots:
    """The snapshots of a chain that begins, or goes on from a checkpoint at step ``up_to_step``: newer ones go.

    However often a chain is resumed, its folder ends as that of one never interrupted, byte for byte.

    Raises:
        CheckpointError: as :func:`read_snapshots`, but for an empty folder; or the snapshots are of another ``shape``.
    """
    folder = Path(folder)
    found = _found(folder) or Snapshots(folder, shape, ())
    if found.shape != shape:
        raise CheckpointError(
            f"{folder} holds snapshots of {found.shape}, not of {shape}: open the run's own"
        )
    while (
        found.steps and found.steps[-1] > up_to_step
    ):  # the newest first: what is left is always a beginning
        _path(folder, len(found) - 1).unlink()
        found.steps.pop()
    return found


def _path(folder: Path, number: int) -> Path:
    return folder / f"snapshots-{number:05d}.safetensors"


def _found(folder: Path) -> Snapshots | None:
    """The snapshots of a folder, in order, or None where there are none; only headers are read."""
    names = {path.name for path in folder.glob("snapshots-*")}
    paths = [_path(folder, number) for number in range(len(names))]
    if names != {path.name for path in paths}:
        raise CheckpointError(
            f"{folder} lacks one of its first {len(names)} snapshots or holds a foreign one; restore it"
        )
    parts = [(path, *_read(path)) for path in paths]
    for (before, shape, step), (path, own_shape, own_step) in pairwise(parts):
        if own_shape != shape or own_step <= step:
            raise CheckpointError(
                f"{path} does not go on from {before.name}: a snapshot of another chain?"
            )
    return Snapshots(folder, parts[0][1], [step for _, _, step in parts]) if parts else None


def _read(path: Path) -> tuple[WeightsShape, int]:
    """What a file says of its snapshot, found to describe the tensor in it."""
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            metadata = file.metadata() or {}
            slices = {name: file.get_slice(name) for name in file.keys()}
            tensors = {
                name: (part.get_dtype(), list(part.get_shape())) for name, part in slices.items()
            }
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} is truncated or no safetensors file ({error}); restore it"
        ) from error
    try:
        header: Any = json.loads(metadata["pacdp"])
        written_as = header["format"]
        reader = _EARLIER.get(written_as)
    except (KeyError, TypeError, ValueError, RecursionError):
        header, written_as, reader = {}, None, None
    if reader is not None:
        raise CheckpointError(
            f"{path} is of the earlier format {written_as}, which pacdp at {reader} reads"
        )
    if written_as != FORMAT:
        raise CheckpointError(
            f"{path} is a safetensors file but holds no {FORMAT} (it says {written_as!r})"
        )
    try:
        parameters = tuple((name, tuple(sizes)) for name, sizes in header["parameters"])
        shape, step = WeightsShape(parameters=parameters, layout=header["layout"]), header["step"]
        same = json.loads(shape.header(step)) == header
        if not (
            same
            and type(step) is int
            and step >= 0
            and tensors == {"weights": ("F32", [shape.dim])}
        ):
            raise ValueError("the header contradicts itself or the tensor")
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path} holds {tensors}, which its header does not describe; restore it"
        ) from error
    return shape, step
