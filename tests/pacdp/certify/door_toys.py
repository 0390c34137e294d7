"""Small examples, networks and laws for the tests of the door."""

import numpy as np
import torch
from scipy.stats import binom
from torch import nn
from torch.nn import Linear

import bounds
from pacdp import GaussianPosterior, Network, Prior, certify
from pacdp.certify import BoundSet, DataFree, MonteCarlo
from pacdp.data import Split, index_hash
from tests.pacdp.toys import seeded

MU = bounds.GaussianDP(mu=0.02, adjacency="add-remove", status="accounted")
PURE = bounds.PureDP(epsilon=0.01, adjacency="replace-one", status="exact mechanism")
QUICK = MonteCarlo(passes=1)


def examples(n=60, *, seed=0, people=None):
    """Two Gaussian classes, which the first coordinate tells apart, but for a few."""
    generator = seeded(seed)
    labels = torch.randint(0, 2, (n,), generator=generator)
    inputs = torch.randn(n, 4, generator=generator)
    inputs[:, 0] += 3.0 * labels - 1.5
    return BoundSet(inputs=inputs, labels=labels, people=people)


def network():
    module = Linear(4, 1, bias=False)
    nn.init.zeros_(module.weight)
    module.weight.data[0, 0] = 1.0
    return module.eval()


def law(std=0.1):
    return GaussianPosterior.around(network(), std=std)


def gaussian(data=None, source=None, **options):
    """The door's assessment of a Gaussian around the network, by default with a prior that is free of data."""
    prior = Prior(law=law(), source=source or DataFree())
    given = {"prior": prior, "network": network(), "monte_carlo": QUICK, **options}
    return certify(given.pop("law", law()), data or examples(), **given)


def plain(data=None, **options):
    """The door's assessment of the network as it is."""
    return certify(Network(network=network()), data or examples(), **options)


def coins(rng, n):
    """Rows, and labels that are coins, so that every head errs on half of what is new."""
    return torch.tensor(rng.normal(size=(n, 40))), torch.tensor(rng.integers(0, 2, n))


def require_held(missed, runs, failure_prob):
    """The first bound failed no oftener than it says; the second, without what is paid for, far more often."""
    assert binom.sf(missed[0] - 1, runs, failure_prob) > 1e-4
    assert binom.sf(missed[1] - 1, runs, failure_prob) < 1e-9


def split(start, stop):
    return Split(np.arange(start, stop), index_hash(np.arange(start, stop)))
