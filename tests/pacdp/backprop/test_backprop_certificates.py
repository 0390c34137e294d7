"""Certificates: their arithmetic at 40 digits, their ledgers, and another implementation of the density ratio."""

import mpmath as mp
import pytest
import torch
from backprop_toys import blobs, network, seeded
from torch.distributions import Normal

import bounds
from pacdp.backprop import (
    Examples,
    Prior,
    ScaleGrid,
    certify_one_draw,
    certify_posterior,
    certify_weights,
    count_errors,
    data_free_prior,
    examples,
    hold_out,
    ledger,
    log_density_ratio,
)
from pacdp.losses import bounded_cross_entropy
from pacdp.posterior import GaussianPosterior

DATA = blobs(200)
PARTS = hold_out(200, seed=0)


def moved(prior: GaussianPosterior, *, by: float = 0.05, ratio: float = 0.9) -> GaussianPosterior:
    return GaussianPosterior(
        means={name: mean + by for name, mean in prior.means.items()},
        stds={name: std * ratio for name, std in prior.stds.items()},
    )


def kl_inverse(risk, nats):
    low, high = mp.mpf(risk), mp.mpf(1)
    for _ in range(120):
        p = (low + high) / 2
        kl = (risk * mp.log(risk / p) if risk else 0) + (1 - risk) * mp.log((1 - risk) / (1 - p))
        low, high = (p, high) if kl <= nats else (low, p)
    return low


def xi(n):
    return mp.fsum(mp.binomial(n, k) * (mp.mpf(k) / n) ** k * (1 - mp.mpf(k) / n) ** (n - k) for k in range(n + 1))


@pytest.mark.parametrize("scales", [None, ScaleGrid(largest=2.0, precision=3)])
@pytest.mark.parametrize("failure_prob", [0.05, 0.2])
def test_the_whole_chain_at_high_precision(scales, failure_prob):
    module = network()
    prior = data_free_prior(module, std=0.3)
    posterior = moved(prior.law)
    found = certify_posterior(
        posterior, prior, module, DATA, PARTS.bound, budget=ledger(failure_prob, monte_carlo_share=0.25), passes=3,
        seed=1, scales=scales,
    )  # fmt: skip
    count, n = found.monte_carlo, PARTS.bound.n
    assert (count.n, count.terms) == (n, 3 * n)
    with mp.workdps(40):
        inner = kl_inverse(mp.mpf(count.errors) / (3 * n), -mp.log(mp.mpf(failure_prob) / 4) / (3 * n))
        paid = mp.mpf(posterior.kl_nats(found.chosen.law))
        if scales is not None:
            assert found.chosen.scale == pytest.approx(2.0 * mp.exp(-mp.mpf(found.chosen.index) / 3))
            paid += 2 * mp.log(found.chosen.index) + mp.log(mp.pi**2 / 6)
        twin = kl_inverse(inner, (paid + mp.log(xi(n)) - mp.log(mp.mpf(failure_prob) * 3 / 4)) / n)
        assert found.certificate.value >= twin
        assert found.certificate.value == pytest.approx(float(twin), rel=1e-9)
    assert found.certificate.status == "rigorous"
    assert found.certificate.failure_prob == pytest.approx(failure_prob)
    assert dict(found.certificate.budget) == pytest.approx(
        {"Monte Carlo": failure_prob / 4, "PAC step": failure_prob * 3 / 4}
    )
    assert found.bound_hash == PARTS.bound.hash
    assert found.to_dict()["prior_scale"]["kl_nats"] == found.chosen.kl_nats


def test_a_bounded_loss_of_ones_own():
    module = network()
    prior = data_free_prior(module, std=0.3)
    loss = bounded_cross_entropy(classes=3)
    given = {"budget": ledger(0.05), "passes": 2, "seed": 1}
    found = certify_posterior(prior.law, prior, module, DATA, PARTS.bound, loss=loss, **given)
    assert found.monte_carlo.loss == loss.name
    assert found.certificate.value > found.monte_carlo.mean


def test_the_density_ratio_of_torch():
    prior = data_free_prior(network(), std=0.3).law
    posterior = moved(prior)
    weights = posterior.sample(seeded(3))
    twin = sum(
        (
            Normal(posterior.means[name].double(), posterior.stds[name].double()).log_prob(drawn.double())
            - Normal(prior.means[name].double(), prior.stds[name].double()).log_prob(drawn.double())
        ).sum()
        for name, drawn in weights.items()
    )
    assert log_density_ratio(weights, posterior, prior) == pytest.approx(float(twin), rel=1e-9)
    assert log_density_ratio(prior.sample(seeded(0)), prior, prior) == pytest.approx(0.0, abs=1e-9)


def test_fixed_weights_in_the_density_ratio():
    module = network()
    stds = {name: 0.0 if name == "0.bias" else 0.3 for name, _ in module.named_parameters()}
    prior = GaussianPosterior.around(module, std=stds)
    posterior = GaussianPosterior(
        means={name: mean + 0.1 * (name != "0.bias") for name, mean in prior.means.items()}, stds=prior.stds
    )
    drawn = posterior.sample(seeded(0))
    assert 0 < abs(log_density_ratio(drawn, posterior, prior)) < 1e4
    elsewhere = GaussianPosterior(means={**prior.means, "0.bias": prior.means["0.bias"] + 1}, stds=prior.stds)
    assert log_density_ratio(elsewhere.sample(seeded(0)), elsewhere, prior) == float("inf")


def test_one_draw():
    module = network()
    prior = data_free_prior(module, std=0.3)
    posterior = moved(prior.law)
    found = certify_one_draw(posterior, prior, module, DATA, PARTS.bound, failure_prob=0.1, generator=seeded(3))
    again = certify_one_draw(posterior, prior, module, DATA, PARTS.bound, failure_prob=0.1, generator=seeded(3))
    assert all(torch.equal(found.weights[name], again.weights[name]) for name in found.weights)
    held = examples(DATA, PARTS.bound)
    logits = torch.func.functional_call(module, found.weights, (held.inputs,))
    assert found.errors == int((logits.argmax(dim=1) != held.labels).sum())
    ratio = log_density_ratio(found.weights, posterior, prior.law)
    twin = bounds.disintegrated(risk=found.errors / 100, log_density_ratio=ratio, n=PARTS.bound.n, failure_prob=0.1)
    assert found.certificate == twin
    grid = ScaleGrid(largest=1.1, precision=8)
    paid = certify_one_draw(
        posterior, prior, module, DATA, PARTS.bound, failure_prob=0.1, generator=seeded(3), scales=grid
    )
    assert paid.certificate.inputs["log_density_ratio"] > ratio - 5.0


def test_weights_on_held_out_examples():
    module = network()
    held = examples(DATA, PARTS.bound)
    weights = dict(module.named_parameters())
    errors = count_errors(module, weights, held)
    found = certify_weights(weights, module, held, failure_prob=0.05)
    assert found.value == bounds.clopper_pearson_upper(errors, held.labels.numel(), 0.05)
    broken = {name: value * float("nan") for name, value in weights.items()}
    assert count_errors(module, broken, held) == held.labels.numel()
    many = Examples(held.inputs.repeat(13, 1), held.labels.repeat(13))
    assert count_errors(module, weights, many) == 13 * errors


def test_a_prior_of_its_own_examples_says_so():
    prior = Prior(law=data_free_prior(network(), std=0.1).law, seen=PARTS.prior, data_hash=DATA.hash)
    prior.require_unseen(DATA, PARTS.bound)
