"""Counting again: which rows a report is about, and how often a network errs on them."""

import hashlib
import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from pacdp.verify.claim import CANNOT, Statement, Unchecked, Wrong, judged
from pacdp.verify.folder import Stored


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
    start = b"somepseudorandomlygeneratedbytes"
    a, b, c, d = (np.uint64(int.from_bytes(start[8 * i : 8 * i + 8], "big")) ^ key[i % 2] for i in range(4))
    a, b, c, d = (np.array([x]) for x in (a, b, c, d))

    def turn(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any, Any, Any]:
        a, c = a + b, c + d
        b, d = _rotate(b, 13) ^ a, _rotate(d, 16) ^ c
        a, c = _rotate(a, 32) + d, c + b
        return a, _rotate(b, 17) ^ c, _rotate(c, 32), _rotate(d, 21) ^ a

    for block in (*blocks, np.array([8 * len(blocks) << 56], dtype=np.uint64)):
        a, b, c, d = turn(*turn(a, b, c, d ^ block))
        a = a ^ block
    a, b, c, d = turn(*turn(*turn(*turn(a, b, c ^ np.uint64(255), d))))
    return a ^ b ^ c ^ d


def row_hashes(values: Any) -> np.ndarray:
    """Two multilinear hashes of a row's 32-bit words, cut to 32 bits each, and SipHash of these and of the format."""
    rows = np.asarray(values)
    rows = rows.reshape(len(rows), -1)
    wide = rows.astype({"f": "f8", "u": "u8"}.get(rows.dtype.kind, "i8"))
    hashes = np.empty(len(rows), dtype=np.uint64)
    narrow = wide.astype(np.float32)
    exact = ((narrow.astype(wide.dtype) == wide) | (wide != wide)).all(axis=1)
    for kept, numbers in ((exact, narrow), (~exact, wide)):
        if kept.any():
            part = np.ascontiguousarray(numbers[kept] + numbers.dtype.type(0))
            words, seeds = part.view("<u4"), _words(4 + 2 * part.view("<u4").shape[1])
            sums = [np.concatenate([np.einsum("ij,j->i", words[i : i + 512].astype(np.uint64), seeds[4:].reshape(2, -1)[k])
                                    for i in range(0, len(words), 512)]) + seeds[2 + k] for k in (0, 1)]  # fmt: skip
            joined = (sums[0] >> np.uint64(32) << np.uint64(32)) | (sums[1] >> np.uint64(32))
            kind = hashlib.sha256(f"{part.dtype.str}{part.shape[1]}".encode()).digest()[:8]
            hashes[kept] = _siphash(seeds[:2], joined, np.frombuffer(kind, dtype="<u8"))
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
    """Examples whose own class has not the largest output; a tie is an error. The checkpoint's weights, if there is one."""
    import torch  # the one place that needs it

    if stored is not None and hasattr(network, "load_state_dict"):
        prefix = "model."
        state = {name[len(prefix) :]: torch.from_numpy(stored.array(name).copy())
                 for name in stored.tensors if name.startswith(prefix)}  # fmt: skip
        network.load_state_dict(state, strict=False)
        network.eval()
    with torch.no_grad():
        parts = torch.as_tensor(np.asarray(inputs)).split(500)
        outputs = torch.cat([network(part).cpu() for part in parts]).double().numpy()
    y = np.asarray(labels)
    if outputs.ndim == 1 or outputs.shape[1] == 1:
        margin = outputs.reshape(-1) * (2 * y - 1)
    else:
        own = outputs[np.arange(len(y)), y]
        outputs[np.arange(len(y)), y] = -np.inf
        margin = own - outputs.max(axis=1)
    return int((~(margin > 0)).sum())


def gaussian_kl(mean: np.ndarray, std: np.ndarray, prior_mean: np.ndarray, prior_std: np.ndarray) -> float:
    """KL(N(mean, std²)‖N(prior_mean, prior_std²)), summed over coordinates, in double precision."""
    m, s, pm, ps = (np.asarray(x, dtype=np.float64) for x in (mean, std, prior_mean, prior_std))
    return float(np.sum(np.log(ps / s) + (s**2 + (m - pm) ** 2) / (2 * ps**2) - 0.5))


def recount(report: Mapping[str, Any], stored: Stored | None, data: str | None, model: str | None) -> list[Statement]:
    """The bound's rows by their hashes, and the errors of the network on them."""
    if data is None:
        return [Statement("recount", "errors", CANNOT, "--data is needed to count with --model")] if model else []
    given = called(data)
    inputs, labels, *rest = given if isinstance(given, tuple) else (given.inputs, given.labels, given.people)
    people = rest[0] if rest else None

    def rows() -> None:
        said = (report.get("rows") or {}).get("bound")
        if said is None:
            raise Unchecked("the report does not name its rows")
        if said["n"] != len(np.asarray(labels)) or said["digest"] != rows_digest(inputs, labels, people):
            raise Wrong(f"the report is about {said['n']} other rows than these {len(np.asarray(labels))}")

    def errors() -> None:
        names = ("weights", "mean weights", "your network", "predictor")
        said = [one for one in report["measured"] if (one["on"], one["loss"]) == ("bound", "zero-one")
                and one["errors"] is not None and one["of"] in names]  # fmt: skip
        if not said:
            raise Unchecked("the report counts no errors of a network as it is")
        found = count_errors(called(str(model)), stored, inputs, labels)
        for one in said:
            if one["errors"] != found:
                raise Wrong(f"{one['of']} err on {one['errors']} rows by the report, and on {found} here")

    return [judged("recount", "rows", rows), *([judged("recount", "errors", errors)] if model else [])]
