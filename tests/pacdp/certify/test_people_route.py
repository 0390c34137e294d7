"""Gaussian posteriors on examples of people: n counts people, and the sampled risk weighs every person alike."""

import numpy as np
import pytest
import torch
from torch import nn

import bounds
from pacdp import BoundSet, DataFree, GaussianPosterior, HeldOut, MonteCarlo, Prior, Private, certify
from pacdp.data import DataError
from pacdp.losses import brier, zero_one
from pacdp.stochastic import mean_risks

SIZES = (3, 9, 4, 12, 3, 7, 5, 6, 11, 4)


def people_of(sizes=SIZES, start=0):
    return np.repeat(np.arange(start, start + len(sizes)), sizes).astype(np.int64)


def examples(*, seed=0, sizes=SIZES, start=0):
    people = people_of(sizes, start)
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 2, (len(people),), generator=generator)
    inputs = torch.randn(len(people), 4, generator=generator)
    inputs[:, 0] += 2.0 * labels - 1.0
    return BoundSet(inputs=inputs, labels=labels, people=people)


def around(std, *, scale=1.0):
    module = nn.Linear(4, 1, bias=False)
    nn.init.zeros_(module.weight)
    module.weight.data[0, 0] = scale
    return GaussianPosterior.around(module.eval(), std=std)


def module():
    return nn.Linear(4, 1, bias=False).eval()


def test_weights_without_noise_give_the_mean_over_people_exactly():
    data, law = examples(), around(0.0)
    found, square = mean_risks(
        module(), law, inputs=data.inputs, labels=data.labels, losses=(zero_one(), brier()), passes=3, seed=0,
        people=data.people,
    )  # fmt: skip
    wrong = ((data.inputs[:, 0] > 0).long() != data.labels).numpy().astype(float)
    sample = bounds.people_sample(losses=wrong, people=data.people)
    assert found.mean == pytest.approx(sample.person_risk, rel=1e-9)
    assert found.mean >= float(np.mean([wrong[data.people == p].mean() for p in range(len(SIZES))])) * (1 - 1e-15)
    assert (found.people, found.terms) == (len(SIZES), len(SIZES) * 3 * min(SIZES))
    twin = bounds.new_person_monte_carlo(sample=sample, passes=3, failure_prob=0.01)
    assert found.upper(0.01).value == pytest.approx(twin.value, rel=1e-9)
    own = torch.tensor(
        [2.0 * float(torch.sigmoid(-(2 * y - 1) * x)) ** 2 for x, y in zip(data.inputs[:, 0], data.labels, strict=True)]
    )
    each = [float(own[torch.from_numpy(data.people == p)].mean()) for p in range(len(SIZES))]
    assert square.mean == pytest.approx(np.mean(each) / 2.0, rel=1e-6)


def test_batches_and_order_do_not_matter():
    data, law = examples(), around(0.5)
    at = {"inputs": data.inputs, "labels": data.labels, "losses": (zero_one(),), "passes": 2, "seed": 4}
    (whole,) = mean_risks(module(), law, **at, people=data.people)
    (parts,) = mean_risks(module(), law, **at, people=data.people, batch_size=5)
    assert whole == parts
    (renamed,) = mean_risks(module(), law, **at, people=1000 - data.people)
    assert renamed == whole
    with pytest.raises(ValueError, match="expected people for each"):
        mean_risks(module(), law, **at, people=data.people[:-1])


def test_a_gaussian_posterior_counts_people():
    data, test = examples(), examples(seed=1, start=50)
    law, prior = around(0.2), around(0.2, scale=0.5)
    how = MonteCarlo(passes=3)
    found = certify(law, data, prior=Prior(law=prior, source=DataFree()), network=module(), test=test, monte_carlo=how)
    assert (found.n, found.unit, found.examples) == (len(SIZES), "person", sum(SIZES))
    made = found.certificate(measures="0-1 risk of a new person")
    assert made.inputs["n"] == len(SIZES)
    assert made.hypothesis("records independent").unit == "person"
    inner = bounds.gibbs_risk_upper(
        mean=found.monte_carlo[0]["mean"], draws=len(SIZES) * 3 * min(SIZES), failure_prob=0.005
    )
    kl = law.kl_nats(prior)
    twin = bounds.maurer(risk=inner.value, kl_nats=kl, n=len(SIZES), failure_prob=0.045)
    assert made.value == pytest.approx(twin.value, rel=1e-9)
    single = BoundSet(inputs=data.inputs, labels=data.labels)
    plain = certify(law, single, prior=Prior(law=prior, source=DataFree()), network=module(), monte_carlo=how)
    assert made.value > plain.certificate().value
    names = {one.name for one in found.certificates}
    assert "test_set_new_person_betting" in names
    assert not any("clopper" in name or "ece" in name for name in names), "those count examples"


def test_people_of_the_prior_and_of_the_test_set_are_others():
    data, law = examples(), around(0.2)
    with pytest.raises(DataError, match="share 10 people"):
        certify(law, data, prior=Prior(law=law, source=DataFree()), network=module(), test=examples(seed=2))
    seen = HeldOut(rows=examples(seed=3).rows)
    with pytest.raises(DataError, match="share 10 people"):
        certify(law, data, prior=Prior(law=law, source=seen), network=module())


def test_a_private_prior_protects_people_or_nobody():
    data, law = examples(), around(0.2)
    claim = bounds.GaussianDP(mu=0.05, adjacency="add-remove", status="accounted")
    found = certify(
        law, data, prior=Prior(law=law, source=Private(privacy=claim, unit="person", rows=data.rows)), network=module()
    )
    made = found.certificate(measures="0-1 risk of a new person")
    assert made.nats("transfer") == bounds.transfer_cost(privacy=claim, n=len(SIZES), failure_prob=0.045).nats
    with pytest.raises(ValueError, match="the promise of privacy is to single examples"):
        certify(law, data, prior=Prior(law=law, source=Private(privacy=claim)), network=module())
