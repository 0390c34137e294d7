"""Privacy spent along a private run, and the budget it may spend."""

from typing import Any

from matplotlib.axes import Axes


def draw(axes: Axes, rows: list[dict[str, Any]], *, budget: float | None = None) -> None:
    """The proved upper end of epsilon at each recorded step; the budget as a line. No line joins what lies between."""
    steps = [row["step"] for row in rows]
    axes.plot(
        steps,
        [row["epsilon"] for row in rows],
        "o",
        color="tab:red",
        markersize=4,
        label="spent, upper end",
    )
    if budget is not None:
        axes.axhline(budget, color="black", linestyle="--", linewidth=1.0, label="budget")
    axes.set_xlim(left=0.0)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("step")
    axes.set_ylabel(f"epsilon at delta {rows[-1]['delta']:g}")
    axes.set_title("privacy spent")
    axes.legend(loc="lower right")
