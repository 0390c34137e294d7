"""Numbers as they are printed, which never look better than they are.

Rounding starts from the shortest decimal that is the float, so that 0.05 is written 0.05.
"""

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from math import isinf, isnan

EXACT = Context(prec=1000)
"""In which sums and products of doubles are exact, where the caller's ``decimal.getcontext()`` may round them."""


def confidence(failure_prob: float) -> str:
    """One minus a failure probability, in per cent with at most two decimals, and no larger than it is: never 100%."""
    with localcontext(EXACT):
        sums = 1 - Decimal(2) ** -50  # what a ledger's sums may exceed their decimal totals by
        sure = 100 - Decimal(repr(float(failure_prob))) * sums * 100
        return f"{min(sure.quantize(Decimal('0.01'), ROUND_FLOOR), Decimal('99.99')).normalize():f}%"


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


def percent(share: float) -> str:
    """A share of one in per cent, without the sign, rounded up to two decimals."""
    return f"{percent_of(Decimal(repr(float(share)))):f}"


def percent_of(share: Decimal) -> Decimal:
    """A share of one in per cent, rounded up to two decimals."""
    with localcontext(EXACT):
        return (share * 100).quantize(Decimal("0.01"), ROUND_CEILING)


def _rounded(value: float, exponent: Callable[[Decimal], int], rounding: str) -> str:
    if isnan(value):
        raise ValueError("expected a number, got NaN: the file is damaged, or was not written by pacdp")
    if isinf(value):
        return "∞" if value > 0 else "-∞"
    exact = Decimal(repr(float(value)))
    if not exact:
        return "0"
    with localcontext(EXACT):
        shown = exact.quantize(Decimal(1).scaleb(exponent(exact)), rounding=rounding)
        return f"{shown:f}" if abs(shown.adjusted()) < 7 else f"{shown.normalize():g}"
