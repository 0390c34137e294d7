"""The picture of the demonstration: the digits, the certificate beside what was measured, and the optimistic bound."""

import math
from pathlib import Path

from matplotlib.axes import Axes

from pacdp.cli.demo import Demonstration
from pacdp.cli.figures import names, style

_ACROSS, _DOWN = 10, 6


def draw(found: Demonstration, stem: Path) -> list[Path]:
    """Write the picture as PNG and PDF beside each other and return their paths."""
    drawn, ((digits, bars),) = style.figure(1, 2, width=3.9, height=3.4)
    _digits(digits, found)
    _bars(bars, found)
    return style.save(drawn, stem)


def _digits(axes: Axes, found: Demonstration) -> None:
    """New digits with what the network reads in them: first those that it gets wrong, in red."""
    order = (~found.wrong).int().argsort(stable=True)[: _ACROSS * _DOWN]
    for place, which in enumerate(order.tolist()):
        left, top = place % _ACROSS, 1.4 * (place // _ACROSS)
        box = (left + 0.1, left + 0.9, top + 0.95, top + 0.15)
        axes.imshow(found.inputs[which, 0].numpy(), cmap="gray_r", extent=box)
        colour = "tab:red" if found.wrong[which] else "black"
        said = str(int(found.predicted[which]))
        axes.text(left + 0.5, top + 1.2, said, ha="center", va="center", color=colour, fontsize=7)
    axes.set(xlim=(0, _ACROSS), ylim=(1.4 * _DOWN, 0), aspect="equal")
    axes.set_axis_off()
    axes.set_title(
        f"new digits and what the network reads\n(red: wrong, {int(found.wrong.sum())} of {len(found.wrong)})"
    )


def _bars(axes: Axes, found: Demonstration) -> None:
    """The network's certificate and Entropy-SGLD's optimistic bound on one scale; a line is what was measured."""
    for place, (made, measured) in enumerate(found.shown):
        axes.bar(place, made.value, width=0.6, color="tab:orange" if place else "tab:green", edgecolor="white",
                 alpha=0.45 if place else 0.9, hatch="//" if place else None)  # fmt: skip
        axes.plot([place - 0.3, place + 0.3], [measured, measured], color="black", linewidth=2)
        said = f"at most {names.up(100 * made.value, 2)}%"
        axes.text(place, min(made.value, 1.0) + 0.02, said, ha="center")
    axes.set_xticks((0, 1), ("network", "Entropy-SGLD*"))
    most = max(made.value for made, _ in found.shown)
    axes.set(ylim=(0.0, math.ceil(10 * most + 1) / 10), ylabel="error on new digits",
             xlabel="line: measured    * if its chain has converged",
             title="the number with an asterisk\nis not proved")  # fmt: skip
