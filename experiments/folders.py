"""Folders of studies' results, for `pacdp plot` and `pacdp report`.

The page shows the paper's numbers beside ours, its claims, figures, table and what made them.
"""

import base64
from pathlib import Path
from typing import Any

from experiments import results_page
from experiments.registry import studies
from experiments.runner import draw_again, read_table, results_of
from pacdp.cli.folder import read_json
from pacdp.cli.recipes import Scale
from pacdp.cli.report.page import fill
from pacdp.cli.report.sections import made_by

_MOST_ROWS = 200
_HOLDS = {True: "holds", False: "DOES NOT HOLD", None: "cannot tell"}


def named(name: str, scale: Scale | None) -> Path | None:
    """The folder of the results of a study, of the most telling scale unless one is given; None for other names.

    Raises:
        ValueError: the study has no results.
    """
    return results_of(name, scale) if name in studies() else None


def plot(folder: Path) -> list[Path] | None:
    """Draw the figures of a folder of results again; None of other folders."""
    return draw_again(folder) if (folder / "table.csv").is_file() else None


def page(folder: Path) -> str | None:
    """The HTML of the page about a folder of results; None of other folders.

    Raises:
        ValueError: a file is missing or of another format.
    """
    if not (folder / "verdict.json").is_file():
        return None
    verdict, made = results_page.read_verdict(folder), read_json(folder / "provenance.json")
    return fill("study.html", {
        "title": f"{verdict['study']}: {verdict['title']}", "folder": str(folder), "paper": verdict["paper"],
        "scale": verdict["scale"], "made": results_page.made_by(made), "failures": results_page.failures(made),
        "comparisons": [row | {"paper": results_page.shown(row["paper"]), "ours": results_page.shown(row["ours"])}
                        for row in verdict["comparisons"]],
        "claims": [{"settled_by": "", **row, "holds": _HOLDS[row["holds"]], "fails": row["holds"] is False}
                   for row in verdict["claims"]],
        "notes": verdict["notes"], "omissions": verdict["omissions"],
        "figures": [{"name": path.stem, "base64": base64.b64encode(path.read_bytes()).decode()}
                    for path in sorted(folder.glob("*.png"))],
        "table": _table(folder), "provenance": made_by(made),
    }, package="experiments")  # fmt: skip


def _table(folder: Path) -> dict[str, Any]:
    table = read_table(folder)
    some = table.gather_every(-(-table.height // _MOST_ROWS)) if table.height > _MOST_ROWS else table
    rows = [[results_page.shown(cell) for cell in row] for row in some.iter_rows()]
    return {"columns": table.columns, "height": table.height, "rows": rows}
