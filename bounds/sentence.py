"""A certificate as one true sentence, with numbers that never look better than they are.

Rounding starts from the shortest decimal that is the float, so that 0.05 is written 0.05.
"""

from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from math import isinf, isnan

from bounds.certificate import Certificate
from bounds.hypotheses import UNITS

_ERROR = "0-1 risk"
_NEW = " of a new "
_RECORDS = tuple(_NEW + unit for unit in UNITS)
_WHOSE = {"randomised": "the randomised network"}
_SUMS = 1 - Decimal(2) ** -50  # what a ledger's sums may exceed their decimal totals by


def headline(made: Certificate, *, failure_prob: float | None = None) -> str:
    """What a certificate says, from how many records, and everything that it takes for true without a proof.

    Formal guarantee: the percentage is no smaller than the value, and the confidence no larger than 1 - failure_prob.

    Args:
        made: the certificate.
        failure_prob: of all that is said together with it, where that is more than its own.
    """
    of = whose(made.of)
    measures, new, record = (
        made.measures.rpartition(_NEW) if made.measures.endswith(_RECORDS) else (made.measures, "", "")
    )
    risk = "error" if measures == _ERROR else measures
    where = f"on a new {record}" if new else "on new data"
    if made.vacuous:
        return f"Nothing is known of the {risk} of {of} {where}: its certificate is 1."
    sure = confidence(made.failure_prob if failure_prob is None else failure_prob)
    said = f"The {risk} of {of} {where} is at most {percent(made.value)}%, with {sure} confidence"
    known = records(made)
    said += f", from {known}" if known else ""
    taken = "; ".join(f"{one.name} ({one.standing})" for one in (*made.unproved, *made.declared))
    label = "" if made.status == "rigorous" else " This number is optimistic: something that it rests on is not proved."
    return f"{said}, if {taken}.{label}" if taken else f"{said}."


def first_sentence(certificates: Sequence[Certificate], *, failure_prob: float | None = None) -> str:
    """The headline of the first certificate of the 0-1 risk, else of the first; a rigorous one where there is one."""
    risks = [made for made in certificates if made.measures.startswith(_ERROR)] or certificates
    if not risks:
        return "Nothing was certified."
    rigorous = [made for made in risks if made.status == "rigorous"] or risks
    return headline(rigorous[0], failure_prob=failure_prob)


def confidence(failure_prob: float) -> str:
    """One minus a failure probability, in per cent with at most two decimals, and no larger than it is: never 100%."""
    sure = 100 - Decimal(repr(float(failure_prob))) * _SUMS * 100
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
    return f"{(Decimal(repr(float(share))) * 100).quantize(Decimal('0.01'), ROUND_CEILING):f}"


def _rounded(value: float, exponent: Callable[[Decimal], int], rounding: str) -> str:
    if isnan(value):
        raise ValueError("expected a number, got NaN: the file is damaged, or was not written by pacdp")
    if isinf(value):
        return "∞" if value > 0 else "-∞"
    exact = Decimal(repr(float(value)))
    if not exact:
        return "0"
    shown = exact.quantize(Decimal(1).scaleb(exponent(exact)), rounding=rounding)
    return f"{shown:f}" if abs(shown.adjusted()) < 7 else f"{shown.normalize():g}"


def whose(of: str) -> str:
    """The predictor's name with its article, where it has none."""
    return _WHOSE.get(of) or (of if of.split(" ")[0] in ("your", "the", "one", "a", "an") else f"the {of}")


def unit(made: Certificate) -> str:
    """What the certificate counts as one independent record, such as "example"; empty where it does not say."""
    return next((one.unit for one in made.hypotheses if one.name == "records independent"), "")


def records(made: Certificate) -> str:
    """How many independent records the certificate counts, such as "200 examples"; empty where it does not say."""
    n, what = made.inputs.get("n"), unit(made)
    if not isinstance(n, int) or not what:
        return ""
    return counted(n, what)


def counted(n: int, what: str) -> str:
    """So many records of a unit, such as "1 person" or "200 people"."""
    return f"{n} {what if n == 1 else UNITS[what]}"
