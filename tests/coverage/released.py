"""Worlds of the Gaussian mechanism: noisy sums of losses, exactly mu-GDP, and priors made from the least of them."""

import numpy as np

from bounds import GaussianDP
from tests.coverage.harness import Cases
from tests.coverage.worlds import in_parts, of_release


def noisy_sums(n, hypotheses, rate, mu, posterior_tau=0.0, free=0):
    """Σ (loss - 1/2) + N(0, s²) of every hypothesis; the least one is released, or a prior that is half on it.

    Without one record the vector of sums moves by √hypotheses/2: mu = √hypotheses/(2s) for adding or removing one.
    With ``free`` examples apart, the hypotheses are the better half on those.
    """
    noise = np.sqrt(hypotheses) / (2 * mu)
    pool = 2 * hypotheses if free else hypotheses
    rates = np.full(pool, rate) if posterior_tau == 0 else np.linspace(0.2, 1.8, pool) * rate

    def world(rng, datasets):
        risk, kl, truth = in_parts(_some, rng, datasets)
        privacy = GaussianDP(mu=mu, adjacency="add-remove", status="exact mechanism")
        return Cases({"risk": risk, "kl_nats": kl, "n": n, "n_bound": n, "privacy": privacy}, truth)

    def _some(rng, many):
        kept = np.tile(np.arange(pool), (many, 1))
        if free:
            kept = rng.binomial(free, rates, (many, pool)).argsort(axis=1)[:, :hypotheses]
        true = rates[kept]
        sums = rng.binomial(n, true)
        released = (sums - n / 2 + noise * rng.normal(size=sums.shape)).argmin(axis=1)
        return of_release(released, sums / n, true, posterior_tau)

    what = "the released hypothesis" if posterior_tau == 0 else "Gibbs posterior on a released prior"
    apart = f", the better half on {free} examples apart" if free else ""
    world.__doc__ = f"n = {n}, Gaussian mechanism, mu = {mu:g}, {hypotheses} hypotheses{apart}, {what}"
    return world


OVERFIT = noisy_sums(n=100, hypotheses=400, rate=0.3, mu=3.0)
WEIGHTS = (
    noisy_sums(n=100, hypotheses=2, rate=0.06, mu=0.05),
    noisy_sums(n=100, hypotheses=100, rate=0.3, mu=0.3),
    OVERFIT,
)
PRIORS = (
    noisy_sums(n=100, hypotheses=2, rate=0.06, mu=0.05, posterior_tau=10.0),
    noisy_sums(n=100, hypotheses=50, rate=0.4, mu=0.3, posterior_tau=60.0),
)
HYBRID = (
    noisy_sums(n=100, hypotheses=20, rate=0.1, mu=0.05, posterior_tau=30.0, free=100),
    noisy_sums(n=100, hypotheses=50, rate=0.3, mu=0.3, free=100),
)
