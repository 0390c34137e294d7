"""Passes with fresh weights have the law of whole networks drawn one by one."""

import numpy as np
import torch
import torch.nn.functional as F
from fresh_laws import covariance_deviation, fresh_outputs, least_p_value, one_input, random_posterior, whole_networks
from fresh_networks import NETWORKS, NOT_LINEAR, WHOLE, made
from torch.func import functional_call, jacrev

from pacdp.stochastic import Draws, fresh_pass, intercept
from pacdp.stochastic.columns import joint_is_cheaper
from pacdp.stochastic.law import laws_of
from pacdp.stochastic.noise import normals
from tests.marks import every_case, parametrize, slow

DRAWS = 2000
LEAST_P = 1e-5


def fresh(module, posterior, x, **how):
    return one_input(lambda batch, numbers: fresh_outputs(module, posterior, batch, numbers), x, **how)


@parametrize(
    ("kind", "count", "least"),
    [("rows", DRAWS // 2, LEAST_P),
     *(slow(kind, DRAWS, 1e-3) for kind in ("rows", "diagonal"))],
)  # fmt: skip
@parametrize("name", sorted(NOT_LINEAR))
def test_law_of_whole_networks(name, kind, count, least):
    module, x = made(name)
    posterior = random_posterior(module, kind)
    ours = fresh(module, posterior, x, draws=count, seed=5)
    theirs = whole_networks(module, posterior, x, draws=count, seed=6)
    assert least_p_value(ours, theirs) > least
    assert covariance_deviation(ours, theirs) < 7


def test_both_exact_ways_of_a_convolution_are_among_the_networks():
    chosen = []
    for name, positions in (("conv, kernels", 12), ("conv, joint", 4), ("conv, groups, joint", 4)):
        law = laws_of(random_posterior(made(name)[0], "rows"), torch.device("cpu"))["weight"]
        chosen.append(joint_is_cheaper(law, fan_in=law.mean[0].numel(), positions=positions))
    assert chosen == [False, True, True]


@every_case("kind", ["rows", "diagonal"])
@parametrize("name", sorted(set(NETWORKS) - NOT_LINEAR))
def test_layers_have_their_exact_gaussian_law(name, kind, whole):
    """What is linear in its weights w is N(f(E w), J diag(std²) Jᵀ), J the Jacobian by the weights."""
    module, x = made(name)
    posterior = random_posterior(module, kind)
    draws = 20_000 if whole else 10_000
    ours = fresh(module, posterior, x, draws=draws, seed=2)
    jacobian = jacrev(lambda weights: functional_call(module, weights, (x[None],))[0].flatten())
    slopes = jacobian(dict(posterior.means))
    roots = [(slope * posterior.stds[each]).flatten(1) for each, slope in slopes.items()]
    root = torch.cat(roots, dim=1).double().numpy()
    exact, variances = root @ root.T, (root**2).sum(axis=1)
    error = np.abs(np.cov(ours.T) - exact) / np.sqrt((np.outer(variances, variances) + exact**2) / draws + 1e-20)
    assert error.max() < 6
    away = (ours.mean(axis=0) - module(x[None]).detach().double().numpy().ravel()) / np.sqrt(variances / draws + 1e-12)
    assert np.abs(away).max() < 5.5


def test_noise_that_is_independent_at_every_position_is_caught(monkeypatch):
    """The usual local reparameterisation of convolutions: right variances, wrong law."""

    def wrong(draws, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        mean = F.conv2d(input, weight.mean, bias.mean, stride, padding, dilation, groups)
        scale = F.conv2d(input.square(), weight.std.square().expand_as(weight.mean)) + bias.std.square().view(-1, 1, 1)
        noise = normals(draws, weight.stream, mean[0].numel(), like=mean)
        return mean + scale.sqrt() * noise.view_as(mean)

    module, x = made("conv, kernels")
    posterior = random_posterior(module, "diagonal")
    monkeypatch.setitem(intercept._LAYERS, F.conv2d, wrong)
    ours = fresh(module, posterior, x, draws=DRAWS, seed=5)
    theirs = whole_networks(module, posterior, x, draws=DRAWS, seed=6)
    assert least_p_value(ours, theirs) < 1e-9
    assert covariance_deviation(ours, theirs) > 10


@every_case("name", WHOLE)
def test_general_form_has_the_law_too(name):
    module, x = made(name)
    posterior = random_posterior(module, "diagonal")
    way = fresh_pass(module, posterior, x.expand(4, *x.shape))
    assert not way.by_layers
    draws = Draws.of(seed=5, number=0, examples=torch.arange(DRAWS))
    ours = way.run(x.expand(DRAWS, *x.shape), draws).flatten(1)
    theirs = whole_networks(module, posterior, x, draws=DRAWS, seed=6)
    assert least_p_value(ours.double().numpy(), theirs) > LEAST_P


def test_different_examples_and_passes_are_independent():
    module, x = made("conv, joint")
    posterior = random_posterior(module, "isotropic")
    first = fresh(module, posterior, x, draws=DRAWS, seed=5)
    later = Draws.of(seed=5, number=1, examples=torch.arange(DRAWS))
    second = fresh_outputs(module, posterior, x.expand(DRAWS, *x.shape), later).flatten(1).double().numpy()
    centred = [each - each.mean(0) for each in (first, second)]
    for a, b in ((centred[0][1:], centred[0][:-1]), (centred[0], centred[1])):
        correlation = (a * b).mean(0) / (a.std(0) * b.std(0))
        assert np.abs(correlation).max() < 5 / np.sqrt(len(a))
