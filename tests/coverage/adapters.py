"""Between a world's columns and a bound that wants them otherwise; ``fraction`` is that of the cost (see ``costs``)."""

from functools import lru_cache, partial
from math import expm1, log

import numpy as np

import bounds
from bounds import (
    FailureBudget,
    best_of,
    catoni,
    empirical_bernstein_upper,
    gibbs_risk_upper,
    maurer,
    overall_certificate,
    second_moment_upper,
)
from bounds.refined import ExcessStep
from bounds.reliability import ConfidenceBin
from tests.coverage import catalogue
from tests.coverage.costs import at_fraction, bernstein

TEMPERATURES = (0.3, 1.0, 3.0, 20.0)
_NEARLY_ONE = 1 - 1e-12


def shared(failure_prob, ways, fraction):
    """What is left to spend of a failure probability when ln(ways/failure_prob) is scaled."""
    return min(_NEARLY_ONE, ways * (failure_prob / ways) ** fraction)


@lru_cache(maxsize=4096)
def risk_upper(k, n, failure_prob):
    return gibbs_risk_upper(mean=k / n, draws=n, failure_prob=failure_prob)


def checkpoints_at_share(errors, n, failure_prob, fraction=1.0):
    total = shared(failure_prob, len(errors), fraction)
    each = FailureBudget(total).spend("checkpoints", total).share("checkpoints", len(errors))
    return best_of([risk_upper(int(k), n, each) for k in errors], budget=total)


def prior_grid_paid(risk, n, count, failure_prob):  # the least risk has the least certificate
    return maurer(risk=risk, kl_nats=0.0, n=n, failure_prob=failure_prob / count)


def overall(bound, mean, draws, kl_nats, n, failure_prob, fraction=1.0):
    budget = FailureBudget.split(failure_prob, **{"Monte Carlo": 1, "PAC step": 4})
    share = budget.spent["Monte Carlo"]
    step = partial(bound, kl_nats=kl_nats, n=n)
    if fraction == 1.0:
        risk = gibbs_risk_upper(mean=mean, draws=draws, failure_prob=share)
        return overall_certificate(risk=risk, bound=step, budget=budget)
    risk = gibbs_risk_upper(mean=mean, draws=draws, failure_prob=share**fraction)
    return at_fraction(step(risk=risk.value, failure_prob=budget.spent["PAC step"]), fraction)


def log_partition_best(log_mean_exp, mean_loss, tau, loss_low, loss_high, draws, failure_prob, fraction=1.0):
    told = dict(log_mean_exp=log_mean_exp, mean_loss=mean_loss, tau=tau, loss_low=loss_low, loss_high=loss_high)
    return bounds.partition.log_partition_best(**told, draws=draws, failure_prob=shared(failure_prob, 2, fraction))


def without_draws(bound, log_mean_exp, mean_loss, tau, loss_low, loss_high, draws, n, failure_prob, **more):
    partition = log_partition_best(log_mean_exp, mean_loss, tau, loss_low, loss_high, draws, failure_prob / 5)
    told = {"log_partition_lower_nats": partition.nats, "log_partition_failure_prob": partition.failure_prob}
    told |= {"tau": tau, "loss_low": loss_low, "loss_high": loss_high, "n": n}
    return bound(**told, failure_prob=failure_prob * 4 / 5, **more)


def gibbs_pac_bayes(log_mean_exp, mean_loss, tau, loss_low, loss_high, error_loss, draws, n, failure_prob):
    told = locals()
    return without_draws(bounds.gibbs_pac_bayes, **told)


def dp_gibbs_pac_bayes(log_mean_exp, mean_loss, tau, loss_low, loss_high, error_loss, draws, n, epsilon, failure_prob):
    told = locals()
    return without_draws(bounds.printed.dp_gibbs_pac_bayes, **told)


def gibbs_catoni(
    log_mean_exp, mean_loss, tau, loss_low, loss_high, draws, n, failure_prob, posterior_risk=None, fraction=1.0
):
    """At a fraction the posterior's own part of -ln Z, C R̂(Q), is not scaled: it is no cost."""
    made = without_draws(bounds.gibbs_catoni, log_mean_exp, mean_loss, tau, loss_low, loss_high, draws, n, failure_prob)
    if fraction == 1.0:
        return made
    spread = tau * (loss_high - loss_low)
    free = -made.inputs["log_partition_lower_nats"] - log(made.inputs["failure_prob"])
    exponent = fraction * free + (1 - fraction) * spread * posterior_risk
    return expm1(-exponent / n) / expm1(-spread / n)


def linear(risk, kl_nats, n, failure_prob, inverse_temperature=None):
    lam = n / (inverse_temperature or n)
    return bounds.linear(risk=risk, kl_nats=kl_nats, n=n, failure_prob=failure_prob, lam=lam)


def best_of_catoni(risk, kl_nats, n, failure_prob, inverse_temperature=None, fraction=1.0):
    grid = _grid(n, inverse_temperature)
    each = failure_prob / len(grid)
    made = [catoni(risk=risk, kl_nats=kl_nats, n=n, failure_prob=each, inverse_temperature=c) for c in grid]
    return best_of(made, budget=failure_prob) if fraction == 1.0 else min(at_fraction(one, fraction) for one in made)


def catoni_grid(risk, kl_nats, n, failure_prob, inverse_temperature=None):
    grid = _grid(n, inverse_temperature)
    return bounds.catoni_grid(risk=risk, kl_nats=kl_nats, n=n, failure_prob=failure_prob, inverse_temperatures=grid)


def _grid(n, best):
    return [n * c for c in TEMPERATURES] if best is None else [best * c for c in (0.25, 0.5, 1.0, 2.0)]


def split_kl(share_1, share_2, kl_nats, n, failure_prob):
    levels, shares = (0.0, 0.25, 1.0), (share_1, share_2)
    return bounds.split_kl(levels=levels, shares=shares, kl_nats=kl_nats, n=n, failure_prob=failure_prob)


def recursive(risk, kl_nats, n, share_1, share_2, share_3, step_kl_nats, step_n, gamma, failure_prob):
    step = ExcessStep(shares=(share_1, share_2, share_3), kl_nats=step_kl_nats, n=step_n)
    return bounds.recursive(risk=risk, kl_nats=kl_nats, n=n, steps=[step], gamma=gamma, failure_prob=failure_prob)


def prior_scale(risk, scale, index, n, failure_prob):
    (nats,) = (point.nats for point in catalogue.neighbours(scale) if point.index == index)
    return maurer(risk=risk, kl_nats=nats, n=n, failure_prob=failure_prob)


def empirical_bernstein(failure_prob, values=None, k=None, n=None, fraction=1.0):
    values = 1.0 * (np.arange(n) < k) if values is None else values
    return empirical_bernstein_upper(values, shared(failure_prob, 2, fraction))


def second_moment(mean, second_moment, n, failure_prob, fraction=1.0):
    if fraction == 1.0:
        return second_moment_upper(mean, second_moment, n, failure_prob)
    return bernstein(mean, second_moment, fraction * log(20 / failure_prob) / n)


private_catoni = partial(bounds.printed.private_catoni, inverse_temperature=100.0)


def half_brier(brier, kl_nats, n, failure_prob, fraction=1.0):
    """Half the Brier loss lies in [0, 1]: twice what bounds it bounds the Brier risk."""
    made = maurer(risk=brier / 2, kl_nats=kl_nats, n=n, failure_prob=failure_prob)
    return 2.0 * (made.value if fraction == 1.0 else at_fraction(made, fraction))


def mce(bound, ways, counts, corrects, confidences, true_gaps, failure_prob, min_count=5, fraction=1.0):
    """How far the closest bound lies above its bin's true gap; below zero if one of them fails."""
    bins = [_bin(*numbers) for numbers in zip(counts.tolist(), corrects.tolist(), confidences.tolist(), strict=True)]
    left = shared(failure_prob, ways * len(counts), fraction)
    made = bound(bins=bins, min_count=min_count, failure_prob=left)
    return min(made.terms[f"gap_{b}"] - true for b, true in enumerate(true_gaps))


mce_hoeffding = partial(mce, bounds.mce_hoeffding, 1)
mce_clopper_pearson = partial(mce, bounds.mce_clopper_pearson, 2)


def _bin(count, correct, confidence):
    low, high = max(0.0, confidence - 0.005), min(1.0, confidence + 0.005)
    return ConfidenceBin(low=low, high=high, count=count, correct=correct, mean_confidence=confidence)
