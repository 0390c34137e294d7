"""Names of bounds, and their values and probabilities as text, which never look better than they are; nothing draws."""

import json
import math
from pathlib import Path

from bounds.numbers import up, up_digits

_TABLE = json.loads(Path(__file__).with_name("names.json").read_text(encoding="utf-8"))
CHAIN_BOUNDS: dict[str, str] = _TABLE["chain"]
"""Of a chain's checkpoint, by the names of their functions."""
ACCOUNTED = ("private_pac_bayes", "private_kl_chernoff")
"""Of chains with clipped gradients; rigorous."""
CONVERGED = {name: label for name, label in CHAIN_BOUNDS.items() if name not in ACCOUNTED}
"""Of chains without clipping."""
NAMES = CHAIN_BOUNDS | _TABLE["others"]
GIBBS_BOUNDS = tuple(CHAIN_BOUNDS)[:4]
COSTS: dict[str, str] = _TABLE["costs"]
"""Costs as they are called on surfaces, in the order of bars and columns; others go by their own names, last."""


def label(name: str) -> str:
    """A bound's name in figures and tables; one without a name here is called as its function is."""
    return NAMES.get(name) or plain(name[:60])


def plain(text: str) -> str:
    """The text with a question mark for every character that the figures' font may lack; any space is a plain one."""
    return "".join(
        " " if c.isspace() else c if c.isprintable() and ord(c) < 0x590 else "?" for c in text
    )


_SUM_ROUNDING = (
    1.0 - 2.0**-50
)  # what a ledger's sums may exceed their decimal totals by, as in bounds.certificate


def probability(value: float) -> str:
    """A failure probability to four significant digits, rounded up but for a sum's last bits: 0.1 - 0.04 is 0.06."""
    shown = up_digits(value * _SUM_ROUNDING, 4)
    return shown.rstrip("0").rstrip(".") if "." in shown and "e" not in shown else shown


def bound(value: float) -> str:
    """A certificate's value to four decimals, rounded up; "1 (vacuous)" for one that then says nothing."""
    return "1 (vacuous)" if vacuous(value) else up(value)


def vacuous(value: float) -> bool:
    """Whether the value, as it is shown, says nothing."""
    return float(up(value)) >= 1.0 if math.isfinite(value) else True
