"""The rows of a report on predictions as the page shows them: ends rounded away from what was measured."""

from typing import Any

from bounds.sentence import down, up


def statement_rows(report: dict[str, Any]) -> list[dict[str, str]]:
    """A row for each quantity; none for other reports. A dash stands where an end was not asked or says nothing."""
    rows = report["details"].get("statements", []) if report["route"] == "predictions" else []
    return [
        {
            "quantity": row["quantity"],
            "of": row["of"],
            "measured": f"{row['measured']:.4f}",
            "least": "–" if row["lower"] in (None, min(row["range"])) else down(row["lower"]),
            "most": "–" if row["upper"] in (None, max(row["range"])) else up(row["upper"]),
            "records": str(row["n"]),
        }
        for row in rows
    ]
