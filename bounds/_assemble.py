"""From a price and the costs of a formula to a Certificate: the step that every bound shares."""

from collections.abc import Mapping
from dataclasses import replace
from math import expm1, sqrt

from bounds._rounding import inward, outward, total
from bounds.certificate import Certificate, costs_of
from bounds.hypotheses import declared, merged
from bounds.kl import binary_kl_upper
from bounds.needs import declared_by
from bounds.prices import Inputs, Price

# Names that papers and users know, in place of a price's prefix before the name of a formula.
_NAMES = {
    "max_information_langford_seeger": "dp_pac_bayes_max_information",
    "printed_2018_langford_seeger": "dp_pac_bayes_2018",
    "dp_maurer": "dp_pac_bayes",
    "private_maurer": "private_pac_bayes",
    "max_information_maurer": "max_information_pac_bayes",
    "printed_2018_maurer": "printed_2018_pac_bayes",
}


def called(formula: str, prefix: str) -> str:
    """The name of the certificates of a formula at the price of this prefix."""
    return _NAMES.get(prefix + formula, prefix + formula)


def billed(formula: str, price: Price, n: int, failure_prob: float, **nats: float) -> Certificate:
    """What ``formula`` at ``price`` says before it has a value: its own costs in ``nats`` by name, and the price's."""
    check_price(price)
    charge, name = price.charge(n=n, failure_prob=failure_prob), called(formula, price.prefix)
    return Certificate(
        name=name,
        value=1.0,
        failure_prob=failure_prob,
        hypotheses=merged(declared_by(f"the caller of bounds.{name}", formula, price.prefix), price.known),
        costs=costs_of({**nats, charge.name: charge.nats}, n),
        terms=charge.terms,
        budget=charge.budget,
        reference=price.reference,
        inputs={"n": n, "failure_prob": failure_prob, **price.inputs},
    )


def settled(
    bill: Certificate,
    value: float,
    *,
    terms: Mapping[str, float],
    inputs: Inputs,
    reference: str,
    of: str = "randomised",
    measures: str = "risk",
) -> Certificate:
    """The certificate of this value, with the formula's own terms, inputs and reference; 1 where none is left."""
    return replace(
        bill,
        value=value if value == value else 1.0,
        of=of,
        measures=measures,
        terms={**terms, **bill.terms},
        reference="; ".join(part for part in (reference, bill.reference) if part),
        inputs={**inputs, **bill.inputs},
    )


def of_posterior(
    bill: Certificate, value: float, risk: float, kl_nats: float, reference: str, **known: float
) -> Certificate:
    """The certificate of a risk and a divergence, with ``known`` among both terms and inputs."""
    terms, inputs = {"empirical_risk": risk, **known}, {"risk": risk, "kl_nats": kl_nats, **known}
    return settled(bill, value, terms=terms, inputs=inputs, reference=reference)


def of_people(bill: Certificate) -> Certificate:
    """The certificate of a formula whose records are people."""
    return bill.resting_on(declared("records independent", f"the caller of bounds.{bill.name}", "person"))


def within(bill: Certificate, failure_prob: float, **budget: float) -> Certificate:
    """The bill as part of a statement that fails with ``failure_prob``, of which ``budget`` names the parts."""
    inputs = {**bill.inputs, "failure_prob": failure_prob}
    return replace(bill, failure_prob=failure_prob, budget=budget, inputs=inputs)


def check_price(price: object) -> None:
    """Refuse what is no price."""
    if not isinstance(price, Price):
        raise ValueError(f"price must be one of bounds.prices, such as Independent(), got {price!r}.")


def kl_value(risk: float, per_example: float) -> float:
    """kl⁻¹(risk, per_example), rounded up."""
    return float(binary_kl_upper(risk, per_example))


def catoni_value(risk: float, inverse_temperature: float, per_example: float, n: int) -> float:
    """[1 - exp(-C risk/n - per_example)] / (1 - exp(-C/n)), rounded up, and never below the risk."""
    scale = inverse_temperature / n
    if scale < 1e-290:  # its last digits would be lost, and the bound is above 1
        return 1.0
    exponent = total(outward(scale * risk), per_example)
    return max(risk, outward(-expm1(-exponent) / inward(-expm1(-inward(scale)))))


def quadratic_value(risk: float, c: float) -> float:
    """risk + c + √(c² + 2c risk) = (√(risk + c/2) + √(c/2))², rounded up."""
    return total(risk, c, sqrt(c) * sqrt(c + 2.0 * risk))


def pinsker_value(risk: float, c: float) -> float:
    """risk + √(c/2), rounded up."""
    return total(risk, sqrt(c / 2.0))
