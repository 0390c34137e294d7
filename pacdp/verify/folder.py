"""A run's folder: header, configuration, steps, event and hashes, compared with each other and with the report."""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pacdp.verify import needs
from pacdp.verify.arithmetic import ball
from pacdp.verify.certificate import require_of_a_chain, standings
from pacdp.verify.claim import CANNOT, FOLLOWS, Statement, Unchecked, Wrong, judged, number, other_format, parsed
from pacdp.verify.compressed import KIND, check_kept, check_numbers, whole
from pacdp.verify.files import (
    CHECKPOINT,
    Stored,
    chain_of,
    content_hash,
    digest,
    lines_of,
    maker_of,
    read_checkpoint,
    read_json,
)
from pacdp.verify.formulas_noisy import log_moments_of_a_run
from pacdp.verify.loss import Step, private, steps_of
from pacdp.verify.planned import affordable, length, of_chain, of_training, paid, relation, same, sums_of_chain
from pacdp.verify.planned import recorded as ran_in

_RESULTS = ("pacdp-result/1", "pacdp-private-result/1")
_ACCOUNTED = ("epsilon", "upper", "of_budget", "delta", "adjacency", "event", "noise", "counted", "units")
"""What this checker determines of the privacy in a private run's result."""

_FILES = {"checkpoint.safetensors", "config.json", "metrics.jsonl", "result.json", "certificates.json",
          "provenance.json"}  # fmt: skip
"""What is read of a folder; its provenance for the version alone."""
_GRID = [1.0 + 0.02 * 2.0 ** (k / 2) for k in range(17)]
"""The orders of a realised price, all of which are paid for."""
_NORMS = "norms of all records kept"


class Folder:
    """A run's files, each read once.

    Attributes:
        stored: the checkpoint; empty where there is none.
        config, result: the contents of config.json and result.json; None where there is no such file.
        report: the contents of certificates.json; None likewise.
        own: the configuration that the checkpoint names.
        listed: whether the checkpoint names a list of settings, as those of an earlier version do.
    """

    def __init__(self, path: Path, report: Any) -> None:
        self.path, self.report = path, report
        checkpoint = path / "checkpoint.safetensors"
        self.stored = read_checkpoint(checkpoint) if checkpoint.is_file() else Stored({}, {})
        self.config, self.result = (read_json(path / name) for name in ("config.json", "result.json"))
        about = {**self.header, **(self.header.get("about") or {})}
        self.own: Any = about.get("run")
        self.listed = bool(about.get("choices"))

    @property
    def header(self) -> dict[str, Any]:
        """That of the checkpoint."""
        return self.stored.header

    @property
    def private(self) -> bool:
        """Whether the run was private: its header names the mechanisms that ran."""
        return "event" in self.header

    @property
    def certificates(self) -> list[dict[str, Any]]:
        """The report's."""
        return (self.report or {}).get("certificates", [])

    @property
    def paying(self) -> list[dict[str, Any]]:
        """The certificates at a price of norms that the run kept."""
        return [one for one in self.certificates if "sum_contributions" in one["inputs"]]

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl. Wrong if one is not what was written."""
        metrics = self.path / "metrics.jsonl"
        return chain_of(metrics) if metrics.is_file() else []


def check_folder(path: Path, report: Any) -> list[Statement]:
    """Everything in the folder that another file, or the settings, determine; what they do not is named."""
    f = Folder(path, report)
    if why := _another_version(f):
        return [Statement(path.name, "format", CANNOT, why)]
    others = sorted(one.name for one in path.iterdir() if one.name not in _FILES and not one.name.startswith("."))
    checks: dict[str, tuple[Any, Callable[[Folder], None]]] = {
        "content of the checkpoint": (f.header, _content),
        "run": (f.header, _run),
        "steps": (f.header, _steps),
        "metrics.jsonl": ((path / "metrics.jsonl").is_file(), _metrics),
        "result.json": (f.result is not None, _result),
        "mechanism": (f.private and f.own, _mechanism),
        "privacy spent": (f.private and f.own, _spent),
        "kept records": (f.header.get("kind") == KIND and f.own, _kept),
        "report": (report and f.header, _report),
        "hypotheses": (report and f.header.get("sampler"), _hypotheses),
        "norms": (f.paying and f.header, _norms),
        "the rest of result.json": (f.result is not None, _rest),
        "other files": (others and f.header, lambda _: _unread(others)),  # without a run it is anyone's folder
    }
    return [judged(path.name, name, partial(check, f)) for name, (there, check) in checks.items() if there]


def _unread(others: list[str]) -> None:
    raise Unchecked(f"this checker does not read {', '.join(others)}")


def proofs_redone(path: Path, found: Iterable[Statement]) -> set[str]:
    """The hypotheses whose proofs these statements on a folder are, where all that they rest on follows too."""
    follows = {one.claim for one in found if one.verdict == FOLLOWS}
    f, shown = Folder(path, read_json(path / "certificates.json")), set[str]()
    if not {"content of the checkpoint", "run", "steps"} <= follows:
        return shown
    if "report" in follows and any("sum_event" in one["inputs"] for one in f.certificates):
        shown |= {"records enter by noisy sums", "schedule blind to the records", "contributions bounded"}
    if "norms" in follows:
        shown |= {"records enter by noisy sums", "schedule blind to the records"}
        shown |= {"batches drawn without the records"} if _every_record(f.header) else set()
    if "report" in follows and _ended_as_planned(f):
        shown.add("steps fixed beforehand")
    return shown


def _another_version(f: Folder) -> str:
    """Why the folder is not one of this version's; empty if it is."""
    maker = maker_of(read_json(f.path / "provenance.json"))
    if f.header and f.header.get("format") != CHECKPOINT:
        return f"the checkpoint: {other_format(f.header.get('format'), CHECKPOINT, maker)}"
    if f.listed:
        return f"the checkpoint names a list of settings: check it with {maker or 'what wrote it'}"
    if f.result is not None and f.result.get("format") not in _RESULTS:
        return f"result.json: {other_format(f.result.get('format'), ' or '.join(_RESULTS), maker)}"
    if f.result is not None and "rests_on" not in f.result:
        return f"result.json does not name the files that it rests on: check it with {maker or 'what wrote it'}"
    metrics = f.path / "metrics.jsonl"
    lines = lines_of(metrics) if metrics.is_file() else []
    if lines and not any("hash" in line for line in lines):
        return f"metrics.jsonl has no hashes: check it with {maker or 'what wrote it'}"
    return ""


def _content(f: Folder) -> None:
    """The checkpoint's bytes have the hash that its header says."""
    if "content_hash" not in f.header:
        raise Unchecked("it has no hash of its content")
    if content_hash(f.stored) != f.header["content_hash"]:
        raise Wrong("its content has another hash than its header says")


def _run(f: Folder) -> None:
    """Header and config.json name one configuration."""
    if f.own is None:
        raise Unchecked("the header names no configuration")
    config = f.own if f.config is None else f.config
    if f.own != config or f.header.get("config_hash", digest(f.own)) != digest(f.own):
        raise Wrong("the header's run is not that of config.json, or has another hash than it says")
    odd = [name for name in ("problem", "sampler", "seed", "chain") if f.header.get(name, 0) != f.own.get(name, 0)]
    if odd and not f.private:
        raise Wrong(f"the header's {odd[0]} is not that of its run")


def _metrics(f: Folder) -> None:
    """Rows of rising steps, none beyond the checkpoint's."""
    steps = [row["step"] for row in f.rows]
    if steps != sorted(set(steps)) or (f.header and steps[-1:] > [f.header["step"]]):
        raise Wrong(f"its rows are of the steps {steps}")


def _result(f: Folder) -> None:
    """It rests on these files, and repeats their last row, step, event and sizes."""
    said, last = f.result, f.rows[-1] if f.rows else {}
    here = {"config": digest(f.config), "metrics": last.get("hash"), "checkpoint": f.header.get("content_hash")}
    if missing := sorted(name for name in here if here[name] and name not in said["rests_on"]):
        raise Wrong(f"it does not say on which {missing[0]} it rests")
    if odd := [name for name, one in said["rests_on"].items() if one != here.get(name)]:
        raise Wrong(f"it rests on another {odd[0]}")
    if "final" in said and {**(said["final"] or {}), "hash": last.get("hash")} != {"hash": None, **last}:
        raise Wrong("its final row is not the last one recorded")
    event = f.header.get("event")
    if (said.get("privacy") or {}).get("event", event) != event:
        raise Wrong("its event is not the checkpoint's")
    if f.header and said["steps"] != f.header["step"]:
        raise Wrong(f"it says {said['steps']} steps, and the checkpoint {f.header['step']}")
    n = f.header.get("n") or (f.report or {}).get("examples")
    if n is not None and said["n"] != n:
        raise Wrong(f"it says {said['n']} examples, and there are {n}")
    if f.header.get("kind") == KIND:
        check_numbers(said, f.header, f.own, f.report)


def _rest(f: Folder) -> None:
    """Name what is written in result.json and determined by nothing in the folder."""
    known = {"format", "rests_on", "final", "steps", "seconds", "private"}
    known |= {"n"} if f.header.get("n") or f.report else set()
    if f.header.get("kind") == KIND:
        known |= {"value", "algorithm"} if f.report else {"algorithm"}
    told = sorted(set(f.result) - known - {"privacy"})
    told += [f"privacy.{name}" for name in sorted(set(f.result.get("privacy") or ()) - set(_ACCOUNTED))]
    if last := f.rows[-1:]:
        measured = sorted(
            set(last[0]) - {"step", "epochs", "epsilon", "delta", "hash", "seconds", "picked", "errors", "kept"}
        )
        told += [f"final.{name}" for name in measured if "final" in f.result]
    if told:
        raise Unchecked(f"nothing in the folder determines {', '.join(told)}")


def _steps(f: Folder) -> None:
    """As many steps as the configuration plans, and a private run's mechanisms."""
    header, own = f.header, f.own
    if f.private and own:
        of_training(header, own, (f.report or {}).get("n"))
    if "planned_steps" not in header:
        return
    made = length(own, header["n"])
    marks = sorted({round(k * made / own["records"]) for k in range(1, own["records"] + 1)} - {0})
    if header["planned_steps"] != made or not 0 <= header["step"] <= made:
        raise Wrong(f"it says step {header['step']} of {header['planned_steps']}, and the run has {made}")
    if header.get("listed_steps", marks) != marks or header.get("stopping") != own.get("stopping", "planned"):
        raise Wrong("the listed steps are not those at which the run records")


def _mechanism(f: Folder) -> None:
    """A private run's budget, adjacency, noise and ledger are the same in header, configuration and result."""
    header, budget = f.header, f.own["budget"]
    in_header = {k: v for k, v in header["settings"]["mechanism"]["budget"].items() if k != "kind"}
    if in_header != budget or header["adjacency"] != budget["adjacency"]:
        raise Wrong("the header's budget or adjacency is not that of its run")
    noise = "SeededRandomness" if f.own["reproducible"] else "SystemRandomness"
    if header["randomness"] != noise:
        raise Wrong(f"the header's noise is of {header['randomness']}, and the run's of {noise}")
    said = (f.result or {}).get("privacy") or {}
    expected = {
        "adjacency": "replace-one" if relation(f.own)[1] else budget["adjacency"],
        "delta": budget["delta"],
        "counted": header["ledger"] is not None,
    }
    if odd := [name for name, one in expected.items() if said.get(name, one) != one]:
        raise Wrong(f"the result's {odd[0]} is {said[odd[0]]!r}, and the header's {expected[odd[0]]!r}")
    if (said.get("noise", "secret") == "secret") != (noise == "SystemRandomness") and "noise" in said:
        raise Wrong(f"the result calls the noise {said['noise']!r}, and it is of {noise}")
    if f.report and "units" in said and said["units"] != f.report["n"]:
        raise Wrong(f"the result counts {said['units']} units, and the report {f.report['n']}")
    if header["ledger"] is not None:
        raise Unchecked("the ledger that counted the run's steps is not in the folder; the rest agrees")


def _spent(f: Folder) -> None:
    """The epsilon of the last row, and of the result, is what ran; what was spent is within the budget."""
    made, (planned, replaced) = ran_in(f.header), relation(f.own)
    said = {row["step"]: (row["epsilon"], row["delta"]) for row in f.rows[-1:]}
    if f.result is not None:
        privacy = f.result["privacy"]
        if privacy["epsilon"] != privacy["upper"]:
            raise Wrong(f"the result's epsilon is {privacy['epsilon']!r}, and its upper end {privacy['upper']!r}")
        said[f.result["steps"]] = privacy["upper"], privacy["delta"]
        _require_within_budget(f.own["budget"], privacy, made[: f.result["steps"]])
    for step, (epsilon, delta) in said.items():
        if delta != planned or affordable(made[:step], f.own) is False:
            raise Wrong(f"epsilon {epsilon!r} at delta {delta!r} is not within the budget")
        ran = Counter(made[:step])
        found = private(ran, epsilon, delta, replaced)
        less = epsilon and private(ran, 0.95 * epsilon, delta, replaced)
        if step > len(made) or found is False or less:
            raise Wrong(f"epsilon is {epsilon!r} after {step} steps, which is not what ran")
        if found is None:
            raise Unchecked(f"epsilon {epsilon!r} is between what this checker shows and what it refutes")


def _require_within_budget(budget: dict[str, Any], privacy: dict[str, Any], made: list[Step]) -> None:
    """What the result says was spent, for the budget's own neighbours, is what ran and within the budget."""
    if "of_budget" not in privacy:
        raise Unchecked("the result is of an earlier version, which took the number of records for private")
    spent = privacy["of_budget"]
    if spent["epsilon"] > budget["epsilon"] or spent["adjacency"] != budget["adjacency"]:
        raise Wrong(f"epsilon {spent['epsilon']!r}, {spent['adjacency']}, is not within the budget")
    if private(Counter(made), spent["epsilon"], privacy["delta"], spent["adjacency"] == "replace-one") is False:
        raise Wrong(f"what ran spent more of the budget than epsilon {spent['epsilon']!r}")


def _kept(f: Folder) -> None:
    """A compression's records, and its rounds as metrics.jsonl has them."""
    check_kept(f.stored, f.own, f.report)
    lines = [[row[name] for name in ("step", "picked", "errors", "kept")] for row in f.rows]
    if lines != whole(f.stored, "rounds").reshape(-1, 4).tolist():
        raise Wrong("the rounds of metrics.jsonl are not those of the checkpoint")


def _report(f: Folder) -> None:
    """The report is of this checkpoint, and pays for settings that were tried, moments to stop and mechanisms."""
    subject, details = f.report.get("subject") or {}, f.report.get("details") or {}
    if "content_hash" not in subject:
        raise Unchecked("it does not say that it is of this checkpoint")
    for name in ("content_hash", "step", "loss", "sampler", "data", "n"):
        if name in subject and subject[name] != f.header.get(name):
            raise Wrong(f"the report's {name} is not the checkpoint's")
    _require_choices_paid(f)
    if details.get("stopping_times", 1) != len(f.header.get("listed_steps", [1])):
        raise Wrong(f"{details['stopping_times']} moments to stop are paid for")
    event = (f.report.get("privacy") or {}).get("event")
    summed = [parsed(one["inputs"]["sum_event"]) for one in f.certificates if "sum_event" in one["inputs"]]
    carried = [parsed(one["inputs"]["privacy_event"]) for one in f.certificates if "privacy_event" in one["inputs"]]
    if event or summed or carried:
        accounted = [one["event"] for one in (details.get("accounted"),) if one]
        events = [one for one in (event, *accounted, *summed, *carried) if one]
        for said in events:
            same(list(steps_of(said).elements()), _due(f, events[0], details))


def _require_choices_paid(f: Folder) -> None:
    count = (f.report.get("choices") or {}).get("count", 1)
    said = any(
        f"a list of {count} settings, all paid for" in one["by"]
        for made in f.certificates
        for one in made["hypotheses"]
        if one["name"] == "settings fixed beforehand"
    )
    if count != 1 and not said:
        raise Wrong(f"{count} settings are paid for, and no certificate says that they were tried")


def _due(f: Folder, event: Any, details: Any) -> list[Any]:
    """The mechanisms that a certificate of this run has to pay for."""
    if f.private:
        made = ran_in(f.header)
        return paid(event, len(made), of_training(f.header, f.own, f.report["n"]), f.own) if f.own else made
    ends = [step for step in f.header.get("listed_steps", []) if step >= f.header["step"]]
    due = (ends or [f.header.get("planned_steps", f.header["step"])])[0]
    if details.get("charged_steps", due) != due:
        raise Wrong(f"{details['charged_steps']} steps are paid for, and {due} are due")
    return of_chain(f.header, due)


def _hypotheses(f: Folder) -> None:
    """What rests on a chain's having converged is unproved, and what rests on its steps says who fixed them."""
    require_of_a_chain(f.certificates, f.header["sampler"])
    mixes = (f.header.get("problem") or {}).get("architecture", {}).get("norm") == "batch"
    for made in f.certificates:
        standing = standings(made)
        if "privacy covers these rows" in standing:
            needs.require(["steps fixed beforehand"], standing)
        if mixes:
            needs.require_unproved(["losses one an example"], standing)


def _every_record(header: dict[str, Any]) -> bool:
    """Whether every record is in every batch of the chain."""
    sampler = header["sampler"]
    return bool(sampler.get("every_record", False)) and sampler["batch_size"] == header["n"]


def _ended_as_planned(f: Folder) -> bool:
    """Whether the run made all steps that are paid for, or stopped at one that was listed."""
    if f.private:
        event = (f.report.get("privacy") or {}).get("event")
        return event is not None and len(ran_in(f.header)) == sum(steps_of(event).values())
    ends = f.header.get("listed_steps") or [f.header.get("planned_steps")]
    return f.header["step"] in ends


def _norms(f: Folder) -> None:
    """Certificates of a chain that kept the norms of its gradients pay for these, all of them, at the fixed orders."""
    header, kept = f.header, f.stored.tensors.get("trace.squared_norms")
    if kept is None or kept[0] != "float64":
        raise Wrong("the checkpoint holds no norms, of which these certificates are made")
    norms = list(array("d", kept[2]))
    whole = log_moments_of_a_run(sums_of_chain(header), norms, [2.0])[0]
    if not all(norm >= 0.0 for norm in norms):
        raise Wrong("a norm is negative or no number")
    people = header.get("people")
    records = (people["count"], "person") if people else (header["n"], "example")
    for made in f.paying:
        said = ball(number(made["inputs"]["sum_contributions"]))
        if not whole * (1 - 1e-9) <= said <= whole * (1 + 1e-5):
            raise Wrong(f"{made['name']} pays for contributions of {said}, and the norms add up to {whole}")
        of = made["inputs"]["n"], f.report["examples"] or f.report["n"]
        if of != (f.report["n"], header["n"]):
            raise Wrong(f"{made['name']} is about {of[0]} records, the report {f.report['n']} of {of[1]} examples")
        if (f.report["n"], f.report["unit"]) != records:
            raise Wrong(f"the norms are of {records[0]} {records[1]}s, the report's records {f.report['n']}")
        standing = standings(made)
        if standing.get("batches drawn without the records") == "proved" and not _every_record(header):
            raise Wrong(f"{made['name']} takes every record for in every batch, and the settings draw batches")
        if standing.get(_NORMS) == "proved":
            raise Wrong(f"{made['name']} takes the norms of all records for proved, and a sum shows no record")
        grid = [float(word) for word in made["inputs"]["sum_orders"].split(",")]
        if grid != _GRID or "sum_weights" in made["inputs"]:
            raise Wrong(f"{made['name']} has other orders than those that were fixed before any run")
