"""The risk of weights that were released as they are: no posterior, no divergence, the price alone.

A Chernoff bound holds for weights that do not depend on the sample; for weights that a private mechanism learnt from
it, a price takes the place of ln(1/failure_prob). Arguments out of range raise ValueError. Proofs: docs/guarantees.md,
"Private weights".
"""

import math
from dataclasses import replace

from bounds import _check
from bounds._assemble import Bill, billed, kl_value, quadratic_value
from bounds._rounding import log_inverse, outward, total
from bounds.certificate import Certificate
from bounds.prices import Accounted, Inputs, Price, Printed2018, Sharp
from bounds.privacy import PrivacyClaim

_REFERENCE = 'docs/guarantees.md, "Private weights"'


def kl_chernoff(*, risk: float, n: int, failure_prob: float, price: Price) -> Certificate:
    """The risk of released weights: R(w) ≤ kl⁻¹(R̂(w), Λ/n), Λ the price.

    Formal guarantee: if w is a function of what the price's mechanism released, R(w) ≤ value with probability at least
    1 - failure_prob over sample and mechanism, for the one w that was released.

    Args:
        risk: R̂(w), mean loss in [0, 1] of the released weights on the n examples that the mechanism saw.
        n: number of independent examples.
        failure_prob: probability over sample and mechanism that the bound fails.
        price: what the mechanism promises.
    """
    bill = _billed("kl_chernoff", risk, n, failure_prob, price)
    return _certificate(bill, kl_value(risk, bill.per_example), risk)


def chernoff(*, risk: float, n: int, failure_prob: float, price: Price) -> Certificate:
    """The explicit form of ``kl_chernoff``: R(w) ≤ R̂ + c + √(c² + 2cR̂), c = Λ/n, from kl(q‖p) ≥ (p-q)²/(2p).

    Formal guarantee and arguments: as for ``kl_chernoff``, of which this is a relaxation.
    """
    bill = _billed("chernoff", risk, n, failure_prob, price)
    c = bill.per_example
    return _certificate(bill, quadratic_value(risk, c) if c < 1.0 else 1.0, risk)


def hoeffding(*, risk: float, n: int, failure_prob: float, price: Price) -> Certificate:
    """The linear form of ``kl_chernoff``: R(w) ≤ R̂ + √(Λ/(2n)), by Pinsker's inequality.

    Formal guarantee and arguments: as for ``kl_chernoff``, of which this is a relaxation.
    """
    bill = _billed("hoeffding", risk, n, failure_prob, price)
    return _certificate(bill, total(risk, math.sqrt(bill.per_example / 2.0)), risk)


def dp_kl_chernoff(*, risk: float, n: int, epsilon: float, failure_prob: float) -> Certificate:
    """The risk of private weights: R(w) ≤ kl⁻¹(R̂(w), c), c = (ε/√8 + √(ln(1/failure_prob)/n))².

    Formal guarantee: if A is epsilon-DP under replace-one adjacency, R(w) ≤ value with probability at least
    1 - failure_prob over sample and mechanism, for the one w that was released.

    Args:
        risk: R̂(w), mean loss in [0, 1] of the released weights on the n examples that A saw.
        n: number of independent examples.
        epsilon: replace-one privacy loss of A, in nats.
        failure_prob: probability over sample and mechanism that the bound fails.
    """
    return kl_chernoff(risk=risk, n=n, failure_prob=failure_prob, price=Sharp(epsilon=epsilon))


def dp_chernoff(*, risk: float, n: int, epsilon: float, failure_prob: float) -> Certificate:
    """The explicit form of ``dp_kl_chernoff``: R(w) ≤ R̂ + c + √(c² + 2cR̂).

    Formal guarantee and arguments: as for ``dp_kl_chernoff``, of which this is a relaxation.
    """
    return chernoff(risk=risk, n=n, failure_prob=failure_prob, price=Sharp(epsilon=epsilon))


def dp_hoeffding(*, risk: float, n: int, epsilon: float, failure_prob: float) -> Certificate:
    """The linear form of ``dp_kl_chernoff``: R(w) ≤ R̂ + ε/4 + √(ln(1/failure_prob)/(2n)), which is R̂ + √(Λ/(2n)).

    Formal guarantee and arguments: as for ``dp_kl_chernoff``, of which this is a relaxation.
    """
    return hoeffding(risk=risk, n=n, failure_prob=failure_prob, price=Sharp(epsilon=epsilon))


def private_kl_chernoff(*, risk: float, n: int, privacy: PrivacyClaim, failure_prob: float) -> Certificate:
    """The risk of weights w that a private mechanism released: R(w) ≤ kl⁻¹(R̂(w), Λ/n), Λ = ``transfer_cost`` (...).

    For pure privacy it is ``dp_kl_chernoff``.

    Formal guarantee: if w is a function of what a mechanism with this privacy released, R(w) ≤ value with probability
    at least 1 - failure_prob over sample and mechanism.

    Args:
        risk: R̂(w), mean loss in [0, 1] of the released weights on the n examples that the mechanism saw.
        n: number of independent examples; people, if the promise is to them.
        privacy: what the mechanism promises, about all that it released.
        failure_prob: probability over sample and mechanism that the bound fails.
    """
    return kl_chernoff(risk=risk, n=n, failure_prob=failure_prob, price=Accounted(privacy=privacy))


def dp_hoeffding_2018(*, risk: float, n: int, epsilon: float, failure_prob: float) -> Certificate:
    """As printed in 2018: R(w) ≤ R̂ + ε̄ + n^(-1/2), with ε̄ = max{ε, √(ln(3/failure_prob)/n)}.

    Dziugaite and Roy (ICML 2018), Theorem 4.2, first part; valid and loose (docs/guarantees.md, "Private weights").

    Formal guarantee and arguments: as for ``dp_kl_chernoff``.
    """
    bill, bar = _printed("hoeffding", risk, n, epsilon, failure_prob)
    return _certificate(bill, total(risk, bar, 1.0 / math.sqrt(n)), risk, epsilon_bar=bar)


def dp_chernoff_2018(*, risk: float, n: int, epsilon: float, failure_prob: float) -> Certificate:
    """As printed in 2018: R(w) ≤ R̂ + √(6R̂) (ε̄ + n^(-1/2)) + 6 (ε̄² + 1/n), ε̄ = max{ε, √(ln(3/failure_prob)/n)}.

    Dziugaite and Roy (ICML 2018), Theorem 4.2, second part; valid and loose (docs/guarantees.md, "Private weights").

    Formal guarantee and arguments: as for ``dp_kl_chernoff``.
    """
    bill, bar = _printed("chernoff", risk, n, epsilon, failure_prob)
    slope = 0.0 if risk == 0.0 else math.sqrt(6.0 * risk) * (bar + 1.0 / math.sqrt(n))
    value = total(risk, slope, 6.0 * bar * bar, 6.0 / n) if bar < 1.0 else 1.0
    return _certificate(bill, value, risk, epsilon_bar=bar)


def _billed(formula: str, risk: float, n: int, failure_prob: float, price: Price) -> Bill:
    _check.probability(risk=risk)
    return billed(formula, price, n=n, failure_prob=failure_prob)


def _printed(formula: str, risk: float, n: int, epsilon: float, failure_prob: float) -> tuple[Bill, float]:
    """The paper's own form has its ε̄ in place of a price in nats."""
    price = Printed2018(epsilon=epsilon)
    bill = _billed(formula, risk, n, failure_prob, price)
    log_term = total(math.log(3.0), log_inverse(failure_prob))
    bar = max(epsilon, outward(math.sqrt(log_term / n)))
    reference = f"Dziugaite and Roy, ICML 2018, arXiv 1712.09376, Theorem 4.2 ({formula.capitalize()} part)"
    return replace(bill, name=f"dp_{formula}_2018", costs=(), reference=reference), bar


def _certificate(bill: Bill, value: float, risk: float, **terms: float) -> Certificate:
    inputs: Inputs = {"risk": risk}
    reference = "" if bill.name.endswith("_2018") else _REFERENCE
    return bill.certificate(
        value, of="released weights", terms={"empirical_risk": risk, **terms}, inputs=inputs, reference=reference
    )
