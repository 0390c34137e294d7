"""Numbers as text: a bound, an epsilon or a cost never looks smaller than it is, a lower end never larger.

Rounding starts from the shortest decimal that is the float, so that 0.05 is written 0.05.
"""

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

_SUM_ROUNDING = 1.0 - 2.0**-50  # what a ledger's sums may exceed their decimal totals by, as in bounds.certificate


def up(value: float, places: int = 4) -> str:
    """``value`` rounded up to ``places`` decimals; "∞" for infinity.

    Raises:
        ValueError: NaN.
    """
    return _rounded(value, lambda _: -places, ROUND_CEILING)


def down(value: float, places: int = 4) -> str:
    """``value`` rounded down to ``places`` decimals; raises as :func:`up`."""
    return _rounded(value, lambda _: -places, ROUND_FLOOR)


def up_digits(value: float, digits: int = 5) -> str:
    """``value`` rounded up to ``digits`` significant digits; raises as :func:`up`."""
    return _rounded(value, lambda exact: exact.adjusted() + 1 - digits, ROUND_CEILING)


def down_digits(value: float, digits: int = 5) -> str:
    """``value`` rounded down to ``digits`` significant digits; raises as :func:`up`."""
    return _rounded(value, lambda exact: exact.adjusted() + 1 - digits, ROUND_FLOOR)


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


def _rounded(value: float, exponent: Callable[[Decimal], int], rounding: str) -> str:
    if math.isnan(value):
        raise ValueError("expected a number, got NaN: the file is damaged, or was not written by pacdp")
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    exact = Decimal(repr(float(value)))
    if not exact:
        return "0"
    shown = exact.quantize(Decimal(1).scaleb(exponent(exact)), rounding=rounding)
    return f"{shown:f}" if abs(shown.adjusted()) < 7 else f"{shown.normalize():g}"
