"""The page about a study's results: the paper's numbers beside ours, its claims, figures, table and what made them."""

import base64
from pathlib import Path
from typing import Any

from experiments.folder import read_json
from experiments.report_page import fill
from experiments.report_sections import made_by
from experiments.studies import results_page
from experiments.studies.publish import read_table

_MOST_ROWS = 200
_HOLDS = {True: "holds", False: "DOES NOT HOLD", None: "cannot tell"}


def render_study(folder: Path) -> str:
    """The HTML of the page about a folder of results.

    Raises:
        ValueError: a file is missing or of another format.
    """
    verdict, made = results_page.read_verdict(folder), read_json(folder / "provenance.json")
    return fill("study.html", {
        "title": f"{verdict['study']}: {verdict['title']}", "folder": str(folder), "paper": verdict["paper"],
        "scale": verdict["scale"], "made": results_page.made_by(made), "failures": results_page.failures(made),
        "comparisons": [row | {"paper": results_page.shown(row["paper"]), "ours": results_page.shown(row["ours"])}
                        for row in verdict["comparisons"]],
        "claims": [row | {"holds": _HOLDS[row["holds"]], "fails": row["holds"] is False} for row in verdict["claims"]],
        "notes": verdict["notes"],
        "figures": [{"name": path.stem, "base64": base64.b64encode(path.read_bytes()).decode()}
                    for path in sorted(folder.glob("*.png"))],
        "table": _table(folder), "provenance": made_by(made),
    })  # fmt: skip


def _table(folder: Path) -> dict[str, Any]:
    table = read_table(folder)
    some = table.gather_every(-(-table.height // _MOST_ROWS)) if table.height > _MOST_ROWS else table
    rows = [[results_page.shown(cell) for cell in row] for row in some.iter_rows()]
    return {"columns": table.columns, "height": table.height, "rows": rows}
