"""Priors: what they have seen, what is refused, their scales, and their training."""

import math

import numpy as np
import pytest
import torch
from backprop_toys import blobs, network, seeded
from torch import nn

from pacdp import BoundSet, DataFree, GaussianPosterior, HeldOut, Prior, certify
from pacdp.backprop import (
    Augmentation,
    Examples,
    FitSettings,
    ScaleGrid,
    choose_scale,
    data_free_prior,
    fit,
    fit_prior,
    hold_out,
    scaled,
)
from pacdp.certify.priors import standing
from pacdp.data import DataError, Split, index_hash
from pacdp.data.rows import Rows
from pacdp.errors import Diverged

QUICK = FitSettings(epochs=4, batch_size=20)


def split_of(*indices: int) -> Split:
    chosen = np.array(indices, dtype=np.int64)
    return Split(chosen, index_hash(chosen))


class Untouchable(nn.Linear):
    def forward(self, input):
        raise AssertionError("work was done before the refusal")


def test_an_overlap_is_refused_before_any_work():
    data = blobs(40)
    parts = hold_out(40, seed=0)
    module = Untouchable(4, 3).eval()
    law = GaussianPosterior.around(module, std=0.1)
    prior = Prior(law=law, source=HeldOut(indices=parts.prior, data_hash=data.hash))
    overlapping = split_of(*sorted({*parts.bound.indices.tolist(), int(parts.prior.indices[0])}))
    with pytest.raises(DataError, match="share 1 example;"):
        certify(law, BoundSet.part(data, overlapping), prior=prior, network=module)
    with pytest.raises(DataError, match="share 20 examples;"):
        standing(prior.source, BoundSet.part(data, parts.prior))
    with pytest.raises(ValueError, match="not the data that the prior was learnt from"):
        standing(prior.source, BoundSet.part(blobs(40, seed=1), parts.bound))
    with pytest.raises(ValueError, match=r"give data\.indices"):
        standing(prior.source, BoundSet.part(data))
    with pytest.raises(ValueError, match="some of the 40 examples"):
        BoundSet.part(data, split_of(3, 40))


def test_a_prior_without_data_may_meet_any():
    data = blobs(40)
    prior = data_free_prior(network(), std=0.1)
    assert isinstance(prior.source, DataFree)
    standing(prior.source, BoundSet.part(data, hold_out(40, seed=0).bound))
    standing(prior.source, BoundSet.part(blobs(30, seed=4)))


def test_holding_out():
    parts = hold_out(101, prior_share=0.3, seed=3)
    assert abs(parts.prior.n - 30.3) <= 1
    assert sorted([*parts.prior.indices, *parts.bound.indices]) == list(range(101))
    assert hold_out(101, prior_share=0.3, seed=3) == parts
    assert hold_out(101, prior_share=0.3, seed=4) != parts
    with pytest.raises(DataError):
        hold_out(10, prior_share=1.2, seed=0)


def test_a_prior_knows_what_it_has_seen():
    data = blobs(120)
    parts = hold_out(120, seed=0)
    module = network()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    state = torch.get_rng_state()
    first, again, other = (
        fit_prior(module, data, parts.prior, std=0.1, settings=QUICK, generator=seeded(seed)) for seed in (0, 0, 1)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert isinstance(first.source, HeldOut)
    assert first.source.indices == parts.prior
    seen = data.subset(parts.prior)
    assert first.source.rows.digest == Rows.of(seen.inputs, seen.labels).digest
    assert all(torch.equal(first.law.means[name], again.law.means[name]) for name in first.law.means)
    assert not torch.equal(first.law.means["0.weight"], other.law.means["0.weight"])


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
    assert all(torch.equal(laws[0].means[name], laws[1].means[name]) for name in laws[0].means)


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_fitting_learns(optimizer):
    data, fresh = blobs(300, spread=0.3), blobs(300, spread=0.3, seed=8)
    settings = FitSettings(optimizer=optimizer, epochs=20, batch_size=30, step_size=0.05, label_smoothing=0.05)
    module = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
    found = fit(
        module, Examples(torch.tensor(data.inputs), torch.tensor(data.labels)), settings=settings, generator=seeded(0)
    )
    assert not found.training
    errors = (found(torch.tensor(fresh.inputs)).argmax(dim=1) != torch.tensor(fresh.labels)).float().mean()
    assert float(errors) < 0.1


def test_fitting_images_and_refusals():
    images = torch.rand(12, 1, 9, 9)
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(98, 2))
    settings = FitSettings(epochs=1, batch_size=5, augmentation=Augmentation(shift=1.0, erase=3))
    labels = torch.arange(12) % 2
    found = fit(module, Examples(images, labels), settings=settings, generator=seeded(0))
    assert found[0].weight.is_contiguous()
    with pytest.raises(Diverged):
        fit(module, Examples(images * math.nan, labels), settings=settings, generator=seeded(0))
    with pytest.raises(ValueError, match="one label for each"):
        fit(module, Examples(images, labels[:5]), settings=settings, generator=seeded(0))
    with pytest.raises(ValueError, match="epochs >= 1"):
        FitSettings(epochs=0)


@pytest.mark.parametrize("factor", [0.03, 0.4, 1.0, 2.5])
def test_the_scale_that_is_chosen(factor):
    module = network()
    prior = GaussianPosterior.around(module, std=1.0)
    posterior = GaussianPosterior(
        means={name: mean + 0.1 * factor for name, mean in prior.means.items()},
        stds={name: std * factor for name, std in prior.stds.items()},
    )
    grid = ScaleGrid(largest=3.0, precision=4)
    chosen = choose_scale(posterior, Prior(law=prior, source=DataFree(), choice_nats=0.5), grid)
    assert chosen.scale == pytest.approx(3.0 * math.exp(-chosen.place / 4), rel=1e-15)
    assert chosen.prior.choice_nats == pytest.approx(0.5 + 2 * math.log(chosen.place) + math.log(math.pi**2 / 6))
    kl_nats = posterior.kl_nats(chosen.prior.law)
    assert kl_nats == posterior.kl_nats(scaled(prior, chosen.scale))
    best = min(posterior.kl_nats(scaled(prior, 3.0 * math.exp(-j / 4))) for j in range(1, 40))
    assert kl_nats <= best + 2 * math.log(2)  # the other neighbour may be the cheaper choice
