"""Counting again: which rows a report is about, how often a network errs on them, and kept steps of its chain."""

import hashlib
import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from pacdp.verify.claim import CANNOT, Statement, Unchecked, Wrong, judged
from pacdp.verify.compressed import KIND
from pacdp.verify.files import Stored
from pacdp.verify.replay import replay
from pacdp.verify.rerun import is_learner, rerun

_NAMES = ("weights", "mean weights", "your network", "predictor")
"""Predictors in a report that are one network as it is."""
_CHUNK = 512


def called(name: str) -> Any:
    """What ``module:callable`` returns."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)()


def _words(count: int) -> np.ndarray:
    return np.frombuffer(hashlib.shake_256(b"pacdp-rows/1").digest(8 * count), dtype="<u8")


def _rotate(x: np.ndarray, bits: int) -> np.ndarray:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


def _siphash(key: np.ndarray, *blocks: np.ndarray) -> np.ndarray:
    """SipHash-2-4 of 64-bit blocks, for many messages at once."""
    start = np.frombuffer(b"somepseudorandomlygeneratedbytes", dtype=">u8").astype(np.uint64)
    state: Any = [start[i : i + 1] ^ key[i % 2] for i in range(4)]

    def turn(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, ...]:
        a, c = a + b, c + d
        b, d = _rotate(b, 13) ^ a, _rotate(d, 16) ^ c
        a, c = _rotate(a, 32) + d, c + b
        return a, _rotate(b, 17) ^ c, _rotate(c, 32), _rotate(d, 21) ^ a

    for block in (*blocks, np.array([8 * len(blocks) << 56], dtype=np.uint64)):
        a, b, c, d = state
        a, b, c, d = turn(*turn(a, b, c, d ^ block))
        state = a ^ block, b, c, d
    a, b, c, d = state
    a, b, c, d = turn(*turn(*turn(*turn(a, b, c ^ np.uint64(255), d))))
    return a ^ b ^ c ^ d


def row_hashes(values: Any) -> np.ndarray:
    """Two multilinear hashes of a row's 32-bit words, cut to 32 bits each, and SipHash of these and of the format."""
    rows = np.asarray(values)
    wide = rows.reshape(len(rows), -1).astype({"f": "f8", "u": "u8"}.get(rows.dtype.kind, "i8"))
    narrow, hashes = wide.astype(np.float32), np.empty(len(rows), dtype=np.uint64)
    exact = ((narrow.astype(wide.dtype) == wide) | (wide != wide)).all(axis=1)
    for places, numbers in ((np.flatnonzero(exact), narrow), (np.flatnonzero(~exact), wide)):
        kind = hashlib.sha256(f"{numbers.dtype.str}{numbers.shape[1]}".encode()).digest()[:8]
        for cut in range(0, len(places), _CHUNK):
            part = places[cut : cut + _CHUNK]
            words = np.ascontiguousarray(numbers[part] + numbers.dtype.type(0)).view("<u4").astype(np.uint64)
            seeds = _words(4 + 2 * words.shape[1])
            high, low = (np.einsum("ij,j->i", words, m) + seeds[2 + i] for i, m in enumerate(np.split(seeds[4:], 2)))
            joined = (high >> np.uint64(32) << np.uint64(32)) | (low >> np.uint64(32))
            hashes[part] = _siphash(seeds[:2], joined, np.frombuffer(kind, dtype="<u8"))
    return hashes


def rows_digest(inputs: Any, labels: Any, people: Any = None) -> str:
    """SHA-256 of the sorted hashes of examples, of inputs and of people."""
    seen = row_hashes(inputs)
    columns = {"examples": _siphash(_words(2), seen, row_hashes(labels)), "inputs": seen}
    if people is not None:
        columns["owners"] = row_hashes(np.asarray(people).astype(np.int64))
    order = np.lexsort([columns[name] for name in ("inputs", "owners", "examples") if name in columns])
    found = hashlib.sha256(b"pacdp-rows/1")
    for name, column in columns.items():
        found.update(name.encode() + column[order].astype("<u8").tobytes())
    return found.hexdigest()


def count_errors(network: Any, stored: Stored | None, inputs: Any, labels: Any) -> int:
    """Examples whose own class has not the largest output; a tie is an error. With a checkpoint, at its weights."""
    import torch  # the one place that needs it

    if stored is not None and hasattr(network, "load_state_dict"):
        named = {name.removeprefix("model."): one for name, one in stored.tensors.items() if name.startswith("model.")}
        arrays = {name: np.frombuffer(content, kind).reshape(shape) for name, (kind, shape, content) in named.items()}
        network.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in arrays.items()}, strict=False)
        network.eval()
    with torch.no_grad():
        parts = torch.from_numpy(np.array(inputs)).split(_CHUNK)
        outputs = torch.cat([network(part).cpu() for part in parts]).double().numpy()
    places, labels = np.arange(len(outputs)), np.asarray(labels)
    if outputs.ndim == 1 or outputs.shape[1] == 1:
        return int((~(outputs.reshape(-1) * (2 * labels - 1) > 0)).sum())
    own = outputs[places, labels]
    outputs[places, labels] = -np.inf
    return int((~(own > outputs.max(axis=1))).sum())


def recount(report: Mapping[str, Any], stored: Stored | None, data: str | None, model: str | None) -> list[Statement]:
    """The bound's rows by their hashes, and the errors of the network on them."""
    if data is None:
        return [Statement("recount", "errors", CANNOT, "--data is needed to count with --model")]
    given = called(data)
    inputs, labels, *people = given if isinstance(given, tuple) else (given.inputs, given.labels, given.people)

    def rows() -> None:
        said = (report.get("rows") or {}).get("bound")
        if said is None:
            raise Unchecked("the report does not name its rows")
        if said["n"] != len(inputs) or said["digest"] != rows_digest(inputs, labels, *people):
            raise Wrong(f"the report is about {said['n']} other rows than these {len(inputs)}")

    def errors() -> None:
        said = {one["of"]: one["errors"] for one in report["measured"] if one["errors"] is not None
                and (one["on"], one["loss"]) == ("bound", "zero-one") and one["of"] in _NAMES}  # fmt: skip
        if not said:
            raise Unchecked("the report counts no errors of a network as it is")
        found = count_errors(made, stored, inputs, labels)
        if odd := [name for name, count in said.items() if count != found]:
            raise Wrong(f"{odd[0]} err on {said[odd[0]]} rows by the report, and on {found} here")

    found = [judged("recount", "rows", rows)]
    made = None if model is None else called(model)
    if stored is not None and stored.header.get("kind") == KIND and is_learner(made):
        return found + rerun(stored, made, inputs, labels, *people)
    if made is not None:
        found += [judged("recount", "errors", errors)]
        found += replay(stored, made, inputs, labels, *people) if stored is not None else []
    return found
