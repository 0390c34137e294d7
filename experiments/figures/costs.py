"""What each certificate pays, in nats per example: bars of the parts, a mark for what is paid per draw instead."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

PARTS = {
    "KL / n": "#4c72b0", "privacy": "#c44e52", "confidence": "#dd8452", "ln ξ(n) / n": "#937860",
    "grids and unions": "#8c8c8c", "other": "#ccb974",
}  # fmt: skip
"""Every part a bar may have, from left to right, with its colour."""
PER_DRAW = "Monte Carlo, per draw"


class Cost(NamedTuple):
    """What one certificate pays."""

    label: str
    optimistic: bool
    parts: dict[str, float]
    """Nats per example, by the names in ``PARTS``; a negative one (the log density at one draw) lowers the total."""
    monte_carlo: float | None
    """Nats per draw of the posterior, paid before the risk enters the bound; None where nothing is."""


def draw(axes: Axes, costs: Sequence[Cost]) -> None:
    """A stacked bar a certificate; optimistic ones are hatched and starred."""
    for height, cost in enumerate(costs):
        right = left = 0.0
        for part, nats in ((part, cost.parts[part]) for part in PARTS if part in cost.parts):
            start = right if nats >= 0.0 else left + nats
            axes.barh(height, abs(nats), left=start, color=PARTS[part], alpha=0.55 if cost.optimistic else 1.0,
                      hatch="//" if cost.optimistic else None, edgecolor="white", linewidth=0.0)  # fmt: skip
            right, left = right + max(nats, 0.0), left + min(nats, 0.0)
        if cost.monte_carlo is not None:
            axes.plot([cost.monte_carlo], [height], "D", color="black", markersize=5)
    keys: list[Patch | Line2D] = [
        Patch(color=colour, label=part) for part, colour in PARTS.items() if any(part in cost.parts for cost in costs)
    ]
    if any(cost.monte_carlo is not None for cost in costs):
        keys.append(Line2D([], [], marker="D", linestyle="", color="black", markersize=5, label=PER_DRAW))
    axes.set_yticks(range(len(costs)), [cost.label + (" *" if cost.optimistic else "") for cost in costs])
    axes.set_ylim(len(costs) - 0.5, -0.5)
    assumed = "\n* optimistic: rests on the assumptions listed" if any(cost.optimistic for cost in costs) else ""
    axes.set_xlabel(f"nats per example{assumed}")
    axes.legend(handles=keys)
    axes.set_title("what each certificate pays")
