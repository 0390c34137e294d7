"""The empirical risk of a randomised predictor, R̂(Q) = E_{w~Q} R̂(w), from draws of its weights.

Independent draws of Q give a rigorous bound; a Markov chain that aims at Q gives an optimistic one. Each certificate
is spent under "Monte Carlo", and may be handed to ``overall_certificate`` or charged to a PAC-Bayes bound. Arguments
out of range, and lists that do not fit each other, raise ValueError.
"""

from dataclasses import replace
from math import fsum, inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bounds._arithmetic import inward, log_inverse, outward
from bounds._check import door, doubles, positive, probability, rates, vector
from bounds.certificate import Certificate
from bounds.hypotheses import declared_by, standing, unproved
from bounds.kl import binary_kl_upper

MONTE_CARLO = "Monte Carlo"

_OF_A_CHAIN = (
    unproved("chain stationary", "nothing shows that the Markov chain was stationary at the posterior"),
    unproved("draws independent", "the kept steps count as many draws as their autocorrelation suggests"),
)


@door(mean=probability)
def gibbs_risk_upper(*, mean: float, draws: int, failure_prob: float) -> Certificate:
    """R̂(Q) ≤ kl⁻¹(mean, ln(1/failure_prob) / draws), from independent draws.

    Hoeffding 1963, Theorem 1; proof in docs/guarantees.md, "Averages of independent draws".

    Formal guarantee: if ``mean`` is the average of ``draws`` independent numbers in [0, 1] and its expectation is
    R̂(Q), then R̂(Q) ≤ value with probability at least 1 - failure_prob over the draws, whatever the sample.

    What counts as one draw is an independent [0, 1] number, alike or not: the empirical risk of one draw of the
    weights; the mean loss of one mini-batch, of equal size, that got fresh weights; the loss of one example that got
    fresh weights. So a pass over n examples with fresh weights for each example counts n draws, and with one draw of
    the weights for all of them one. Terms of unequal weight: ``weighted_risk_upper``; a chain:
    ``correlated_risk_upper``.
    """
    return _certificate("gibbs_risk_upper", mean, float(draws), failure_prob, draws=draws)


@door()
def weighted_risk_upper(*, values: ArrayLike, weights: ArrayLike, failure_prob: float) -> Certificate:
    """R̂(Q) ≤ kl⁻¹(Σ w_i x_i, max_i w_i · ln(1/failure_prob)), from independent draws of unequal weight.

    The weights are normalised to Σ w_i = 1; 1/max w_i takes the place of the number of draws. For mini-batches of
    unequal size pass their mean losses and their sizes. Proof in docs/guarantees.md, "Averages of independent draws".

    Formal guarantee: if the x_i are independent numbers in [0, 1] and Σ w_i x_i has expectation R̂(Q), then
    R̂(Q) ≤ value with probability at least 1 - failure_prob over the draws, for weights (positive numbers in proportion
    to w_i) fixed beforehand.
    """
    x, w = vector("values", rates("values", values)), vector("weights", weights)
    if x.shape != w.shape:
        raise ValueError(f"values must be a list as long as weights, got shapes {x.shape} and {w.shape}.")
    if not ((w > 0.0) & (w < inf)).all():
        raise ValueError("weights must be positive and finite, got one that is not; leave out what has no weight.")
    share = w / w.max()
    whole = fsum(share)
    mean = min(1.0, outward(fsum(x * share) / whole))
    return _certificate("weighted_risk_upper", mean, max(1.0, inward(whole)), failure_prob, terms=int(x.size))


@door()
def correlated_risk_upper(*, chain: ArrayLike, failure_prob: float) -> Certificate:
    """R̂(Q) ≤ kl⁻¹(mean, ln(1/failure_prob) / effective draws) from one Markov chain: always optimistic.

    ``chain`` holds the risk at each kept step, in order, 4 at least; see ``effective_sample_size``. It is an interval
    for readers, not a proof: consecutive draws are dependent, the effective number is itself estimated, and the law of
    an SGLD iterate is not Q.

    Formal guarantee: none. The certificate is optimistic and lists what it assumes; so is every certificate that
    ``overall_certificate`` makes of it.
    """
    effective = effective_sample_size(chain)
    values = rates("chain", chain)
    mean = min(1.0, outward(fsum(values) / values.size))
    made = _certificate("correlated_risk_upper", mean, effective, failure_prob, kept_steps=int(values.size))
    return replace(made, hypotheses=standing("correlated_risk_upper", given=_OF_A_CHAIN))


@door(alpha=positive)
def weighted_average_size(alpha: float) -> float:
    """(2 - alpha)/alpha, alpha in (0, 1]: how many equal weights have the variance of weights alpha (1-alpha)^j.

    1.67 for alpha = 0.75, 399 for 0.005: the most independent draws that such a running average can be worth.
    """
    probability(alpha=alpha)
    return (2.0 - alpha) / alpha


def effective_sample_size(draws: ArrayLike) -> float:
    """How many independent draws the mean of one stationary chain is worth, between 1 and the length (4 at least).

    n / τ with τ = -1 + 2 Σ (ρ_2t + ρ_2t+1) over the initial sequence of positive pairs of autocorrelations (Geyer 1992,
    "Practical Markov chain Monte Carlo", section 3.3). A chain that never moves is worth one draw.

    Formal guarantee: none; it is an estimate, and assumes stationarity.
    """
    chain: Any = doubles("draws", draws)
    n = chain.size
    if chain.ndim != 1 or n < 4 or not np.isfinite(chain).all():
        raise ValueError(
            f"draws must be one chain of at least 4 finite numbers, got shape {chain.shape}; pass chains singly."
        )
    if (chain == chain[0]).all():
        return 1.0
    chain = np.ldexp(chain, -np.frexp(np.abs(chain).max())[1])  # exact but for what is lost beside the largest draw
    scaled = (chain - chain.mean()) / np.ptp(chain)
    spectrum = np.fft.rfft(scaled, 1 << (2 * n - 1).bit_length())
    covariance: Any = np.fft.irfft(np.abs(spectrum) ** 2)[: n - n % 2]
    pairs: Any = (covariance / covariance[0]).reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0.0)
    kept = pairs[: negative[0]] if negative.size else pairs
    time = -1.0 + 2.0 * float(kept.sum())
    return min(float(n), max(1.0, n / max(time, 1.0)))


def _certificate(name: str, mean: float, worth: float, failure_prob: float, **inputs: float) -> Certificate:
    confidence = log_inverse(failure_prob)
    per_draw = outward(confidence / worth)
    return Certificate(
        name=name,
        value=binary_kl_upper(mean, per_draw),
        failure_prob=failure_prob,
        of="randomised",
        measures="empirical risk",
        hypotheses=declared_by(f"the caller of bounds.{name}", name),
        terms={
            "monte_carlo_mean": mean,
            "monte_carlo_draws": worth,
            "monte_carlo_confidence_nats": confidence,
            "monte_carlo_nats_per_draw": per_draw,
        },
        budget={MONTE_CARLO: failure_prob},
        reference='Hoeffding 1963, Theorem 1; docs/guarantees.md, "Averages of independent draws"',
        inputs={"mean": mean, **inputs, "failure_prob": failure_prob},
    )
