"""What each certificate pays, in nats per record: bars of its costs, a mark for what is paid per draw instead."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bounds import Certificate
from pacdp.cli.figures.names import label, plain
from pacdp.cli.figures.style import wrapped
from pacdp.cli.reading import cost_name, cost_names

COLOURS = {
    "kl": "#4c72b0",
    "worst_kl": "#4c72b0",
    "log_density_ratio": "#55a868",
    "renyi": "#64b5cd",
    "free_energy": "#4c72b0",
    "transfer": "#c44e52",
    "confidence": "#dd8452",
    "log_xi": "#937860",
    "log_two_sqrt_n": "#937860",
}
PER_DRAW = "Monte Carlo, per draw"
_OTHER = "#8c8c8c"


def drawn(certificates: Sequence[Certificate]) -> list[Certificate]:
    """Those that pay in nats, and a finite sum."""
    return [made for made in certificates if made.costs and math.isfinite(made.total_per_example)]


def draw(axes: Axes, certificates: Sequence[Certificate]) -> None:
    """A stacked bar a certificate; optimistic ones are hatched and starred; a negative cost lowers the sum."""
    names = cost_names(certificates)
    per_draw = [made.terms.get("monte_carlo_nats_per_draw") for made in certificates]
    for height, (made, draws) in enumerate(zip(certificates, per_draw, strict=True)):
        right = left = 0.0
        optimistic = made.status == "optimistic"
        nats = {cost.name: cost.per_example for cost in made.costs}
        for name in (name for name in names if name in nats):
            paid = nats[name]
            axes.barh(
                height,
                abs(paid),
                left=right if paid >= 0.0 else left + paid,
                color=COLOURS.get(name, _OTHER),
                alpha=0.55 if optimistic else 1.0,
                hatch="//" if optimistic else None,
                edgecolor="white",
                linewidth=0.0,
            )
            right, left = right + max(paid, 0.0), left + min(paid, 0.0)
        if draws is not None:
            axes.plot([draws], [height], "D", color="black", markersize=5)
    keys: list[Patch | Line2D] = [
        Patch(color=COLOURS.get(name, _OTHER), label=plain(cost_name(name)[:30])) for name in names
    ]
    if any(draws is not None for draws in per_draw):
        keys.append(
            Line2D([], [], marker="D", linestyle="", color="black", markersize=5, label=PER_DRAW)
        )
    starred = [
        wrapped(f"{label(made.name)}, {made.of}") + (" *" if made.status == "optimistic" else "")
        for made in certificates
    ]
    axes.set_yticks(range(len(starred)), starred)
    axes.set_ylim(len(starred) - 0.5, -0.5)
    assumed = any(made.status == "optimistic" for made in certificates)
    axes.set_xlabel(
        "nats per record"
        + ("\n* optimistic: rests on a hypothesis that is not proved" if assumed else "")
    )
    axes.legend(handles=keys)
    axes.set_title("what each certificate pays")
