"""Certificates as bars on a scale of the data's own: the bound, the measured error, and what lies between them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bounds import Certificate
from bounds.sentence import up
from pacdp.cli.figures.names import label
from pacdp.cli.figures.numbers import bound, vacuous
from pacdp.cli.reading import error_on_test

_STEPS = (1.0, 2.0, 5.0)
_OURS = "your network"
_TICKS = 5


def bars(report: Mapping[str, Any], certificates: Sequence[Certificate]) -> dict[str, Any] | None:
    """The bars, your network's first and the others as they come, and their scale; None where there is nothing to draw.

    Places are in per cent of the scale. A bound that says nothing has no bar, so that it does not decide the scale.
    """
    told = report["details"].get("statements", []) if report["route"] == "predictions" else []
    if told:
        rows = [_told(row, certificates[row["upper_by"]])
                for row in told if row["upper_by"] is not None and row["range"] == [0.0, 1.0]]  # fmt: skip
    else:
        rows = [
            _row(report, made) for made in sorted(certificates, key=lambda made: made.of != _OURS)
        ]
    largest = max(
        (max(row["at"], row["measured"] or 0.0) for row in rows if not row["vacuous"]), default=0.0
    )
    if not largest:
        return None
    top = _scale(largest)
    for row in rows:
        row["width"] = 100.0 if row["vacuous"] else _share(row["at"], top)
        row["tick"] = None if row["measured"] is None else min(100.0, _share(row["measured"], top))
    ticks = [
        {"at": 100.0 * k / _TICKS, "says": f"{top * k / _TICKS:.4g}"} for k in range(_TICKS + 1)
    ]
    return {"rows": rows, "ticks": ticks, "measured": _measured_on(told, rows)}


def _row(report: Mapping[str, Any], made: Certificate) -> dict[str, Any]:
    test = error_on_test(report, made.of, made.measures)
    nothing = vacuous(made.value)
    return {
        "name": label(made.name),
        "about": f"{made.measures} of {made.of}",
        "says": bound(made.value),
        "status": made.status,
        "optimistic": made.status == "optimistic",
        "vacuous": nothing,
        "at": made.value,
        "measured": test,
        "beside": _beside(made.value, test, nothing=nothing),
    }


def _told(row: Mapping[str, Any], made: Certificate) -> dict[str, Any]:
    """A row of a report on predictions, whose measured value is on the certificate's own examples."""
    most = row["upper"]
    return {
        "name": row["quantity"],
        "about": f"of {row['of']}",
        "says": bound(most),
        "status": made.status,
        "optimistic": made.status == "optimistic",
        "vacuous": vacuous(most),
        "at": most,
        "measured": row["measured"],
        "beside": _beside(most, row["measured"], nothing=vacuous(most)),
    }


def _beside(value: float, test: float | None, *, nothing: bool) -> str:
    """The measured error, and how far below the bound it lies."""
    if test is None:
        return ""
    said = f"measured {test:.4f}"
    if nothing:
        return said
    return (
        f"{said}, gap {up(value - test)}"
        if value >= test
        else f"{said}, which is above the certificate"
    )


def _measured_on(told: Sequence[Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """Where the marks were measured; nothing where there are none."""
    if told:
        return "the certified examples themselves"
    return "the test set" if any(row["tick"] is not None for row in rows) else ""


def _share(value: float, top: float) -> float:
    return round(100.0 * value / top, 2)


def _scale(largest: float) -> float:
    """The least of 1, 2 and 5 times a power of ten at or above ``largest``; at most 1 for numbers up to 1."""
    power = 10.0 ** math.floor(math.log10(largest))
    top = next((step * power for step in _STEPS if step * power >= largest), 10.0 * power)
    return min(1.0, top) if largest <= 1.0 else top
