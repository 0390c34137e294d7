"""The risk of weights as they are: no posterior, no divergence, the price alone.

A Chernoff bound holds for weights that do not depend on the sample; for weights that a private mechanism learnt from
it, a price takes the place of ln(1/failure_prob). ``risk`` is R̂(w), the mean loss in [0, 1] of the weights on the n
independent examples, ``failure_prob`` the probability over sample and mechanism that a bound fails. Arguments out of
range raise ValueError. Proofs: docs/guarantees.md, "Private weights".
"""

from collections.abc import Callable
from dataclasses import replace
from math import log, sqrt

from bounds._assemble import billed, kl_value, pinsker_value, quadratic_value, settled
from bounds._check import door
from bounds._rounding import log_inverse, outward, total
from bounds.certificate import Certificate
from bounds.needs import declared_by
from bounds.prices import INDEPENDENT, Independent, Price, Printed2018, of_weights

_REFERENCE = 'docs/guarantees.md, "Private weights"'


@door()
def kl_chernoff(*, risk: float, n: int, failure_prob: float, price: Price = INDEPENDENT) -> Certificate:
    """R(w) ≤ kl⁻¹(R̂(w), Λ/n), Λ the price.

    Formal guarantee: if w saw none of the n examples, or is a function of what the price's mechanism released about
    them, R(w) ≤ value with probability at least 1 - failure_prob over sample and mechanism, for the one w there is.
    """
    return _priced("kl_chernoff", kl_value, risk, n, failure_prob, price)


@door()
def chernoff(*, risk: float, n: int, failure_prob: float, price: Price = INDEPENDENT) -> Certificate:
    """The explicit form of ``kl_chernoff``: R(w) ≤ R̂ + c + √(c² + 2cR̂), c = Λ/n, from kl(q‖p) ≥ (p-q)²/(2p).

    Formal guarantee: as for ``kl_chernoff``, of which this is a relaxation.
    """
    return _priced("chernoff", quadratic_value, risk, n, failure_prob, price)


@door()
def hoeffding(*, risk: float, n: int, failure_prob: float, price: Price = INDEPENDENT) -> Certificate:
    """The linear form of ``kl_chernoff``: R(w) ≤ R̂ + √(Λ/(2n)), by Pinsker's inequality.

    Formal guarantee: as for ``kl_chernoff``, of which this is a relaxation.
    """
    return _priced("hoeffding", pinsker_value, risk, n, failure_prob, price)


@door()
def dp_hoeffding_2018(*, risk: float, n: int, epsilon: float, failure_prob: float) -> Certificate:
    """As printed in 2018: R(w) ≤ R̂ + ε̄ + n^(-1/2), with ε̄ = max{ε, √(ln(3/failure_prob)/n)}.

    Dziugaite and Roy (ICML 2018), "Entropy-SGD optimizes the prior of a PAC-Bayes bound", Theorem 4.2, first part;
    valid and loose (docs/guarantees.md, "Private weights").

    Formal guarantee: as for ``dp_kl_chernoff``.
    """
    return _printed("hoeffding", total, risk, n, epsilon, failure_prob)


@door()
def dp_chernoff_2018(*, risk: float, n: int, epsilon: float, failure_prob: float) -> Certificate:
    """As printed in 2018: R(w) ≤ R̂ + √(6R̂) (ε̄ + n^(-1/2)) + 6 (ε̄² + 1/n), ε̄ = max{ε, √(ln(3/failure_prob)/n)}.

    Dziugaite and Roy (ICML 2018), Theorem 4.2, second part; valid and loose (docs/guarantees.md, "Private weights").

    Formal guarantee: as for ``dp_kl_chernoff``.
    """

    def value(r: float, bar: float, root: float) -> float:
        return total(r, sqrt(6.0 * r) * (bar + root), 6.0 * bar * bar, 6.0 * root * root) if bar < 1.0 else 1.0

    return _printed("chernoff", value, risk, n, epsilon, failure_prob)


def _priced(
    formula: str, value: Callable[[float, float], float], risk: float, n: int, failure_prob: float, price: Price
) -> Certificate:
    """``value`` of the risk and the price per example."""
    bill = billed(formula, of_weights(price), n, failure_prob)
    return settled(
        bill,
        value(risk, bill.total_per_example),
        of="weights" if isinstance(price, Independent) else "released weights",
        terms={"empirical_risk": risk},
        inputs={"risk": risk},
        reference=_REFERENCE,
    )


def _printed(
    part: str, value: Callable[[float, float, float], float], risk: float, n: int, epsilon: float, failure_prob: float
) -> Certificate:
    """``value`` of the risk, ε̄ and n^(-1/2); ε̄ is in the place of a price in nats, so that there are no costs."""
    bill, name = billed(part, Printed2018(epsilon=epsilon), n, failure_prob), f"dp_{part}_2018"
    bar = max(epsilon, outward(sqrt(total(log(3.0), log_inverse(failure_prob)) / n)))
    known = declared_by(f"the caller of bounds.{name}", name)
    return settled(
        replace(bill, name=name, costs=(), reference="", hypotheses=known),
        value(risk, bar, outward(1.0 / sqrt(n))),
        of="released weights",
        terms={"empirical_risk": risk, "epsilon_bar": bar},
        inputs={"risk": risk},
        reference=f"Dziugaite and Roy, ICML 2018, arXiv 1712.09376, Theorem 4.2 ({part.capitalize()} part)",
    )
