"""What takes the place of ln(1/failure_prob), once more: at 40 digits and more, from the parameters of a price.

For accounted mechanisms the theorem is evaluated at the orders, levels and splits that the code chose.
"""

import functools

import noisy_by_mpmath as noisy
import numpy as np
import transfer_by_mpmath as slow
from mpmath import exp, log, mpf, sqrt

import bounds
from bounds import prices
from bounds.privacy import ApproxDP, GaussianDP, PureDP, ZeroConcentratedDP


def nats(price, n, failure_prob, terms):
    """Λ at this price, failure_prob being all that it may fail with; ``terms`` are those of the certificate."""
    log_inv = -log(mpf(failure_prob))
    match price:
        case prices.Independent():
            return log_inv
        case prices.Sharp(epsilon=epsilon):
            return sharp(epsilon, n, log_inv)
        case prices.MaxInformation(epsilon=epsilon):
            epsilon = mpf(epsilon)
            return log(2) + log_inv + n * epsilon**2 / 2 + epsilon * sqrt(n * (log(4) + log_inv) / 2)
        case prices.Printed2018(epsilon=epsilon):
            return 2 * max(log(3) + log_inv, n * mpf(epsilon) ** 2)
        case bounds.WorstCaseSum(mu=mu):
            return noisy.worst_case(mu, n, log_inv)
        case bounds.PoissonSum(event=event):
            return noisy.poisson(event, n, log_inv, terms["transfer_alpha"])
        case bounds.RealisedSum(contributions=whole, orders=orders, weights=weights):
            return noisy.realised(noisy.of_full_batch(whole, orders), orders, even(weights, orders), log_inv)
        case bounds.noisy.GibbsRange(spread=spread):
            return sharp(spread, n, log_inv)
        case (
            bounds.RealisedPoissonSum(log_moments=moments, orders=orders, weights=weights)
            | bounds.noisy.GibbsLosses(log_moments=moments, orders=orders, weights=weights)
            | bounds.noisy.GibbsGradients(log_moments=moments, orders=orders, weights=weights)
        ):
            return noisy.realised(moments, orders, even(weights, orders), log_inv)
        case prices.Accounted(privacy=PureDP(epsilon=epsilon, adjacency=adjacency)):
            return sharp(epsilon if adjacency == "replace-one" else 2 * mpf(epsilon), n, log_inv)
        case prices.Accounted(privacy=privacy):
            names = ("transfer_alpha", "transfer_level", "transfer_prob", "privacy_tail_prob", "unbounded_prob")
            return general(privacy, n, *(terms.get(name, 0.0) for name in names))


def even(weights, orders):
    return weights or [1 / mpf(len(orders))] * len(orders)


def sharp(epsilon, n, log_inv):
    return (sqrt(log_inv) + mpf(epsilon) * sqrt(mpf(n) / 8)) ** 2


def general(privacy, n, alpha, level, for_transfer, for_tail, for_unbounded):
    """n (a + H/δ₂) + α/(α-1) ln(1/δ₁)."""
    if isinstance(privacy, GaussianDP | ZeroConcentratedDP) and level == 0.0:
        return -log(mpf(for_transfer))
    alpha, level = mpf(alpha), mpf(level)
    excess = divergence(privacy, n, alpha, level, for_unbounded)
    return n * (level + excess / mpf(for_tail)) - alpha / (alpha - 1) * log(mpf(for_transfer))


@functools.cache
def divergence(privacy, n, alpha, level, for_unbounded):
    """H at this order and level."""
    match privacy:
        case GaussianDP(mu=mu):
            return slow.gaussian(alpha, level, mu)
        case ZeroConcentratedDP(rho=rho):
            return slow.concentrated(alpha, level, rho)
        case ApproxDP(epsilon=epsilon, delta=delta):
            epsilon, delta = mpf(epsilon), mpf(delta)
            mass = (1 - delta) / (1 + exp(-epsilon))
            return on_points([epsilon, -epsilon], [mass, mass], delta, delta, n, alpha, level, for_unbounded)
        case _:
            masses = np.where(privacy.losses >= 0, privacy.with_record, privacy.without_record)
            ends = mpf(privacy.infinity_mass), mpf(privacy.zero_mass)
            return on_points(privacy.losses.tolist(), masses.tolist(), *ends, n, alpha, level, for_unbounded)


def on_points(losses, masses, infinity_mass, zero_mass, n, alpha, level, for_unbounded):
    """Losses x ≥ 0 with their masses under P, x < 0 with theirs under Q."""
    whole = mpf(zero_mass)
    for loss, mass in zip(losses, masses, strict=True):
        if mass > 0:
            x = mpf(loss)
            whole += mpf(mass) * max(0, slow.zeta(alpha, x) - level) * (1 if x >= 0 else exp(x))
    if infinity_mass:
        margin = -log(1 - n * infinity_mass / mpf(for_unbounded))  # n π / (1 - e^(-t)) is what was paid
        cutoff = max(0, *(x for x, mass in zip(losses, masses, strict=True) if mass > 0)) + margin
        slope = (alpha * exp((alpha - 1) * cutoff) - 1) / (alpha - 1) - 1 - level
        whole += infinity_mass * max(0, slope)
    return whole
