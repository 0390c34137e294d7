"""Worlds with Monte Carlo: weights drawn from a posterior or a prior, and what was estimated from the draws."""

from math import exp, log, pi, sqrt

import numpy as np

from bounds import exponential_mechanism_epsilon
from bounds.partition import log_mean_exp
from tests.coverage.harness import Cases
from tests.coverage.tight import none_at
from tests.coverage.worlds import DELTA, gibbs, half_released, in_parts

ERROR_LOSS = log(2)


def fresh_weights(rng, datasets):
    """Gibbs risk, fresh weights for each of 60 examples (60 draws)."""
    n, hypotheses = 60, 6
    losses = rng.random((datasets, hypotheses, n)) < rng.uniform(0, 0.3, (datasets, hypotheses, 1))
    empirical = losses.mean(axis=2)
    posterior, _, _ = gibbs(1 / hypotheses, empirical, 5.0)
    chosen = (rng.random((datasets, n, 1)) > posterior.cumsum(axis=1)[:, None, :-1]).sum(axis=2)
    seen = np.take_along_axis(losses, chosen[:, None, :], axis=1)[:, 0, :]
    truth = (posterior * empirical).sum(axis=1)
    return Cases({"mean": seen.mean(axis=1), "draws": n}, truth)


def shared_weights(rng, datasets):
    """Gibbs risk, one draw of the weights for all 30 examples of a batch (20 batches, 20 draws)."""
    rate, batches = none_at(20, log(1 / DELTA)), 20
    bad = rng.random((datasets, batches)) < rate  # the weights err on all of a batch or on none of it
    return Cases({"mean": bad.mean(axis=1), "draws": batches, "examples": 30 * batches}, rate)


def unequal_batches(alike, fraction=1.0):
    """Gibbs risk, eleven mini-batches of which the last is smaller, at the rate that no error certifies."""
    sizes = np.array([10.0] * 10 + [3.0])
    least = 1 - DELTA ** (fraction * 10 / sizes.sum())
    rates = np.full(11, least * (1 + 1e-9)) if alike else np.linspace(0.05, 0.4, 11)

    def world(rng, datasets):
        bad = (rng.random((datasets, 11)) < rates).astype(np.float64)
        return Cases({"values": bad, "weights": np.tile(sizes, (datasets, 1))}, float(sizes @ rates / sizes.sum()))

    kind = f"{'alike' if alike else 'unlike'}, {rates[0]:.3f}"
    world.__doc__ = f"Gibbs risk, eleven mini-batches, the last smaller, risks {kind}"
    return world


def single_draw(rng, datasets):
    """Posterior whose hypotheses are always or never wrong, seen through 4 draws."""
    return Cases({"mean": rng.binomial(4, 0.45, datasets) / 4, "draws": 4, "kl_nats": 0.0, "n": 500}, 0.45)


def sampled_posterior(rng, datasets):
    """Gibbs posterior at tau = 60 over 30 hypotheses, n = 80, seen through 100 draws of (weights, example)."""
    n, draws, rates = 80, 100, np.linspace(0.05, 0.6, 30)
    empirical = rng.binomial(n, rates, (datasets, rates.size)) / n
    posterior, kl, _ = gibbs(1 / rates.size, empirical, 60.0)
    risk = (posterior * empirical).sum(axis=1)
    mean = rng.binomial(draws, np.minimum(1.0, risk)) / draws  # each pair errs with probability R̂(Q)
    return Cases({"mean": mean, "draws": draws, "kl_nats": kl, "n": n}, posterior @ rates)


def coin_loss(probability, tau, draws, name):
    """R̂ under the prior is 0 with this probability, else 1."""

    def world(rng, datasets):
        zeros = rng.binomial(draws, probability, datasets)
        with np.errstate(divide="ignore"):
            estimate = np.log((zeros + (draws - zeros) * np.exp(-tau)) / draws)
        return Cases(
            {
                "log_mean_exp": np.minimum(estimate, 0.0),
                "mean_loss": (draws - zeros) / draws,
                "tau": tau,
                "loss_low": 0.0,
                "loss_high": 1.0,
                "draws": draws,
            },
            log(probability + (1 - probability) * exp(-tau)),
        )

    world.__doc__ = f"{name}, {draws} prior draws"
    return world


def gibbs_without_draws(released, hypotheses, tau):
    """Exact Gibbs posteriors of which only prior draws are seen; cross-entropy is ln 2 on errors, else 0."""

    def world(rng, datasets):
        n, k, mechanism_tau = 50, 100, 5.0
        rates = np.linspace(0.05, 0.5, hypotheses) if hypotheses > 1 else np.array([0.12])

        def some(rng, many):
            empirical = rng.binomial(n, rates, (many, rates.size)) / n
            prior = np.full(empirical.shape, 1 / rates.size)
            if released:
                best = (-mechanism_tau * empirical + rng.gumbel(size=empirical.shape)).argmax(axis=1)
                prior = half_released(best, empirical.shape)
            posterior, _, _ = gibbs(prior, ERROR_LOSS * empirical, tau)
            drawn = (rng.random((many, k, 1)) > prior.cumsum(axis=1)[:, None, :-1]).sum(axis=2)
            losses = ERROR_LOSS * np.take_along_axis(empirical, drawn, axis=1)
            # rounded to the safe side, so that few different ones occur
            estimate = np.floor(np.log(np.exp(-tau * losses).mean(axis=1)) * 10) / 10
            return (estimate, np.minimum(ERROR_LOSS, np.ceil(losses.mean(axis=1) * 50) / 50), posterior @ rates)

        estimate, mean_loss, truth = in_parts(some, rng, datasets)
        columns = {
            "log_mean_exp": estimate,
            "mean_loss": mean_loss,
            "tau": tau,
            "loss_low": 0.0,
            "loss_high": ERROR_LOSS,
            "error_loss": ERROR_LOSS,
            "draws": k,
            "n": n,
            "epsilon": exponential_mechanism_epsilon(beta=1.0, tau=mechanism_tau, loss_range=1.0, n=n),
        }
        return Cases(columns, truth)

    prior_name = "a released" if released else "an independent"
    many = "one hypothesis" if hypotheses == 1 else f"{hypotheses} hypotheses"
    world.__doc__ = f"exact Gibbs posterior at tau = {tau:g} for {prior_name} prior on {many}, n = 50"
    return world


def annealed(rng, datasets):
    """Unadjusted Langevin annealing from N(0, 1) to a shifted well, 5 steps, 20 paths."""
    steps, paths, size, centre, scale = 5, 20, 0.15, 1.5, 2.0

    def log_normal(x, mean, variance):
        return -0.5 * (x - mean) ** 2 / variance - 0.5 * log(2 * pi * variance)

    def drift(w, level):  # a step towards e^(-level·loss) N(0, 1), loss = scale (w - centre)²/2
        return w - size * (w + level * scale * (w - centre))

    w = rng.normal(size=(datasets * paths,))
    weights = -log_normal(w, 0.0, 1.0)  # of importance: what was reached over how it was reached, of mean Z
    for level in np.arange(1, steps + 1) / steps:
        new = drift(w, level) + sqrt(2 * size) * rng.normal(size=w.shape)
        weights += log_normal(w, drift(new, level), 2 * size) - log_normal(new, drift(w, level), 2 * size)
        w = new
    weights += log_normal(w, 0.0, 1.0) - scale * (w - centre) ** 2 / 2
    truth = -0.5 * log(1 + scale) - scale * centre**2 / (2 * (1 + scale))
    return Cases({"log_mean_exp": np.array([log_mean_exp(row) for row in weights.reshape(datasets, paths)])}, truth)


def log_partition(fraction):
    """Where ln(1/failure_prob), or the best method's ln(2/failure_prob), is just not enough at this fraction of it."""
    nats, of = -fraction * log(DELTA), "" if fraction == 1.0 else f" at {fraction:.2g} of the cost"
    good, half = exp(-nats) * (1 - 1e-9), exp(-nats - fraction * log(2)) * (1 - 1e-9)
    most = exp(-nats / 30)
    return (
        coin_loss(good, 700.0, 1, f"one good hypothesis in {1 / good:.3g}{of}"),
        coin_loss(half, 700.0, 1, f"one good hypothesis in {1 / half:.3g}{of}"),
        coin_loss(most * (1 - 1e-9), 700.0, 30, f"one bad hypothesis in {1 / (1 - most):.3g}{of}"),
        coin_loss(1 - (1 - most) * 1.002, 1e-3, 30, f"a warm posterior{of}"),
    )


LOG_PARTITION = log_partition(1.0)
WEIGHTED = (unequal_batches(alike=True), unequal_batches(alike=False))
MONTE_CARLO = (shared_weights, fresh_weights)
OVERALL = (single_draw, sampled_posterior)
WITHOUT_DRAWS = (
    gibbs_without_draws(released=False, hypotheses=1, tau=30.0),
    gibbs_without_draws(released=False, hypotheses=20, tau=30.0),
)
WITHOUT_DRAWS_PRIVATE = (WITHOUT_DRAWS[0], gibbs_without_draws(released=True, hypotheses=20, tau=60.0))
