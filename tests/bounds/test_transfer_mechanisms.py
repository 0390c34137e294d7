"""The general transfer against mechanisms whose failure probability can be computed to the last digits."""

from functools import partial
from itertools import product
from math import ceil, exp, expm1, log1p, prod

import numpy as np
import pytest
from cells import refused
from numpy.random import default_rng

from bounds import ApproxDP, GaussianDP, PrivacyLossDistribution
from bounds.transfer import transfer_cost

KNOWN = {"adjacency": "replace-one", "status": "exact mechanism"}


def discrete_gaussian(sigma):
    """Noise on the integers ∝ exp(-y²/(2σ²)), cut at 12σ, where its mass is below 1e-30."""
    y = np.arange(-ceil(12 * sigma), ceil(12 * sigma) + 1)
    weights = np.exp(-(y**2) / (2 * sigma**2))
    return y, weights / weights.sum()


def shift_law(sigma):
    """The exact privacy loss of adding 1 to an integer under that noise, (2y - 1)/(2σ²) at y: a grid."""
    y, noise = discrete_gaussian(sigma)
    y, with_record = (y[1:] + 1, noise[1:])  # the point that only the shifted law has goes to infinity, and conversely
    losses = 2 * y - 1
    spacing = 1 / (2 * sigma**2)
    masses = np.zeros(losses[-1] - losses[0] + 1)
    masses[losses - losses[0]] = with_record
    without = np.zeros_like(masses)
    without[losses - losses[0]] = with_record * np.exp(-spacing * losses)
    return PrivacyLossDistribution(
        spacing=spacing, lowest=int(losses[0]), with_record=masses, without_record=without,
        infinity_mass=float(noise[0]), zero_mass=float(noise[0]), **KNOWN,
    )  # fmt: skip


def log_ratio_tail(sigma, n, slope, threshold, cells_per_nat=300):
    """P(f > threshold) for n fair bits s_i released as y_i = s_i + noise, with E_S e^f = 1 for every y:

    f = Σ [slope (s_i - ½)(y_i - ½) - ln cosh(slope (y_i - ½)/2)]. The values of one term are rounded down to a grid,
    and n of them added by convolution, so that the result is a lower bound, close to the truth.
    """
    y, noise = discrete_gaussian(sigma)
    centred = y + 0.5  # the record is 1, its half 1/2; by symmetry 0 is alike
    terms = slope * centred / 2 - np.log(np.cosh(slope * centred / 2))
    kept = terms > -6.0  # a sample with a smaller term is left out
    cells = np.floor(terms[kept] * cells_per_nat).astype(int)
    low = cells.min()
    size = 1 << int(n * (cells.max() - low) + 1).bit_length()
    law = np.bincount(cells - low, weights=noise[kept], minlength=size)
    total = np.fft.irfft(np.fft.rfft(law, size) ** n, size)
    sums = (np.arange(size) + n * low) / cells_per_nat
    return float(total[sums > threshold].sum())


@pytest.mark.parametrize(("sigma", "n"), [(5.0, 60), (2.0, 40), (20.0, 400)])
@pytest.mark.parametrize("failure_prob", [0.4, 0.05, 1e-4])
def test_transfer_formal_guarantee_on_released_bits_exactly(sigma, n, failure_prob):
    for privacy in (shift_law(sigma), GaussianDP(mu=1.03 / sigma, **KNOWN)):
        cost = transfer_cost(privacy=privacy, n=n, failure_prob=failure_prob)
        for slope in (0.3 / sigma**2, 1 / sigma**2, 3 / sigma**2, 1.0):
            assert log_ratio_tail(sigma, n, slope, cost.nats) <= failure_prob * (1 + 1e-9)


def test_a_transfer_of_a_few_nats_would_be_caught():
    cheap = 3.3
    assert transfer_cost(privacy=shift_law(2.0), n=40, failure_prob=0.05).nats > cheap
    assert max(log_ratio_tail(2.0, 40, slope, cheap) for slope in (0.25, 0.4, 0.6)) > 0.05


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
