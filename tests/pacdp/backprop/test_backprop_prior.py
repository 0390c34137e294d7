"""Priors: what they have seen, their scales, and their training."""

import math
from dataclasses import replace

import torch
from backprop_toys import blobs, network
from torch import equal
from torch.nn import BatchNorm1d, Conv2d, Dropout, Flatten, Linear, ReLU, Sequential

from pacdp import GaussianPosterior, HeldOut, Prior
from pacdp.backprop import (
    Augmentation,
    Examples,
    FitSettings,
    choose_scale,
    fit,
    fit_prior,
    hold_out,
    scaled,
)
from pacdp.certify import DataFree
from pacdp.data.rows import Rows
from tests.marks import near, parametrize
from tests.pacdp.same import identical, left_alone
from tests.pacdp.toys import pair, seeded

QUICK = FitSettings(epochs=4, batch_size=20)


def test_holding_out():
    parts = hold_out(101, prior_share=0.3, seed=3)
    assert abs(parts.prior.n - 30.3) <= 1
    assert sorted([*parts.prior.indices, *parts.bound.indices]) == list(range(101))


def test_a_prior_knows_what_it_has_seen():
    data = blobs(120)
    parts = hold_out(120, seed=0)
    module = network()
    state = torch.get_rng_state()
    with left_alone(module):
        first, again, other = (
            fit_prior(module, data, parts.prior, std=0.1, settings=QUICK, generator=seeded(seed)) for seed in (0, 0, 1)
        )
    assert equal(torch.get_rng_state(), state)
    assert isinstance(first.source, HeldOut)
    assert first.source.indices == parts.prior
    seen = data.subset(parts.prior)
    assert first.source.rows.digest == Rows.of(seen.inputs, seen.labels).digest
    assert identical(first.law.means, again.law.means)
    assert not equal(first.law.means["0.weight"], other.law.means["0.weight"])


def test_fitting_sees_its_examples_alone():
    data = blobs(120)
    parts = hold_out(120, seed=0)
    poisoned = blobs(120)
    inputs = poisoned.inputs.copy()
    inputs[parts.bound.indices] = 1e6
    changed = type(data)("blobs", inputs, poisoned.labels, poisoned.classes)
    laws = [
        fit_prior(network(), each, parts.prior, std=0.1, settings=QUICK, generator=seeded(0)).law
        for each in (data, changed)
    ]
    assert identical(laws[0].means, laws[1].means)


@parametrize("optimizer", ["adamw", "sgd"])
def test_fitting_learns(optimizer):
    data, fresh = blobs(300, spread=0.3), blobs(300, spread=0.3, seed=8)
    settings = FitSettings(optimizer=optimizer, epochs=20, batch_size=30, step_size=0.05)
    module = Sequential(Linear(4, 16), BatchNorm1d(16), ReLU(), Dropout(0.1), Linear(16, 3))
    found = fit(module, Examples(*pair(data)), settings=settings, generator=seeded(0))
    assert not found.training
    errors = (found(torch.tensor(fresh.inputs)).argmax(dim=1) != torch.tensor(fresh.labels)).float().mean()
    assert float(errors) < 0.1


@parametrize(("n", "size"), [(41, 20), (3, 1), (1, 5)])
def test_a_last_batch_of_one_takes_a_second_example(n, size):
    """One alone has no variance, so that BatchNorm raises; batches of one that are asked for stay."""
    module = Sequential(Linear(4, 3), *([BatchNorm1d(3)] if size == 20 else []))
    fit(module, Examples(*pair(blobs(n))), settings=replace(QUICK, batch_size=size), generator=seeded(0))


def test_images_are_distorted_while_fitting():
    images, labels = torch.rand(12, 1, 9, 9), torch.arange(12) % 2
    module = Sequential(Conv2d(1, 2, 3), Flatten(), Linear(98, 2))
    plain, distorted = (
        fit(
            module,
            Examples(images, labels),
            settings=replace(QUICK, batch_size=5, augmentation=how),
            generator=seeded(0),
        )
        for how in (Augmentation(), Augmentation(shift=1.0))
    )
    assert distorted[0].weight.is_contiguous()
    assert not equal(plain[0].weight, distorted[0].weight)


@parametrize("factor", [0.03, 1.0, 2.5])
def test_the_scale_that_is_chosen(factor):
    module = network()
    prior = GaussianPosterior.around(module, std=1.0)
    posterior = GaussianPosterior(
        means={name: mean + 0.1 * factor for name, mean in prior.means.items()},
        stds={name: std * factor for name, std in prior.stds.items()},
    )
    given = Prior(law=prior, source=DataFree(), choice_nats=0.5)
    chosen = choose_scale(posterior, given, largest=3.0, precision=4)
    place = round(-4 * math.log(float(chosen.law.stds["0.weight"]) / 3.0))
    assert float(chosen.law.stds["0.weight"]) == near(3.0 * math.exp(-place / 4), rel=1e-6)
    assert chosen.choice_nats == near(0.5 + 2 * math.log(place) + math.log(math.pi**2 / 6))
    kl_nats = posterior.kl_nats(chosen.law)
    best = min(posterior.kl_nats(scaled(prior, 3.0 * math.exp(-j / 4))) for j in range(1, 40))
    assert kl_nats <= best + 2 * math.log(2)  # the other neighbour may be the cheaper choice
