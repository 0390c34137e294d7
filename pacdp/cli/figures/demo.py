"""The picture of the demonstration: the digits, the certificate beside what was measured, and the optimistic bound."""

import math
from pathlib import Path

from matplotlib.axes import Axes

from pacdp.cli.demo import Demonstration
from pacdp.cli.figures import numbers, style

_ACROSS, _DOWN = 10, 6


def draw(found: Demonstration, stem: Path) -> list[Path]:
    """Write the picture as PNG and PDF beside each other and return their paths."""
    drawn, ((digits, training, bars),) = style.figure(1, 3, width=3.6, height=3.2)
    _digits(digits, found)
    _training(training, found)
    _bars(bars, found)
    return style.save(drawn, stem)


def _digits(axes: Axes, found: Demonstration) -> None:
    """New digits with what the network reads in them: first those that it gets wrong, in red."""
    axes.set_xlim(0, _ACROSS)
    axes.set_ylim(1.4 * _DOWN, 0)
    order = (~found.wrong).int().argsort(stable=True)[: _ACROSS * _DOWN]
    for place, which in enumerate(order.tolist()):
        left, top = place % _ACROSS, 1.4 * (place // _ACROSS)
        axes.imshow(
            found.inputs[which, 0].numpy(),
            cmap="gray_r",
            extent=(left + 0.1, left + 0.9, top + 0.95, top + 0.15),
        )
        colour = "tab:red" if found.wrong[which] else "black"
        said = str(int(found.predicted[which]))
        axes.text(left + 0.5, top + 1.2, said, ha="center", va="center", color=colour, fontsize=7)
    axes.set_xlim(0, _ACROSS)
    axes.set_ylim(1.4 * _DOWN, 0)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title(
        f"new digits and what the network reads\n(red: wrong, {int(found.wrong.sum())} of {len(found.wrong)})"
    )


def _training(axes: Axes, found: Demonstration) -> None:
    """Errors after each epoch, and the certificate of the network at the end."""
    epochs = range(1, len(found.errors) + 1)
    axes.plot(
        epochs,
        [100 * learnt for learnt, _ in found.errors],
        color="tab:blue",
        label="digits that it learns from",
    )
    axes.plot(
        epochs, [100 * new for _, new in found.errors], color="black", label="new digits, measured"
    )
    most = 100 * found.certificate.value
    axes.axhline(
        most,
        color="tab:green",
        linestyle="--",
        label=f"certificate: at most {numbers.up(most, 2)}%",
    )
    axes.set_ylim(0.0, max(6.0, 3.0 * most))
    axes.set_xlabel("epochs")
    axes.set_ylabel("errors in percent")
    axes.set_title("the network")
    axes.legend(loc="upper right")


def _bars(axes: Axes, found: Demonstration) -> None:
    """The network's certificate and Entropy-SGLD's optimistic bound on one scale; a tick is what was measured."""
    shown = (
        (found.certificate, found.measured, "network"),
        (found.optimistic, found.optimistic_measured, "Entropy-SGLD*"),
    )
    for place, (made, measured, _) in enumerate(shown):
        starred = made.status == "optimistic"
        axes.bar(
            place, made.value, width=0.6, color="tab:orange" if starred else "tab:green", edgecolor="white",
            alpha=0.45 if starred else 0.9, hatch="//" if starred else None,
        )  # fmt: skip
        axes.plot([place - 0.3, place + 0.3], [measured, measured], color="black", linewidth=2)
        axes.text(
            place,
            min(made.value, 1.0) + 0.02,
            f"at most {numbers.up(100 * made.value, 2)}%",
            ha="center",
        )
    axes.set_xticks(range(len(shown)), [name for _, _, name in shown])
    axes.set_ylim(0.0, math.ceil(10 * max(made.value for made, _, _ in shown) + 1) / 10)
    axes.set_ylabel("error on new digits")
    axes.set_xlabel("line: measured    * if its chain has converged")
    axes.set_title("the number with an asterisk\nis not proved")
