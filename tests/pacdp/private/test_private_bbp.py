"""DP-BBP: per-example gradients, KL gradients, the posterior it finds."""

import pytest
import torch
from private_loops import total
from private_toys import bayes_network, data, fresh, mechanism, mlp, trained
from torch import distributions
from torch.func import grad, vmap
from torch.nn import Conv2d, Embedding, Linear, functional
from torch.testing import assert_close
from torch.utils.data import TensorDataset

from pacdp.losses import cross_entropies
from pacdp.private import DPBBP, BayesLinear, Laplace, Normal, Units, bayesian, with_weights
from pacdp.step.clip import Clip
from pacdp.step.ghost import Ghost, GhostSums
from pacdp.step.units import Network
from pacdp.step.units import trained as weights_of
from tests.marks import every_case, near, parametrize
from tests.pacdp.draws import randn
from tests.pacdp.toys import seeded

PRIORS = {"normal": Normal(std=0.3), "laplace": Laplace(scale=0.2)}


def plain(layer, laws, draw, x):
    """The layer as a function of its laws with given ε, for autograd to differentiate."""
    weight, bias = (
        laws[f"{part}_mean"] + functional.softplus(laws[f"{part}_rho"]) * noise if f"{part}_mean" in laws else None
        for part, noise in zip(("weight", "bias"), draw, strict=True)
    )
    if isinstance(layer, BayesLinear):
        return functional.linear(x, weight, bias)
    return functional.conv2d(x, weight, bias, groups=layer.groups, **layer.geometry)


LAYERS = {
    "linear": (Linear(4, 3), (4,)),
    "linear without bias": (Linear(4, 3, bias=False), (4,)),
    "linear on sequences": (Linear(4, 3), (5, 4)),
    "convolution": (Conv2d(2, 3, 3), (2, 6, 5)),
    "convolution, strided, padded": (Conv2d(2, 4, (3, 2), stride=2, padding=1), (2, 6, 5)),
    "convolution, dilated, grouped": (Conv2d(4, 6, 2, dilation=2, groups=2, bias=False), (4, 6, 5)),
}


def bayes_layer(case):
    plain, shape = LAYERS[case]
    layer = bayesian(fresh(plain.double(), 3), initial_std=0.4, generator=seeded(1))
    return layer, randn(5, *shape, seed=2, dtype=torch.float64)


def rows_of(layer, draw, x):
    """Each example's gradients at given ε, by vmap."""

    def loss(laws, one):
        return torch.sin(plain(layer, laws, draw, one[None])).square().sum()

    return vmap(grad(loss), in_dims=(None, 0))({k: p.detach() for k, p in layer.named_parameters()}, x)


@parametrize("case", LAYERS)
def test_norm_samplers_find_the_norms_of_vmapped_gradients(case):
    layer, x = bayes_layer(case)
    found, draw, layer = ghost_norms(layer, x)
    for name, rows in rows_of(layer, draw, x).items():
        norms = rows.flatten(1).norm(dim=1)
        assert_close(found[layer.get_parameter(name)], norms, atol=1e-12, rtol=1e-12)


def ghost_norms(layer, x):
    """What ghost clipping finds, and the draw that it found it at."""
    ghost = Ghost(layer, Clip(1.0))
    outputs = ghost([x], {})
    (use,), slopes = ghost._uses, torch.autograd.grad(torch.sin(outputs).square().sum(), outputs)[0]
    return use.measured(slopes).norms, *(use.draw or [None]), layer


@every_case("padding", [None, 2])
def test_the_norms_of_an_embedding_are_those_of_its_gradients(padding):
    words = torch.tensor([[1, 2, 1, 0], [2, 2, 2, 2], [3, 1, 2, 3]])
    layer = Embedding(4, 3, padding_idx=padding, dtype=torch.float64)
    found, _, _ = ghost_norms(layer, words)
    for i, row in enumerate(words):
        (own,) = torch.autograd.grad(torch.sin(layer(row)).square().sum(), layer.weight)
        assert float(found[layer.weight][i].detach()) == near(float(own.norm()), rel=1e-9, abs=1e-9)


def test_all_parts_of_a_batch_have_one_draw_of_the_weights():
    """With a draw each, one example more pushed others into the next part, and the sum moved by several clip norms."""

    def sums(most):
        module = bayes_network(initial_std=0.5)
        summer = GhostSums(Network.of(module, cross_entropies), Units.group(data(), None), Clip(0.5), most)
        return [summer(torch.arange(40), weights_of(module)).total for _ in range(2)]

    whole, in_parts = sums(None), sums(7)
    assert_close(in_parts, whole)
    assert not torch.equal(whole[1]["0.bias_rho"], whole[0]["0.bias_rho"])


def test_all_parts_of_a_batch_of_a_loop_have_one_draw_of_the_weights():
    def build():
        return bayesian(mlp(inputs=8), initial_std=0.5, generator=seeded())

    whole, in_parts = (total(net=build, mode="ghost", parts=parts) for parts in (None, 7))
    assert_close(in_parts, whole)


every_prior = parametrize("prior", PRIORS)


def around_zero(kind, scale):
    return kind(*torch.tensor([0.0, scale], dtype=torch.float64))


def log_density(law, w):
    if isinstance(law, Normal):
        return around_zero(distributions.Normal, law.std).log_prob(w)
    return around_zero(distributions.Laplace, law.scale).log_prob(w)


NODES = torch.linspace(-12.0, 12.0, 400_001, dtype=torch.float64)[:, None]


def kl(law, mean, std):
    """KL(N(mean, std²)‖law) up to a constant, by the trapezoidal rule."""
    masses = around_zero(distributions.Normal, 1.0).log_prob(NODES).exp() * float(NODES[1] - NODES[0])
    return -(masses * log_density(law, mean + std * NODES)).sum(dim=0) - std.log()


@every_prior
def test_kl_gradients_equal_those_of_numerical_integrals(prior):
    mean = torch.tensor([0.3, -0.05, 0.6], dtype=torch.float64, requires_grad=True)
    std = torch.tensor([0.2, 0.1, 0.02], dtype=torch.float64, requires_grad=True)
    exact = torch.autograd.grad(kl(PRIORS[prior], mean, std).sum(), (mean, std))
    found = PRIORS[prior].kl_gradient(mean.detach(), std.detach())
    tolerance = {"normal": 1e-9, "laplace": 1e-4}[prior]
    assert_close(tuple(found), exact, atol=tolerance, rtol=tolerance)


@every_prior
def test_energies_are_slopes_of_log_densities(prior):
    w = torch.tensor([-0.7, -0.01, 0.2, 1.1], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(-log_density(PRIORS[prior], w).sum(), w)
    assert_close(PRIORS[prior].energy_gradient(w.detach()), slope, atol=1e-9, rtol=1e-9)


def kl_of(module):
    """KL of all laws of the module from N(0, 0.3²)."""
    laws = [(getattr(layer, f"{part}_mean"), getattr(layer, f"{part}_rho"))
            for layer in module.modules() if isinstance(layer, BayesLinear) for part in ("weight", "bias")]  # fmt: skip
    prior = around_zero(distributions.Normal, 0.3)
    own = [distributions.Normal(mean, functional.softplus(rho)) for mean, rho in laws]
    return sum(distributions.kl_divergence(one, prior).sum() for one in own)


def test_the_kl_enters_after_the_noise_with_its_weight():
    module, twin = (bayesian(mlp().double(), initial_std=0.2, generator=seeded()) for _ in range(2))
    for p in module.parameters():
        p.grad = torch.zeros_like(p)
    DPBBP(prior=Normal(std=0.3), kl_weight=10.0).add_data_free_gradient(module, mechanism())  # of 40 records
    theirs = torch.autograd.grad(0.25 * kl_of(twin), list(twin.parameters()))
    assert_close([p.grad for p in module.parameters()], list(theirs), atol=1e-11, rtol=1e-11)


def test_the_kl_is_neither_clipped_nor_noised():
    """Empty batches and no noise leave plain gradient descent on the KL, whatever the clipping norm."""
    m = mechanism(noise_multiplier=0.0, sample_rate=1e-12, expected_batch_size=4e-11, clip_norm=1e-6, steps=400)
    module = bayes_network(initial_std=0.1)
    run = trained(DPBBP(learning_rate=0.2, prior_std=0.3), module, mechanism=m)
    assert kl_of(with_weights(module, run.weights)) < 1e-2 * kl_of(module)


@pytest.mark.slow
@parametrize("draws", [1, 4])
def test_dp_bbp_finds_a_conjugate_posterior(draws):
    """One Gaussian mean: ℓ_i = (w - x_i)²/2 and prior N(0, s²) have the posterior N(Σx/(n + s⁻²), 1/(n + s⁻²))."""
    x = torch.linspace(0.2, 1.2, 30)[:, None]
    m = mechanism(clip_norm=1e3, noise_multiplier=0.0, sample_rate=1.0, expected_batch_size=30.0, steps=1500)
    module = bayesian(Linear(1, 1, bias=False), initial_std=0.5, generator=seeded())
    settings = DPBBP(learning_rate=lambda t: 0.5 / (1.0 + t / 100.0), draws=draws, prior_std=0.5)
    run = trained(settings, module, TensorDataset(torch.ones_like(x), x), mechanism=m, seed=4,
                  loss=lambda w, y: 0.5 * (w - y).square().sum(1))  # fmt: skip
    mean, std = (float(run.weights["weight_mean"]), float(functional.softplus(run.weights["weight_rho"])))
    assert mean == near(float(x.sum()) / 34.0, abs=0.05)
    assert std == near(34.0**-0.5, rel=0.15)
