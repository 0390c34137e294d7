"""What it costs to use a statement proved for a fixed prior, or fixed weights, at a privately released one.

``transfer_cost`` gives the nats that take the place of ln(1/failure_prob), for every notion of privacy in this package.
α, the level a and the split of the failure probability come from a numerical search that sees privacy, n and
failure_prob alone; what is returned is the theorem evaluated at that choice, rounded up. Proof: "General transfer" in
docs/guarantees.md.
"""

from functools import lru_cache
from math import inf, sqrt

from bounds._check import door
from bounds._losses import ConcentratedLoss, GaussianLoss, from_approximate, from_distribution
from bounds._rounding import log_inverse, outward
from bounds._transfer_search import Charge, charged, range_nats, search
from bounds.privacy import ApproxDP, GaussianDP, PrivacyClaim, PureDP, ZeroConcentratedDP
from bounds.privacy_loss import PrivacyLossDistribution

Claim = PureDP | ApproxDP | GaussianDP | ZeroConcentratedDP | PrivacyLossDistribution

_SMALLEST_MU = 1e-12  # below it squares lose digits; rounding a guarantee up is sound
_LARGEST = 1e300  # beyond it, at the latest, nothing is promised


@door()
def transfer_cost(*, privacy: PrivacyClaim, n: int, failure_prob: float) -> Charge:
    """The cost of the general transfer, Λ = n (a + H_α(a)/δ₂) + α/(α-1) ln(1/δ₁), rounded up.

    "General transfer" in docs/guarantees.md: if E_S exp f(y, S) ≤ 1 for every fixed y, and a mechanism that saw S
    released Y, then f(Y, S) ≤ Λ except with probability δ₁ + δ₂, plus what losses without a bound cost. H_α(a) is the
    largest f-divergence E (ζ_α(x) - a)^+ of the mechanism from itself without one record, x their privacy loss. A pure
    guarantee uses the sharp transfer (``Sharp``) instead, at 2 epsilon if it is for add-remove adjacency.

    Formal guarantee: at least the theorem's expression at the alpha, a and split that are returned, whose parts sum to
    at most ``failure_prob``; the choice depends on nothing but the arguments. 532 nats for mu = 0.05 at n = 60000 and
    failure_prob = 0.05.

    ``privacy`` is about all that the mechanism released together, composed first, as max-information does not add up
    over its steps; n counts the independent records that it may have seen.

    Raises ValueError when an argument is out of range, or when n times the probability of a loss without a bound
    (delta, or the mass at infinity) leaves nothing of the failure probability.
    """
    return _cost(checked(privacy), n, failure_prob)


def checked(privacy: object) -> Claim:
    """``privacy``, if it is a promise that something is proved of."""
    if not isinstance(privacy, Claim):
        raise ValueError(
            f"privacy must be a privacy record (PureDP, ApproxDP, GaussianDP, ZeroConcentratedDP or "
            f"PrivacyLossDistribution), got {privacy!r}; nothing is proved of other mechanisms, so split the data."
        )
    return privacy


@lru_cache(maxsize=128)
def _cost(privacy: Claim, n: int, failure_prob: float) -> Charge:
    match privacy:
        case PureDP() | ApproxDP(delta=0.0):
            return _pure(privacy, n, failure_prob)
        case GaussianDP(mu=0.0) | ZeroConcentratedDP(rho=0.0):
            return charged(log_inverse(failure_prob), inf, 0.0, failure_prob)
        case GaussianDP(mu=size) | ZeroConcentratedDP(rho=size) | ApproxDP(epsilon=size) if size > _LARGEST:
            return charged(inf, inf, inf, failure_prob)
        case GaussianDP(mu=mu):
            law = GaussianLoss(max(mu, _SMALLEST_MU))
        case ZeroConcentratedDP(rho=rho):
            law = ConcentratedLoss(max(outward(sqrt(2.0 * rho)), _SMALLEST_MU))
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


def _pure(privacy: PureDP | ApproxDP, n: int, failure_prob: float) -> Charge:
    """The sharp transfer, for replace-one adjacency."""
    epsilon = privacy.epsilon * (1.0 if privacy.adjacency == "replace-one" else 2.0)
    nats = range_nats(epsilon, n, failure_prob)
    if not 0.0 < nats < inf or epsilon == 0.0:
        return charged(nats, inf, epsilon, failure_prob)
    excess = sqrt(8.0 * log_inverse(failure_prob) / n)  # (α - 1) epsilon
    return charged(nats, 1.0 + excess / epsilon, (epsilon + excess) * epsilon / 8.0, failure_prob)
