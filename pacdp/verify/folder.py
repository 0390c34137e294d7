"""A run's folder: header, configuration, steps, history and hashes, compared with each other and with the report."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pacdp.verify.claim import Statement, Unchecked, Wrong, judged
from pacdp.verify.loss import steps_of

_TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
          "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool"}  # fmt: skip


class Stored(NamedTuple):
    """A checkpoint: its header, and each tensor's type, shape and bytes."""

    header: dict[str, Any]
    tensors: dict[str, tuple[str, list[int], bytes]]

    def array(self, name: str) -> np.ndarray:
        """A tensor as NumPy has it."""
        kind, shape, content = self.tensors[name]
        return np.frombuffer(content, dtype=kind).reshape(shape)


def read_checkpoint(path: Path) -> Stored:
    """A safetensors file: the length of a JSON table, the table, the bytes of all tensors."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    table = json.loads(content[8:start])
    header = json.loads(table.pop("__metadata__", {}).get("pacdp", "{}"))
    cut = {name: [start + offset for offset in one["data_offsets"]] for name, one in table.items()}
    return Stored(header, {name: (_TYPES[one["dtype"]], one["shape"], content[cut[name][0] : cut[name][1]])
                           for name, one in table.items()})  # fmt: skip


def text_of(values: Any) -> str:
    """JSON with sorted keys and without spaces, of which hashes are made."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(values: Any, after: str = "") -> str:
    """SHA-256 of the hash before and the text."""
    return hashlib.sha256((after + text_of(values)).encode()).hexdigest()


def content_hash(stored: Stored) -> str:
    """Of the header without its own hash, and of every tensor's name, type, shape and bytes."""
    header = {name: value for name, value in stored.header.items() if name != "content_hash"}
    found = hashlib.sha256(text_of(header).encode())
    for name in sorted(stored.tensors):
        kind, shape, content = stored.tensors[name]
        found.update(f"\n{text_of([name, kind, shape])}\n".encode() + content)
    return found.hexdigest()


def chain_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a chained file; each hash must follow from the one before it."""
    lines, last = [json.loads(line) for line in path.read_text().splitlines()], ""
    for number, line in enumerate(lines, start=1):
        said = line.pop("hash", None)
        if said != digest(line, last):
            raise Wrong(f"line {number} of {path.name} is not what was written after the one before it")
        line["hash"] = last = said
    return lines


def implied_steps(header: Mapping[str, Any], steps: int) -> Counter[tuple[float, float]]:
    """The mechanisms of so many steps: noise multiplier (K/C) √(2/(τ h)) at step size h, sample rate K/n."""
    s, n = header["sampler"], header["n"]
    if s.get("clip_norm") is None:
        raise Wrong("the sampler clips no gradients, so that its steps are no private mechanisms")
    if s["kind"] == "EntropySGD":
        rates = {0.5 * s["inner_step_size"] * i ** -s["inner_decay"]: 1 for i in range(1, s["inner_steps"] + 1)}
        sizes = Counter({rate: steps * sum(0.5 * s["inner_step_size"] * i ** -s["inner_decay"] == rate
                                           for i in range(1, s["inner_steps"] + 1)) for rate in rates})  # fmt: skip
    elif s["kind"] == "SGLD":
        sizes = Counter(s["step_size"] * (t + 1) ** -s["decay"] for t in range(steps))
    else:
        raise Unchecked(f"this checker knows no privacy of {s['kind']}")
    noise = s["batch_size"] / s["clip_norm"]
    return Counter({(s["batch_size"] / n, noise * math.sqrt(2 / (s["tau"] * h))): k for h, k in sizes.items()})


def _same_steps(said: Mapping[str, Any], expected: Counter[tuple[float, float]]) -> None:
    """The event must have as many steps, none noisier and none at a smaller rate, and little less noise."""
    found = sorted(((sigma, rate, k) for (rate, sigma), k in steps_of(dict(said)).items()), reverse=True)
    needed = sorted(((sigma, rate, k) for (rate, sigma), k in expected.items()), reverse=True)
    one, other = ([(sigma, rate) for sigma, rate, k in part for _ in range(k)] for part in (found, needed))
    if len(one) != len(other):
        raise Wrong(f"the event has {len(one)} mechanisms, and the run {len(other)}")
    a, b = np.array(one).reshape(-1, 2), np.array(other).reshape(-1, 2)
    if not (np.all(a[:, 0] <= b[:, 0] * (1 + 1e-12)) and np.all(a[:, 0] >= b[:, 0] * (1 - 2e-3))):
        raise Wrong("the event has other noise multipliers than the settings give")
    if not np.allclose(a[:, 1], b[:, 1], rtol=1e-12, atol=0):
        raise Wrong("the event has another sample rate than the settings give")


def check_folder(path: Path, report: Mapping[str, Any] | None) -> list[Statement]:
    """Everything in the folder that another file, or the settings, determine."""
    files = {name: path / name for name in ("config.json", "metrics.jsonl", "result.json", "choices.jsonl")}
    found = {
        name: json.loads(file.read_text()) for name, file in files.items() if file.suffix == ".json" and file.is_file()
    }
    checkpoint, statements = path / "checkpoint.safetensors", list[Statement]()
    stored = read_checkpoint(checkpoint) if checkpoint.is_file() else None
    header = stored.header if stored else {}
    rows = list[dict[str, Any]]()

    def content() -> None:
        if "content_hash" not in header:
            raise Unchecked(f"it is of format {header.get('format')!r}, without a hash of its content")
        if stored and content_hash(stored) != header["content_hash"]:
            raise Wrong("its content has another hash than its header says")

    def run() -> None:
        own = header.get("run") or (header.get("about") or {}).get("run")
        if own is None:
            raise Unchecked("the header names no configuration")
        if "config.json" in found and own != found["config.json"]:
            raise Wrong("the header's run is not that of config.json")
        if "config_hash" in header and header["config_hash"] != digest(own):
            raise Wrong("the header's run has another hash than it says")
        for name in ("problem", "sampler", "seed", "chain"):
            if name in own and own[name] != header.get(name, own[name]):
                raise Wrong(f"the header's {name} is not that of its run")

    def metrics() -> None:
        rows.extend(chain_of(files["metrics.jsonl"]))
        steps = [row["step"] for row in rows]
        if steps != sorted(set(steps)) or (header and steps and steps[-1] > header["step"]):
            raise Wrong(f"its rows are of the steps {steps[:3]} ... {steps[-1]}")

    def result() -> None:
        rests = found["result.json"].get("rests_on")
        if rests is None:
            raise Unchecked("it does not name the files that it rests on")
        here = {"config": digest(found.get("config.json")), "metrics": rows[-1]["hash"] if rows else None,
                "checkpoint": header.get("content_hash")}  # fmt: skip
        for name, said in rests.items():
            if said != here.get(name):
                raise Wrong(f"it rests on another {name}")
        if rows and {**found["result.json"]["final"]} != {k: v for k, v in rows[-1].items() if k != "hash"}:
            raise Wrong("its final row is not the last one recorded")

    def steps() -> None:
        n, own = header["n"], header["run"]
        per = own["sampler"].get("inner_steps", 1) if own["sampler"]["kind"] == "EntropySGD" else 1
        made = max(1, round(own["epochs"] * n / own["sampler"]["batch_size"] / per))
        if header.get("planned_steps", made) != made or not 0 <= header["step"] <= made:
            raise Wrong(
                f"the header says step {header['step']} of {header.get('planned_steps')}, and the run has {made}"
            )
        marks = sorted({round(k * made / own["records"]) for k in range(1, own["records"] + 1)} - {0})
        if header.get("stopping") == "listed" and header["listed_steps"] != marks:
            raise Wrong("the listed steps are not those at which the run records")

    def history() -> None:
        if sum(run[2] for run in header["history"]["runs"]) != header.get("step"):
            raise Wrong(f"the history has other than the {header.get('step')} steps made")

    def choices() -> None:
        lines, said = chain_of(files["choices.jsonl"]), header.get("choices")
        listed = [line["settings"] for line in lines if "settings" in line]
        size = len({text_of(one) for one in listed})
        if said is None or not lines[-1].get("closed") or (said["digest"], said["J"]) != (lines[-1]["hash"], size):
            raise Wrong("the run was started with another list")
        if text_of(listed[said["index"]]) != text_of(header.get("run")):
            raise Wrong("the list does not have this run under its number")

    def reported() -> None:
        subject, privacy = report.get("subject") or {}, report.get("privacy") or {}
        if "content_hash" in subject and subject["content_hash"] != header.get("content_hash"):
            raise Wrong("the report is about another checkpoint")
        for name in ("step", "loss", "sampler", "data"):
            if name in subject and subject[name] != header.get(name):
                raise Wrong(f"the report's {name} is not the checkpoint's")
        if privacy.get("event"):
            charged = (report.get("details") or {}).get(
                "charged_steps", header.get("planned_steps", header.get("step"))
            )
            listed = [one for one in header.get("listed_steps", []) if one >= header["step"]]
            if header.get("planned_steps") and charged < (listed[0] if listed else header["planned_steps"]):
                raise Wrong(f"{charged} steps are paid for, of {header['planned_steps']} that were planned")
            runs = (header.get("history") or {}).get("runs")
            expected = (
                Counter({(rate, sigma): k for sigma, rate, k in runs}) if runs else implied_steps(header, charged)
            )
            _same_steps(privacy["event"], expected)

    for name, there, check in (
        ("content of the checkpoint", stored, content), ("run", header, run), ("history", "history" in header, history),
        ("metrics.jsonl", files["metrics.jsonl"].is_file(), metrics), ("result.json", "result.json" in found, result),
        ("steps", "epochs" in (header.get("run") or {}), steps), ("choices", files["choices.jsonl"].is_file(), choices),
        ("report", report is not None and header, reported),
    ):  # fmt: skip
        statements += [judged(path.name, name, check)] if there else []
    return statements
