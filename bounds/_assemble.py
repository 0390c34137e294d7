"""From costs in nats to a Certificate: the step that every bound of the kl family shares."""

import math
from collections.abc import Mapping

from bounds import _check
from bounds._rounding import log_inverse, outward, total
from bounds.certificate import Certificate
from bounds.kl import binary_kl_upper


def posterior_nats(
    risk: float, kl_nats: float, n: int, failure_prob: float, extra: Mapping[str, float]
) -> dict[str, float]:
    """The costs of a bound for all posteriors under an independent prior, its arguments checked."""
    _check.posterior(risk, kl_nats)
    _check.count(n=n)
    _check.open_probability(failure_prob=failure_prob)
    return {"kl_nats": kl_nats, **extra, "confidence_nats": log_inverse(failure_prob)}


def kl_budget(nats: Mapping[str, float], n: int) -> tuple[float, dict[str, float]]:
    """The summed cost per example (nats, rounded up), and the terms that show how it arose.

    Each cost ``x_nats`` is joined by its share ``x_per_example`` = x_nats / n.
    """
    terms = dict(nats)
    for name, cost in nats.items():
        terms[f"{name.removesuffix('_nats')}_per_example"] = cost / n
    terms["total_nats"] = max(0.0, total(*nats.values()))  # the log density at one draw may be negative
    terms["total_per_example"] = outward(terms["total_nats"] / n)
    return terms["total_per_example"], terms


def kl_certificate(
    *,
    name: str,
    risk: float,
    nats: Mapping[str, float],
    n: int,
    failure_prob: float,
    reference: str,
    inputs: Mapping[str, float | int | str],
    budget: Mapping[str, float] | None = None,
    assumptions: tuple[str, ...] = (),
    details: Mapping[str, float] | None = None,
) -> Certificate:
    """R ≤ kl⁻¹(risk, Σ nats / n), as a certificate; optimistic if there are assumptions."""
    per_example, terms = kl_budget(nats, n)
    return Certificate(
        name=name,
        value=float(binary_kl_upper(risk, per_example)),
        failure_prob=failure_prob,
        status="optimistic" if assumptions else "rigorous",
        assumptions=assumptions,
        terms={"empirical_risk": risk, **terms, **(details or {})},
        budget=budget or {"bound": failure_prob},
        reference=reference,
        inputs=inputs,
    )


def catoni_value(risk: float, inverse_temperature: float, nats: float, n: int) -> float:
    """[1 - exp(-(C risk + nats)/n)] / (1 - exp(-C/n)), rounded up, and never below the risk."""
    exponent = total(inverse_temperature * risk, nats) / n
    value = outward(-math.expm1(-outward(exponent)) / -math.expm1(-inverse_temperature / n))
    return max(value, risk)
