"""Certificates as bars on a scale of the data's own: the bound, the measured error, and what lies between them."""

import math
from typing import Any

from bounds import Certificate
from bounds.sentence import up
from pacdp.cli.figures.names import label
from pacdp.cli.figures.numbers import bound, vacuous
from pacdp.cli.reading import Reading

_STEPS = (1.0, 2.0, 5.0)
_OURS = "your network"
_TICKS = 5


def bars(reading: Reading) -> dict[str, Any] | None:
    """The bars, your network's first and the others as they come, and their scale; None where there is nothing to draw.

    Places are in per cent of the scale. A bound that says nothing has no bar, so that it does not decide the scale.
    """
    told, certificates = reading.statements, reading.certificates
    if told:
        rows = [
            _bar(row["quantity"], f"of {row['of']}", row["upper"], certificates[row["upper_by"]], row["measured"])
            for row in told if row["upper_by"] is not None and row["range"] == [0.0, 1.0]
        ]  # fmt: skip
    else:
        rows = [
            _bar(label(made.name), f"{made.measures} of {made.of}", made.value, made, reading.error(made))
            for made in sorted(certificates, key=lambda made: made.of != _OURS)
        ]  # fmt: skip
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
    on_test = "the test set" if any(row["tick"] is not None for row in rows) else ""
    measured = "the certified examples themselves" if told else on_test
    return {"rows": rows, "ticks": ticks, "measured": measured}


def _bar(
    name: str, about: str, most: float, made: Certificate, measured: float | None
) -> dict[str, Any]:
    nothing = vacuous(most)
    return {
        "name": name, "about": about, "at": most, "says": bound(most), "status": made.status, "vacuous": nothing,
        "measured": measured, "beside": _beside(most, measured, nothing=nothing),
    }  # fmt: skip


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


def _share(value: float, top: float) -> float:
    return round(100.0 * value / top, 2)


def _scale(largest: float) -> float:
    """The least of 1, 2 and 5 times a power of ten at or above ``largest``; at most 1 for numbers up to 1."""
    power = 10.0 ** math.floor(math.log10(largest))
    top = next((step * power for step in _STEPS if step * power >= largest), 10.0 * power)
    return min(1.0, top) if largest <= 1.0 else top
