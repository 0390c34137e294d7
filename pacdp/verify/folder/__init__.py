"""A run's folder: header, configuration, steps, event and hashes, compared with each other and with the report.

``_checks`` lists what is checked, in its order; each check is a function in the room of its subject.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pacdp.verify.claim import (
    CANNOT,
    FOLLOWS,
    Statement,
    Unchecked,
    fields,
    judged,
)
from pacdp.verify.files import read_json
from pacdp.verify.folder.compressed import check_kept
from pacdp.verify.folder.private import check_mechanism, check_spent
from pacdp.verify.folder.read import Folder
from pacdp.verify.folder.report import (
    check_hypotheses,
    check_report_of_run,
    ended_as_planned,
)
from pacdp.verify.folder.result import check_rest, check_result
from pacdp.verify.folder.run import (
    check_content,
    check_metrics,
    check_run,
    check_steps,
)
from pacdp.verify.folder.trajectory import check_norms, every_record

_READ = {
    "checkpoint.safetensors",
    "config.json",
    "metrics.jsonl",
    "result.json",
    "certificates.json",
    "provenance.json",
}
"""What is read of a folder; its provenance for the version alone."""


def check_folder(path: Path, report: Any) -> list[Statement]:
    """Everything in the folder that another file, or the settings, determine; what they do not is named."""
    f = Folder(path, fields(report))
    if why := f.another_version():
        return [Statement(path.name, "format", CANNOT, why)]
    return [
        judged(path.name, claim, check, f)
        for claim, check in _checks(f).items()
    ]


def _checks(f: Folder) -> dict[str, Callable[[Folder], None]]:
    """What is checked of this folder, in this order."""
    checks = dict[str, Callable[[Folder], None]]()
    if f.header:
        checks["content of the checkpoint"] = check_content
        checks["run"] = check_run
        checks["steps"] = check_steps
    if (f.path / "metrics.jsonl").is_file():
        checks["metrics.jsonl"] = check_metrics
    if f.result is not None:
        checks["result.json"] = check_result
    if f.private and f.run:
        checks["mechanism"] = check_mechanism
        checks["privacy spent"] = check_spent
    if f.compression and f.run:
        checks["kept records"] = check_kept
    if f.report and f.header:
        checks["report"] = check_report_of_run
    if f.report and f.header.get("sampler"):
        checks["hypotheses"] = check_hypotheses
    if f.paying_for_norms and f.header:
        checks["norms"] = check_norms
    if f.result is not None:
        checks["the rest of result.json"] = check_rest
    if f.header and _others(f):  # without a run it is anyone's folder
        checks["other files"] = _name_others
    return checks


def _others(f: Folder) -> list[str]:
    names = {
        one.name for one in f.path.iterdir() if not one.name.startswith(".")
    }
    return sorted(names - _READ)


def _name_others(f: Folder) -> None:
    raise Unchecked(f"this checker does not read {', '.join(_others(f))}")


def proofs_redone(path: Path, found: Iterable[Statement]) -> set[str]:
    """The hypotheses whose proofs these statements on a folder are, where all that they rest on follows too."""
    follows = {one.claim for one in found if one.verdict == FOLLOWS}
    shown = set[str]()
    if not {"content of the checkpoint", "run", "steps"} <= follows:
        return shown
    f = Folder(path, read_json(path / "certificates.json"))
    by_sums = {"records enter by noisy sums", "schedule blind to the records"}
    if "report" in follows and any(
        "sum_event" in one.inputs for one in f.certificates
    ):
        shown |= {*by_sums, "contributions bounded"}
    if "norms" in follows:
        shown |= by_sums
        if every_record(f.header):
            shown.add("batches drawn without the records")
    if "report" in follows and ended_as_planned(f):
        shown.add("steps fixed beforehand")
    return shown
