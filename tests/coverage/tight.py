"""Worlds near the worst case for a prior that is independent of the sample: two thirds of the cost fail in them.

Where the divergence is large, hardly anything of a PAC-Bayes bound can be spared: the luckiest of very many hypotheses
has used it up, and so has a posterior that knows the sample by heart.
"""

from math import exp, expm1, log, sqrt

import numpy as np
from scipy.stats import binom

from tests.coverage.harness import FRACTIONS, Cases

MOST = FRACTIONS[0]
_JUST_ABOVE = 1 + 1e-9


def tilt(n, seen, rate):
    """Catoni's inverse temperature at which his bound is the inverse kl, if this rate is certified from that risk."""
    return n * log(rate * (1 - seen) / (seen * (1 - rate)))


def lucky(n, nats, rate):
    """A point posterior on the luckiest of e^nats independent hypotheses of one rate."""
    spread = sqrt(2 * n * rate * (nats + 40))
    least = np.arange(max(0, int(n * rate - spread)), int(n * rate) + 1)
    log_cdf = binom.logcdf(least, n, rate)
    typical = least[np.searchsorted(log_cdf, -nats)] / n

    def world(rng, datasets):
        # the least of M uniform numbers is 1 - (1 - u)^(1/M), -ln(1 - u)/M in the limit
        errors = least[np.searchsorted(log_cdf, np.log(rng.exponential(size=datasets)) - nats)]
        risk = errors / n
        return Cases(
            {
                **dict.fromkeys(("risk", "mean", "second_moment", "share_1", "share_2", "calibration_error"), risk),
                **dict.fromkeys(("kl_nats", "log_density_ratio", "renyi_nats"), float(nats)),
                "mean_squared_gap": risk,
                "draws": 10**9,
                "count": exp(nats),
                "inverse_temperature": tilt(n, typical, rate),
                "n": n,
            },
            rate,
        )

    world.__doc__ = f"n = {n}, the luckiest of e^{nats:g} hypotheses of rate {rate:g}"
    return world


def lucky_brier(rng, datasets):
    """n = 1000, always sure, the luckiest of e^60 predictors of rate 0.3"""
    cases = lucky(1000, 60.0, 0.3)(rng, datasets)
    return Cases({**cases.columns, "brier": 2 * cases.columns["risk"]}, 2 * cases.truth)


def lucky_step(n, nats, rate, gamma):
    """The prior on e^nats hypotheses is kept for half of the sample; then the luckiest on the other half is taken."""
    second = lucky(n // 2, nats, rate)

    def world(rng, datasets):
        new = second(rng, datasets).columns["risk"]
        return Cases(
            {
                "risk": rate,  # the mean over the prior, of which the sample changes nothing
                "kl_nats": 0.0,
                "n": n,
                # ℓ(w) - gamma ℓ(w') of the luckiest w and a w' from the prior, which errs on every example at that rate
                "share_1": 1 - (1 - new) * rate,
                "share_2": new,
                "share_3": new * (1 - rate),
                "step_kl_nats": float(nats),
                "step_n": n // 2,
                "gamma": gamma,
            },
            rate,
        )

    world.__doc__ = f"n = {n}, the prior for half the sample, then the luckiest of e^{nats:g} on the other half"
    return world


def by_heart(n, rate, inverse_temperature, draws):
    """The prior labels every input by a coin of its own, so its Gibbs posterior learns the sample and nothing else.

    The mean loss of a hypothesis is ln 2 times its share of errors on the n examples; of ``draws`` prior draws the
    numbers of errors are multinomial. R(Q) is the rate, R̂(Q) = rate e^(-t)/(1 - rate + rate e^(-t)), t = C/n.
    Estimates are rounded to the safe side, so that few different ones occur.
    """
    errors = np.arange(n + 1)
    decay = exp(-inverse_temperature / n)

    def world(rng, datasets):
        counts = rng.multinomial(draws, binom.pmf(errors, n, rate), datasets)
        return Cases(
            {
                "log_mean_exp": np.floor(np.log(counts @ decay**errors / draws) * 20) / 20,
                "mean_loss": log(2) * np.ceil(1000 * (counts @ errors) / (n * draws)) / 1000,
                "tau": inverse_temperature / log(2),
                "loss_low": 0.0,
                "loss_high": log(2),
                "error_loss": log(2),
                "draws": draws,
                "posterior_risk": rate * decay / (1 - rate + rate * decay),
                "n": n,
                "epsilon": 0.0,
            },
            rate,
        )

    world.__doc__ = f"n = {n}, a Gibbs posterior that learns the labels by heart, {draws:.0e} prior draws"
    return world


def one_bin(n, rate, how):
    """One bin of confidence 0 that holds all examples, correct at this rate."""

    def world(rng, datasets):
        row = np.zeros((datasets, 1))
        return Cases(
            {
                "counts": row.astype(int) + n,
                "corrects": rng.binomial(n, rate, (datasets, 1)),
                "confidences": row,
                "true_gaps": row + rate,
                "min_count": 1,
            }
        )

    world.__doc__ = f"one bin of {n} examples, accuracy {rate:.3f}, {how}"
    return world


def coins(n, rate):
    """A large sample of coins, of which confidence bounds see mean and squares."""

    def world(rng, datasets):
        k = rng.binomial(n, rate, datasets)
        columns = dict.fromkeys(("mean", "second_moment", "calibration_error", "mean_squared_gap"), k / n)
        return Cases(columns | {"k": k, "n": n}, rate)

    world.__doc__ = f"{n} coins of rate {rate:g}"
    return world


def gaps(n, rate):
    """Gaps of 1 and -1 in one bin."""

    def world(rng, datasets):
        error = np.abs(2 * rng.binomial(n, rate, datasets) / n - 1) * (1 + 1e-12)
        return Cases({"calibration_error": error, "n": n}, abs(2 * rate - 1))

    world.__doc__ = f"n = {n}, gaps 1 and -1 in one bin, ECE {abs(2 * rate - 1):g}"
    return world


def none_at(n, nats):
    """The rate at which n examples are free of errors with probability e^-nats, or hardly less."""
    return -expm1(-nats / n) * _JUST_ABOVE
