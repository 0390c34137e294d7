"""Probabilities and values of certificates as text; they never look better than they are."""

import math

from bounds.sentence import up, up_digits

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
