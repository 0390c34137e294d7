"""Prices: what takes the place of ln(1/failure_prob) in a bound, by where its prior came from.

A bound of this package is proved for a prior that does not depend on the sample: it says that some f(y, S) with
E_S exp f(y, S) ≤ 1 for every fixed y exceeds ln(1/failure_prob) with probability at most failure_prob. When y is
released by a mechanism that saw the same sample, a theorem about the mechanism gives the number Λ that f(Y, S) exceeds
with probability at most failure_prob. That number is the price; every formula takes one as ``price``. Proofs:
docs/guarantees.md, "Prices".
"""

from collections.abc import Mapping
from math import expm1, log, sqrt
from typing import Any, ClassVar, NamedTuple

from bounds import _check
from bounds._arithmetic import inward, log_inverse, outward, total
from bounds._check import door
from bounds.certificate import Certificate, Cost, costs_of, total_of
from bounds.hypotheses import Hypothesis, declared, declared_by, merged
from bounds.privacy import PrivacyClaim, PrivacyLossDistribution
from bounds.record import record
from bounds.transfer import Charge, checked, range_nats, transfer_cost

Inputs = Mapping[str, float | int | str]


class Price:
    """What a formula asks of a price; each kind is a frozen record.

    Attributes:
        prefix: begins the name of a certificate at this price, and says what it needs in ``bounds.hypotheses.NEEDS``;
            empty for an independent prior.
        reference: where it is proved; empty for an independent prior, whose formula is proved as it stands.
        measured: whether Λ was measured on the sample. It then bounds f(Y, S) for an f that is fixed, but not an event
            that is itself defined by Λ, and nothing may be chosen by it.
        pays_for_a_draw: whether it bounds an exponential moment of f of order at most one, which by Jensen's
            inequality pays for one draw of a posterior too.
    """

    __slots__ = ()
    prefix: ClassVar[str]
    reference: ClassVar[str]
    measured = False
    pays_for_a_draw = False

    @property
    def known(self) -> tuple[Hypothesis, ...]:
        """Hypotheses whose standing the price itself knows."""
        return ()

    @property
    def inputs(self) -> Inputs:
        """The parameters of the price, for the inputs of a certificate."""
        return {}

    @door()
    def charge(self, *, n: int, failure_prob: float) -> Charge:
        """Λ for n independent records. Raises ValueError when an argument is out of range."""
        return self._charge(n, failure_prob)

    def _charge(self, n: int, failure_prob: float) -> Charge:
        return Charge(nats=self._nats(n, failure_prob), budget={"bound": failure_prob})

    def _nats(self, n: int, failure_prob: float) -> float:
        """Λ, rounded up."""
        raise NotImplementedError


@record
class Independent(Price):
    """ln(1/failure_prob): the prior was fixed before the sample was seen."""

    prefix = ""
    reference = ""
    pays_for_a_draw = True

    def _charge(self, n: int, failure_prob: float) -> Charge:
        return Charge(name="confidence", nats=log_inverse(failure_prob), budget={"bound": failure_prob})


@record
class _Pure(Price):
    """A price for a prior that an epsilon-DP mechanism (replace-one adjacency) released.

    The privacy loss ``epsilon``, in nats, is 0 or more; at 0 the price is ln(1/failure_prob) or more, at infinity
    infinite.
    """

    epsilon: float

    def __post_init__(self) -> None:
        _check.fields(self)

    @property
    def inputs(self) -> Inputs:
        """The privacy loss."""
        return {"epsilon": self.epsilon}


@record
class Sharp(_Pure):
    """The sharp transfer, (√ln(1/failure_prob) + epsilon √(n/8))² nats.

    "Sharp pure-DP transfer" in docs/guarantees.md: if E_S exp f(y, S) ≤ 1 for every fixed y, and Y is released by an
    epsilon-DP mechanism that saw S, then f(Y, S) exceeds this with probability at most ``failure_prob``. It is 20.787
    nats at n = 60000, epsilon = 8/√n, failure_prob = 0.05.
    """

    prefix = "dp_"
    reference = 'docs/guarantees.md, "Sharp pure-DP transfer"'

    def _nats(self, n: int, failure_prob: float) -> float:
        return range_nats(self.epsilon, n, failure_prob)


@record
class MaxInformation(_Pure):
    """The transfer by max-information, ln(2/δ) + n ε²/2 + ε √(n ln(4/δ)/2) nats with δ = failure_prob.

    Dwork et al. (NeurIPS 2015), "Generalization in adaptive data analysis and holdout reuse", Theorem 20 (an
    epsilon-DP mechanism on n independent records has β-approximate max-information at most
    n ε²/2 + ε √(n ln(2/β)/2) nats), with β = δ/2, as used by Dziugaite and Roy (NeurIPS 2018). It is 47.531 nats at
    n = 60000, epsilon = 8/√n, failure_prob = 0.05.
    """

    prefix = "max_information_"
    reference = "Dziugaite and Roy, NeurIPS 2018, arXiv 1802.09583, Theorem 4.2"

    def _nats(self, n: int, failure_prob: float) -> float:
        epsilon, confidence = self.epsilon, log_inverse(failure_prob)
        information = epsilon * sqrt(n * total(log(4.0), confidence) / 2.0)
        return total(log(2.0), confidence, outward(n * epsilon * epsilon) / 2.0, information)


@record
class Printed2018(_Pure):
    """The transfer of the Entropy-SGLD paper, 2 max{ln(3/failure_prob), n epsilon²} nats.

    Dziugaite and Roy (ICML 2018), Theorem 4.3, from Dwork et al. (STOC 2015), Theorem 11: an event of probability at
    most β for every fixed y has probability at most 3√β for the released one if epsilon ≤ √(ln(1/β)/(2n)). It is 128
    nats at n = 60000, epsilon = 8/√n, failure_prob = 0.05.
    """

    prefix = "printed_2018_"
    reference = "Dziugaite and Roy, ICML 2018, arXiv 1712.09376, Theorem 4.3"

    def _nats(self, n: int, failure_prob: float) -> float:
        return outward(2.0 * max(total(log(3.0), log_inverse(failure_prob)), outward(n * self.epsilon * self.epsilon)))


@record
class Accounted(Price):
    """``transfer_cost`` of what an accounted mechanism promises about all that it released.

    Attributes:
        privacy: the promise; for people as records, that of a mechanism with people as its unit.
    """

    privacy: PrivacyClaim

    prefix = "private_"
    reference = 'docs/guarantees.md, "General transfer"'

    def __post_init__(self) -> None:
        checked(self.privacy)

    @property
    def known(self) -> tuple[Hypothesis, ...]:
        """What the promise itself rests on."""
        return self.privacy.hypotheses

    @property
    def inputs(self) -> Inputs:
        """The promise in numbers and words; the masses of a distribution by their digest."""
        record: dict[str, Any] = dict(self.privacy.to_dict())
        if isinstance(self.privacy, PrivacyLossDistribution):
            del record["with_record"], record["without_record"]
            record["digest"] = self.privacy.digest
        return {f"privacy_{name}": value for name, value in record.items()}

    def _charge(self, n: int, failure_prob: float) -> Charge:
        return transfer_cost(privacy=self.privacy, n=n, failure_prob=failure_prob)


INDEPENDENT = Independent()


def of_weights(price: Price) -> Price:
    """The price where weights are judged and no prior enters.

    Raises ValueError for a price that was measured on the sample: the event that weights fail would depend on it.
    """
    if isinstance(price, Price) and price.measured:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(
            f"price must not be measured on the sample where no prior enters, got {type(price).__name__}; use a "
            f"formula with a prior at kl_nats=0, such as maurer, which costs log_xi(n) nats besides."
        )
    return price


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
