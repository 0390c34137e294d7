"""Samples, finite hypothesis classes, private priors: data sets whose truth is known exactly.

Each function draws ``datasets`` data sets at once. Losses are 0-1 and independent across hypotheses unless the world
says otherwise, so empirical risks are binomial. The first line of the docstring names the world in the table.
"""

import numpy as np

from bounds import PureDP, clopper_pearson_upper, exponential_mechanism_epsilon, log_xi
from tests.coverage.harness import DELTA, Cases
from tests.coverage.tight import none_at

_JUST_ABOVE = 1 + 1e-9


def tail(n, *, at=None, rate=0.0):
    """A given rate, or one just above the exact upper bound ``at`` so many errors: the least favourable one."""
    rate = rate if at is None else clopper_pearson_upper(at, n, DELTA) * _JUST_ABOVE

    def world(rng, datasets):
        k = rng.binomial(n, rate, datasets)
        return Cases({"k": k, "n": n, "mean": k / n, "draws": n}, rate)

    where = "" if at is None else f", just above the exact bound at {at} errors"
    world.__doc__ = f"n = {n}, rate {rate:.3f}{where}"
    return world


def point(n, cost, hypotheses=1, fraction=1.0):
    """A point posterior on the luckiest of hypotheses, at the rate that a kl bound of this cost gives for no error."""
    rate = -np.expm1(-fraction * (cost + np.log(hypotheses / DELTA)) / n) * (1 + 1e-6)

    def world(rng, datasets):
        errors = luckiest(rng, datasets, hypotheses, n, rate)
        return Cases({"risk": errors / n, "kl_nats": np.log(hypotheses), "n": n}, rate)

    who = "one hypothesis" if hypotheses == 1 else f"point posterior on the luckiest of {hypotheses} hypotheses"
    world.__doc__ = f"n = {n}, {who}, rate {rate:.3f}"
    return world


def luckiest(rng, datasets, hypotheses, n, rate):
    """The fewest errors among independent hypotheses of one rate, a number a data set."""
    (errors,) = in_parts(lambda rng, many: [rng.binomial(n, rate, (many, hypotheses)).min(axis=1)], rng, datasets)
    return errors


def chunks(datasets):
    return np.array_split(np.arange(datasets), max(1, datasets // 1000))


def in_parts(draw, rng, datasets):
    """The columns that ``draw`` returns for so many data sets, drawn a thousand at a time, which bounds the memory."""
    parts = [draw(rng, len(part)) for part in chunks(datasets)]
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def gibbs(prior, empirical, tau):
    """Exact Gibbs posteriors Q ∝ P e^(-tau R̂), their KL(Q‖P) and ln Z, row by row."""
    logits = np.log(prior) - tau * empirical
    top = logits.max(axis=1, keepdims=True)
    weights = np.exp(logits - top)
    log_partition = (top + np.log(weights.sum(axis=1, keepdims=True))).ravel()
    posterior = weights / weights.sum(axis=1, keepdims=True)
    kl = -tau * (posterior * empirical).sum(axis=1) - log_partition
    return posterior, np.maximum(kl, 0.0), log_partition


def gibbs_class(n, tau, rates, correlated=False):
    """Exact Gibbs posteriors over a finite class."""
    rates = np.asarray(rates)

    def world(rng, datasets):
        if correlated:  # one uniform number an example decides for all hypotheses
            u = rng.random((datasets, n, 1))
            errors = np.stack([(u[:, :, 0] < rate).sum(axis=1) for rate in rates], axis=1)
        else:
            errors = rng.binomial(n, rates, (datasets, rates.size))
        posterior, kl, _ = gibbs(1 / rates.size, errors / n, tau)
        risk = np.minimum(1.0, (posterior * errors / n).sum(axis=1))
        return Cases({"risk": risk, "kl_nats": kl, "n": n}, posterior @ rates)

    how = "comonotone" if correlated else "independent"
    world.__doc__ = f"n = {n}, Gibbs posterior at tau = {tau:g} over {rates.size} {how} hypotheses"
    return world


def half_released(released, shape):
    """Priors that are half on the hypothesis that was released, half uniform, row by row."""
    prior = np.full(shape, 0.5 / shape[1])
    prior[np.arange(shape[0]), released] += 0.5
    return prior


def of_release(released, empirical, rates, tau):
    """Risk, divergence and truth of the released hypothesis, or of a Gibbs posterior on a prior that is half on it."""
    if tau == 0:
        rows = np.arange(len(released))
        return empirical[rows, released], np.zeros(rows.size), rates[rows, released]
    posterior, kl, _ = gibbs(half_released(released, empirical.shape), empirical, tau)
    return np.minimum(1.0, (posterior * empirical).sum(axis=1)), kl, (posterior * rates).sum(axis=1)


def private_release(n, hypotheses, rate, tau, posterior_tau=0.0):
    """A hypothesis released by the exponential mechanism; prior half on it, half uniform, if a posterior is formed."""

    def world(rng, datasets):
        risk, kl, truth = in_parts(some, rng, datasets)
        epsilon = exponential_mechanism_epsilon(beta=1.0, tau=tau, loss_range=1.0, n=n)
        return Cases(
            {
                "risk": risk,
                "kl_nats": kl,
                "n": n,
                "epsilon": epsilon,
                "privacy": PureDP(epsilon=epsilon, adjacency="replace-one", status="exact mechanism"),
            },
            truth,
        )

    def some(rng, many):
        rates = np.full(hypotheses, rate) if posterior_tau == 0 else np.linspace(0.2, 0.8, hypotheses) * 2 * rate
        empirical = rng.binomial(n, rates, (many, hypotheses)) / n
        released = (-tau * empirical + rng.gumbel(size=empirical.shape)).argmax(axis=1)
        return of_release(released, empirical, np.broadcast_to(rates, empirical.shape), posterior_tau)

    what = "the released hypothesis" if posterior_tau == 0 else "Gibbs posterior on a released prior"
    world.__doc__ = f"n = {n}, exponential mechanism, epsilon = {2 * tau / n:.3g}, {hypotheses} hypotheses, {what}"
    return world


def checkpoints(n, count, at):
    """Hypotheses compared on one test set each, at the rate where no error at all has probability ``at``."""
    rate = (1 - at ** (1 / n)) * _JUST_ABOVE

    def world(rng, datasets):
        return Cases({"errors": rng.binomial(n, rate, (datasets, count)), "n": n}, rate)

    world.__doc__ = f"n = {n}, best of {count} checkpoints of rate {rate:.3f}"
    return world


def prior_grid(n, count):
    """Point priors on every hypothesis of a class, the best chosen by its certificate."""

    def world(rng, datasets):
        rate = none_at(n, np.log(count / DELTA) + log_xi(n))
        return Cases({"risk": luckiest(rng, datasets, count, n, rate) / n, "n": n, "count": count}, rate)

    world.__doc__ = f"n = {n}, best of {count} point priors"
    return world


TAILS = (tail(40, at=0), tail(40, at=3), tail(100, at=10), tail(40, rate=0.04))
PAC_BAYES = (
    point(n=2, cost=log_xi(2)),
    point(n=30, cost=0.0),
    point(n=30, cost=log_xi(30)),
    point(n=30, cost=log_xi(30), hypotheses=100),
    point(n=30, cost=-1.0, hypotheses=100),
    gibbs_class(n=50, tau=15.0, rates=np.linspace(0.1, 0.6, 40)),
    gibbs_class(n=50, tau=200.0, rates=np.full(60, 0.3)),
    gibbs_class(n=40, tau=100.0, rates=np.linspace(0.05, 0.5, 20), correlated=True),
)
PRIVATE = (
    private_release(n=100, hypotheses=800, rate=0.3, tau=100.0),
    private_release(n=100, hypotheses=100, rate=0.3, tau=10.0),
    private_release(n=60, hypotheses=2, rate=0.06, tau=3.0),
    private_release(n=100, hypotheses=50, rate=0.4, tau=20.0, posterior_tau=60.0),
)
CHECKPOINTS = (checkpoints(n=40, count=10, at=DELTA / 10), checkpoints(n=40, count=10, at=DELTA))
PRIOR_GRID = (prior_grid(n=20, count=50),)
