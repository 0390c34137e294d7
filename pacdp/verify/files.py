"""Reading a run's files: checkpoints, chained lines, and the hashes of both."""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from pacdp.verify.claim import Wrong, parsed

_TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
          "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool"}  # fmt: skip


CHECKPOINT = "pacdp-checkpoint/3"


class Stored(NamedTuple):
    """A checkpoint: its header, each tensor's type, shape and bytes, and what else the file holds."""

    header: dict[str, Any]
    tensors: dict[str, tuple[str, list[int], bytes]]
    beside: tuple[str, ...] = ()


def read_checkpoint(path: Path) -> Stored:
    """A safetensors file: the length of a JSON table, the table, the bytes of all tensors."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    table = parsed(content[8:start])
    told = table.pop("__metadata__", {})
    header = parsed(told.pop("pacdp", "{}"))
    ends = {name: slice(*(start + offset for offset in one["data_offsets"])) for name, one in table.items()}
    tensors = {name: (_TYPES[t["dtype"]], t["shape"], content[ends[name]]) for name, t in table.items()}
    rest = len(content) - start - sum(len(each) for _, _, each in tensors.values())
    return Stored(header, tensors, (*told, *(["bytes of no tensor"] if rest else [])))


def text_of(values: Any) -> str:
    """JSON with sorted keys and without spaces, of which hashes are made."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(values: Any, after: str = "") -> str:
    """SHA-256 of the hash before and the text."""
    return hashlib.sha256((after + text_of(values)).encode()).hexdigest()


def content_hash(stored: Stored) -> str:
    """The hash of the header without its own hash, and of every tensor's name, type, shape and bytes."""
    header = {name: value for name, value in stored.header.items() if name != "content_hash"}
    found = hashlib.sha256(text_of(header).encode())
    for name in sorted(stored.tensors):
        kind, shape, content = stored.tensors[name]
        found.update(f"\n{text_of([name, kind, shape])}\n".encode() + content)
    return found.hexdigest()


def lines_of(path: Path) -> list[Any]:
    """The values of a file with one JSON text a line."""
    try:
        return [parsed(line) for line in path.read_text().splitlines()]
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error


def chain_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a chained file; each hash must follow from the one before it."""
    lines, last = lines_of(path), ""
    for place, line in enumerate(lines, start=1):
        said = line.pop("hash", None)
        if said != digest(line, last):
            raise Wrong(f"line {place} of {path.name} is not what was written after the one before it")
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
        raise ValueError(f"{path.name}: it holds no JSON object, with names and values")
    return found


def maker_of(provenance: Any) -> str:
    """The version that wrote a file, as its provenance has it; empty where that is not known."""
    versions = (provenance or {}).get("versions") or {}
    if "pacdp" not in versions:
        return ""
    commit = provenance.get("commit")
    return f"pacdp {versions['pacdp']}" + (f" at commit {commit}" if commit else "")
