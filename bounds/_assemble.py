"""From a price and the costs of a formula to a Certificate: the step that every bound shares."""

from collections.abc import Mapping
from math import expm1, sqrt
from typing import NamedTuple

from bounds._rounding import inward, outward, total
from bounds.certificate import Certificate, Cost, costs_of, total_of
from bounds.hypotheses import Hypothesis, declared, merged
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


class Bill(NamedTuple):
    """What a certificate takes from its formula's costs and its price: everything but its value, and what it names."""

    name: str
    failure_prob: float
    hypotheses: tuple[Hypothesis, ...]
    costs: tuple[Cost, ...]
    terms: Mapping[str, float]
    budget: Mapping[str, float]
    reference: str
    inputs: Inputs

    @property
    def total_nats(self) -> float:
        """The costs added up, rounded up."""
        return total_of(cost.nats for cost in self.costs)

    @property
    def total_per_example(self) -> float:
        """The costs for each independent record added up, rounded up."""
        return total_of(cost.per_example for cost in self.costs)


def called(formula: str, prefix: str) -> str:
    """The name of the certificates of a formula at the price of this prefix."""
    return _NAMES.get(prefix + formula, prefix + formula)


def billed(formula: str, price: Price, n: int, failure_prob: float, **nats: float) -> Bill:
    """The bill of ``formula`` at ``price``: its own costs in ``nats`` by name, and the price's."""
    check_price(price)
    charge, name = price.charge(n=n, failure_prob=failure_prob), called(formula, price.prefix)
    return Bill(
        name=name,
        failure_prob=failure_prob,
        hypotheses=merged(declared_by(f"the caller of bounds.{name}", formula, price.prefix), price.known),
        costs=costs_of({**nats, charge.name: charge.nats}, n),
        terms=charge.terms,
        budget=charge.budget,
        reference=price.reference,
        inputs={"n": n, "failure_prob": failure_prob, **price.inputs},
    )


def settled(
    bill: Bill,
    value: float,
    *,
    terms: Mapping[str, float],
    inputs: Inputs,
    reference: str,
    of: str = "randomised",
    measures: str = "risk",
) -> Certificate:
    """The certificate of this value, with the formula's own terms, inputs and reference; 1 where none is left."""
    reference = "; ".join(part for part in (reference, bill.reference) if part)
    whole = bill._replace(terms={**terms, **bill.terms}, inputs={**inputs, **bill.inputs}, reference=reference)
    return Certificate(value=value if value == value else 1.0, of=of, measures=measures, **whole._asdict())


def of_posterior(bill: Bill, value: float, risk: float, kl_nats: float, reference: str, **known: float) -> Certificate:
    """The certificate of a risk and a divergence, with ``known`` among both terms and inputs."""
    terms, inputs = {"empirical_risk": risk, **known}, {"risk": risk, "kl_nats": kl_nats, **known}
    return settled(bill, value, terms=terms, inputs=inputs, reference=reference)


def of_people(bill: Bill) -> Bill:
    """The bill of a formula whose records are people."""
    known = declared("records independent", f"the caller of bounds.{bill.name}", "person")
    return bill._replace(hypotheses=merged(bill.hypotheses, (known,)))


def within(bill: Bill, failure_prob: float, **budget: float) -> Bill:
    """The bill as part of a statement that fails with ``failure_prob``, of which ``budget`` names the parts."""
    inputs = {**bill.inputs, "failure_prob": failure_prob}
    return bill._replace(failure_prob=failure_prob, budget=budget, inputs=inputs)


def check_price(price: object) -> None:
    """Refuse what is no price."""
    if not isinstance(price, Price):
        raise ValueError(f"price must be one of bounds.prices, such as Independent(), got {price!r}.")


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
