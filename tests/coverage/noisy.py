"""Worlds of noisy sums: Neyman and Pearson's events, and weights made from what the sums tell.

Every record has a sign z = ±1, a fair coin, and a coordinate of its own: Y_i = h_i z_i + N(0, 1), where h_i z_i is its
contribution. For fixed y and weights v, Σ_i z_i v_i exceeds t with probability at most exp(-t²/(2 Σ v_i²)) over the
signs (Hoeffding), so that f = λ on {(Σ z_i v_i)² ≥ 2λ Σ v_i², Σ z_i v_i > 0}, and minus infinity off it, has
E_S e^f ≤ 1 for every y. With v_i half the log odds that Y_i gives z_i this is nearly the most likely of all events of
its probability, and as h → 0 in many records hardly anything of the price is left.
"""

import functools
from math import log, log1p, sqrt, tanh

import numpy as np
from scipy import special
from scipy.stats import norm

from bounds import PoissonSum, RealisedPoissonSum, RealisedSum, WorstCaseSum
from bounds.accounting import Gaussian, PoissonSampled
from bounds.noisy_steps import log_moment
from tests.coverage.harness import Cases
from tests.coverage.mechanisms import columns_of
from tests.coverage.worlds import DELTA, in_parts

JUST_ABOVE = 1 + 1e-9
AROUND = (1.15, 1.2, 1.27, 1.35, 1.5)  # orders fixed for the worlds, whose price they suit
NEVER = 0.0  # where f is minus infinity: no price lies below


def worst_case(mu, n, failure_prob, fraction=1.0):
    return fraction * WorstCaseSum(mu=mu).charge(n=n, failure_prob=failure_prob).nats


def realised(contributions, n, failure_prob, fraction=1.0):
    return fraction * RealisedSum(contributions=contributions, records=n).charge(n=n, failure_prob=failure_prob).nats


def poisson(event, n, failure_prob, fraction=1.0):
    return fraction * PoissonSum(event=event).charge(n=n, failure_prob=failure_prob).nats


def realised_poisson(log_moments, n, failure_prob, fraction=1.0):
    price = RealisedPoissonSum(log_moments=tuple(log_moments.tolist()), orders=AROUND, records=n)
    return fraction * price.charge(n=n, failure_prob=failure_prob).nats


def order_after_the_sum(contributions, failure_prob):
    """The price at the order that is best for the V that was realised, which nothing pays for."""
    return (sqrt(contributions / 2) + sqrt(log(1 / failure_prob))) ** 2


def noise_overstated(mu, n, failure_prob):
    """The standard deviation of the noise said to be a tenth larger than it was."""
    return worst_case(mu / 1.1, n, failure_prob)


def examples_apart(mu, n, failure_prob):
    """The norms of examples, each a quarter of what their person adds with all four of them."""
    return worst_case(4**0.5 * mu / 4, n, failure_prob)


def sampled_only(sampled_log_moments, n, failure_prob):
    """The price of secret batches, added up over the records that were sampled."""
    return realised_poisson(sampled_log_moments, n, failure_prob)


def likeliest(told, squares, nats):
    """f: so many nats on the event, of these two sums of each sample, and minus infinity off it."""
    return np.where((told > 0) & (told**2 >= 2 * nats * squares), nats, NEVER)


def constant(n, mu, level, how):
    """Contributions of norm mu; the event's λ is ``level`` of n, mu and δ. Its three sums are simulated as such."""

    def world(rng, datasets):
        common, rest = rng.normal(size=datasets), rng.chisquare(n - 1, datasets)
        told = n * mu + sqrt(n) * common
        squares = n * mu**2 + 2 * mu * sqrt(n) * common + common**2 + rest
        nats = level(mu, n, DELTA) * JUST_ABOVE
        return Cases({"mu": mu, "n": n}, likeliest(told, squares, nats))

    world.__doc__ = f"n = {n}, signs in noise, mu = {mu:.3g}, the likeliest event of {how}"
    return world


def uneven(n, mu, fraction):
    """Contributions of lognormal norms, as drawn with the records: V is random, and λ follows it."""

    def world(rng, datasets):
        told, squares, whole = in_parts(_some, rng, datasets)
        nats = np.array([realised(float(v), n, DELTA, fraction) for v in whole]) * JUST_ABOVE
        return Cases({"contributions": whole, "n": n}, likeliest(told, squares, nats))

    def _some(rng, many):
        sizes = np.exp(0.5 * rng.normal(size=(many, n)) - 0.25)
        seen = mu * sizes + rng.normal(size=sizes.shape)  # in the direction of the sign
        squares = np.sum((sizes * seen) ** 2, axis=1)
        return np.sum(sizes * seen, axis=1), squares, _up(mu**2 * np.sum(sizes**2, axis=1))

    world.__doc__ = f"n = {n}, signs in noise, norms around {mu:g}, the likeliest event of {fraction:.2g} of the price"
    return world


def secret(n, rate, size, level, how):
    """One step on a secret Poisson batch, contributions of norm ``size``."""
    event = PoissonSampled(sample_rate=rate, event=Gaussian(noise_multiplier=1 / size))
    each = np.array([float(log_moment(order, rate, size**2 * JUST_ABOVE)) for order in AROUND])

    def world(rng, datasets):
        told, squares, many = in_parts(_some, rng, datasets)
        nats = level(event, n * each, n) * JUST_ABOVE
        return Cases(
            {
                "event": event,
                "n": n,
                "log_moments": np.tile(n * each, (datasets, 1)),
                "sampled_log_moments": many[:, None] * each,
            },
            likeliest(told, squares, nats),
        )

    def _some(rng, many):
        batch = rng.random((many, n)) < rate
        seen = size * batch + rng.normal(size=(many, n))
        odds = np.logaddexp(log1p(-rate), log(rate) + size * seen - size**2 / 2)
        odds = 0.5 * (odds - np.logaddexp(log1p(-rate), log(rate) - size * seen - size**2 / 2))
        return odds.sum(axis=1), (odds**2).sum(axis=1), _up(batch.sum(axis=1) * 1.0)

    world.__doc__ = f"n = {n}, signs in noise on secret batches of rate {rate:g}, the likeliest event of {how}"
    return world


def crossing(rng, datasets):
    """one record, which stops contributing when f is above the price at the best order for its V so far"""
    grid = 30.0 * 1.15 ** np.arange(83)
    steps = np.diff(grid, prepend=0.0)
    f = np.cumsum(steps / 2 + np.sqrt(steps) * rng.normal(size=(datasets, grid.size)), axis=1)  # of many small signs
    above = f > np.array([order_after_the_sum(v, DELTA) for v in grid]) * JUST_ABOVE
    at = np.where(above.any(axis=1), above.argmax(axis=1), grid.size - 1)
    return Cases({"contributions": grid[at], "n": 1}, f[np.arange(datasets), at])


def signs(n, mu, rate, price):
    """Weights that predict the sign of each Y_i, whose price is of this kind; with a rate, from a secret batch."""
    right = (1 - rate) / 2 + rate * float(norm.cdf(mu))
    told = {"price": price(n, mu, rate)}

    def world(rng, datasets):
        columns = columns_of(rng.binomial(n, 1 - right, datasets), n, 1 - right, 0.5)
        return Cases(columns | told, 0.5)

    where = f" on secret batches of rate {rate:g}" if rate < 1 else ""
    world.__doc__ = f"n = {n}, signs of noisy signs{where}, mu = {mu:.3g}"
    return world


def worst_case_sum(n, mu, rate):
    return WorstCaseSum(mu=mu)


def poisson_sum(n, mu, rate):
    return PoissonSum(event=PoissonSampled(sample_rate=rate, event=Gaussian(noise_multiplier=1 / mu)))


def realised_poisson_sum(n, mu, rate):
    moments = tuple(n * float(log_moment(order, rate, mu**2 * JUST_ABOVE)) for order in AROUND)
    return RealisedPoissonSum(log_moments=moments, orders=AROUND, records=n)


def stopped(n, odds):
    """Weights that predict signs, each released in ever more noisy steps until its log odds reach ± ``odds``.

    In the limit of short steps every prediction is right with probability 1/(1 + e^(-odds)), as under randomised
    response, and a record has contributed odds/2 · tanh(odds/2) in the mean, with the variance of a fair walk's exit.
    """
    wrong, mean = float(special.expit(-odds)), odds / 2 * tanh(odds / 2)

    def world(rng, datasets):
        whole = n * mean + sqrt(n * 2 / 3) * mean * rng.normal(size=datasets)
        columns = columns_of(rng.binomial(n, wrong, datasets), n, wrong, 0.5)
        return Cases(columns | {"contributions": _up(whole)}, 0.5)

    world.__doc__ = f"n = {n}, signs released until their log odds are {odds:.3g}"
    return world


def _up(values):
    """Rounded up to powers of 1.005, so that few prices occur."""
    return 1.005 ** np.ceil(np.log(values) / log(1.005))


FULL = functools.partial(constant, 4000, sqrt(0.02))
WORST = (FULL(worst_case, "the whole price"),)
WORST_AT = (FULL(functools.partial(worst_case, fraction=2 / 3), "2/3 of the price"),)
REALISED = (uneven(4000, sqrt(0.02), 1.0), crossing)
REALISED_AT = (uneven(4000, sqrt(0.02), 2 / 3),)
OVERSTATED = (constant(10**6, sqrt(6e-4), noise_overstated, "the price at a tenth more noise"),)
APART = (constant(4000, sqrt(0.02), examples_apart, "the price of four equal examples a person, one by one"),)


def _secret(fraction, how):
    def of_event(event, moments, n):
        return poisson(event, n, DELTA, fraction)

    def of_moments(event, moments, n):
        return realised_poisson(moments, n, DELTA, fraction)

    return secret(8000, 0.2, 0.5, of_event, how), secret(8000, 0.2, 0.5, of_moments, f"{how}, realised")


SIGNS = {
    "WorstCaseSum": (signs(4000, sqrt(0.018), 1.0, worst_case_sum),),
    "RealisedSum": (stopped(4000, 6 * sqrt(8 / 4000)),),
    "PoissonSum": (signs(10**6, 0.3, 0.05, poisson_sum),),
    "RealisedPoissonSum": (signs(10**6, 0.3, 0.05, realised_poisson_sum),),
}
(SECRET, SECRET_REALISED) = _secret(1.0, "the whole price")
(SECRET_AT, SECRET_REALISED_AT) = _secret(2 / 3, "2/3 of the price")
HALF_SECRET = _secret(1 / 2, "half the price")[1:]
_HALF, _THIRD, _FIFTH = 1 / 2, 1 / 3, 1 / 5
_SIGNS = "of what a noisy sum tells of a sign, its own sign alone, which is what a 0-1 loss asks for, keeps 2/π or less"
_RELAXED = f"{_SIGNS}; a relaxation of kl for small rates, of which rate 1/2 uses a half or less"
LOOSE = {
    price: {
        **dict.fromkeys(("kl_chernoff", "hoeffding", "maurer", "langford_seeger", "mcallester"), (_HALF, _SIGNS)),
        **dict.fromkeys(("catoni", "catoni_grid", "split_kl", "disintegrated"), (_HALF, _SIGNS)),
        "disintegrated_renyi": (_THIRD, f"{_SIGNS}; half of the failure probability pays for the draw"),
        **dict.fromkeys(("chernoff", "quadratic", "thiemann", "unexpected_bernstein"), (_FIFTH, _RELAXED)),
        **dict.fromkeys(("tolstikhin_seldin", "linear"), (_FIFTH, _RELAXED)),
    }
    for price in ("WorstCaseSum", "PoissonSum", "RealisedPoissonSum")
}
