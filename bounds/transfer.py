"""What it costs to use a statement proved for a fixed prior, or fixed weights, at a privately released one.

``transfer_cost`` gives the nats that take the place of ln(1/failure_prob), for every notion of privacy in this package.
α, the level a and the split of the failure probability come from a numerical search that sees privacy, n and
failure_prob alone; what is returned is the theorem evaluated at that choice, rounded up. Mutual information gives less:
a bound in expectation, which holds on average over samples, not for the one at hand, and is no certificate, and a weak
transfer. Proofs: docs/guarantees.md.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Never

import numpy as np

from bounds import _check
from bounds._losses import ConcentratedLoss, GaussianLoss, from_approximate, from_distribution
from bounds._rounding import log_inverse, outward, total
from bounds._transfer_search import TransferCost, search, settled
from bounds.hypotheses import Hypothesis
from bounds.privacy import ApproxDP, GaussianDP, PrivacyClaim, PureDP, ZeroConcentratedDP
from bounds.privacy_loss import PrivacyLossDistribution
from bounds.pure_transfer import max_information_nats as max_information_nats
from bounds.pure_transfer import transfer_nats as transfer_nats
from bounds.xi import log_xi

Claim = PureDP | ApproxDP | GaussianDP | ZeroConcentratedDP | PrivacyLossDistribution

_SMALLEST_MU = 1e-12  # below it squares lose digits; rounding a guarantee up is sound
_LARGEST = 1e300  # beyond it, at the latest, nothing is promised


def transfer_cost(*, privacy: PrivacyClaim, n: int, failure_prob: float) -> TransferCost:
    """The cost of the general transfer, Λ = n (a + H_α(a)/δ₂) + α/(α-1) ln(1/δ₁), rounded up.

    "General transfer" in docs/guarantees.md: if E_S exp f(y, S) ≤ 1 for every fixed y, and a mechanism that saw S
    released Y, then f(Y, S) ≤ Λ except with probability δ₁ + δ₂, plus what losses without a bound cost. H_α(a) is the
    largest f-divergence E (ζ_α(x) - a)^+ of the mechanism from itself without one record, x their privacy loss. A pure
    guarantee uses ``transfer_nats`` instead, at 2 epsilon if it is for add-remove adjacency.

    Formal guarantee: at least the theorem's expression at the alpha, a and split that are returned, whose parts sum to
    at most ``failure_prob``; the choice depends on nothing but the arguments. 532 nats for mu = 0.05 at n = 60000 and
    failure_prob = 0.05.

    ``privacy`` is about all that the mechanism released together (see ``max_information_composition``); n counts the
    independent records that it may have seen.

    Raises ValueError when an argument is out of range, or when n times the probability of a loss without a bound
    (delta, or the mass at infinity) leaves nothing of the failure probability.
    """
    _check.count(n=n)
    _check.open_probability(failure_prob=failure_prob)
    return _cost(checked(privacy), int(n), float(failure_prob))


def checked(privacy: object) -> Claim:
    """``privacy``, if it is a promise that something is proved of."""
    if not isinstance(privacy, Claim):
        raise ValueError(
            f"privacy must be a privacy record (PureDP, ApproxDP, GaussianDP, ZeroConcentratedDP or "
            f"PrivacyLossDistribution), got {privacy!r}; nothing is proved of other mechanisms, so split the data."
        )
    return privacy


@lru_cache(maxsize=128)
def _cost(privacy: Claim, n: int, failure_prob: float) -> TransferCost:
    match privacy:
        case PureDP() | ApproxDP(delta=0.0):
            return _pure(privacy, n, failure_prob)
        case GaussianDP(mu=0.0) | ZeroConcentratedDP(rho=0.0):
            return settled(log_inverse(failure_prob), math.inf, 0.0, failure_prob)
        case GaussianDP(mu=size) | ZeroConcentratedDP(rho=size) | ApproxDP(epsilon=size) if size > _LARGEST:
            return settled(math.inf, math.inf, math.inf, failure_prob)
        case GaussianDP(mu=mu):
            law = GaussianLoss(max(float(mu), _SMALLEST_MU))
        case ZeroConcentratedDP(rho=rho):
            law = ConcentratedLoss(max(outward(math.sqrt(2.0 * rho)), _SMALLEST_MU))
        case ApproxDP():
            law = from_approximate(privacy)
        case PrivacyLossDistribution():
            law = from_distribution(privacy)
    if n * law.infinity_mass >= failure_prob:
        raise ValueError(
            f"privacy must bound the loss of a record except with probability below failure_prob / n = "
            f"{failure_prob / n:.3g}, got {law.infinity_mass:.3g} (its delta or mass at infinity), and nothing "
            f"rigorous is known beyond; pass a smaller delta, or a GaussianDP or PrivacyLossDistribution."
        )
    return search(law, n, failure_prob)


def _pure(privacy: PureDP | ApproxDP, n: int, failure_prob: float) -> TransferCost:
    epsilon = _of_replacement(privacy)
    nats = transfer_nats(epsilon=epsilon, n=n, failure_prob=failure_prob)
    if not 0.0 < nats < math.inf or epsilon == 0.0:
        return settled(nats, math.inf, epsilon, failure_prob)
    excess = math.sqrt(8.0 * log_inverse(failure_prob) / n)  # (α - 1) epsilon
    return settled(nats, 1.0 + excess / epsilon, (epsilon + excess) * epsilon / 8.0, failure_prob)


def _of_replacement(privacy: PureDP | ApproxDP) -> float:
    """epsilon for replace-one adjacency."""
    return float(privacy.epsilon) * (1.0 if privacy.adjacency == "replace-one" else 2.0)


def max_information_composition(*args: Any, **options: Any) -> Never:
    """Refused: the max-information of the steps of a mechanism does not add up.

    Composing max-information step by step needs it over all distributions of the sample. Given the first release, the
    records are no longer independent, and neither Gaussian nor (epsilon, delta)-DP steps have a useful one over such
    distributions (Rogers, Roth, Smith and Thakkar, FOCS 2016: they can come first in a composition, but not second).

    Raises ValueError always.
    """
    raise ValueError(
        "max-information must not be composed step by step, because after the first release the records are no longer "
        "independent; compose the privacy of all steps, and pass its record to transfer_cost."
    )


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

    Raises ValueError when the record bounds no mutual information: it has a delta, or a mass at infinity.
    """
    _check.count(n=n)
    information = outward(int(n) * _divergence_nats(checked(privacy)))
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

    Formal guarantee: at least the stated expression, at δ₁ = 2δ²/(2δ + J + √(J² + 4δJ)), J = I + 1/e, δ = failure_prob,
    for ``information_nats`` at least I(S; Y).
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


def _divergence_nats(privacy: Claim) -> float:
    """KL of the mechanism from its reference, or what stands in for it per record, rounded up."""
    match privacy:
        case PureDP():
            epsilon = _of_replacement(privacy)
            return outward(epsilon * epsilon / 8.0)
        case GaussianDP(mu=mu):
            return outward(float(mu) * float(mu) / 2.0)
        case ZeroConcentratedDP(rho=rho):
            return float(rho)
        case PrivacyLossDistribution(infinity_mass=0.0):
            return _mean_loss(privacy)
        case PrivacyLossDistribution() | ApproxDP():
            raise ValueError(
                f"privacy must bound the mutual information, got {privacy!r}: a delta or a mass at infinity allows a "
                f"release of everything; use transfer_cost, which pays for it in failure probability."
            )


def _mean_loss(privacy: PrivacyLossDistribution) -> float:
    """KL(P‖Q) = E_Q [u ln u + 1 - u], u = e^x, whose terms are not negative."""
    x = privacy.losses
    masses = np.where(x >= 0.0, privacy.with_record, privacy.without_record)
    above = np.maximum(x + np.expm1(-np.abs(x)), 0.0)  # under P
    below = np.maximum(x * np.exp(np.minimum(x, 0.0)) - np.expm1(np.minimum(x, 0.0)), 0.0)  # under Q
    terms = np.where(x >= 0.0, above, below) + 8.0 * 2.0**-52 * np.abs(x)
    return outward(float(np.sum(terms * masses)) * (1.0 + 2.0**-44) + privacy.zero_mass)
