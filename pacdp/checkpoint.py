"""Checkpoints: safetensors with one JSON header. No code runs on load; writing is atomic; resume is exact.

Format ``pacdp-checkpoint/2``. Tensors: ``model.<parameter>`` (the weights, readable by any safetensors reader),
``state.<name>`` (what else the sampler carries), ``trace.<name>`` (what the chain was seen to do, for diagnostics).
The header, under the metadata key ``pacdp``, is one JSON object that says everything a certificate depends on: the run,
the step, the loss and its interval, the hashes of the data.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from pacdp.errors import CheckpointError

FORMAT = "pacdp-checkpoint/2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A chain at one step. ``header`` holds JSON values only."""

    header: Mapping[str, Any]
    model: Mapping[str, Tensor]
    """Parameter name to value."""
    state: Mapping[str, Tensor]
    """What the sampler carries besides the weights, by name."""
    trace: Mapping[str, Tensor] = field(default_factory=dict)
    """Numbers recorded along the chain, by name."""


def save_checkpoint(path: Path | str, checkpoint: Checkpoint) -> None:
    """Write ``checkpoint`` so that ``path`` always holds a whole checkpoint: the old one or the new one.

    Raises:
        CheckpointError: the disk is full or the folder cannot be written; the file that was there is untouched.
    """
    path = Path(path)
    header = {"format": FORMAT, "parameters": list(checkpoint.model), **checkpoint.header}
    tensors = {f"model.{name}": tensor for name, tensor in checkpoint.model.items()}
    tensors |= {f"state.{name}": tensor for name, tensor in checkpoint.state.items()}
    tensors |= {f"trace.{name}": tensor for name, tensor in checkpoint.trace.items()}
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        save_file(tensors, temporary, metadata={"pacdp": json.dumps(header, allow_nan=False)})
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except (OSError, SafetensorError) as error:
        temporary.unlink(missing_ok=True)
        raise CheckpointError(
            f"cannot write checkpoint {path}: {error}; free space or choose another folder"
        ) from error


def load_checkpoint(path: Path | str) -> Checkpoint:
    """Read a checkpoint written by :func:`save_checkpoint`; ``path`` may also be the run folder that holds it.

    Raises:
        CheckpointError: no such file; an empty or truncated one; one of another format.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "checkpoint.safetensors"
    if not path.is_file():
        raise CheckpointError(
            f"no checkpoint at {path}: train first, or give the path of a checkpoint or its run folder"
        )
    if path.stat().st_size == 0:
        raise CheckpointError(f"checkpoint {path} is empty: it was never written; train again")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"checkpoint {path} is truncated or no safetensors file ({error}); take it from its source again"
        ) from error
    try:
        header = json.loads(metadata["pacdp"])
        written_as = header["format"]
    except (KeyError, TypeError, json.JSONDecodeError):
        header, written_as = {}, None
    if written_as != FORMAT:
        raise CheckpointError(
            f"{path} is a safetensors file but no {FORMAT} checkpoint (it says {written_as!r}): only files written by "
            "pacdp can be certified here"
        )
    return _checkpoint(path, header, tensors)


def _checkpoint(path: Path, header: dict[str, Any], tensors: dict[str, Tensor]) -> Checkpoint:
    missing = [name for name in header.get("parameters", ()) if f"model.{name}" not in tensors]
    if missing or not header.get("parameters"):
        raise CheckpointError(f"checkpoint {path} lacks the tensors {missing or ['model.*']} that its header names")
    return Checkpoint(
        header=header,
        model={name: tensors[f"model.{name}"] for name in header["parameters"]},
        state=_part(tensors, "state."),
        trace=_part(tensors, "trace."),
    )


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
