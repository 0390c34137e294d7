"""Gaussian posteriors on examples of people: n counts people, and the sampled risk weighs every person alike."""

from dataclasses import replace
from functools import partial

import door_toys
import numpy as np
import torch
from door_toys import network

import bounds
from pacdp import Prior, Private, certify
from pacdp.certify import DataFree, MonteCarlo
from pacdp.losses import brier, zero_one
from pacdp.stochastic import mean_risks
from tests.marks import near, refusal

SIZES = (3, 9, 4, 12, 3, 7, 5, 6, 11, 4)


def examples(*, seed=0, start=0):
    people = np.repeat(np.arange(start, start + len(SIZES)), SIZES).astype(np.int64)
    return door_toys.examples(len(people), seed=seed, people=people)


def test_weights_without_noise_give_the_mean_over_people_exactly():
    data, law = examples(), door_toys.law(0.0)
    found, square = mean_risks(
        network(), law, inputs=data.inputs, labels=data.labels, losses=(zero_one(), brier()), passes=3, seed=0,
        people=data.people,
    )  # fmt: skip
    wrong = ((data.inputs[:, 0] > 0).long() != data.labels).numpy().astype(float)
    sample = bounds.people_sample(losses=wrong, people=data.people)
    each = [wrong[data.people == p].mean() for p in range(len(SIZES))]
    assert found.mean == near(sample.person_risk, rel=1e-9)
    assert found.mean >= float(np.mean(each)) * (1 - 1e-15)
    assert (found.people, found.terms) == (len(SIZES), len(SIZES) * 3 * min(SIZES))
    twin = bounds.new_person_monte_carlo(sample=sample, passes=3, failure_prob=0.01)
    assert found.upper(0.01).value == near(twin.value, rel=1e-9)
    sure = torch.sigmoid(-(2 * data.labels - 1) * data.inputs[:, 0]).square().numpy()
    each = [sure[data.people == p].mean() for p in range(len(SIZES))]
    assert square.mean == near(np.mean(each), rel=1e-6)


def test_batches_and_order_do_not_matter():
    data, law = examples(), door_toys.law(0.5)
    counted = partial(mean_risks, network(), law, inputs=data.inputs, labels=data.labels, losses=(zero_one(),),
                      passes=2, seed=4)  # fmt: skip
    (whole,) = counted(people=data.people)
    (parts,) = counted(people=data.people, batch_size=5)
    assert whole == parts
    (renamed,) = counted(people=1000 - data.people)
    assert renamed == whole
    with refusal("expected a person for each"):
        counted(people=data.people[:-1])


def test_a_gaussian_posterior_counts_people():
    data, test = examples(), examples(seed=1, start=50)
    law, prior = (door_toys.law(0.2), replace(door_toys.law(0.2), means={"weight": 0.5 * network().weight.detach()}))
    how = MonteCarlo(passes=3)
    found = certify(law, data, prior=Prior(law=prior, source=DataFree()), network=network(), test=test, monte_carlo=how)
    assert (found.n, found.unit, found.examples) == (len(SIZES), "person", sum(SIZES))
    made = found.certificate(measures="0-1 risk of a new person")
    assert made.inputs["n"] == len(SIZES)
    assert made.hypothesis("records independent").unit == "person"
    inner = bounds.gibbs_risk_upper(
        mean=found.monte_carlo[0]["mean"], draws=len(SIZES) * 3 * min(SIZES), failure_prob=0.005
    )
    kl = law.kl_nats(prior)
    twin = bounds.maurer(risk=inner.value, kl_nats=kl, n=len(SIZES), failure_prob=0.045)
    assert made.value == near(twin.value, rel=1e-9)
    assert found.details["kl_nats"] == kl
    names = {one.name for one in found.certificates}
    assert "test_set_new_person_betting" in names
    assert not any("clopper" in name or "ece" in name for name in names), "those count examples"


def test_the_randomised_network_s_test_error_is_that_of_a_new_person():
    data, test = examples(), examples(seed=1, start=50)
    law = door_toys.law(0.0)
    found = certify(law, data, prior=Prior(law=law, source=DataFree()), network=network(), test=test)
    tested = {one.of: one for one in found.measured if (one.on, one.loss) == ("test", "zero-one")}
    of_all = ((test.inputs[:, 0] > 0).long() != test.labels).double().mean().item()
    drawn, plain = tested["randomised"], tested["mean weights"]
    assert drawn.mean == near(plain.mean, rel=1e-9) != near(of_all, rel=1e-3)
    assert (drawn.n, drawn.errors) == (len(SIZES), None)


def test_a_private_prior_pays_for_people():
    data, law = examples(), door_toys.law(0.2)
    claim = bounds.GaussianDP(mu=0.05, adjacency="add-remove", status="accounted")
    found = certify(
        law, data, prior=Prior(law=law, source=Private(privacy=claim, unit="person", rows=data.rows)), network=network()
    )
    made = found.certificate(measures="0-1 risk of a new person")
    assert made.nats("transfer") == bounds.transfer.transfer_cost(privacy=claim, n=len(SIZES), failure_prob=0.045).nats
