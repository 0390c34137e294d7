"""The risk of weights as they are, and the formulas at a price under the names that papers and users know.

The sample has n independent records, the loss lies in [0, 1]. ``dp_*`` are for a prior, or for weights, that an
epsilon-DP mechanism released under replace-one adjacency, ``epsilon`` in nats; epsilon = 0 gives a bound for
independent data back, epsilon = inf gives 1. ``private_*`` are for any accounted mechanism: ``privacy`` is the promise
about all that it released; for people as records, n counts people and the promise must be to people. The prior may be
any function of the release, and the posterior may use the examples freely. All other arguments are those of the
formula. Proofs: docs/guarantees.md, "Prices".

Where weights are judged there is no posterior and no divergence, the price alone. A Chernoff bound holds for weights
that do not depend on the sample; for weights that a private mechanism learnt from it, a price takes the place of
ln(1/failure_prob). ``risk`` is R̂(w), the mean loss in [0, 1] of the weights on the n independent examples,
``failure_prob`` the probability over sample and mechanism that a bound fails. Arguments out of range raise ValueError.
Proofs: docs/guarantees.md, "Private weights".
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from math import log, sqrt
from typing import Any

from bounds._arithmetic import log_inverse, outward, total
from bounds._check import count, door
from bounds.certificate import Certificate
from bounds.gibbs_posterior import gibbs_pac_bayes
from bounds.hypotheses import declared_by, merged
from bounds.kl import binary_kl_upper
from bounds.pac_bayes import catoni, langford_seeger, maurer
from bounds.prices import (
    INDEPENDENT,
    Accounted,
    Independent,
    MaxInformation,
    Price,
    Printed2018,
    Sharp,
    billed,
    called,
    of_weights,
    pinsker_value,
    quadratic_value,
    settled,
)
from bounds.privacy import PrivacyClaim
from bounds.reliability import ece_pac_bayes

__all__ = [
    "dp_chernoff",
    "dp_chernoff_2018",
    "dp_ece_pac_bayes",
    "dp_gibbs_pac_bayes",
    "dp_hoeffding",
    "dp_hoeffding_2018",
    "dp_kl_chernoff",
    "dp_pac_bayes",
    "dp_pac_bayes_2018",
    "dp_pac_bayes_max_information",
    "hybrid_pac_bayes",
    "private_catoni",
    "private_ece_pac_bayes",
    "private_kl_chernoff",
    "private_pac_bayes",
]

_REFERENCE = 'docs/guarantees.md, "Private weights"'
Bound = Callable[..., Certificate]


@door()
def kl_chernoff(*, risk: float, n: int, failure_prob: float, price: Price = INDEPENDENT) -> Certificate:
    """R(w) ≤ kl⁻¹(R̂(w), Λ/n), Λ the price.

    Formal guarantee: if w saw none of the n examples, or is a function of what the price's mechanism released about
    them, R(w) ≤ value with probability at least 1 - failure_prob over sample and mechanism, for the one w there is.
    """
    return _priced("kl_chernoff", binary_kl_upper, risk, n, failure_prob, price)


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
        bill._replace(name=name, costs=(), reference="", hypotheses=known),
        value(risk, bar, outward(1.0 / sqrt(n))),
        of="released weights",
        terms={"empirical_risk": risk, "epsilon_bar": bar},
        inputs={"risk": risk},
        reference=f"Dziugaite and Roy, ICML 2018, arXiv 1712.09376, Theorem 4.2 ({part.capitalize()} part)",
    )


def _at(price: type[Price], formula: Bound, says: str) -> Bound:
    """``formula`` at ``price``, whose parameter becomes an argument, under the name that its certificates have."""
    name = called(formula.__name__, price.prefix)
    parameter, kind = ("privacy", PrivacyClaim) if price is Accounted else ("epsilon", float)
    signature = inspect.signature(formula)
    kept = [one for one in signature.parameters.values() if one.name != "price"]
    priced = inspect.Parameter(parameter, inspect.Parameter.KEYWORD_ONLY, annotation=kind)

    def bound(**arguments: Any) -> Certificate:
        if parameter not in arguments:
            raise TypeError(f"{name}() is missing the keyword argument {parameter!r}")
        return formula(price=price(**{parameter: arguments.pop(parameter)}), **arguments)

    bound.__dict__["__signature__"] = signature.replace(parameters=[*kept, priced])
    bound.__name__ = bound.__qualname__ = name
    bound.__doc__ = (
        f"{says}\n\n``{formula.__name__}`` at the price ``{price.__name__}``, where the arguments are explained.\n\n"
        f"Formal guarantee: if prior (or weights) are a function of what a mechanism with this ``{parameter}`` has\n"
        f"released, the bound holds, as there, with probability at least 1 - failure_prob over sample and mechanism.\n"
    )
    return bound


dp_pac_bayes = _at(Sharp, maurer, "The PAC-Bayes-kl bound for an epsilon-DP prior.")
dp_pac_bayes_max_information = _at(
    MaxInformation,
    langford_seeger,
    "The PAC-Bayes-kl bound for an epsilon-DP prior of Dziugaite and Roy (NeurIPS 2018), Theorem 4.2.",
)
dp_pac_bayes_2018 = _at(
    Printed2018,
    langford_seeger,
    "The PAC-Bayes-kl bound for an epsilon-DP prior as the Entropy-SGLD paper (ICML 2018), Theorem 4.3, prints it.",
)
dp_gibbs_pac_bayes = _at(Sharp, gibbs_pac_bayes, "The risk of the exact Gibbs posterior under an epsilon-DP prior.")
dp_ece_pac_bayes = _at(Sharp, ece_pac_bayes, "The ECE from training data, epsilon-DP prior.")
dp_kl_chernoff = _at(Sharp, kl_chernoff, "The risk of weights released by an epsilon-DP mechanism.")
dp_chernoff = _at(Sharp, chernoff, "The explicit form of ``dp_kl_chernoff``.")
dp_hoeffding = _at(
    Sharp, hoeffding, "The linear form of ``dp_kl_chernoff``: R(w) ≤ R̂ + epsilon/4 + √(ln(1/failure_prob)/(2n))."
)
private_pac_bayes = _at(Accounted, maurer, "The PAC-Bayes-kl bound for a prior that a private mechanism released.")
private_catoni = _at(Accounted, catoni, "Catoni's bound for a privately released prior.")
private_kl_chernoff = _at(Accounted, kl_chernoff, "The risk of weights that a private mechanism released.")
private_ece_pac_bayes = _at(Accounted, ece_pac_bayes, "The ECE from training data, any private prior.")


def hybrid_pac_bayes(
    *, risk: float, kl_nats: float, n_bound: int, privacy: PrivacyClaim, failure_prob: float
) -> Certificate:
    """``private_pac_bayes`` for a prior that saw one part of the data freely, and the rest only privately.

        kl(R̂₂(Q)‖R(Q)) ≤ [ KL(Q‖P) + ln ξ(n₂) + Λ ] / n₂,    Λ = ``transfer_cost`` (privacy, n₂, failure_prob)

    Formal guarantee: let P be a function of S₁ and of what a mechanism released whose privacy, for every value of S₁,
    holds for the n₂ = ``n_bound`` records of S₂. Then R(Q) ≤ value for all posteriors Q simultaneously with probability
    at least 1 - failure_prob over samples and mechanism; ``risk`` is the mean loss on S₂ alone.
    """
    count(n_bound=n_bound)
    made = private_pac_bayes(risk=risk, kl_nats=kl_nats, n=n_bound, privacy=privacy, failure_prob=failure_prob)
    known = declared_by("the caller of bounds.printed.hybrid_pac_bayes", "hybrid_pac_bayes", "private_")
    return replace(made, name="hybrid_pac_bayes", hypotheses=merged(known, privacy.hypotheses))
