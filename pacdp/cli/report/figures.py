"""Figures inside a page: pictures in base64, which ask the network for nothing."""

import base64
import io
from collections.abc import Callable, Mapping
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from pacdp.calibration import ReliabilityCurve
from pacdp.cli.figures import reliability, run, style

_LONGEST = 300
_COLUMNS = ("confidence", "accuracy", "lower", "upper")


def training(rows: list[dict]) -> str:
    """Errors and bounds over training."""
    return _png(6.8, 4.6, lambda axes: run.draw_training(axes, thinned(rows, _LONGEST)))


def certificates(report: Mapping[str, Any]) -> str:
    """Each certificate beside what was measured."""
    return _png(7.6, 3.0, lambda axes: run.draw_certificates(axes, report))


def reliability_diagram(recorded: dict) -> str:
    """Accuracy against confidence."""
    columns = {name: np.array(recorded[name], dtype=np.float64) for name in _COLUMNS}
    curve = ReliabilityCurve(
        edges=np.array([*recorded["left"], recorded["right"][-1]]), counts=np.array(recorded["count"]), **columns,
        failure_prob=float(recorded["failure_prob"]), simultaneous=bool(recorded["simultaneous"]),
    )  # fmt: skip
    return _png(5.2, 4.0, lambda axes: reliability.draw(axes, curve))


def thinned(rows: list[dict], most: int) -> list[dict]:
    """At most ``most`` rows, evenly spaced, with the first and the last."""
    if len(rows) <= most:
        return rows
    return [rows[int(k)] for k in np.linspace(0, len(rows) - 1, most).round()]


def _png(width: float, height: float, draw: Callable[[Axes], None]) -> str:
    written = io.BytesIO()
    with mpl.rc_context({"text.parse_math": False}):
        figure, ((axes,),) = style.figure(1, 1, width=width, height=height)
        draw(axes)
        figure.savefig(written, format="png", dpi=150)
    return base64.b64encode(written.getvalue()).decode()
