"""Two ways to the law of a randomised network's outputs: whole networks drawn one by one, and what is tested."""

import numpy as np
import torch
from numpy.random import default_rng
from scipy import stats
from torch.func import functional_call

from pacdp.posterior import GaussianPosterior
from pacdp.stochastic import Draws
from pacdp.stochastic.intercept import by_example
from pacdp.stochastic.law import laws_of
from tests.pacdp.toys import seeded


def random_posterior(module, kind, *, seed=3, std=0.3):
    """Means of the module; ``kind`` of standard deviations: one for all, one a row, or one for each weight."""
    generator = seeded(seed)
    stds = {}
    for name, value in module.named_parameters():
        shape = {"isotropic": (), "rows": (value.shape[0], *[1] * (value.ndim - 1)), "diagonal": value.shape}[kind]
        stds[name] = std * (0.5 + torch.rand(shape, generator=generator))
    return GaussianPosterior.around(module, std=stds)


def fresh_outputs(module, posterior, inputs, draws):
    """Each example's outputs by its own draw, layer by layer and on the inputs' device."""
    buffers = {name: value.to(inputs.device) for name, value in posterior.buffers.items()}
    return by_example(module, laws_of(posterior, inputs.device), buffers, inputs, draws)


def whole_networks(module, posterior, x, *, draws, seed):
    """Outputs [draws, outputs] for the one input x, a whole network drawn for each, in a loop."""
    generator = seeded(seed)
    rows = []
    with torch.no_grad():
        for _ in range(draws):
            weights = {**posterior.sample(generator), **posterior.buffers}
            rows.append(functional_call(module, weights, (x[None],)).flatten())
    return torch.stack(rows).double().numpy()


def one_input(run, x, *, draws, seed):
    """Outputs [draws, outputs] for as many copies of x in one batch."""
    batch = x.expand(draws, *x.shape)
    numbers = Draws.of(seed=seed, number=0, examples=torch.arange(draws))
    return run(batch, numbers).flatten(1).double().numpy()


def least_p_value(ours, theirs):
    """Of Kolmogorov-Smirnov tests on outputs and on random mixtures of them, times the number of tests.

    Mixtures see covariances; the sum of all outputs is one of them.
    """
    rng = default_rng(0)
    outputs = ours.shape[1]
    single = np.eye(outputs)[rng.permutation(outputs)[:12]]
    directions = np.concatenate([single, rng.normal(size=(12, outputs)), np.ones((1, outputs))])
    found = [stats.ks_2samp(ours @ d, theirs @ d, method="asymp").pvalue for d in directions]
    return float(min(found) * len(found))


def covariance_deviation(ours, theirs):
    """The largest difference of covariances, in standard errors (of Gaussian outputs, roughly)."""
    first, second = np.cov(ours.T), np.cov(theirs.T)
    spread = np.sqrt((np.outer(np.diag(first), np.diag(first)) + first**2) * (1 / len(ours) + 1 / len(theirs)))
    return float((np.abs(first - second) / (spread + 1e-12)).max())
