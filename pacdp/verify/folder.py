"""A run's folder: header, configuration, steps, event and hashes, compared with each other and with the report."""

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pacdp.verify.arithmetic import ball
from pacdp.verify.claim import Statement, Unchecked, Wrong, judged, number
from pacdp.verify.compressed import KIND, check_kept
from pacdp.verify.formulas_noisy import log_moments_of_a_run
from pacdp.verify.loss import private, steps_of
from pacdp.verify.planned import affordable, length, of_chain, of_training, paid, relation, same, sums_of_chain
from pacdp.verify.planned import recorded as ran_in

_TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
          "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool"}  # fmt: skip

_GRID = [1.0 + 0.02 * 2.0 ** (k / 2) for k in range(17)]
"""The orders of a realised price, all of which are paid for."""
_NORMS = "norms of all records kept"


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


def check_folder(path: Path, report: Any) -> list[Statement]:
    """Everything in the folder that another file, or the settings, determine."""
    metrics, choices, checkpoint = path / "metrics.jsonl", path / "choices.jsonl", path / "checkpoint.safetensors"
    files = {name: json.loads((path / name).read_text()) for name in ("config.json", "result.json")
             if (path / name).is_file()}  # fmt: skip
    stored = read_checkpoint(checkpoint) if checkpoint.is_file() else Stored({}, {})
    header = stored.header
    about = {**header, **(header.get("about") or {})}
    own: Any = about.get("run")
    chosen = about.get("choices") or {}
    rows = list[dict[str, Any]]()

    def content() -> None:
        if "content_hash" not in header:
            raise Unchecked(f"it is of format {header.get('format')!r}, without a hash of its content")
        if content_hash(stored) != header["content_hash"]:
            raise Wrong("its content has another hash than its header says")

    def run() -> None:
        if own is None:
            raise Unchecked("the header names no configuration")
        if own != files.get("config.json", own) or header.get("config_hash", digest(own)) != digest(own):
            raise Wrong("the header's run is not that of config.json, or has another hash than it says")
        odd = [name for name in ("problem", "sampler", "seed", "chain") if header.get(name, 0) != own.get(name, 0)]
        if odd and "event" not in header:
            raise Wrong(f"the header's {odd[0]} is not that of its run")

    def recorded() -> None:
        rows.extend(chain_of(metrics))
        steps = [row["step"] for row in rows]
        if steps != sorted(set(steps)) or (header and steps[-1:] > [header["step"]]):
            raise Wrong(f"its rows are of the steps {steps}")

    def result() -> None:
        said = files["result.json"]
        if "rests_on" not in said:
            raise Unchecked("it does not name the files that it rests on")
        here = {"config": digest(files.get("config.json")), "metrics": rows[-1]["hash"] if rows else None,
                "checkpoint": header.get("content_hash")}  # fmt: skip
        if odd := [name for name, one in said["rests_on"].items() if one != here.get(name)]:
            raise Wrong(f"it rests on another {odd[0]}")
        last, ran = rows[-1] if rows else {}, header.get("event")
        if "final" in said and {**said["final"], "hash": last.get("hash")} != last:
            raise Wrong("its final row is not the last one recorded")
        if (said.get("privacy") or {}).get("event", ran) != ran:
            raise Wrong("its event is not the checkpoint's")

    def steps() -> None:
        if "event" in header and own:
            of_training(header, own, (report or {}).get("n"))
        if "planned_steps" in header:
            made = length(own, header["n"])
            marks = sorted({round(k * made / own["records"]) for k in range(1, own["records"] + 1)} - {0})
            if header["planned_steps"] != made or not 0 <= header["step"] <= made:
                raise Wrong(f"it says step {header['step']} of {header['planned_steps']}, and the run has {made}")
            if header.get("listed_steps", marks) != marks or header.get("stopping") != own.get("stopping", "planned"):
                raise Wrong("the listed steps are not those at which the run records")

    def spent() -> None:
        made, (planned, replaced) = ran_in(header), relation(own)
        said = {row["step"]: (row["epsilon"], row["delta"]) for row in rows[-1:]}
        if "result.json" in files:
            privacy = files["result.json"]["privacy"]
            said[files["result.json"]["steps"]] = privacy["upper"], privacy["delta"]
            if "of_budget" not in privacy:
                raise Unchecked("the result is of an earlier version, which took the number of records for private")
            spent, ran = privacy["of_budget"], Counter(made[: files["result.json"]["steps"]])
            if spent["epsilon"] > own["budget"]["epsilon"] or spent["adjacency"] != own["budget"]["adjacency"]:
                raise Wrong(f"epsilon {spent['epsilon']!r}, {spent['adjacency']}, is not within the budget")
            if private(ran, spent["epsilon"], privacy["delta"], spent["adjacency"] == "replace-one") is False:
                raise Wrong(f"what ran spent more of the budget than epsilon {spent['epsilon']!r}")
        for step, (epsilon, delta) in said.items():
            if delta != planned or affordable(made[:step], own) is False:
                raise Wrong(f"epsilon {epsilon!r} at delta {delta!r} is not within the budget")
            ran = Counter(made[:step])
            found = private(ran, epsilon, delta, replaced)
            less = epsilon and private(ran, 0.95 * epsilon, delta, replaced)
            if step > len(made) or found is False or less:
                raise Wrong(f"epsilon is {epsilon!r} after {step} steps, which is not what ran")
            if found is None:
                raise Unchecked(f"epsilon {epsilon!r} is between what this checker shows and what it refutes")

    def listed() -> None:
        lines = chain_of(choices)
        settings = [line["settings"] for line in lines if "settings" in line]
        size = len({text_of(one) for one in settings})
        if not lines[-1].get("closed") or (chosen.get("digest"), chosen.get("J")) != (lines[-1]["hash"], size):
            raise Wrong("the run was started with another list")
        if text_of(settings[chosen["index"]]) != text_of(own):
            raise Wrong("the list does not have this run under its number")

    def reported() -> None:
        subject, details = report.get("subject") or {}, report.get("details") or {}
        for name in ("content_hash", "step", "loss", "sampler", "data", "n"):
            if name in subject and subject[name] != header.get(name):
                raise Wrong(f"the report's {name} is not the checkpoint's")
        count, size = (report.get("choices") or {}).get("count", 1), chosen.get("J", 1)
        paid_more = not chosen and any(
            f"a list of {count} settings, all paid for" in one["by"]
            for made in certified for one in made["hypotheses"] if one["name"] == "settings fixed beforehand"
        )  # fmt: skip
        if count != size and not paid_more:
            raise Wrong(f"{count} settings are paid for, of {size} that were listed")
        if details.get("stopping_times", 1) != len(header.get("listed_steps", [1])):
            raise Wrong(f"{details['stopping_times']} moments to stop are paid for")
        if event := (report.get("privacy") or {}).get("event"):
            if "event" in header:
                made = ran_in(header)
                expected = paid(event, len(made), of_training(header, own, report["n"]), own) if own else made
            else:
                ends = [step for step in header.get("listed_steps", []) if step >= header["step"]]
                due = (ends or [header.get("planned_steps", header["step"])])[0]
                if details.get("charged_steps", due) != due:
                    raise Wrong(f"{details['charged_steps']} steps are paid for, and {due} are due")
                expected = of_chain(header, due)
            summed = [json.loads(one["inputs"]["sum_event"]) for one in certified if "sum_event" in one["inputs"]]
            for said in (event, (details.get("accounted") or {}).get("event", event), *summed):
                same(list(steps_of(said).elements()), expected)

    def trajectory() -> None:
        kept = stored.tensors.get("trace.squared_norms")
        if kept is None or kept[0] != "float64":
            raise Wrong("the checkpoint holds no norms, of which these certificates are made")
        norms = list(array("d", kept[2]))
        whole = log_moments_of_a_run(sums_of_chain(header), norms, [2.0])[0]
        if not all(norm >= 0.0 for norm in norms):
            raise Wrong("a norm is negative or no number")
        full = header["sampler"].get("every_record", False) and header["sampler"]["batch_size"] == header["n"]
        people = header.get("people")
        records = (people["count"], "person") if people else (header["n"], "example")
        for made in paying:
            said = ball(number(made["inputs"]["sum_contributions"]))
            if not whole * (1 - 1e-9) <= said <= whole * (1 + 1e-5):
                raise Wrong(f"{made['name']} pays for contributions of {said}, and the norms add up to {whole}")
            of = made["inputs"]["n"], report["examples"] or report["n"]
            if of != (report["n"], header["n"]):
                raise Wrong(f"{made['name']} is about {of[0]} records, the report {report['n']} of {of[1]} examples")
            if (report["n"], report["unit"]) != records:
                raise Wrong(f"the norms are of {records[0]} {records[1]}s, the report's records {report['n']}")
            drawn = [one for one in made["hypotheses"] if one["name"] == "batches drawn without the records"]
            if any(one["standing"] == "proved" for one in drawn) and not full:
                raise Wrong(f"{made['name']} takes every record for in every batch, and the settings draw batches")
            if any(one["standing"] == "proved" for one in made["hypotheses"] if one["name"] == _NORMS):
                raise Wrong(f"{made['name']} takes the norms of all records for proved, and a sum shows no record")
            grid = [float(word) for word in made["inputs"]["sum_orders"].split(",")]
            if grid != _GRID or "sum_weights" in made["inputs"]:
                raise Wrong(f"{made['name']} has other orders than those that were fixed before any run")

    certified = (report or {}).get("certificates", [])
    paying = [one for one in certified if "sum_contributions" in one["inputs"]]
    checks: dict[str, tuple[Any, Callable[[], None]]] = {
        "content of the checkpoint": (header, content), "run": (header, run), "steps": (header, steps),
        "metrics.jsonl": (metrics.is_file(), recorded), "result.json": ("result.json" in files, result),
        "privacy spent": ("event" in header and own, spent),
        "kept records": (header.get("kind") == KIND and own, lambda: check_kept(stored, own, report)),
        "choices": (choices.is_file(), listed), "report": (report and header, reported),
        "norms": (paying and header, trajectory),
    }  # fmt: skip
    return [judged(path.name, name, check) for name, (there, check) in checks.items() if there]
