"""The formulas at a price under the names that papers and users know.

The sample has n independent records, the loss lies in [0, 1]. ``dp_*`` are for a prior, or for weights, that an
epsilon-DP mechanism released under replace-one adjacency, ``epsilon`` in nats; epsilon = 0 gives a bound for
independent data back, epsilon = inf gives 1. ``private_*`` are for any accounted mechanism: ``privacy`` is the promise
about all that it released; for people as records, n counts people and the promise must be to people. The prior may be
any function of the release, and the posterior may use the examples freely. All other arguments are those of the
formula. Proofs: docs/guarantees.md, "Prices".
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bounds._assemble import called
from bounds._check import count
from bounds.certificate import Certificate
from bounds.gibbs_posterior import gibbs_pac_bayes
from bounds.hypotheses import merged
from bounds.needs import declared_by
from bounds.pac_bayes import catoni, langford_seeger, maurer
from bounds.prices import Accounted, MaxInformation, Price, Printed2018, Sharp
from bounds.privacy import PrivacyClaim
from bounds.released import chernoff, hoeffding, kl_chernoff
from bounds.released import dp_chernoff_2018 as dp_chernoff_2018
from bounds.released import dp_hoeffding_2018 as dp_hoeffding_2018
from bounds.reliability import ece_pac_bayes

Bound = Callable[..., Certificate]


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
