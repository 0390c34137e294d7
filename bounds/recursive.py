"""Recursive PAC-Bayes: a chain of posteriors, each the prior of the next, without giving up any of the data."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bounds import _check
from bounds._assemble import billed, kl_value
from bounds._rounding import outward
from bounds.certificate import Certificate
from bounds.prices import INDEPENDENT, Price
from bounds.refined import checked_shares, split_value
from bounds.xi import log_xi


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcessStep:
    """What is measured of posterior π_t against its predecessor, on examples that the predecessor has not seen.

    The excess loss is f = ℓ(w, z) - γ ℓ(w', z) with w ~ π_t and w' ~ π_(t-1) drawn independently, ℓ the 0-1 loss.

    Attributes:
        shares: how often f ≥ 0, f ≥ 1 - γ and f ≥ 1: means over the n examples and both draws.
        kl_nats: KL(π_t‖π_(t-1)) in nats.
        n: number of those examples.

    Raises ValueError when a number is out of range.
    """

    shares: tuple[float, float, float]
    kl_nats: float
    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "shares", checked_shares(self.shares, 3))
        object.__setattr__(self, "kl_nats", _check.posterior(0.0, self.kl_nats)[1])
        _check.count(n=self.n)


def recursive(
    *,
    risk: float,
    kl_nats: float,
    n: int,
    steps: Sequence[ExcessStep],
    gamma: float,
    failure_prob: float,
    price: Price = INDEPENDENT,
) -> Certificate:
    """The Recursive PAC-Bayes bound on R(π_T) for posteriors π_1, ..., π_T trained on ever more of the sample.

        B_1 = kl⁻¹(R̂(π_1), [KL(π_1‖π_0) + ln ξ(n) + Λ(n)] / n)
        E_t = -γ + Σ_{j=1..3} (b_j - b_(j-1)) kl⁻¹(share_tj, [KL(π_t‖π_(t-1)) + ln ξ(n_t) + ln 3 + Λ(n_t)] / n_t)
        B_t = E_t + γ B_(t-1),    (b_0, ..., b_3) = (-γ, 0, 1-γ, 1)

    with Λ the price at failure_prob/T, ln(T/failure_prob) for an independent π_0. At another price π_0 may be a
    function of a private release that saw all n examples, and π_t of that release too: given the earlier parts, the
    mechanism is private for the n_t examples of step t ("Recursive PAC-Bayes" in docs/guarantees.md). The costs of the
    certificate are those of B_1; those of the later steps are among its terms.

    Wu, Zhang, Chérief-Abdellatif and Seldin, NeurIPS 2024, "Recursive PAC-Bayes", with ξ(n) ≤ 2√n.

    Formal guarantee: let the sample be cut into T parts beforehand, π_t be any function of the first t parts (and π_0
    of none), R̂(π_1) be measured on all n examples and the shares of step t on the n_t examples outside the first t - 1
    parts. Then R(π_T) ≤ value for the 0-1 loss, with probability at least 1 - failure_prob. γ must be fixed beforehand.

    Args:
        risk: R̂(π_1) in [0, 1], on all n examples.
        kl_nats: KL(π_1‖π_0) in nats.
        n: number of independent examples, in all parts.
        steps: one for each of π_2, ..., π_T; none makes this ``maurer``.
        gamma: weight of the predecessor's loss, strictly between 0 and 1; 0.5 in the paper.
        failure_prob: probability over the sample that the bound fails.
        price: where π_0 came from.
    """
    _check.open_probability(gamma=gamma, failure_prob=failure_prob)
    risk, kl_nats = _check.posterior(risk, kl_nats)
    steps, gamma, whole = _check.records("steps", steps, ExcessStep), float(gamma), float(failure_prob)
    each = math.nextafter(whole / (len(steps) + 1), 0.0) if steps else whole
    if not each > 0.0:
        raise ValueError(
            f"failure_prob must be enough for {len(steps) + 1} statements, got {whole!r}; pass a larger one."
        )
    bill = billed("recursive", price, n=n, failure_prob=each, kl=kl_nats, log_xi=log_xi(n))
    bound = kl_value(risk, bill.per_example)
    terms: dict[str, float] = {"empirical_risk": risk, "bound_1": bound, **bill.terms}
    inputs: dict[str, float | int | str] = {"risk": risk, "kl_nats": kl_nats, "gamma": gamma}
    union, earlier = outward(math.log(3.0)), n
    for t, step in enumerate(steps, start=2):
        if not step.n < earlier:
            raise ValueError(f"steps must have fewer examples each than before, got {step.n!r} after {earlier}.")
        earlier = step.n
        later = billed(
            "recursive", price, n=step.n, failure_prob=each, kl=step.kl_nats, log_xi=log_xi(step.n), levels=union
        )
        excess = split_value((-gamma, 0.0, 1.0 - gamma, 1.0), step.shares, later.per_example)
        bound = min(1.0, max(0.0, math.nextafter(math.fsum((excess, outward(gamma * bound))), math.inf)))
        terms |= {f"{cost.name}_nats_{t}": cost.nats for cost in later.costs}
        terms |= {f"{name}_{t}": term for name, term in later.terms.items()}
        terms |= {f"total_per_example_{t}": later.per_example, f"excess_{t}": excess, f"bound_{t}": bound}
        inputs |= {f"share_{t}_{j}": share for j, share in enumerate(step.shares, start=1)}
        inputs |= {f"kl_nats_{t}": step.kl_nats, f"n_{t}": step.n}
    inputs |= {**bill.inputs, "failure_prob": whole}
    bill = replace(bill, failure_prob=whole, budget={"bound": whole}, terms={}, inputs=inputs)
    return bill.certificate(
        bound,
        terms=terms,
        inputs={},
        reference="Wu, Zhang, Cherief-Abdellatif and Seldin, NeurIPS 2024, arXiv 2405.14681; Maurer 2004",
    )
