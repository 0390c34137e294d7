"""A report, a certificate or a folder, and the program that prints a verdict on each statement in it."""

import argparse
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pacdp.verify.certificate import FORMAT as CERTIFICATE
from pacdp.verify.certificate import check_certificate
from pacdp.verify.claim import (
    CANNOT,
    DAMAGED,
    DOES_NOT,
    Statement,
    fields,
    other_format,
)
from pacdp.verify.files import maker_of, read_checkpoint, read_json
from pacdp.verify.folder import check_folder, proofs_redone
from pacdp.verify.folder.release import WEIGHTS, check_release
from pacdp.verify.predicted import ROUTE, check_predictions
from pacdp.verify.recount import recount
from pacdp.verify.run_report import check_run, check_shared_with_predictions
from pacdp.verify.selfcertified import FORMAT as SELF_CERTIFIED
from pacdp.verify.selfcertified import check_self_certified

FORMAT = "pacdp-certificates/2"
UNREADABLE, UNSOUND, OPEN = 2, 1, 3
"""Exit statuses: nothing could be read, something does not follow, something cannot be checked."""


def check_path(
    path: Path,
    *,
    data: str | None = None,
    model: str | None = None,
) -> list[Statement]:
    """All statements of a file of certificates, or of a run's folder."""
    folder = path if path.is_dir() else path.parent
    file = path / "certificates.json" if path.is_dir() else path
    report = read_json(file)
    beside = list[Statement]()
    if path.is_dir():
        beside = _check_beside(path, report)
    if report is None:
        return beside
    if data or model:
        checkpoint = folder / "checkpoint.safetensors"
        stored = read_checkpoint(checkpoint) if checkpoint.is_file() else None
        beside += recount(report, stored, data, model)
    redone = proofs_redone(path, beside) if path.is_dir() else set[str]()
    return [*_check_file(file, report, redone), *beside]


def _check_beside(path: Path, report: Any) -> list[Statement]:
    """What is said of the files of a folder beside its report."""
    if report is not None and (path / WEIGHTS).is_file():
        return check_release(path, report)
    return check_folder(path, report)


def check_report(
    report: Mapping[str, Any], redone: Collection[str] = ()
) -> list[Statement]:
    """All statements of a report, and of the reports in it.

    ``redone`` names the hypotheses whose proofs were done again from the files beside the report.
    """
    r = fields(report)
    if r.get("format") != FORMAT:
        why = other_format(
            r.get("format"), FORMAT, maker_of(r.get("provenance"))
        )
        return [Statement("report", "format", CANNOT, why)]
    if r.get("route") == ROUTE:
        return check_predictions(r) + check_shared_with_predictions(r)
    found = check_run(r, redone)
    nested = r.part("details").get("references") or {}
    for name, other in nested.items():
        found += [
            said._replace(subject=f"{name}: {said.subject}")
            for said in check_report(other)
        ]
    return found


def _check_file(
    file: Path,
    record: Any,
    redone: Collection[str],
) -> list[Statement]:
    """What is said of a file of certificates, by its format."""
    form = record.get("format")
    if form == FORMAT:
        return check_report(record, redone)
    if form == SELF_CERTIFIED:
        return check_self_certified(record)
    if form == CERTIFICATE:
        alone = "no report beside the certificate says what was measured, and of what"
        return [
            *check_certificate(record),
            Statement(file.name, "what it is about", CANNOT, alone),
        ]
    known = f"{FORMAT}, {CERTIFICATE} and {SELF_CERTIFIED}"
    why = other_format(form, known, maker_of(record.get("provenance")))
    return [Statement(file.name, "format", CANNOT, why)]


def main(argv: Sequence[str] | None = None) -> int:
    """Print a verdict on each statement.

    Returns the exit status: 0 where everything follows, 1 if anything does not follow, 2 if there is nothing to read,
    3 if something cannot be checked and all else follows.
    """
    args = _parser().parse_args(argv)
    try:
        found = check_path(args.path, data=args.data, model=args.model)
        if not found:
            raise ValueError(
                "it is neither a file of certificates nor a run's folder"
            )
    except (
        OSError,
        ImportError,
        RecursionError,
        MemoryError,
        *DAMAGED,
    ) as error:
        print(
            f"pacdp verify: cannot read {args.path}: {type(error).__name__}: {error}"
        )
        return UNREADABLE
    _print(found, args.json)
    verdicts = {one.verdict for one in found}
    if DOES_NOT in verdicts:
        return UNSOUND
    return OPEN if CANNOT in verdicts else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pacdp verify", description=__doc__)
    parser.add_argument(
        "path", type=Path, help="a file of certificates, or a run's folder"
    )
    parser.add_argument(
        "--data",
        help="module:callable that returns the bound's inputs, labels and, if known, people",
    )
    parser.add_argument(
        "--model",
        help="module:callable that returns the network, to count its errors on those rows",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _print(found: list[Statement], as_json: bool) -> None:
    if as_json:
        print(json.dumps([one._asdict() for one in found], indent=2))
        return
    for one in found:
        because = f", because {one.why}" if one.why else ""
        print(f"{one.verdict}: {one.subject}, {one.claim}{because}")
