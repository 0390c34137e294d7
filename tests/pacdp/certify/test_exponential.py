"""The exponential mechanism over networks: its law, its privacy on all neighbours, its certificates."""

import itertools
from math import log

import numpy as np
import pytest
import torch
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy import stats
from torch import nn
from torch.nn import Linear

import bounds
from pacdp.certify import BoundSet
from pacdp.certify.finite import log_probabilities, said, select, selected_certificate


def test_the_law_of_the_draws():
    errors, weights = np.array([3, 5, 4, 9]), np.array([1.0, 2.0, 1.0, 3.0])
    generator = default_rng(0)
    draws = [select(errors, epsilon=0.8, generator=generator, weights=weights) for _ in range(5000)]
    expected = weights * np.exp(-0.4 * errors)
    found = stats.chisquare(np.bincount(draws, minlength=4), 5000 * expected / expected.sum())
    assert found.pvalue > 1e-6
    assert_allclose(log_probabilities(np.array([0, 10**6]), epsilon=1.0), [0.0, -5e5])


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_privacy_ratio_over_all_neighbours(epsilon):
    """Every table of losses of 3 networks on 3 examples against every one with one example replaced."""
    columns = list(itertools.product((0, 1), repeat=3))
    worst = 0.0
    for sample in itertools.combinations_with_replacement(columns, 3):
        before = log_probabilities(np.array(sample).sum(axis=0), epsilon=epsilon)
        for other in columns:
            after = log_probabilities(np.array((other, *sample[1:])).sum(axis=0), epsilon=epsilon)
            worst = max(worst, float(np.abs(before - after).max()))
    assert worst <= epsilon * (1.0 + 1e-12)
    assert worst > 0.6 * epsilon  # the claim is not idle


def test_error_counts_are_of_the_networks_and_count_ties():
    torch.manual_seed(0)
    inputs, labels = torch.randn(50, 4), torch.randint(0, 3, (50,))
    networks = [Linear(4, 3) for _ in range(3)]
    tie = Linear(4, 3)
    nn.init.zeros_(tie.weight)
    nn.init.zeros_(tie.bias)
    found = (said([*networks, tie], BoundSet(inputs=inputs, labels=labels), "cpu") != labels.numpy()).sum(axis=1)
    with torch.no_grad():
        expected = [int((network(inputs).argmax(dim=1) != labels).sum()) for network in networks]
    assert found.tolist() == [*expected, 50]


def test_certificates_are_those_of_pure_privacy():
    errors, n = np.array([30, 12, 40]), 1000
    chosen = select(errors, epsilon=0.05, generator=default_rng(1))
    made = selected_certificate(int(errors[chosen]), n=n, epsilon=0.05, failure_prob=0.05)
    risk = made.inputs["risk"]
    assert risk == pytest.approx(int(errors[chosen]) / n, rel=1e-15)
    assert made.value == bounds.printed.dp_kl_chernoff(risk=risk, n=n, epsilon=0.05, failure_prob=0.05).value
    assert made.status == "rigorous"


def test_coverage_of_the_chosen_network():
    """Thirty networks that guess: the best looks better than it is; the certificate of a private choice holds."""
    generator = default_rng(2)
    n, runs, failures, naive = 100, 400, 0, 0
    for _ in range(runs):
        errors = generator.binomial(n, 0.5, size=200)
        chosen = select(errors, epsilon=0.2, generator=generator)
        failures += selected_certificate(int(errors[chosen]), n=n, epsilon=0.2, failure_prob=0.1).value < 0.5
        best = int(errors.min()) / n
        naive += float(bounds.binary_kl_upper(best, log(1 / 0.1) / n)) < 0.5
    assert failures <= 0.1 * runs
    assert naive > 0.5 * runs
