"""From a price and the costs of a formula to a Certificate: the step that every bound shares."""

import math
from collections.abc import Mapping
from dataclasses import replace

from bounds._rounding import inward, outward, total
from bounds.certificate import Certificate, Cost, costs_of, total_of
from bounds.hypotheses import Hypothesis, declared, merged
from bounds.kl import binary_kl_upper
from bounds.needs import declared_by
from bounds.prices import Inputs, Price
from bounds.record import record

# Names that papers and users know, in place of a price's prefix before the name of a formula.
_NAMES = {
    "max_information_langford_seeger": "dp_pac_bayes_max_information",
    "printed_2018_langford_seeger": "dp_pac_bayes_2018",
    "dp_maurer": "dp_pac_bayes",
    "private_maurer": "private_pac_bayes",
    "max_information_maurer": "max_information_pac_bayes",
    "printed_2018_maurer": "printed_2018_pac_bayes",
}


@record
class Bill:
    """What a certificate takes from its price: everything but its value and what the formula adds.

    ``costs`` are those of the formula, then that of the price, and ``per_example`` their sum per record, rounded up.
    ``inputs`` are n, failure_prob and the parameters of the price; ``terms`` say where the optimum of the price lies.
    """

    name: str
    costs: tuple[Cost, ...]
    per_example: float
    failure_prob: float
    budget: Mapping[str, float]
    terms: Mapping[str, float]
    inputs: Inputs
    hypotheses: tuple[Hypothesis, ...]
    reference: str

    @property
    def total_nats(self) -> float:
        """The costs added up, rounded up."""
        return total_of(cost.nats for cost in self.costs)

    def of_posterior(self, value: float, risk: float, kl_nats: float, reference: str, **known: float) -> Certificate:
        """The certificate of a risk and a divergence, with ``known`` among both terms and inputs."""
        terms, inputs = {"empirical_risk": risk, **known}, {"risk": risk, "kl_nats": kl_nats, **known}
        return self.certificate(value, terms=terms, inputs=inputs, reference=reference)

    def resting_on(self, *known: Hypothesis) -> "Bill":
        """The bill with these hypotheses in the place of those of their names, and beside the others."""
        return replace(self, hypotheses=merged(self.hypotheses, known))

    def of_people(self) -> "Bill":
        """The bill of a formula whose records are people."""
        return self.resting_on(declared("records independent", f"the caller of bounds.{self.name}", "person"))

    def within(self, failure_prob: float, **budget: float) -> "Bill":
        """The bill as part of a statement that fails with ``failure_prob``, of which ``budget`` names the parts."""
        inputs = {**self.inputs, "failure_prob": failure_prob}
        return replace(self, failure_prob=failure_prob, budget=budget, inputs=inputs)

    def certificate(
        self,
        value: float,
        *,
        of: str = "randomised",
        measures: str = "risk",
        terms: Mapping[str, float],
        inputs: Inputs,
        reference: str,
    ) -> Certificate:
        """The certificate of this value, with the formula's own terms, inputs and reference; 1 where none is left."""
        return Certificate(
            name=self.name,
            value=value if value == value else 1.0,
            failure_prob=self.failure_prob,
            of=of,
            measures=measures,
            hypotheses=self.hypotheses,
            costs=self.costs,
            terms={**terms, **self.terms},
            budget=self.budget,
            reference="; ".join(part for part in (reference, self.reference) if part),
            inputs={**inputs, **self.inputs},
        )


def called(formula: str, prefix: str) -> str:
    """The name of the certificates of a formula at the price of this prefix."""
    return _NAMES.get(prefix + formula, prefix + formula)


def billed(formula: str, price: Price, *, n: int, failure_prob: float, **nats: float) -> Bill:
    """The bill of ``formula`` at ``price``: its own costs in ``nats`` by name, and the price for n records."""
    check_price(price)
    charge = price.charge(n=n, failure_prob=failure_prob)
    n, failure_prob = int(n), float(failure_prob)
    costs = costs_of({**nats, charge.name: charge.nats}, n)
    name = called(formula, price.prefix)
    return Bill(
        name=name,
        costs=costs,
        per_example=total_of(cost.per_example for cost in costs),
        failure_prob=failure_prob,
        budget=charge.budget,
        terms=charge.terms,
        inputs={"n": n, "failure_prob": failure_prob, **price.inputs},
        hypotheses=merged(declared_by(f"the caller of bounds.{name}", formula, price.prefix), price.known),
        reference=price.reference,
    )


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
    return max(risk, outward(-math.expm1(-exponent) / inward(-math.expm1(-inward(scale)))))


def quadratic_value(risk: float, c: float) -> float:
    """risk + c + √(c² + 2c risk) = (√(risk + c/2) + √(c/2))², rounded up."""
    return total(risk, c, math.sqrt(c) * math.sqrt(c + 2.0 * risk))


def pinsker_value(risk: float, c: float) -> float:
    """risk + √(c/2), rounded up."""
    return total(risk, math.sqrt(c / 2.0))
