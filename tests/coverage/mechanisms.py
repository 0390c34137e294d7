"""Private mechanisms that leave hardly any of the price of their privacy unused, and their exact failure probability.

The sample is n records at n public inputs, each with a label of its own; the truth is the risk over fresh labels of the
same inputs. The mechanism releases weights, one prediction for each input, so that the prior, or the weights
themselves, are the worst-case function of what is released:

- randomised response moves every prediction towards its label by as much as epsilon allows, independently;
- under shared noise the prediction of record i is right with probability 1/(1 + e^(-2 mu |g|)), where |g| is released
  and g ~ N(mu, 1) is common to all records. Of record i alone one sees sign · |g| ~ N(± mu, 1), against N(0, 1) without
  it (all other predictions are made from |g|): exactly mu-GDP for leaving out a record. Rare large |g| tell much about
  all records at once, which is what a bound by the privacy curve alone has to pay for;
- coarse shared noise releases in place of |g| only whether it is large, so that the rare event tells the same always.
"""

import bisect
from math import ceil, exp, log, log1p, sqrt

import numpy as np
from scipy import special
from scipy.stats import binom, foldnorm, norm

from bounds import GaussianDP, PrivacyLossDistribution, PureDP
from tests.coverage.harness import Cases
from tests.coverage.tight import MOST, tilt

EXACT = {"status": "exact mechanism"}


def response_rate(epsilon, rate):
    """How often a prediction fails at its own record, if it fails at a fresh one at this rate."""
    return rate * exp(-epsilon) / (1 - rate + rate * exp(-epsilon))


def randomised_response(n, epsilon, rate=0.5, step=1):
    """Randomised response: the location of an arc of errors, of density e^-epsilon where the arc meets the record.

    Errors are rounded up to the step, so that few different risks occur where a bound is slow.
    """
    seen = response_rate(epsilon, rate)

    def world(rng, datasets):
        privacy = PureDP(epsilon=epsilon, adjacency="replace-one", **EXACT)
        columns = columns_of(-(-rng.binomial(n, seen, datasets) // step) * step, n, seen, rate)
        return Cases(columns | {"epsilon": epsilon, "privacy": privacy}, rate)

    world.__doc__ = f"n = {n}, randomised response, epsilon = {epsilon:.3g}, truth {rate:.3g}"
    return world


def randomised_gaps(n, epsilon):
    """The same of the calibration error."""
    return _gaps(randomised_response(n, epsilon), n, 1 - response_rate(epsilon, 0.5))


def shared_noise(n, mu, share=None):
    """Shared noise; with a share, coarse: |g| is large with that probability."""
    chances, correct = _levels(mu, share) if share else (None, None)

    def world(rng, datasets):
        if chances is None:
            right = special.expit(2 * mu * np.abs(mu + rng.normal(size=datasets)))
        else:
            right = rng.choice(correct, size=datasets, p=chances)
        step = max(1, n // 10_000)  # errors are rounded up to it, so that few different risks occur
        errors = -(-rng.binomial(n, 1 - right) // step) * step
        columns = columns_of(errors, n, 1 - special.expit(4 * mu) if chances is None else 1 - correct[1], 0.5)
        privacy = GaussianDP(mu=mu, adjacency="add-remove", **EXACT)
        return Cases(columns | {"privacy": privacy}, 0.5)

    how = "" if share is None else f", coarse, large with probability {share:g}"
    world.__doc__ = f"n = {n}, shared noise, mu = {mu:g}{how}"
    return world


def shared_gaps(n, mu, share):
    """The same of the calibration error."""
    return _gaps(shared_noise(n, mu, share), n, _levels(mu, share)[1][1])


def response_failure(n, epsilon, nats):
    """How often so many nats are not enough under randomised response: the probability of the ``rarest`` errors."""
    return float(binom.cdf(rarest(n, nats), n, response_rate(epsilon, 0.5)))


def noise_failure(n, mu, nats, share=None):
    """The same under shared noise."""
    if share:
        chances, correct = _levels(mu, share)
    else:
        g = np.linspace(-9, 9, 8001)
        chances, correct = norm.pdf(g) * (g[1] - g[0]), special.expit(2 * mu * np.abs(mu + g))
    return float(chances @ binom.cdf(rarest(n, nats), n, 1 - correct))


def own_loss(mu, spacing):
    """The law of shared noise's own privacy loss against a coin for record i, x = ln 2 - ln(1 + e^(-2 mu g)).

    Each cell's mass is split between its ends so that both P and Q keep theirs: a pair that dominates.
    """
    x = spacing * np.arange(-ceil(24 * mu / spacing), ceil(log(2) / spacing) + 1)
    g = -np.log(np.maximum(2 * np.exp(-x) - 1, 0.0), where=x < log(2), out=np.full(x.size, -np.inf)) / (2 * mu)
    tails = [_tails(g, mu, weight) for weight in (1, 0.5)]
    p, q = (np.where(g[:-1] > 0, -np.diff(upper), np.diff(lower)) for lower, upper in tails)
    up = ((p * np.exp(-x[:-1]) - q) / -np.diff(np.exp(-x))).clip(0, p)
    masses = np.append(p - up, 0.0) + np.append(0.0, up)
    return PrivacyLossDistribution(
        spacing=spacing,
        lowest=round(x[0] / spacing),
        with_record=masses,
        without_record=masses * np.exp(-x),
        infinity_mass=0.0,
        zero_mass=float(tails[1][0][0]),
        adjacency="add-remove",
        **EXACT,
    )


def _tails(g, mu, weight):
    """Lower and upper tails of weight N(mu, 1) + (1 - weight) N(-mu, 1)."""
    return [weight * f(g - mu) + (1 - weight) * f(g + mu) for f in (norm.cdf, norm.sf)]


def _levels(mu, share):
    """Probabilities of small and large |g|, and how often predictions are right then."""
    edge = float(foldnorm.isf(share, mu))
    large, all_right = norm.sf(edge - mu), norm.sf(-mu)
    return np.array([1 - share, share]), np.array([(all_right - large) / (1 - share), large / share])


def rarest(n, nats):
    """The most errors k with P(Bin(n, 1/2) ≤ k) ≤ e^-nats, the tail bounded by a geometric series; -1 if there is none.

    f = nats on k errors or fewer has E_S e^f ≤ 1 for every release, so the price of privacy must be paid for it.
    """

    def short(k):
        return binom.logpmf(k, n, 0.5) - log1p(-k / (n - k + 1)) <= -nats

    return bisect.bisect_left(range((n + 1) // 2), True, key=lambda k: not short(k)) - 1


def columns_of(errors, n, seen, rate):
    """What bounds are told of weights that were released; ``seen`` is the risk at which they should just fail.

    As a prior the release is a point, and the posterior the same point. Its Gibbs posterior has the temperature at
    which a bound from ln Z alone is worst at that risk.
    """
    risk = errors / n
    tau = tilt(n, seen, rate) / MOST / log(2)
    return {
        "risk": risk,
        "kl_nats": 0.0,
        "n": n,
        "n_bound": n,
        "inverse_temperature": tilt(n, seen, rate),
        "tau": tau,
        "loss_low": 0.0,
        "loss_high": log(2),
        "error_loss": log(2),
        "mean_loss": log(2) * risk,
        "log_mean_exp": -tau * log(2) * risk,
        "draws": 10**9,
    }


def _gaps(world, n, right):
    """A predictor of one confidence, nearly calibrated at records of which so many are right, while half of all are."""
    confidence = right + 2 / sqrt(n)  # four deviations: the mean gap keeps its sign

    def calibrated(rng, datasets):
        cases = world(rng, datasets)
        right = 1 - cases.columns["risk"]
        squares = right * (1 - confidence) ** 2 + (1 - right) * confidence**2
        made = {"calibration_error": np.abs(right - confidence), "mean_squared_gap": squares * (1 + 1e-12)}
        return Cases({**cases.columns, **made}, confidence - 0.5)

    calibrated.__doc__ = f"{world.__doc__}, gaps of one confidence {confidence:.3f}"
    return calibrated
