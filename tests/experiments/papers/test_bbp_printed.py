"""DP-BBP with the KL inside the clip: one step by hand, and what an example can move."""

import pytest
import torch
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy, softplus
from torch.testing import assert_close

from experiments.runs import bbp_printed
from experiments.runs.bbp_printed import train_printed
from pacdp.layers.bayes import bayesian, laws
from pacdp.step.noise import SeededRandomness
from tests.pacdp.toys import seeded

X, Y = torch.randn(6, 4, generator=seeded(1)), torch.tensor([0, 1, 2, 0, 1, 2])


def networks():
    made = []
    for _ in range(2):
        torch.manual_seed(0)
        made.append(Sequential(Linear(4, 5), ReLU(), Linear(5, 3)))
    return made[0], bayesian(made[1], initial_std=0.3, generator=seeded(2))


def move(*, clip_norm, share, noise=0.0, n=6):
    """What a step on the first examples adds to the parameters of fresh networks."""
    plain, posterior = networks()

    def parameters():
        return torch.cat([p.detach().flatten().clone() for pair in laws(posterior) for p in pair])

    before = parameters()
    train_printed(
        plain, posterior, X[:n], Y[:n], loss=lambda z, y: cross_entropy(z, y, reduction="none"), share=share,
        prior_std=0.7, clip_norm=clip_norm, sample_rate=1.0, steps=1, seed=5,
        learning_rate=lambda _: float(n), noise_multiplier=lambda _: noise,
    )  # fmt: skip
    return parameters() - before


def test_without_clipping_and_noise_a_step_follows_the_slope_of_the_whole_objective():
    generator, share = SeededRandomness(5).generator("weights"), 0.4
    pairs = laws(networks()[1])
    weights, divergence = [], torch.zeros(())
    for mean, rho in pairs:
        drawn = torch.empty_like(mean).normal_(generator=generator)
        std = softplus(rho)
        w = mean + std * drawn
        law, prior = torch.distributions.Normal(mean, std), torch.distributions.Normal(0.0, 0.7)
        divergence = divergence + (law.log_prob(w) - prior.log_prob(w)).sum()
        weights.append(w)
    z = torch.relu(X @ weights[0].T + weights[1]) @ weights[2].T + weights[3]
    whole = cross_entropy(z, Y, reduction="sum") + share * len(X) * divergence
    slopes = torch.autograd.grad(whole, [p for pair in pairs for p in pair])
    expected = -torch.cat([one.flatten() for one in slopes])
    assert_close(move(clip_norm=1e9, share=share), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("share", [0.0, 0.01, 5.0])
def test_one_example_moves_the_sum_by_the_clip_norm_at_most_kl_and_all(share, monkeypatch):
    monkeypatch.setattr(bbp_printed, "_PART", 4)  # more parts than one
    with_it, without = (move(clip_norm=0.05, share=share, n=n) for n in (6, 5))
    assert float((with_it - without).norm()) <= 0.05 * (1 + 1e-4)
    assert 0.01 < float(with_it.norm()) <= 6 * 0.05 * (1 + 1e-4)


def test_noise_has_the_size_that_was_asked_for():
    quiet, loud = (move(clip_norm=0.05, share=0.1, noise=noise) for noise in (0.0, 40.0))
    assert float((loud - quiet).std()) == pytest.approx(2.0, rel=0.25)
