"""A certificate as one true sentence, with numbers that never look better than they are."""

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

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
    most = (Decimal(repr(made.value)) * 100).quantize(Decimal("0.01"), ROUND_CEILING)
    sure = confidence(made.failure_prob if failure_prob is None else failure_prob)
    said = f"The {risk} of {of} {where} is at most {most}%, with {sure} confidence"
    known = records(made)
    said += f", from {known}" if known else ""
    taken = "; ".join(f"{one.name} ({one.standing})" for one in (*made.unproved, *made.declared))
    label = "" if made.status == "rigorous" else " This number is optimistic: something that it rests on is not proved."
    return f"{said}, if {taken}.{label}" if taken else f"{said}."


def first_sentence(certificates: Sequence[Certificate], *, failure_prob: float | None = None) -> str:
    """The headline of the first certificate of the 0-1 risk, else of the first."""
    risks = [made for made in certificates if made.measures.startswith(_ERROR)]
    if not certificates:
        return "Nothing was certified."
    return headline((risks or certificates)[0], failure_prob=failure_prob)


def confidence(failure_prob: float) -> str:
    """One minus a failure probability, in per cent with at most two decimals, and no larger than it is: never 100%."""
    sure = 100 - Decimal(repr(float(failure_prob))) * _SUMS * 100
    return f"{min(sure, Decimal('99.99')).quantize(Decimal('0.01'), ROUND_FLOOR).normalize():f}%"


def at_most(value: float, places: int = 4) -> str:
    """``value`` as a decimal that is no smaller."""
    return f"{Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-places), ROUND_CEILING):f}"


def at_least(value: float, places: int = 4) -> str:
    """``value`` as a decimal that is no larger."""
    return f"{Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-places), ROUND_FLOOR):f}"


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
