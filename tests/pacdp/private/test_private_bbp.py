"""DP-BBP: per-example gradients, KL gradients, the posterior it finds."""

import math

import pytest
import torch
from private_toys import bayes_network, fresh, mechanism, mlp, trained
from scipy import integrate
from torch.func import grad, vmap
from torch.nn import Conv2d, Linear, functional
from torch.testing import assert_close
from torch.utils.data import TensorDataset

from pacdp.layers.regularise import kl_gradient
from pacdp.opacus.ghost import GhostModule
from pacdp.private import DPBBP, BayesLinear, Laplace, Normal, NormalMixture, bayesian, kl_nats, with_weights
from tests.marks import near, parametrize
from tests.pacdp.draws import randn
from tests.pacdp.toys import seeded

PRIORS = {"normal": Normal(std=0.3), "laplace": Laplace(scale=0.2),
          "mixture": NormalMixture(weight=0.4, wide=0.8, narrow=0.15)}  # fmt: skip


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
    outputs = GhostModule(layer, clip_norm=1.0)(x)
    (draw,) = layer.drawn
    torch.sin(outputs).square().sum().backward()
    assert layer.drawn == []
    for name, rows in rows_of(layer, draw, x).items():
        norms = rows.flatten(1).norm(dim=1)
        assert_close(layer.get_parameter(name)._norm_sample, norms, atol=1e-12, rtol=1e-12)


MEAN = torch.linspace(-1.5, 1.2, 7, dtype=torch.float64)
STD = torch.logspace(-2.5, 0.3, 7, dtype=torch.float64)


every_prior = parametrize("prior", PRIORS)


@every_prior
def test_kl_gradients_equal_autograd(prior):
    mean, std = MEAN.clone().requires_grad_(), STD.clone().requires_grad_()
    by_autograd = torch.autograd.grad(PRIORS[prior].kl_nats(mean, std).sum(), (mean, std))
    assert_close(tuple(PRIORS[prior].kl_gradient(MEAN, STD)), by_autograd, atol=1e-11, rtol=1e-11)


@every_prior
def test_energies_and_kls_equal_numerical_integrals(prior):
    law = PRIORS[prior]

    def log_density(w):
        if isinstance(law, Normal):
            return -0.5 * (w / law.std) ** 2 - math.log(law.std * math.sqrt(2.0 * math.pi))
        if isinstance(law, Laplace):
            return -abs(w) / law.scale - math.log(2.0 * law.scale)
        parts = [m * math.exp(-0.5 * (w / s) ** 2) / (s * math.sqrt(2.0 * math.pi))
                 for m, s in ((law.weight, law.wide), (1.0 - law.weight, law.narrow))]  # fmt: skip
        return math.log(sum(parts))

    for mean, std in ((0.3, 0.2), (-0.05, 0.1), (0.6, 0.02)):

        def integrand(w, mean=mean, std=std):
            q = -0.5 * ((w - mean) / std) ** 2 - math.log(std * math.sqrt(2.0 * math.pi))
            return math.exp(q) * (q - log_density(w))

        exact, _ = integrate.quad(integrand, mean - 12 * std, mean + 12 * std, points=[0.0, mean], limit=400)
        ours = float(law.kl_nats(torch.tensor(mean, dtype=torch.float64), torch.tensor(std, dtype=torch.float64)))
        assert ours == near(exact, abs=2e-4 if prior == "mixture" else 1e-8)
    w = torch.tensor([-0.7, -0.01, 0.2, 1.1], dtype=torch.float64)
    slopes = [(log_density(float(v) - 1e-6) - log_density(float(v) + 1e-6)) / 2e-6 for v in w]
    assert_close(law.energy_gradient(w), torch.tensor(slopes, dtype=torch.float64), atol=1e-6, rtol=1e-6)


@every_prior
def test_the_kl_enters_after_the_noise_with_its_weight(prior):
    module, twin = (bayesian(mlp().double(), initial_std=0.2, generator=seeded()) for _ in range(2))
    for p in module.parameters():
        p.grad = torch.zeros_like(p)
    kl_gradient(PRIORS[prior], 0.25)(module)
    total = 0.0
    for layer in (twin[0], twin[2]):
        for part in ("weight", "bias"):
            std = functional.softplus(getattr(layer, f"{part}_rho"))
            total = total + PRIORS[prior].kl_nats(getattr(layer, f"{part}_mean"), std).sum()
    theirs = torch.autograd.grad(0.25 * total, list(twin.parameters()))
    assert_close([p.grad for p in module.parameters()], list(theirs), atol=1e-11, rtol=1e-11)
    assert kl_nats(PRIORS[prior], module) == near(float(total.detach()))


def test_the_kl_is_neither_clipped_nor_noised():
    """Empty batches and no noise leave plain gradient descent on the KL, whatever the clipping norm."""
    m = mechanism(noise_multiplier=0.0, sample_rate=1e-12, expected_batch_size=4e-11, clip_norm=1e-6, steps=400)
    module = bayes_network(initial_std=0.1)
    run = trained(DPBBP(learning_rate=0.2, prior_std=0.3), module, mechanism=m)
    after = with_weights(module, run.weights)
    assert kl_nats(Normal(std=0.3), after) < 1e-2 * kl_nats(Normal(std=0.3), module)


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
