"""Recursive PAC-Bayes: a chain of posteriors, each the prior of the next, without giving up any of the data."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bounds import _check
from bounds._assemble import kl_budget, posterior_nats
from bounds._rounding import outward
from bounds.certificate import Certificate
from bounds.kl import binary_kl_upper
from bounds.pac_bayes import log_xi
from bounds.refined import check_shares, split_value


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcessStep:
    """What is measured of posterior π_t against its predecessor, on examples that the predecessor has not seen.

    The excess loss is f = ℓ(w, z) - γ ℓ(w', z) with w ~ π_t and w' ~ π_(t-1) drawn independently, ℓ the 0-1 loss.

    Attributes:
        shares: how often f ≥ 0, f ≥ 1 - γ and f ≥ 1: means over the n examples and both draws.
        kl_nats: KL(π_t‖π_(t-1)) in nats.
        n: number of those examples.
    """

    shares: tuple[float, float, float]
    kl_nats: float
    n: int


def recursive(
    *, risk: float, kl_nats: float, n: int, steps: Sequence[ExcessStep], gamma: float, failure_prob: float
) -> Certificate:
    """The Recursive PAC-Bayes bound on R(π_T) for posteriors π_1, ..., π_T trained on ever more of the sample.

        B_1 = kl⁻¹(R̂(π_1), [KL(π_1‖π_0) + ln ξ(n) + ln(T/δ)] / n)
        E_t = -γ + Σ_{j=1..3} (b_j - b_(j-1)) kl⁻¹(share_tj, [KL(π_t‖π_(t-1)) + ln ξ(n_t) + ln(3T/δ)] / n_t)
        B_t = E_t + γ B_(t-1),    (b_0, ..., b_3) = (-γ, 0, 1-γ, 1),    δ = failure_prob

    Wu, Zhang, Chérief-Abdellatif and Seldin, NeurIPS 2024, "Recursive PAC-Bayes", with ξ(n) ≤ 2√n.

    Formal guarantee: let the sample be cut into T parts beforehand, π_t be any function of the first t parts (and π_0
    of none), R̂(π_1) be measured on all n examples and the shares of step t on the n_t examples outside the first t - 1
    parts. Then R(π_T) ≤ value for the 0-1 loss, with probability at least 1 - failure_prob. γ must be fixed beforehand.
    ("Recursive PAC-Bayes" in docs/guarantees.md.)

    Args:
        risk: R̂(π_1) in [0, 1], on all n examples.
        kl_nats: KL(π_1‖π_0) in nats.
        n: number of independent examples, in all parts.
        steps: one for each of π_2, ..., π_T; none makes this ``maurer``.
        gamma: weight of the predecessor's loss, strictly between 0 and 1; 0.5 in the paper.
        failure_prob: probability over the sample that the bound fails.
    """
    _check.open_probability(gamma=gamma)
    count = len(steps) + 1
    union = outward(math.log(count))
    per_example, first = kl_budget(posterior_nats(risk, kl_nats, n, failure_prob, _extra(n, union)), n)
    bound = float(binary_kl_upper(risk, per_example))
    terms: dict[str, float] = {"empirical_risk": risk, **first, "bound_1": bound}
    inputs: dict[str, float | int | str] = {"risk": risk, "kl_nats": kl_nats, "n": n, "gamma": gamma}
    earlier = n
    for t, step in enumerate(steps, start=2):
        check_shares(step.shares, 3)
        if not 1 <= step.n < earlier:
            raise ValueError(f"steps must have fewer examples each than before, got {step.n!r} after {earlier}.")
        earlier = step.n
        nats = posterior_nats(0.0, step.kl_nats, step.n, failure_prob, _extra(step.n, outward(math.log(3.0 * count))))
        per_example, costs = kl_budget(nats, step.n)
        excess = split_value((-gamma, 0.0, 1.0 - gamma, 1.0), step.shares, per_example)
        bound = min(1.0, max(0.0, math.nextafter(math.fsum((excess, outward(gamma * bound))), math.inf)))
        terms |= {f"{name}_{t}": cost for name, cost in costs.items()}
        terms |= {f"excess_{t}": excess, f"bound_{t}": bound}
        inputs |= {f"share_{t}_{j}": share for j, share in enumerate(step.shares, start=1)}
        inputs |= {f"kl_nats_{t}": step.kl_nats, f"n_{t}": step.n}
    return Certificate(
        name="recursive",
        value=bound,
        failure_prob=failure_prob,
        status="rigorous",
        terms=terms,
        budget={"bound": failure_prob},
        reference="Wu, Zhang, Cherief-Abdellatif and Seldin, NeurIPS 2024, arXiv 2405.14681; Maurer 2004",
        inputs={**inputs, "failure_prob": failure_prob},
    )


def _extra(n: int, union: float) -> Mapping[str, float]:
    return {"log_xi_nats": log_xi(n), "union_nats": union}
