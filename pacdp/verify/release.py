"""The folder that `pacdp export` writes: counts with noise in its certificate, and that nothing else is in it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import normal_above
from pacdp.verify.claim import CANNOT, DOES_NOT, Claim, Statement, Unchecked, Wrong, agree, judged, other_format
from pacdp.verify.files import CHECKPOINT, content_hash, digest, maker_of, read_checkpoint, read_json
from pacdp.verify.loss import steps_of
from pacdp.verify.planned import by_settings, length, of_chain, paid, recorded, relation, same

WEIGHTS, SETTINGS, REPORT = "weights.safetensors", "settings.json", "certificates.json"
_PAGE = "report.html"
_PAID = "noise on the counts"
_GRID = arb(2) ** -10
_EMPTY = ("rows", "gibbs", "diagnosis", "measured", "monte_carlo")
_HEADER = {"kind", "event", "adjacency", "remark", "format", "parameters", "content_hash"}
_SETTINGS = {"format", "run", "config_hash", "unit", "remarks"}
_COUNTS = {"errors", "n", "std_errors", "std_n", "unit", "with_the_run"}


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
    stored, settings = read_checkpoint(path / WEIGHTS), read_json(path / SETTINGS)
    header, details = stored.header, report["details"]
    if settings is None:
        return [Statement(path.name, "settings", DOES_NOT, f"there is no {SETTINGS}")]
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
        if spent["epsilon"] != spent["upper"]:
            raise Wrong(f"the report's epsilon is {spent['epsilon']!r}, and its upper end {spent['upper']!r}")
        if run.get("reproducible") and not header.get("remark"):
            raise Wrong("the settings take the noise from a seed, and the weights do not say so")
        if "sampler" in run:
            made = list(steps_of(header["event"]).elements())
            n = round(run["sampler"]["batch_size"] / made[0].rate)  # which the rate gives away
            same(made, of_chain({"sampler": run["sampler"], "n": n}, length(run, n)))
        else:
            made, sampling = recorded(header), run["sampling"]
            planned = by_settings(made, run, sampling["public_size"] * sampling["sample_rate"])
            paid(header["event"], len(made), planned, run)

    def counts() -> None:
        said = details["counts"]
        expected = steps_of(report["privacy"]["event"]) + steps_of({"event": "Composed", "inner": [
            {"event": "Gaussian", "noise_multiplier": said[name]} for name in ("std_errors", "std_n")]})  # fmt: skip
        if steps_of(said["with_the_run"]["event"]) != expected:
            raise Wrong("what the counts cost with the run is of another event than the run's with theirs")
        if any(said["with_the_run"][name] != details["spent"][name] for name in ("delta", "adjacency")):
            raise Wrong("what the counts cost with the run is at another delta or adjacency than the run's epsilon")
        if said["unit"] != report["unit"]:
            raise Wrong(f"the counts are of {said['unit']}s, and the report of {report['unit']}s")
        for made in report["certificates"]:
            of = {"errors": "released_errors", "n": "released_n", "std_errors": "std_errors", "std_n": "std_n"}
            if odd := [name for name, entry in of.items() if made["inputs"].get(entry) != said[name]]:
                raise Wrong(f"{made['name']} has other {odd[0]} than were released")

    def nothing_else() -> None:
        others = sorted({one.name for one in path.iterdir()} - {WEIGHTS, SETTINGS, REPORT})
        if others and not (others == [_PAGE] and (path / _PAGE).is_file()):
            raise Wrong(f"the folder holds {others[0]} too")
        if filled := [name for name in _EMPTY if report[name]]:
            raise Wrong(f"the report has {filled[0]}, which were counted without noise")
        known = {*(f"model.{name}" for name in header["parameters"]), "state.extra.snapshots"}
        for where, more in {
            "weights' header has": {*header} - _HEADER,
            "file of the weights has": {*stored.beside, *stored.tensors} - known,
            "settings have": {*settings} - _SETTINGS,
            "released counts have": {*details["counts"]} - _COUNTS,
        }.items():
            if more:
                raise Wrong(f"the {where} {min(more)} too")
        if others:
            raise Unchecked(f"this checker does not read {_PAGE}")

    checks = {"weights": weights, "event": event, "settings": own, "counts": counts, "nothing else": nothing_else}
    return [judged(path.name, name, check) for name, check in checks.items()]
