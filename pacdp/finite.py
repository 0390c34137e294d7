"""Certificates of finitely many networks: a random one for every answer, one of them alone, or their vote.

The K networks saw none of the bound's examples; weights π over them are fixed. With k_j errors of network j among n:

    R(Q) ≤ kl⁻¹(Σ q_j k_j/n, [KL(q‖π) + ln ξ(n) + ln(1/δ)]/n)          for all q at once (Maurer 2004),
    R(j) ≤ Clopper-Pearson(k_j, n, δ π_j)                               for all j at once (a union bound).

Both may therefore be used at the q or j that the bound's own examples prefer. No draw is estimated: Σ q_j k_j is
exact. Where q's vote errs, at least half of q errs: its risk is at most 2 R(Q) (Langford and Shawe-Taylor 2002).
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from scipy.optimize import minimize_scalar

import bounds
from pacdp.certify import new_examples_certificate
from pacdp.exponential import log_probabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class FiniteAssessment:
    """Certificates of the ensemble, of one network and of the vote, each by itself."""

    weights: Float64[np.ndarray, " networks"]
    """q, found on the bound's examples."""
    best: int
    """The one network: fewest errors."""
    ensemble: bounds.Certificate
    vote: bounds.Certificate
    one: bounds.Certificate


def assess_finite(
    errors: np.ndarray, *, n: int, failure_prob: float = 0.05,
    weights: Float64[np.ndarray, " networks"] | None = None,
) -> FiniteAssessment:  # fmt: skip
    """Certificates of networks that were learnt without the n examples on which ``errors`` were counted.

    q ∝ π exp(-λ k) with the λ that makes the first bound smallest.

    Formal guarantee: each certificate holds with probability 1 - failure_prob over the n examples, if they are
    independent of one law, and networks and ``weights`` do not depend on them.

    Args:
        errors: counts of each network, as from :func:`pacdp.exponential.error_counts`.
        weights: π; equal by default.

    Raises:
        ValueError: no network, counts outside 0 ... n, weights that are not positive.
    """
    if not np.issubdtype(errors.dtype, np.integer):
        raise ValueError(f"expected whole numbers of errors, got {errors.dtype}: round them up")
    if errors.ndim != 1 or not len(errors) or errors.min() < 0 or errors.max() > n:
        raise ValueError(f"expected counts of 0 to n = {n} errors of at least one network, got {errors!r}")
    base = log_probabilities(errors * 0, epsilon=0.0, weights=weights)

    def at(log_strength: float) -> tuple[Float64[np.ndarray, " networks"], bounds.Certificate]:
        found = base - math.exp(log_strength) * (errors - errors.min())
        q = np.exp(found - np.logaddexp.reduce(found))
        q = q / math.fsum(q)
        return q, _ensemble(q, base, errors, n=n, failure_prob=failure_prob)

    best: Any = minimize_scalar(lambda s: at(s)[1].value, bounds=(-12.0, 4.0), method="bounded")
    q, ensemble = min((at(s) for s in (-700.0, float(best.x), 4.0)), key=lambda pair: pair[1].value)
    vote = replace(
        ensemble, name="vote_" + ensemble.name, value=min(1.0, 2.0 * ensemble.value),
        inputs={**ensemble.inputs, "of": "vote", "measures": "0-1 risk"},
    )  # fmt: skip
    tails = [failure_prob * math.exp(ln) * (1.0 - 1e-12) for ln in base]
    values = [bounds.clopper_pearson_upper(int(k), n, tail) for k, tail in zip(errors, tails, strict=True)]
    chosen = int(np.argmin(values))
    one = new_examples_certificate(int(errors[chosen]), n, failure_prob=tails[chosen])
    one = replace(
        one, name="one_of_finitely_many", failure_prob=failure_prob, budget={"union over networks": failure_prob},
        inputs={**one.inputs, "failure_prob": failure_prob, "networks": len(errors), "of": "best network",
                "measures": "0-1 risk"},
    )  # fmt: skip
    return FiniteAssessment(weights=q, best=chosen, ensemble=ensemble, vote=vote, one=one)


def _ensemble(
    q: Float64[np.ndarray, " networks"], base: Float64[np.ndarray, " networks"], errors: Int64[np.ndarray, " networks"],
    *, n: int, failure_prob: float,
) -> bounds.Certificate:  # fmt: skip
    used = q > 0
    kl_nats = math.fsum(q[used] * (np.log(q[used]) - base[used]))
    kl_nats = max(0.0, kl_nats) + 1e-12 * (1.0 + abs(kl_nats)) + len(q) * 1e-15  # sums and logarithms of doubles
    risk = min(1.0, math.fsum(q * errors) / n * (1.0 + 1e-12))
    made = bounds.maurer(risk=risk, kl_nats=kl_nats, n=n, failure_prob=failure_prob)
    return replace(made, name="finite_ensemble", inputs={**made.inputs, "of": "ensemble", "measures": "0-1 risk"})
