"""Reading a run's files: checkpoints, chained lines, and the hashes of both."""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pacdp.verify.claim import Fields, Wrong, parsed

CHECKPOINT = "pacdp-checkpoint/3"
_TYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}


class Tensor(NamedTuple):
    """A tensor as the file has it."""

    kind: str
    shape: list[int]
    content: bytes

    def array(self) -> np.ndarray:
        """Its numbers."""
        return np.frombuffer(self.content, self.kind).reshape(self.shape)


class Stored(NamedTuple):
    """A checkpoint: its header, its tensors, and what else the file holds."""

    header: Fields
    tensors: dict[str, Tensor]
    beside: tuple[str, ...] = ()

    def whole(self, name: str) -> np.ndarray:
        """Numbers of records that a compression keeps, as the file lists them."""
        return self.tensors[f"state.{name}"].array().astype(np.int64)

    def traced(self, name: str) -> np.ndarray:
        """What a chain kept of its steps."""
        return self.tensors[f"trace.{name}"].array().astype(np.float64)


def read_checkpoint(path: Path) -> Stored:
    """A safetensors file: the length of a JSON table, the table, the bytes of all tensors."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    table = parsed(content[8:start])
    told = table.pop("__metadata__", {})
    header = parsed(told.pop("pacdp", "{}"))
    rest = len(content) - start
    tensors = dict[str, Tensor]()
    for name, one in table.items():
        first, end = one.data_offsets
        own = content[start + first : start + end]
        tensors[name] = Tensor(_TYPES[one.dtype], one["shape"], own)
        rest -= len(own)
    beside = [*told, "bytes of no tensor"] if rest else list(told)
    return Stored(header, tensors, tuple(beside))


def text_of(values: Any) -> str:
    """JSON with sorted keys and without spaces, of which hashes are made."""
    return json.dumps(
        values, sort_keys=True, separators=(",", ":"), allow_nan=False
    )


def digest(values: Any, after: str = "") -> str:
    """SHA-256 of the hash before and the text."""
    text = after + text_of(values)
    return hashlib.sha256(text.encode()).hexdigest()


def content_hash(stored: Stored) -> str:
    """The hash of the header without its own hash, and of every tensor's name, type, shape and bytes."""
    header = {
        name: value
        for name, value in stored.header.items()
        if name != "content_hash"
    }
    found = hashlib.sha256(text_of(header).encode())
    for name, tensor in sorted(stored.tensors.items()):
        line = text_of([name, tensor.kind, tensor.shape])
        found.update(f"\n{line}\n".encode())
        found.update(tensor.content)
    return found.hexdigest()


def lines_of(path: Path) -> list[Any]:
    """The values of a file with one JSON text a line; none where there is no file."""
    if not path.is_file():
        return []
    try:
        return [parsed(line) for line in path.read_text().splitlines()]
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error


def chain_of(path: Path) -> list[Fields]:
    """The lines of a chained file; each hash must follow from the one before it."""
    lines = lines_of(path)
    last = ""
    for place, line in enumerate(lines, start=1):
        said = line.pop("hash", None)
        if said != digest(line, last):
            raise Wrong(
                f"line {place} of {path.name} is not what was written after the one before it"
            )
        line["hash"] = last = said
    return lines


def read_json(path: Path) -> Any:
    """The contents of a file that holds a JSON object; None where there is none.

    Raises:
        ValueError: it holds no such object, or a name twice.
    """
    if not path.is_file():
        return None
    try:
        found = parsed(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(
            f"{path.name}: it holds no JSON object, with names and values"
        )
    return found


def maker_of(provenance: Any) -> str:
    """The version that wrote a file, as its provenance has it; empty where that is not known."""
    versions = (provenance or {}).get("versions") or {}
    if "pacdp" not in versions:
        return ""
    version = f"pacdp {versions['pacdp']}"
    if commit := provenance.get("commit"):
        return f"{version} at commit {commit}"
    return version
