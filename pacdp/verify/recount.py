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
ROWS = "pacdp-rows/2"


def called(name: str) -> Any:
    """What ``module:callable`` returns."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)()


def _hashes(rows: np.ndarray, kind: str) -> np.ndarray:
    """BLAKE2b, cut to 64 bits, of each row's bytes."""
    digests = [hashlib.blake2b(row.tobytes(), digest_size=8, person=kind.encode()).digest() for row in rows]
    return np.frombuffer(b"".join(digests), dtype="<u8")


def row_hashes(values: Any) -> np.ndarray:
    """The hash of each row, in single precision where that is exact."""
    rows = np.asarray(values)
    wide = rows.reshape(len(rows), -1).astype({"f": "<f8", "u": "<u8"}.get(rows.dtype.kind, "<i8"))
    narrow, hashes = wide.astype("<f4"), np.empty(len(rows), dtype=np.uint64)
    exact = ((narrow.astype(wide.dtype) == wide) | (wide != wide)).all(axis=1)
    for places, numbers in ((np.flatnonzero(exact), narrow), (np.flatnonzero(~exact), wide)):
        kind = f"{numbers.dtype.str}{numbers.shape[1]}"
        hashes[places] = _hashes(numbers[places] + numbers.dtype.type(0), kind)
    return hashes


def rows_digest(inputs: Any, labels: Any, people: Any = None) -> str:
    """SHA-256 of the sorted hashes of examples, of inputs and of people, after the name of their format."""
    seen = row_hashes(inputs)
    columns = {"examples": _hashes(np.stack([seen, row_hashes(labels)], axis=1), "pair"), "inputs": seen}
    if people is not None:
        columns["owners"] = row_hashes(np.asarray(people).astype(np.int64))
    order = np.lexsort([columns[name] for name in ("inputs", "owners", "examples") if name in columns])
    found = hashlib.sha256(ROWS.encode())
    for name, column in columns.items():
        found.update(name.encode() + column[order].astype("<u8").tobytes())
    return f"{ROWS}:{found.hexdigest()}"


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
        if not said["digest"].startswith(f"{ROWS}:"):
            raise Unchecked(f"the report's rows are not hashed as {ROWS}: check it with what wrote it")
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
