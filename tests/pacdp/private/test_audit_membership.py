"""Membership inference: exact small cases, chance on independent data, success on a network that learnt by heart."""

import math

import numpy as np
import torch
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from private_toys import cross_entropy, fresh
from scipy import stats
from torch.nn import Linear, ReLU, Sequential
from torch.optim import Adam
from torch.testing import assert_close

from bounds.accounting import best_true_positive_rate
from pacdp.audit.membership import (
    attack_training,
    evaluate_attack,
    likelihood_ratios,
    logit_confidence,
    shadow_confidences,
)
from pacdp.private import planned
from tests.marks import near
from tests.pacdp.draws import randint, randn


def test_confidence_is_the_logit_of_the_softmax():
    outputs = randn(20, 5, dtype=torch.float64)
    targets = randint(0, 5, (20,), seed=1)
    p = outputs.softmax(1).gather(1, targets[:, None])[:, 0]
    assert_close(logit_confidence(outputs, targets), torch.log(p / (1 - p)), rtol=1e-12, atol=1e-12)
    assert float(logit_confidence(torch.tensor([[900.0, 0.0]]), torch.tensor([0]))) == 900.0


def test_area_counts_pairs():
    rng = default_rng(0)
    inside, outside = rng.integers(0, 6, 40).astype(float), rng.integers(0, 5, 30).astype(float)
    pairs = (inside[:, None] > outside).mean() + 0.5 * (inside[:, None] == outside).mean()
    made = evaluate_attack(np.concatenate([inside, outside]), np.arange(70) < 40)
    assert made.auc == near(pairs, abs=1e-12)


def test_likelihood_ratios_by_hand():
    shadows = np.array([[1.0, 4.0], [3.0, 6.0], [-1.0, 0.0], [-2.0, 1.0]])
    member = np.array([[True, False], [True, False], [False, True], [False, True]])
    attacked = np.array([2.0, 0.5])

    def density(x, values, std):
        return -0.5 * ((x - np.mean(values)) / std) ** 2 - math.log(std)

    inside, outside = (
        math.sqrt(sum(np.var(own, ddof=1) for own in pair) / 2) for pair in (([1, 3], [0, 1]), ([-1, -2], [4, 6]))
    )
    expected = [density(2.0, [1, 3], inside) - density(2.0, [-1, -2], outside),
                density(0.5, [0, 1], inside) - density(0.5, [4, 6], outside)]  # fmt: skip
    assert_allclose(likelihood_ratios(attacked, shadows, member), expected, rtol=1e-12)


def test_halves_are_complementary():
    confidences, member = shadow_confidences(lambda members: np.isin(np.arange(11), members) * 1.0, examples=11,
                                             shadows=6, generator=default_rng(0))  # fmt: skip
    assert (member.sum(0) == 3).all()
    assert_array_equal(confidences, member)
    assert len({tuple(row) for row in member}) == 6


def test_chance_on_scores_that_know_nothing(whole):
    """Over repetitions the band misses 1/2 no oftener than it says, and neither does the rate."""
    missed, runs = 0, 100 if whole else 60
    for seed in range(runs):
        rng = default_rng(seed)
        made = evaluate_attack(rng.standard_normal(300), np.arange(300) < 150, failure_prob=0.1)
        missed += not made.auc_lower <= 0.5 <= made.auc_upper
        assert made.auc_lower <= made.auc <= made.auc_upper
        assert made.true_positive_lower <= made.true_positive_rate <= made.true_positive_upper
    assert missed <= stats.binom.isf(1e-6, runs, 0.1)


def test_the_rate_at_few_false_alarms():
    outside, inside = np.arange(200.0), np.array([198.5, 197.5, 500.0, 196.5])
    member = np.arange(204) >= 200
    event = planned(1.0, sample_rate=0.1, steps=50)
    made, none = (evaluate_attack(np.concatenate([outside, inside]), member, false_positive_rate=rate, event=event)
                  for rate in (0.01, 0.001))  # fmt: skip
    assert (made.true_positive_rate, none.true_positive_rate) == (0.75, 0.25)
    assert (made.members, made.non_members) == (4, 200)
    direct = best_true_positive_rate(event=event, adjacency="replace-one", false_positive_rate=0.01)
    assert made.best_true_positive_rate == direct
    assert 0.01 < direct < 0.5


def _fit(x, y, steps):
    """Full-batch Adam on the members; confidences on all."""

    def fit(members):
        module = Sequential(fresh(Linear(10, 64)), ReLU(), fresh(Linear(64, 2)))
        adam = Adam(module.parameters(), lr=0.02)
        for _ in range(steps):
            adam.zero_grad()
            cross_entropy(module(x[members]), y[members]).mean().backward()
            adam.step()
        return logit_confidence(module(x), y).numpy()

    return fit


def test_a_network_that_learnt_by_heart_is_found_out_and_one_that_learnt_nothing_is_not(whole):
    """Random labels: nothing but the members' own labels can be learnt. Over seeds, found each time and never."""
    rates = []
    for seed in range(2):
        x, y = randn(200, 10, seed=seed), torch.arange(200) % 2
        learnt, not_learnt = (attack_training(_fit(x, y, steps), examples=200, shadows=8 if whole else 6,
                                              generator=default_rng(seed), failure_prob=1e-3)
                              for steps in (150 if whole else 100, 0))  # fmt: skip
        assert learnt.auc_lower > (0.65 if whole else 0.55)
        rates.append(learnt.true_positive_rate)
        assert not_learnt.auc_lower < 0.5 < not_learnt.auc_upper
    assert np.mean(rates) > 0.03, "three times the false alarms"
