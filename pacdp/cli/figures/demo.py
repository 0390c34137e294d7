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
        axes.text(left + 0.5, top + 1.2, str(int(found.predicted[which])), ha="center", va="center", fontsize=7,
                  color="tab:red" if found.wrong[which] else "black")  # fmt: skip
    said = f"new digits and what the network reads\n(red: wrong, {int(found.wrong.sum())} of {len(found.wrong)})"
    axes.set(xlim=(0, _ACROSS), ylim=(1.4 * _DOWN, 0), aspect="equal", title=said)
    axes.set_axis_off()


def _bars(axes: Axes, found: Demonstration) -> None:
    """The network's certificate and Entropy-SGLD's optimistic bound on one scale; a line is what was measured."""
    values, places = [found.made.value, found.optimistic.value], [0, 1]
    bars = axes.bar(
        places,
        values,
        width=0.6,
        color=["tab:green", "tab:orange"],
        edgecolor="white",
        hatch=["", "//"],
    )
    style.in_percent(axes.yaxis)
    axes.bar_label(bars, [f"at most {names.up(100 * value, 2)}%" for value in values], padding=2)
    axes.hlines(found.measured, [-0.3, 0.7], [0.3, 1.3], color="black", linewidth=2)
    axes.set_xticks(places, ("network", "Entropy-SGLD*"))
    axes.set(ylim=(0.0, math.ceil(10 * max(values) + 1) / 10), ylabel="error on new digits",
             xlabel="line: measured    * if its chain has converged",
             title="the number with an asterisk\nis not proved")  # fmt: skip
