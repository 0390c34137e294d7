"""Figures as SVG inside a page: ids of their own, no metadata, no addresses, a name for readers who see nothing."""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bounds import Certificate
from pacdp.calibration import ReliabilityCurve
from pacdp.cli.figures import costs, privacy, reliability, run, style

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_DROPPED = ("metadata", "style", "title")
_LONGEST = 300


def training(rows: list[dict]) -> Markup:
    """Errors and bounds over training."""
    return _drawn("training", "Errors and bounds against epochs of training", 6.8, 4.6,
                  lambda axes: run.draw_training(axes, thinned(rows, _LONGEST)))  # fmt: skip


def cost_breakdown(found: Sequence[Certificate]) -> Markup:
    """What each certificate pays."""
    return _drawn("costs", "What each certificate pays in nats per record, as stacked bars", 7.6,
                  1.4 + 0.26 * len(found), lambda axes: costs.draw(axes, found))  # fmt: skip


def privacy_spent(rows: list[dict], budget: float | None) -> Markup:
    """Epsilon along a private run."""
    return _drawn("privacy", "Privacy spent at each recorded step, and the budget", 5.6, 3.4,
                  lambda axes: privacy.draw(axes, thinned(rows, _LONGEST), budget=budget))  # fmt: skip


def reliability_diagram(recorded: dict) -> Markup:
    """Accuracy against confidence."""
    return _drawn("reliability", "Accuracy against confidence in bins, with bands, and the examples of each bin", 5.2,
                  4.0, lambda axes: reliability.draw(axes, _curve(recorded)))  # fmt: skip


def thinned(rows: list[dict], most: int) -> list[dict]:
    """At most ``most`` rows, evenly spaced, with the first and the last."""
    if len(rows) <= most:
        return rows
    return [rows[int(k)] for k in np.linspace(0, len(rows) - 1, most).round()]


def _curve(recorded: dict) -> ReliabilityCurve:
    def column(name: str) -> np.ndarray:
        return np.array(
            [np.nan if value is None else value for value in recorded[name]], dtype=np.float64
        )

    return ReliabilityCurve(
        edges=np.array([*recorded["left"], recorded["right"][-1]], dtype=np.float64),
        counts=np.array(recorded["count"], dtype=np.int64), confidence=column("confidence"),
        accuracy=column("accuracy"), lower=column("lower"), upper=column("upper"),
        failure_prob=float(recorded["failure_prob"]), simultaneous=bool(recorded["simultaneous"]),
    )  # fmt: skip


def _drawn(
    name: str, says: str, width: float, height: float, draw: Callable[[Axes], None]
) -> Markup:
    with _settings():
        figure, ((axes,),) = style.figure(1, 1, width=width, height=height)
        draw(axes)
        return _inline(figure, name=name, says=says)


@contextmanager
def _settings() -> Iterator[None]:
    with mpl.rc_context(
        {"svg.hashsalt": "pacdp", "svg.fonttype": "none", "text.parse_math": False}
    ):
        yield


def _inline(figure: Figure, *, name: str, says: str) -> Markup:
    written = io.BytesIO()
    figure.savefig(written, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(written.getvalue())
    _clean(root, f"{name}-")
    inches = float(figure.get_figwidth())
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    root.attrib |= {"role": "img", "aria-label": says, "style": f"max-width: {inches * 1.25:.1f}in"}
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _clean(element: ElementTree.Element, prefix: str) -> None:
    """Take out namespaces and what is not drawn; make ids and references to them this figure's own."""
    element.tag = element.tag.removeprefix(_SVG)
    attributes = {
        "href" if name == _HREF else name: value for name, value in element.attrib.items()
    }
    for attribute, value in attributes.items():
        if attribute == "id":
            attributes[attribute] = prefix + value
        elif attribute == "href":
            attributes[attribute] = f"#{prefix}{value.removeprefix('#')}"
        else:
            attributes[attribute] = re.sub(r"url\(#", f"url(#{prefix}", value)
    element.attrib.clear()
    element.attrib.update(attributes)
    for child in list(element):
        if isinstance(child.tag, str) and child.tag.removeprefix(_SVG) not in _DROPPED:
            _clean(child, prefix)
        else:
            element.remove(child)
