"""Reading a run's files: checkpoints, chained lines, and the hashes of both."""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from pacdp.verify.claim import Wrong

_TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
          "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool"}  # fmt: skip


CHECKPOINT = "pacdp-checkpoint/3"


class Stored(NamedTuple):
    """A checkpoint: its header, and each tensor's type, shape and bytes."""

    header: dict[str, Any]
    tensors: dict[str, tuple[str, list[int], bytes]]


def read_checkpoint(path: Path) -> Stored:
    """A safetensors file: the length of a JSON table, the table, the bytes of all tensors."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    table = json.loads(content[8:start])
    header = json.loads(table.pop("__metadata__", {}).get("pacdp", "{}"))
    ends = {name: slice(*(start + offset for offset in one["data_offsets"])) for name, one in table.items()}
    return Stored(header, {name: (_TYPES[t["dtype"]], t["shape"], content[ends[name]]) for name, t in table.items()})


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


def chain_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a chained file; each hash must follow from the one before it."""
    lines, last = [json.loads(line) for line in path.read_text().splitlines()], ""
    for place, line in enumerate(lines, start=1):
        said = line.pop("hash", None)
        if said != digest(line, last):
            raise Wrong(f"line {place} of {path.name} is not what was written after the one before it")
        line["hash"] = last = said
    return lines


def read_json(path: Path) -> Any:
    """The contents of a JSON file; None where there is none."""
    return json.loads(path.read_text()) if path.is_file() else None


def maker_of(provenance: Any) -> str:
    """The version that wrote a file, as its provenance has it; empty where that is not known."""
    versions = (provenance or {}).get("versions") or {}
    if "pacdp" not in versions:
        return ""
    commit = provenance.get("commit")
    return f"pacdp {versions['pacdp']}" + (f" at commit {commit}" if commit else "")
