"""The coordinates of a Gaussian posterior: divergence, its gradient and curvature, and what stays fixed."""

import math

import pytest
import torch
from torch import equal
from torch.autograd import grad
from torch.distributions import Normal, kl_divergence
from torch.nn import Linear, Sequential, Tanh
from torch.testing import assert_close

from pacdp.backprop import Coordinates
from pacdp.posterior import GaussianPosterior
from tests.marks import near
from tests.pacdp.toys import seeded


@pytest.fixture
def prior():
    torch.manual_seed(0)
    module = Sequential(Linear(4, 3), Tanh(), Linear(3, 2))
    generator = seeded(1)
    stds = {name: 0.05 + torch.rand(p.shape, generator=generator) for name, p in module.named_parameters()}
    stds["2.bias"] = torch.zeros(2)
    return GaussianPosterior.around(module, std=stds)


def moved(coordinates):
    generator = seeded(2)
    with torch.no_grad():
        for leaf in coordinates.leaves():
            leaf += 0.4 * torch.randn(leaf.shape, generator=generator)
    return coordinates


def by_torch(coordinates):
    """Another implementation's divergence, differentiable in the same leaves."""
    prior = coordinates.prior
    return sum(
        kl_divergence(
            Normal(coordinates.mean(name).double(), coordinates.std(name).double().expand(mean.shape)),
            Normal(mean.double(), prior.stds[name].double()),
        ).sum()
        for name, mean in prior.means.items()
        if name != "2.bias"
    )


def test_divergence_and_its_gradient(prior):
    coordinates = moved(Coordinates.at(prior))
    ours, theirs = coordinates.kl_nats(), by_torch(coordinates)
    assert ours.item() == near(theirs.item(), rel=1e-5)
    assert ours.item() == near(coordinates.posterior().kl_nats(prior), rel=1e-5)
    grads = (grad(each, coordinates.leaves()) for each in (ours, theirs))
    for a, b in zip(*grads, strict=True):
        assert_close(a, b, rtol=2e-4, atol=1e-5)


def test_every_coordinate_has_curvature_one_at_the_prior(prior):
    coordinates = Coordinates.at(prior)
    leaves = coordinates.leaves()
    assert coordinates.kl_nats().item() == 0.0
    first = grad(coordinates.kl_nats(), leaves, create_graph=True)
    assert not any(each.detach().any() for each in first)
    flat = torch.cat([each.flatten() for each in first])
    for i in range(0, len(flat), 3):
        second = grad(flat[i], leaves, retain_graph=True, allow_unused=True)
        row = torch.cat([torch.zeros_like(leaf).flatten() if s is None else s.flatten()
                         for s, leaf in zip(second, leaves, strict=True)])  # fmt: skip
        expected = torch.zeros_like(row)
        expected[i] = 1.0
        assert_close(row, expected, atol=1e-5, rtol=0)


def test_the_law_of_a_draw(prior):
    coordinates = moved(Coordinates.at(prior))
    generator = seeded(4)
    with torch.no_grad():
        drawn = torch.stack([coordinates.draw(generator)["0.weight"] for _ in range(4000)])
        assert equal(coordinates.draw(generator)["2.bias"], prior.means["2.bias"])
        scores = (drawn - coordinates.mean("0.weight")) / coordinates.std("0.weight")
    assert float(scores.mean(dim=0).abs().max()) < 5 / math.sqrt(4000)
    assert float((scores.var(dim=0) - 1).abs().max()) < 5 * math.sqrt(2 / 4000)
