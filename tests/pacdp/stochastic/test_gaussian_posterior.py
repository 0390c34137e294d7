"""Gaussian posteriors: their divergence against mpmath, and their draws."""

import math

import mpmath as mp
import pytest
import torch
from fresh_laws import random_posterior
from torch import equal
from torch.nn import BatchNorm1d, Linear, ReLU, Sequential

from pacdp.posterior import GaussianPosterior
from tests.marks import parametrize
from tests.pacdp.toys import seeded


def network(seed=0):
    torch.manual_seed(seed)
    return Sequential(Linear(5, 4), BatchNorm1d(4), ReLU(), Linear(4, 3)).eval()


def kl_by_mpmath(posterior, prior):
    total = mp.mpf(0)
    with mp.workdps(50):
        for name, mean in posterior.means.items():
            parts = (mean, posterior.stds[name], prior.means[name], prior.stds[name])
            columns = [part.double().expand(mean.shape).flatten().tolist() for part in parts]
            for a, s, b, t in zip(*([mp.mpf(v) for v in column] for column in columns), strict=True):
                if s == t == 0 and a == b:
                    continue
                total += ((s / t) ** 2 - 1 - 2 * mp.log(s / t) + ((a - b) / t) ** 2) / 2
    return total


@parametrize(
    ("ours", "prior", "dtype"),
    [("isotropic", "isotropic", torch.float32), ("diagonal", "isotropic", torch.float32),
     ("rows", "diagonal", torch.float64)],
)  # fmt: skip
def test_kl_formal_guarantee_above_mpmath_and_close(ours, prior, dtype):
    ours = random_posterior(network(0).to(dtype), ours, std=0.01)
    prior = random_posterior(network(1).to(dtype), prior, seed=4, std=0.1)
    value, exact = ours.kl_nats(prior), kl_by_mpmath(ours, prior)
    assert exact <= value <= exact * (1 + mp.mpf("1.1e-13"))


def test_kl_of_equal_laws_is_zero_and_of_near_ones_is_not_below():
    ours = random_posterior(network(), "diagonal")
    assert ours.kl_nats(ours) == 0.0
    stds = {name: torch.nextafter(std, std + 1) for name, std in ours.stds.items()}
    near = GaussianPosterior(means=ours.means, stds=stds, buffers=ours.buffers)
    assert 0 < kl_by_mpmath(near, ours) <= near.kl_nats(ours) < 1e-10


def test_weights_that_are_not_random_must_be_equal():
    module = network()
    stds = {name: torch.full_like(value, 0.1) for name, value in module.named_parameters()}
    stds["0.weight"] = torch.zeros(())
    stds["0.bias"][1] = 0.0
    prior = GaussianPosterior.around(module, std=stds)
    moved = {**prior.means, "3.weight": prior.means["3.weight"] + 0.1}
    posterior = GaussianPosterior(means=moved, stds=stds, buffers=prior.buffers)
    assert posterior.kl_nats(prior) == pytest.approx(12 * 0.5, rel=1e-5)
    assert posterior.kl_nats(prior) >= kl_by_mpmath(posterior, prior)
    with_other_fixed = {**prior.means, "0.weight": prior.means["0.weight"] + 1e-7}
    assert GaussianPosterior(means=with_other_fixed, stds=stds, buffers=prior.buffers).kl_nats(prior) == math.inf
    statistics = {**prior.buffers, "1.running_mean": prior.buffers["1.running_mean"] + 0.5}
    assert GaussianPosterior(means=prior.means, stds=stds, buffers=statistics).kl_nats(prior) == math.inf
    random_there = GaussianPosterior.around(module, std=0.1)
    assert random_there.kl_nats(prior) == prior.kl_nats(random_there) == math.inf


def test_samples_have_the_law_and_follow_the_generator():
    posterior = random_posterior(Linear(30, 400), "rows")
    drawn = [posterior.sample(seeded(seed))["weight"] for seed in (1, 1, 2)]
    assert equal(drawn[0], drawn[1])
    assert not equal(drawn[0], drawn[2])
    whitened = (drawn[0] - posterior.means["weight"]) / posterior.stds["weight"]
    assert abs(float(whitened.mean())) < 5 / math.sqrt(12_000)
    assert abs(float(whitened.square().mean()) - 1) < 5 * math.sqrt(2 / 12_000)


@parametrize(
    "given", [lambda net: dict(net.state_dict()), lambda net: {k: p.detach() for k, p in net.named_parameters()}]
)
def test_a_network_that_trains_on_moves_no_prior_that_was_made_of_its_tensors(given):
    module = Sequential(Linear(5, 3))
    means, std = given(module), torch.tensor(0.1)
    prior = GaussianPosterior(means=means, stds=dict.fromkeys(means, std))
    with torch.no_grad():
        module[0].weight += 1.0
        std += 1.0
    moved = GaussianPosterior.around(module, std=0.1)
    assert moved.kl_nats(prior) == pytest.approx(15 / 0.1**2 / 2, rel=1e-5)
    assert not any(one.requires_grad for one in moved.means.values())
