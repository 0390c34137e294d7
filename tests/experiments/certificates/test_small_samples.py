"""Draws of few records, whose halves and test are other people's, and the private prior's honesty on coins."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

import bounds
from experiments.runs.small_samples import SmallConfig, private_head, sample
from pacdp.certify import BoundSet
from pacdp.data import load
from pacdp.features import fit_mean, gaussian_errors, unit
from pacdp.private import privacy_claim, runs_of, steps_of
from tests.marks import near
from tests.pacdp.toys import seeded

CONFIG = SmallConfig(dataset="digits", features="coarse-gradients", n=10)


@pytest.fixture
def of_people(monkeypatch):
    train, test = load("digits")
    train = replace(train, people=np.arange(train.n) // 20, unit="writer")
    monkeypatch.setattr("experiments.runs.small_samples.load", lambda name, root: (train, test))
    return train


def people(part):
    return set(part.people.tolist())


def test_no_person_is_in_two_parts(of_people):
    drawn = sample(CONFIG)
    first, second, test = people(drawn.first), people(drawn.second), people(drawn.test)
    assert (len(first), len(second)) == (5, 5)
    assert people(drawn.data) == first | second
    assert not first & second
    assert not test & people(drawn.data)
    assert len(test) == of_people.units - 10
    assert drawn.data.units == 10
    assert drawn.data.n == np.isin(of_people.people, list(first | second)).sum()

    drawn = sample(replace(CONFIG, one_each=True))  # an image of each person makes images the records
    assert (drawn.data.n, drawn.first.n, drawn.second.n) == (10, 5, 5)
    assert drawn.data.people is None


def test_another_seed_draws_others():
    one, other = (sample(replace(CONFIG, seed=seed)) for seed in (0, 1))
    assert one.data.rows.digest != other.data.rows.digest
    assert not set(map(bytes, one.first.inputs.numpy())) & set(map(bytes, one.second.inputs.numpy()))


def certified(head_mu, seed):
    """Certificate, the same with Λ dropped, true risk: uniform labels, more features than examples."""
    generator = seeded(seed)
    n, dim = 100, 400
    rows = unit(torch.randn((n, dim), generator=generator))
    labels = torch.randint(0, 2, (n,), generator=generator)
    settings = replace(CONFIG, head_mu=head_mu, steps=5, clip_norm=1.0, path=200.0, seed=seed)
    head, history = private_head(BoundSet(inputs=rows, labels=labels), 2, settings)
    claim = privacy_claim(history, adjacency="add-remove")
    assert steps_of(history) == 5
    assert all(step.sample_rate == 1.0 for step, _ in runs_of(history))
    assert claim.mu == near(head_mu, rel=1e-9)
    transfer = bounds.transfer.transfer_cost(privacy=claim, n=n, failure_prob=0.05).nats
    mean = fit_mean(rows, labels, prior_mean=head, std=1.0, cost_nats=bounds.log_xi(n) + transfer, iterations=5)
    risk = min(1.0, float(gaussian_errors(rows @ mean.T, labels).mean()))
    kl_nats = float((mean - head).double().square().sum()) / 2.0
    step = partial(bounds.printed.private_pac_bayes, risk=risk, kl_nats=kl_nats, n=n, failure_prob=0.05)
    blind = bounds.GaussianDP(mu=0.0, adjacency="add-remove", status="accounted")
    return step(privacy=claim).value, step(privacy=blind).value, 0.5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_coverage_of_the_private_route_and_of_its_planted_bug():
    """Labels are coins, so every predictor's risk is 1/2. The honest certificate holds at little and at much privacy;
    with the cost of privacy dropped, a head that memorises is certified far below 1/2."""
    runs = 60
    for mu in (0.05, 0.5, 50.0):
        found = [certified(mu, seed) for seed in range(runs)]
        assert sum(honest < truth for honest, _, truth in found) <= 0.05 * runs
    assert sum(cheating < truth for _, cheating, truth in found) > 0.9 * runs
