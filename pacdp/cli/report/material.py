"""The files of a run's folder that a page is made of."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pacdp.cli.folder import Folder, read_json
from pacdp.cli.reading import FORMAT

RUNS = ("chain", "private", "compression")
RESULTS = ("pacdp-result/1", "pacdp-private-result/1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """The files of a folder, as far as they are there."""

    path: Path
    kind: str | None
    """Which kind of run it is, where a run began here."""
    secret: bool
    """Whether the run keeps its noise secret, finished or not: its steps are private, and its scores are not."""
    config: dict[str, Any] | None = None
    provenance: dict[str, Any] | None = None
    rows: tuple[dict[str, Any], ...] = ()
    result: dict[str, Any] | None = None
    report: dict[str, Any] | None = None
    """What `pacdp certify` wrote."""

    @property
    def private(self) -> bool:
        """Whether it is a run with a privacy budget."""
        return self.kind == "private"


def read(path: Path) -> Material:
    """What the folder holds.

    Raises:
        ValueError: nothing known, or a file of another format.
    """
    if not path.is_dir():
        raise ValueError(
            f"{path} is no folder: give the folder of a run, or one that holds a certificates.json"
        )
    folder = Folder(path)
    config, made_by, result, report = (
        read_json(file) if file.is_file() else None
        for file in (folder.config, folder.provenance, folder.result, folder.certificates)
    )
    if report is None and result is not None and result.get("format") == FORMAT:
        result, report = None, result  # of a study, whose runs end with their certificates
    kind = folder.kind
    if not (kind in RUNS or result or report):
        raise ValueError(_nothing(path))
    _require_format(folder.result, result, RESULTS)
    _require_format(folder.certificates, report, (FORMAT,))
    return Material(
        path=path,
        kind=kind,
        secret=(config or {}).get("reproducible") is False,
        config=config,
        provenance=made_by,
        rows=tuple(folder.rows()),
        result=result,
        report=report,
    )


def _require_format(path: Path, values: dict[str, Any] | None, known: tuple[str, ...]) -> None:
    if values is not None and values.get("format") not in known:
        raise ValueError(
            f"{path} has format {values.get('format')!r}, this version reads {' and '.join(known)}"
        )


def _nothing(path: Path) -> str:
    chains = sorted(path.glob("chain-*"))
    if chains:
        return f"{path} holds {len(chains)} chains: report one of them, such as {chains[0]}"
    if (path / "table.csv").is_file():
        return f"{path} holds an experiment's table, which a checkout of pacdp reports: give the folder of one run"
    return f"{path} holds no run and no certificates.json: give the folder of a run, or certify a checkpoint into it"
