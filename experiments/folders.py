"""Folders of studies' results, for `pacdp plot` and `pacdp report`: numbers, sentences, figures."""

import base64
from pathlib import Path
from typing import Any

from experiments import registry
from pacdp.cli.folder import read_json
from pacdp.cli.report import fill

_MOST_ROWS = 200


def named(name: str) -> Path | None:
    """The folder of the results of a study; None for other names.

    Raises:
        ValueError: the study has no results.
    """
    if name not in registry.titles():
        return None
    from experiments.runner import results_of  # with every study, which takes seconds

    return results_of(name)


def plot(folder: Path) -> list[Path] | None:
    """Draw the figures of a folder of results again; None of other folders."""
    if not (folder / "table.csv").is_file():
        return None
    from experiments.runner import read_table, study_of

    return study_of(folder).draw(read_table(folder), folder)


def page(folder: Path) -> str | None:
    """The HTML of the page about a folder of results; None of other folders."""
    if not (folder / "table.csv").is_file():
        return None
    from experiments.page import shown
    from experiments.runner import made_by as origin
    from experiments.runner import read_table, study_of

    study, table, made = study_of(folder), read_table(folder), read_json(folder / "provenance.json")
    return fill("study.html", {
        "title": f"{study.name}: {study.title}", "folder": str(folder), "paper": study.paper, "made": origin(made),
        "numbers": [{"what": f"{one.place}, {one.what}: {heading}", "paper": printed, "ours": shown(ours(table)),
                     "why": one.why} for one in study.numbers for heading, (printed, ours) in one.numbers.items()],
        "sentences": study.judged(table),
        "figures": [{"name": path.stem, "base64": base64.b64encode(path.read_bytes()).decode()}
                    for path in sorted(folder.glob("*.png"))],
        "table": _rows(table), "provenance": made,
    }, package="experiments")  # fmt: skip


def _rows(table: Any) -> dict[str, Any]:
    some = table.gather_every(-(-table.height // _MOST_ROWS)) if table.height > _MOST_ROWS else table
    rows = [[f"{cell:.5g}" if isinstance(cell, float) else cell for cell in row] for row in some.iter_rows()]
    return {"columns": table.columns, "height": table.height, "rows": rows}
