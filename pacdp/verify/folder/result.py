"""result.json repeats what the checkpoint, its rows and its report say; what nothing determines is named."""

from pacdp.verify.claim import Unchecked, Wrong
from pacdp.verify.files import digest
from pacdp.verify.folder.compressed import check_numbers
from pacdp.verify.folder.read import Folder

_ACCOUNTED = {
    "epsilon",
    "upper",
    "of_budget",
    "delta",
    "adjacency",
    "event",
    "noise",
    "counted",
    "units",
}
"""What this checker determines of the privacy in a private run's result."""
_KNOWN = {
    "format",
    "rests_on",
    "final",
    "steps",
    "seconds",
    "private",
    "privacy",
}
_KNOWN_OF_A_ROW = {
    "step",
    "epochs",
    "epsilon",
    "delta",
    "hash",
    "seconds",
    "picked",
    "errors",
    "kept",
}


def check_result(f: Folder) -> None:
    """It rests on these files, and repeats their last row, step, event and sizes."""
    said = f.result
    _check_rests_on(f)
    _check_final_row(f)
    event = f.header.get("event")
    if said.part("privacy").get("event", event) != event:
        raise Wrong("its event is not the checkpoint's")
    if f.header and said.steps != f.header.step:
        raise Wrong(
            f"it says {said.steps} steps, and the checkpoint {f.header.step}"
        )
    n = f.header.get("n") or f.report.get("examples")
    if n is not None and said.n != n:
        raise Wrong(f"it says {said.n} examples, and there are {n}")
    if f.compression:
        check_numbers(f)


def _check_rests_on(f: Folder) -> None:
    last = f.rows[-1] if f.rows else {}
    here = {
        "config": digest(f.config),
        "metrics": last.get("hash"),
        "checkpoint": f.header.get("content_hash"),
    }
    said = f.result.rests_on
    for name, own in here.items():
        if own and name not in said:
            raise Wrong(f"it does not say on which {name} it rests")
    for name, other in said.items():
        if other != here.get(name):
            raise Wrong(f"it rests on another {name}")


def _check_final_row(f: Folder) -> None:
    if "final" not in f.result:
        return
    said = dict(f.result.final or {})
    last = dict(f.rows[-1]) if f.rows else {}
    for row in (said, last):
        row.pop("hash", None)
    if said != last:
        raise Wrong("its final row is not the last one recorded")


def check_rest(f: Folder) -> None:
    """Name what is written in result.json and determined by nothing in the folder."""
    known = set(_KNOWN)
    if f.header.get("n") or f.report:
        known.add("n")
    if f.compression:
        known |= {"algorithm", "value"} if f.report else {"algorithm"}
    told = sorted(f.result.keys() - known)
    privacy = f.result.part("privacy")
    told += [f"privacy.{name}" for name in sorted(privacy.keys() - _ACCOUNTED)]
    if "final" in f.result and f.rows:
        measured = f.rows[-1].keys() - _KNOWN_OF_A_ROW
        told += [f"final.{name}" for name in sorted(measured)]
    if told:
        raise Unchecked(f"nothing in the folder determines {', '.join(told)}")
