"""The folder that `pacdp export` writes: counts with noise in its certificate, and that nothing else is in it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import normal_above
from pacdp.verify.claim import CANNOT, Claim, Statement, Wrong, agree, judged, other_format
from pacdp.verify.files import CHECKPOINT, content_hash, digest, maker_of, read_checkpoint
from pacdp.verify.loss import steps_of
from pacdp.verify.planned import length, of_chain, relation, same

WEIGHTS, SETTINGS, REPORT = "weights.safetensors", "settings.json", "certificates.json"
_PAID = "noise on the counts"
_GRID = arb(2) ** -10
_EMPTY = ("rows", "gibbs", "diagnosis", "measured", "monte_carlo")
_HEADER = {"kind", "event", "adjacency", "remark", "format", "parameters", "content_hash"}


def check_counts(c: Claim) -> None:
    """Errors and n at their worst, half of what the noise has of the failure probability for each of them.

    What was released is a multiple of 1/1024, the count plus a normal number rounded to such a multiple.
    """
    share, most, least = c.paid(_PAID) / 2, c["errors_at_most"], arb(c.n)
    of_people = any(one["unit"] == "person" for one in c.record["hypotheses"])
    step = _GRID if of_people else arb(1)
    if not share > 0:
        raise Wrong("the counts have noise, and nothing of the failure probability is for it")
    ends = {
        "errors_at_most": (most - c["released_errors"], c["std_errors"], step, most > 0),
        "n": (c["released_n"] - least, c["std_n"], arb(1), True),
    }
    for name, (reach, std, next_one, tight) in ends.items():
        if not normal_above((reach + next_one - _GRID / 2) / std) <= share:
            raise Wrong(f"{name} is {c.raw(name)!r}, beyond which the noise may have taken the count more often")
        if tight and not normal_above((reach - _GRID) / std - arb(1e-9)) >= share * (1 - arb(1e-6)):
            raise Wrong(f"{name} is {c.raw(name)!r}, which is more than the noise asks for")
    agree("inputs.risk", c.raw("risk"), (most / least).min(arb(1)))


def check_release(path: Path, report: Mapping[str, Any]) -> list[Statement]:
    """Weights, settings and report say the same, and hold nothing about the data but counts with noise."""
    stored, settings = read_checkpoint(path / WEIGHTS), json.loads((path / SETTINGS).read_text())
    header, details = stored.header, report["details"]
    if header.get("format") != CHECKPOINT:
        why = other_format(header.get("format"), CHECKPOINT, maker_of(report.get("provenance")))
        return [Statement(WEIGHTS, "format", CANNOT, why)]

    def weights() -> None:
        if not content_hash(stored) == header["content_hash"] == report["subject"]["content_hash"]:
            raise Wrong("their content has another hash than their header or the report says")
        if header["kind"] != "private-release/1":
            raise Wrong(f"they are of kind {header['kind']!r}")

    def event() -> None:
        if header["event"] != report["privacy"]["event"]:
            raise Wrong("the weights name another event than the report")
        if {header["adjacency"], report["privacy"]["adjacency"]} != {"add-remove"}:
            raise Wrong(f"the weights' event is about {header['adjacency']} neighbours")

    def own() -> None:
        run, spent = settings["run"], details["spent"]
        if settings["config_hash"] != digest(run) or settings["unit"] != report["unit"]:
            raise Wrong("the settings have another hash or unit than they say")
        if (spent["delta"], spent["adjacency"] == "replace-one") != relation(run):
            raise Wrong("the report's epsilon is at another delta or adjacency than the run's, whose n may be public")
        if "sampler" in run:
            made = list(steps_of(header["event"]).elements())
            n = round(run["sampler"]["batch_size"] / made[0].rate)  # which the rate gives away
            same(made, of_chain({"sampler": run["sampler"], "n": n}, length(run, n)))

    def counts() -> None:
        said = details["counts"]
        expected = steps_of(report["privacy"]["event"]) + steps_of({"event": "Composed", "inner": [
            {"event": "Gaussian", "noise_multiplier": said[name]} for name in ("std_errors", "std_n")]})  # fmt: skip
        if steps_of(said["with_the_run"]["event"]) != expected:
            raise Wrong("what the counts cost with the run is of another event than the run's with theirs")
        for made in report["certificates"]:
            of = {"errors": "released_errors", "n": "released_n", "std_errors": "std_errors", "std_n": "std_n"}
            if odd := [name for name, entry in of.items() if made["inputs"].get(entry) != said[name]]:
                raise Wrong(f"{made['name']} has other {odd[0]} than were released")

    def nothing_else() -> None:
        if others := sorted({one.name for one in path.iterdir()} - {WEIGHTS, SETTINGS, REPORT, "report.html"}):
            raise Wrong(f"the folder holds {others[0]} too")
        if filled := [name for name in _EMPTY if report[name]]:
            raise Wrong(f"the report has {filled[0]}, which were counted without noise")
        if more := sorted({*header} - _HEADER):
            raise Wrong(f"the weights' header has {more[0]} too")

    checks = {"weights": weights, "event": event, "settings": own, "counts": counts, "nothing else": nothing_else}
    return [judged(path.name, name, check) for name, check in checks.items()]
