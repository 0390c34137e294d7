"""Checkpoints: safetensors with one JSON header. No code runs on load; writing is atomic; resume is exact.

Format ``pacdp-checkpoint/3``. Tensors: ``model.<parameter>`` (the weights, readable by any safetensors reader),
``state.<name>`` (what else the sampler carries), ``trace.<name>`` (what the chain was seen to do, for diagnostics).
The header, under the metadata key ``pacdp``, is one JSON object that says everything a certificate depends on: the run,
the step, the loss and its interval, the hashes of the data.

The header's ``content_hash`` covers the rest of the header and every tensor: it is SHA-256 of the canonical JSON
(:mod:`pacdp.store.canonical`) of the header without it, and then, for each tensor in the order of their names in the
file, of a line break, the canonical JSON of [name, type, shape] (such as ["model.0.weight","float32",[3,2]]), a line
break and the bytes. Runs with equal numbers have equal hashes.
"""

import hashlib
import os
import zipfile
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from bounds._check import json_value
from pacdp.errors import CheckpointError
from pacdp.store.canonical import canonical
from pacdp.store.files import one_of_its_chains, path_of, write_whole
from pacdp.store.record import record

FORMAT = "pacdp-checkpoint/3"
NAME = "checkpoint.safetensors"
"""In the folder of a run."""
_PARTS = ("model", "state", "trace")
_FOREIGN = "weights of another program are certified with --model and --data, which name the network and new examples"


@record
class Checkpoint:
    """A chain at one step. ``header`` holds JSON values only."""

    header: Mapping[str, Any]
    model: Mapping[str, Tensor]
    """Parameter name to value."""
    state: Mapping[str, Tensor]
    """What the sampler carries besides the weights, by name."""
    trace: Mapping[str, Tensor] = field(default_factory=dict)
    """Numbers recorded along the chain, by name."""

    @property
    def content_hash(self) -> str | None:
        """The hash that the file carried and that its content was found to have; None of what comes from no file."""
        return self.header.get("content_hash")


def save_checkpoint(path: Path | str, checkpoint: Checkpoint) -> None:
    """Write ``checkpoint`` so that ``path`` always holds a whole checkpoint: the old one or the new one.

    Raises:
        CheckpointError: ``path`` is a folder, the disk is full or the folder cannot be written; the file that was there
            is untouched.
        ValueError: ``path`` is no path.
    """
    path = path_of(path=path)
    if path.is_dir():
        raise CheckpointError(
            f"path must be that of a file, and {path} is a folder: give {path / NAME}"
        )
    header = {**checkpoint.header, "format": FORMAT, "parameters": list(checkpoint.model)}
    tensors = {
        f"{part}.{name}": tensor.detach().cpu().contiguous().clone()
        for part in _PARTS
        for name, tensor in getattr(checkpoint, part).items()
    }
    header["content_hash"] = content_hash(header, tensors)
    try:
        write_whole(path, save(tensors, metadata={"pacdp": canonical(header)}))
    except (OSError, SafetensorError) as error:
        why = getattr(error, "strerror", None) or error
        raise CheckpointError(
            f"cannot write checkpoint {path}: {why}; free space, let its folder be written, or choose another"
        ) from error


def load_checkpoint(path: Path | str) -> Checkpoint:
    """Read a checkpoint written by :func:`save_checkpoint`; ``path`` may also be the run folder that holds it.

    Raises:
        CheckpointError: no such file; an empty or truncated one; one of another format; one whose content does not have
            the hash that its header names.
        ValueError: ``path`` is no path.
    """
    path = path_of(path=path)
    if os.path.isdir(path):
        path = path / NAME
    if not os.path.isfile(path):
        if path.is_symlink():
            raise CheckpointError(
                f"{path} is a link to {os.readlink(path)}, which is not there: restore that, or give another checkpoint"
            )
        usual = "train first, or give the path of a checkpoint or its run folder"
        raise CheckpointError(f"no checkpoint at {path}: {one_of_its_chains(path.parent) or usual}")
    if path.stat().st_size == 0:
        raise CheckpointError(f"checkpoint {path} is empty: it was never written; train again")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError) as error:
        if zipfile.is_zipfile(path):
            raise CheckpointError(
                f"{path} was written by torch.save, not by pacdp: {_FOREIGN}"
            ) from error
        raise CheckpointError(
            f"checkpoint {path} is truncated or no safetensors file ({error}); take it from its source again"
        ) from error
    try:
        header = json_value(metadata["pacdp"])
        written_as = header["format"]
    except (KeyError, TypeError, ValueError):
        header, written_as = {}, None
    if written_as != FORMAT:
        raise CheckpointError(
            f"{path} is a safetensors file but no {FORMAT} checkpoint (it says {written_as!r}): {_FOREIGN}"
        )
    said = header.get("content_hash")
    try:
        found = content_hash(header, tensors)
    except ValueError as error:
        raise CheckpointError(
            f"checkpoint {path} has a header that pacdp did not write: {error}"
        ) from error
    if found != said:
        raise CheckpointError(
            f"checkpoint {path} is not what was written: its content has the hash {found[:12]}, its header says "
            f"{str(said)[:12]}; take it from its source again, or train again"
        )
    if any(
        isinstance(part, dict) and part.get("choices") for part in (header, header.get("about"))
    ):
        raise CheckpointError(
            f"{path} names a list of settings that was closed before the run, which its certificates have to pay for "
            "and this version does not read: use the version that trained it, or train again"
        )
    parts = {
        part: {
            name.removeprefix(f"{part}."): tensor
            for name, tensor in tensors.items()
            if name.startswith(f"{part}.")
        }
        for part in _PARTS
    }
    named = header.get("parameters")
    names, model = named if isinstance(named, list) else [], parts["model"]
    missing = [name for name in names if name not in model]
    if missing or not names:
        raise CheckpointError(
            f"checkpoint {path} lacks the tensors {missing or ['model.*']} that its header names"
        )
    return Checkpoint(header=header, **{**parts, "model": {name: model[name] for name in names}})


def content_hash(header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """The hash of a header, but for its ``content_hash``, and of tensors by their names in the file.

    Raises:
        ValueError: a header that is not JSON.
    """
    found = hashlib.sha256(
        canonical({key: value for key, value in header.items() if key != "content_hash"}).encode()
    )
    for name in sorted(tensors):
        tensor = tensors[name]
        kind = [name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape)]
        found.update(f"\n{canonical(kind)}\n".encode())
        if tensor.numel():  # no view of nothing as bytes
            found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
