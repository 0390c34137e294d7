"""Reading files: checkpoints, chained lines, the hashes of both, and which version can check them."""

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from pacdp.verify.claim import (
    DAMAGED,
    Fields,
    Unchecked,
    hold,
    parsed,
    require,
    same,
)
from pacdp.verify.events import require_few

CHECKPOINT = "pacdp-checkpoint/3"
_RUN = "pacdp-run/3"
ABOUT = {"format", "kind", "title"}
"""What config.json says beside the configuration itself."""
_RESULTS = "pacdp-result/1 or pacdp-private-result/1"
WEIGHTS = "weights.safetensors"
SETTINGS = "settings.json"
"""The files of an exported folder."""
COMPRESSION = "compression/1"
"""The kind of a compression's checkpoint."""
_NAMES = """
    F64 float64 F32 float32 F16 float16 BF16 bfloat16 I64 int64 I32 int32 I16 int16 I8 int8 U8 uint8 BOOL bool
""".split()
_TYPES = dict(zip(_NAMES[::2], _NAMES[1::2], strict=True))
_SIZES = {
    kind: np.dtype(kind).itemsize
    for kind in _TYPES.values()
    if kind != "bfloat16"  # of two bytes, which NumPy lacks
}
_OF_A_TENSOR = {"dtype", "shape", "data_offsets"}
_STRAY = "bytes of no tensor"


class Tensor(NamedTuple):
    """A tensor as the file has it."""

    kind: str
    shape: list[int]
    content: bytes

    def array(self) -> ndarray:
        """Its numbers."""
        return np.frombuffer(self.content, self.kind).reshape(
            self.shape
        )


class Stored(NamedTuple):
    """A checkpoint: its header, its tensors, and what else the file holds."""

    header: Fields
    tensors: dict[str, Tensor]
    beside: Sequence[str] = ()

    def numbers(self, name: str) -> ndarray:
        """Numbers of records that a compression keeps, or what a chain kept of its steps, as the file lists them."""
        found = self.tensors[name].array()
        whole = name.startswith("state.")
        return found.astype(np.int64 if whole else np.float64)


def read_checkpoint(path: Path) -> Stored:
    """A safetensors file: the length of a JSON table, the table, the bytes of all tensors; an empty one of no file."""
    if not path.is_file():
        return Stored(Fields(), {})
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    try:
        table = parsed(content[8:start])
        told = table.pop("__metadata__", {})
        header = parsed(told.pop("pacdp", "{}"))
        content = content[start:]
        tensors = {}
        beside = {*told}
        end = 0
        for offsets, name in sorted(
            (one.data_offsets, name) for name, one in table.items()
        ):
            one = table[name]
            kind = _TYPES[one.dtype]
            beside |= one.keys() - _OF_A_TENSOR
            start = end
            end += prod(one["shape"]) * _SIZES.get(kind, 2)
            if offsets != [start, end]:
                beside.add(_STRAY)
            own = content[slice(*offsets)]
            tensors[name] = Tensor(kind, one["shape"], own)
    except DAMAGED as error:
        raise ValueError(
            f"{path.name}: it is no checkpoint of pacdp ({error})"
        ) from error
    if len(content) != end:
        beside.add(_STRAY)
    return Stored(header, tensors, sorted(beside))


def text_of(values: Any) -> str:
    """JSON with sorted keys and without spaces, of which hashes are made."""
    return json.dumps(
        values,
        sort_keys=True,
        separators=(",", ":"),
        allow_nan=False,
    )


def digest(values: Any, after: str = "") -> str:
    """SHA-256 of the hash before and the text."""
    text = after + text_of(values)
    return hashlib.sha256(text.encode()).hexdigest()


def content_hash(stored: Stored) -> str:
    """The hash of the header without its own hash, and of every tensor's name, type, shape and bytes."""
    header = dict(stored.header)
    header.pop("content_hash", None)
    found = hashlib.sha256(text_of(header).encode())
    for name, tensor in sorted(stored.tensors.items()):
        line = text_of([name, tensor.kind, tensor.shape])
        found.update(f"\n{line}\n".encode())
        found.update(tensor.content)
    return found.hexdigest()


def _read(path: Path, lines: bool = False) -> list[Fields]:
    """The JSON objects of a file, the whole or line by line; none where there is no file.

    A last line without its end, cut short by a crash before anyone was told of it, is left out.
    """
    if not path.is_file():
        return []
    try:
        text = path.read_text()
        parts = text.split("\n")[:-1] if lines else [text]
        found = [*map(parsed, parts)]
    except ValueError as error:
        why = error
        if isinstance(error, UnicodeDecodeError):
            why = "it holds no text"
        raise ValueError(f"{path.name}: {why}") from error
    if not all(isinstance(one, Fields) for one in found):
        raise ValueError(
            f"{path.name}: it holds no JSON object, with names and values"
        )
    return found


def read_json(path: Path) -> Any:
    """The contents of a file that holds a JSON object; None where there is none.

    Raises:
        ValueError: it holds no such object, or a name twice.
    """
    return next(iter(_read(path)), None)


def unasked(
    said: Any, told: Collection[str] = (), at: str = ""
) -> Iterator[str]:
    """Every place in a record where something stands that no check asked for, but for those that are only told."""
    if isinstance(said, list):
        for one in said:
            yield from unasked(one, told, at)
    elif isinstance(said, Fields):
        for name, part in said.items():
            where = f"{at}.{name}" if at else name
            if where in told or part in (None, "", [], {}):
                continue
            if name in said.asked:
                yield from unasked(part, told, where)
            else:
                yield where


def other_format(
    found: Any, known: str, provenance: Any = None
) -> str:
    """Why a file of another format is not judged, and what can judge it, if anything can."""
    if f"{str(found).partition('/')[0]}/" not in known:
        return f"it is of format {found!r}, of which this checker knows no version: it checks {known}"
    return f"it is of format {found!r}, and this version checks {known!r}: check it with {_maker_of(provenance)}"


def _maker_of(provenance: Any) -> str:
    """The version that wrote a file, as its provenance has it."""
    said = provenance or {}
    version = (said.get("versions") or {}).get("pacdp")
    if not version:
        return "the version of pacdp that wrote it"
    commit = said.get("commit")
    at = f" at commit {commit}" if commit else ""
    return f"pacdp {version}{at}"


def ends_of(run: Fields, n: int) -> tuple[int, list[int] | None]:
    """How many steps a chain's run on n examples plans, and at which it may end, where as many as records are listed.

    A step of pSGLD with its correction takes two batches.
    """
    sampler = run.sampler
    batches = run.epochs * n / sampler.batch_size
    each = 2 if sampler["correction"] else 1
    planned = max(
        1, round(batches / sampler.get("inner_steps", each))
    )
    if run["stopping"] != "listed":
        return planned, None
    require_few(run.records)
    parts = range(1, run.records + 1)
    marks = {round(k * planned / run.records) for k in parts}
    return planned, sorted(marks - {0})


class Folder:
    """A run's files, each read once.

    Attributes:
        settings: the contents of settings.json; None where there is no such file.
        stored, header: the checkpoint and its header; empty where there is none.
        config, result: the contents of config.json and result.json; None where there is no such file.
        report: the contents of certificates.json; empty where there is no such file.
        run: the configuration that the checkpoint names.
        kind: of the run: private, where its header names the mechanisms that ran, or a compression, or a chain.
        certificates: those of the report.
    """

    def __init__(self, path: Path, report: Any) -> None:
        self.path = path
        self.report = report or Fields()
        # a run's own, whatever else lies beside it
        weights = path / "checkpoint.safetensors"
        if not weights.is_file():
            weights = path / WEIGHTS
        self.stored = read_checkpoint(weights)
        self.header = self.stored.header
        self.settings = read_json(path / SETTINGS)
        self.config = read_json(path / "config.json")
        self.result = read_json(path / "result.json")
        self.lines = _read(path / "metrics.jsonl", lines=True)
        self.about = self.header["about"] or self.header
        self.run: Any = self.about["run"]
        self.kind = "chain"
        if self.header["kind"] == COMPRESSION:
            self.kind = "compression"
        if "event" in self.header:
            self.kind = "private"
        self.certificates = self.report.get("certificates", [])

    def hold(self, table: str, **more: Any) -> None:
        """Raise Wrong unless these lines hold in its files, and in what else is given: ``hold`` in ``claim``."""
        hold(table, **{**vars(self), **more})

    @cached_property
    def rows(self) -> list[Fields]:
        """The lines of metrics.jsonl; each hash must follow from the one before it."""
        last = ""
        for place, line in enumerate(self.lines, start=1):
            said = line.pop("hash", None)
            require(
                said == digest(line, last),
                f"line {place} of metrics.jsonl is not what was written after the one before it",
            )
            line["hash"] = last = said
        return self.lines

    def another_version(self) -> str:
        """Why the folder is not one of this version's; empty if it is."""
        provenance = read_json(self.path / "provenance.json")
        provenance = provenance or self.report["provenance"]
        files = {
            "the checkpoint": (self.header or None, CHECKPOINT),
            "config.json": (self.config, _RUN),
            "result.json": (self.result, _RESULTS),
        }
        for name, (said, known) in files.items():
            if said is None or said["format"] in known.split(
                " or "
            ):
                continue
            why = other_format(said["format"], known, provenance)
            return f"{name}: {why}"
        listed = self.about["choices"] or self.header["choices"]
        rests = self.result is None or "rests_on" in self.result
        hashed = not self.lines or any(
            "hash" in line for line in self.lines
        )
        odd = {
            "the checkpoint names a list of settings": listed,
            "result.json does not name the files that it rests on": not rests,
            "metrics.jsonl has no hashes": not hashed,
        }
        for why in filter(odd.get, odd):
            return f"{why}: check it with {_maker_of(provenance)}"
        return ""


_LAYERS = {
    "fc": ([], None),
    "linear": ([], []),
    "fc600": ([], [600, 600]),
    "fc1200": ([], [1200, 1200]),
    "fc1024": ([], [1024, 1024]),
    "conv": ([20, 50], [500]),
    "cnn5": ([16, 32], [64, 32]),
    "cnn3": ([8, 16], []),
}
"""Filters of the convolutions, and widths of the hidden layers, by name; those of ``fc`` stand beside it."""
_WEIGHTS = "weight", "weight_mean"
"""How the names of weights end, and of the means of their laws, which DP-BBP learns."""


def check_content(f: Folder) -> None:
    """The weights' bytes have the hash that their header says, and are those of the network that the settings name.

    Convolutions, hidden layers and normalisations are as many, and as wide; of which kind the last are, no shape shows.
    """
    header = f.header
    if "content_hash" not in header:
        raise Unchecked("it has no hash of its content")
    f.hold(
        "header.content_hash = content",
        content=content_hash(f.stored),
    )
    weights = {f"model.{name}" for name in header.parameters}
    others = weights ^ f.stored.tensors.keys()
    odd = [name for name in others if name[:6] == "model."]
    same("weights of other names than the header's", odd, [])
    run = f.run or (f.settings and f.settings.run)
    if f.kind == "compression" or not run:
        return
    said = run.part("problem")["architecture"] or run
    name = said["name"] or said["architecture"]
    if name not in _LAYERS:
        raise Unchecked(f"this checker knows no network {name!r}")
    filters, hidden = _LAYERS[name]
    hidden = said.hidden if hidden is None else hidden
    normalised = []
    if said["norm"] not in (None, "none"):
        normalised = filters or hidden
    widths = {1: [], 2: [], 4: []}
    for one in header.parameters:
        if one.endswith(_WEIGHTS):
            shape = f.stored.tensors[f"model.{one}"].shape
            widths[len(shape)].append(shape[0])
    same(
        "the widths of convolutions, hidden layers and normalisations",
        (widths[4], widths[2][:-1], widths[1]),
        (filters, hidden, normalised),
    )
