"""What the mutual information between sample and release gives: a bound in expectation, and a weak transfer.

A bound in expectation holds on average over the sample, not for the sample at hand; it is no certificate, and the
type says so.
"""

import math
from dataclasses import dataclass

import numpy as np

from bounds import _check
from bounds._rounding import log_inverse, outward, total
from bounds.hypotheses import Hypothesis
from bounds.privacy import ApproxDP, GaussianDP, PrivacyClaim, PureDP, ZeroConcentratedDP
from bounds.privacy_loss import PrivacyLossDistribution
from bounds.xi import log_xi


@dataclass(frozen=True, slots=True, kw_only=True)
class InExpectation:
    """A bound on an average over samples. It has no failure probability, says nothing of one sample, and is no number.

    Attributes:
        value_nats: at least E[n kl(R̂(Q)‖R(Q)) - KL(Q‖P_Y)], over sample, mechanism and posterior.
        information_nats: at least the mutual information I(S; Y), the part of it that privacy causes.
        name: the function that made it.
        reference: where it is proved.
        hypotheses: what the privacy record rests on besides.
    """

    value_nats: float
    information_nats: float
    name: str
    reference: str
    hypotheses: tuple[Hypothesis, ...] = ()


def in_expectation_nats(*, privacy: PrivacyClaim, n: int) -> InExpectation:
    """E[n kl(R̂(Q)‖R(Q)) - KL(Q‖P_Y)] ≤ ln ξ(n) + I(S; Y), and I(S; Y) by the privacy of the mechanism.

    I(S; Y) ≤ n mu²/2 for mu-GDP, n rho for rho-zCDP, n epsilon²/8 for epsilon-DP under replace-one adjacency (four
    times that under add-remove), and n E_P x for a distribution of the privacy loss x.
    "In expectation" in docs/guarantees.md.

    Formal guarantee: at least that expectation, for every posterior. Of the sample at hand it says nothing.

    Args:
        privacy: what the mechanism promises, about all that it released.
        n: number of independent records that the mechanism may have seen.

    Raises ValueError when the record bounds no mutual information: it has a delta, or a mass at infinity.
    """
    _check.count(n=n)
    information = outward(n * _divergence_nats(privacy))
    return InExpectation(
        value_nats=total(information, log_xi(n)),
        information_nats=information,
        name="in_expectation_nats",
        reference='docs/guarantees.md, "In expectation"',
        hypotheses=privacy.hypotheses,
    )


def markov_transfer_nats(*, information_nats: float, failure_prob: float) -> float:
    """The transfer by Markov's inequality, ln(1/δ₁) + (I + 1/e)/δ₂ nats at the best δ₁ + δ₂ = failure_prob, rounded up.

    "In expectation" in docs/guarantees.md: it takes the place of ``transfer_cost`` where nothing but the mutual
    information I(S; Y) is known.

    Formal guarantee: at least the stated expression, at δ₁ = 2δ²/(2δ + J + √(J² + 4δJ)), J = I + 1/e, δ = failure_prob.

    Args:
        information_nats: I(S; Y) in nats, or a bound on it, as from ``in_expectation_nats``.
        failure_prob: probability that the transferred statement fails.
    """
    _check.nonnegative(information_nats=information_nats)
    _check.open_probability(failure_prob=failure_prob)
    if information_nats > 1e150:
        return math.inf
    charge = total(information_nats, math.exp(-1.0))
    root = math.sqrt(charge * (charge + 4.0 * failure_prob))
    first = 2.0 * failure_prob * failure_prob / (2.0 * failure_prob + charge + root)
    second = math.nextafter(failure_prob - first, 0.0)
    return total(log_inverse(first), charge / second) if first > 0.0 else math.inf


def _divergence_nats(privacy: PrivacyClaim) -> float:
    """KL of the mechanism from its reference, or what stands in for it per record, rounded up."""
    match privacy:
        case PureDP(epsilon=epsilon, adjacency=adjacency):
            epsilon = epsilon if adjacency == "replace-one" else 2.0 * epsilon
            return outward(epsilon * epsilon / 8.0) if epsilon < 1e150 else math.inf
        case GaussianDP(mu=mu):
            return outward(mu * mu / 2.0) if mu < 1e150 else math.inf
        case ZeroConcentratedDP(rho=rho):
            return float(rho)
        case PrivacyLossDistribution(infinity_mass=0.0):
            return _mean_loss(privacy)
        case PrivacyLossDistribution() | ApproxDP():
            raise ValueError(
                f"privacy must bound the mutual information, got {privacy!r}: a delta or a mass at infinity allows a "
                f"release of everything; use transfer_cost, which pays for it in failure probability."
            )
        case _:
            raise ValueError(
                f"privacy must be a privacy record of bounds, got {privacy!r}; of others nothing is proved."
            )


def _mean_loss(privacy: PrivacyLossDistribution) -> float:
    """KL(P‖Q) = E_Q [u ln u + 1 - u], u = e^x, whose terms are not negative."""
    x = privacy.losses
    masses = np.where(x >= 0.0, privacy.with_record, privacy.without_record)
    above = np.maximum(x + np.expm1(-np.abs(x)), 0.0)  # under P
    below = np.maximum(x * np.exp(np.minimum(x, 0.0)) - np.expm1(np.minimum(x, 0.0)), 0.0)  # under Q
    terms = np.where(x >= 0.0, above, below) + 8.0 * 2.0**-52 * np.abs(x)
    return outward(float(np.sum(terms * masses)) * (1.0 + 2.0**-44) + privacy.zero_mass)
