"""Finitely many networks: each bound against its formula, its limits, and how often it fails."""

import math

import numpy as np
import torch
from door_toys import examples, network
from numpy.random import default_rng
from scipy.stats import binom
from torch import nn
from torch.nn import Linear

import bounds
from pacdp import certify
from pacdp.certify.finite import Finite, assess_finite, said
from tests.marks import near, parametrize


@parametrize("seed", range(3))
def test_bounds_are_their_formulas_and_the_best_of_their_kind(seed):
    errors = default_rng(seed).integers(0, 300, size=12)
    found = assess_finite(errors, n=1000, failure_prob=0.05)
    assert math.fsum(found.weights) == near(1.0)
    own = float((found.weights * np.log(np.maximum(found.weights, 1e-300) * 12)).sum())
    twin, uniform, single = (
        bounds.maurer(risk=float(risk) / 1000, kl_nats=nats, n=1000, failure_prob=0.05).value
        for risk, nats in ((found.weights @ errors, own), (errors.mean(), 0.0), (errors.min(), math.log(12)))
    )
    assert twin <= found.ensemble.value <= min(twin, uniform, single) * (1 + 1e-6)
    assert found.one.value == near(bounds.clopper_pearson_upper(int(errors.min()), 1000, 0.05 / 12), rel=1e-9)
    assert found.best == int(np.argmin(errors))
    assert found.vote.value == min(1.0, 2 * found.ensemble.value)
    assert all(c.status == "rigorous" and c.failure_prob == 0.05 for c in (found.ensemble, found.one, found.vote))


def test_error_counts_are_of_the_networks_and_count_ties():
    networks, tie, data = [network(), Linear(4, 1)], Linear(4, 3), examples(50)
    nn.init.zeros_(tie.weight)
    nn.init.zeros_(tie.bias)
    found = (said([*networks, tie], data, "cpu") != data.labels.numpy()).sum(axis=1)
    expected = [int(((own(data.inputs)[:, 0] > 0) != data.labels).sum()) for own in networks]
    assert found.tolist() == [*expected, 50]


def test_a_mean_of_outputs_is_not_what_is_said_of_an_ensemble():
    """Each network errs, and is sure of it, where an input of its own says so; their mean errs wherever one does."""
    signs, own = torch.ones(600), torch.zeros(600, 5)
    own[torch.arange(300), torch.arange(300) % 5] = -1.0
    inputs, networks = torch.cat([signs[:, None] + torch.rand(600, 1), own - own * torch.rand(600, 5) / 9], 1), []
    for k in range(5):
        networks.append(Linear(6, 2, bias=False))
        networks[k].weight.data = 0.0 * networks[k].weight.data
        networks[k].weight.data[1, [0, k + 1]] = torch.tensor([0.2, 9.0])
    found = certify(Finite(networks=networks), (inputs, torch.ones(600).long()))
    mean = torch.stack([one(inputs).softmax(1) for one in networks]).mean(0).argmax(1)
    assert found.certificate(of="ensemble").value < 0.2 < 0.45 < float((mean != 1).double().mean())
    assert "by a network drawn from the ensemble for each answer" in found.headline()
    assert "a mean of their outputs is another predictor" in str(found)
    assert (math.fsum(found.details["weights"]), found.details["best"]) == (near(1.0), 0)


def test_they_hold_as_often_as_they_say(whole):
    rng = default_rng(0)
    truth, n, runs = np.full(50, 0.1), 300, 400 if whole else 150
    failures, naive = np.zeros(2, dtype=int), 0
    for _ in range(runs):
        errors = rng.binomial(n, truth)
        found = assess_finite(errors, n=n, failure_prob=0.1)
        failures += [found.ensemble.value < 0.1, found.one.value < 0.1]
        naive += bounds.clopper_pearson_upper(int(errors.min()), n, 0.1) < 0.1  # the union forgotten
    assert all(binom.sf(k - 1, runs, 0.1) > 1e-4 for k in failures)
    assert binom.sf(naive - 1, runs, 0.1) < 1e-9
