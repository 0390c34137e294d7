"""The general transfer against mechanisms whose failure probability can be computed to the last digits."""

from functools import partial
from itertools import product
from math import exp, expm1, log1p, prod

import numpy as np
import pytest
from cells import refused
from numpy.random import default_rng

from bounds import ApproxDP
from bounds.transfer import transfer_cost

KNOWN = {"adjacency": "replace-one", "status": "exact mechanism"}


def worst_failure(prior, kernel, n, nats):
    """max P(f > nats) over all f with E_S e^f(y, S) ≤ 1: for each y, the likeliest S of prior mass at most e^-nats."""
    samples = list(product(range(len(prior)), repeat=n))
    masses = np.array([prod(prior[value] for value in sample) for sample in samples])
    likelihoods = np.array([kernel(sample) for sample in samples])
    failure = 0.0
    for column in likelihoods.T:
        order = np.argsort(-column)
        taken = np.cumsum(masses[order]) * exp(nats)
        kept = taken < 1.0
        failure += float((masses[order] * column[order])[kept].sum())
    return failure


@pytest.mark.parametrize("seed", range(8))
def test_approximate_privacy_formal_guarantee_on_random_finite_mechanisms(seed):
    """A random kernel on 3 records of 4 values; its own delta at several epsilons is computed exactly."""
    rng = default_rng(seed)
    n, prior = 3, [0.9, 0.06, 0.03, 0.01]
    base, leak = rng.dirichlet(np.ones(5)), rng.uniform(0.001, 0.004)
    tilts = rng.normal(scale=rng.choice([0.05, 0.3, 1.0]), size=(n, 4, 5))

    def kernel(sample):
        weights = base * np.exp(sum(tilts[i, value] for i, value in enumerate(sample)))
        exact = np.zeros(4)
        exact[sample[0]] = leak
        return np.concatenate([(1 - leak) * weights / weights.sum(), exact])

    samples = list(product(range(4), repeat=n))
    pairs = [(a, b) for a in samples for b in samples if sum(x != y for x, y in zip(a, b, strict=True)) == 1]
    laws = {sample: kernel(sample) for sample in samples}
    largest = max(np.abs(np.log(laws[a][:5] / laws[b][:5])).max() for a, b in pairs)
    for epsilon in (largest, largest / 2, largest / 4):
        delta = max(float(np.maximum(laws[a] - exp(epsilon) * laws[b], 0).sum()) for a, b in pairs)
        privacy = ApproxDP(epsilon=epsilon, delta=delta * (1 + 1e-12), **KNOWN)
        for failure_prob in (0.05, 0.2, 0.6):
            if n * delta * 1.1 < failure_prob:
                nats = transfer_cost(privacy=privacy, n=n, failure_prob=failure_prob).nats
                assert worst_failure(prior, kernel, n, nats) <= failure_prob


def test_a_mechanism_that_publishes_each_record_with_probability_delta_uses_up_n_delta():
    """f = ln N on seeing one of N equally likely values published has E_S e^f ≤ 1 and is as large as one likes."""
    n, delta = 50, 1e-4
    cost = partial(transfer_cost, privacy=ApproxDP(epsilon=1e-6, delta=delta, **KNOWN), n=n)
    published = -expm1(n * log1p(-delta))
    assert cost(failure_prob=0.05).terms["unbounded_prob"] >= published
    refused(r"^privacy must bound", cost, failure_prob=published)
