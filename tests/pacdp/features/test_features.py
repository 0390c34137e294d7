"""Fixed features are functions of one image and of their settings, and nothing else."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy import array_equal
from scipy import integrate, stats
from torch import equal, nn
from torch.testing import assert_close

from pacdp.data import load, make_splits
from pacdp.features import (
    OrientedGradients,
    RandomConvolutions,
    aligned,
    anchored_head,
    fit_law,
    fit_mean,
    gaussian_errors,
    named,
    nearest,
    ridge_heads,
    transform,
    unit,
)
from pacdp.features.named import FEATURES as NAMED
from pacdp.features.named import seen_through
from pacdp.features.pooling import windows
from pacdp.features.waves import RandomWaves
from tests.marks import every_case, near, refusal
from tests.pacdp.draws import randn
from tests.pacdp.toys import seeded
from tests.refusals import refuses

DIGITS, _ = load("digits")
FEATURES = {
    "oriented gradients": lambda: OrientedGradients(size=14, cells=4),
    "unaligned": lambda: OrientedGradients(size=14, cells=3, alignment=None, orientations=5, sharpness=1),
    "random convolutions": lambda: RandomConvolutions(size=14, seed=3, filters=8),
    "even filters": lambda: RandomConvolutions(size=14, seed=3, filters=4, width=4, threshold=0.0),
}


def images(n=7, *, seed=0):
    generator = seeded(seed)
    return (torch.rand((n, 1, 14, 14), generator=generator) - 0.6).clamp_min(0.0)


@every_case("made", FEATURES.values(), ids=FEATURES)
def test_a_row_is_a_function_of_its_own_image_and_nothing_else(made):
    one, batch = made(), images()
    rows = one(batch)
    assert list(one.parameters()) == []
    assert rows.shape == (7, one.dim)
    assert_close(rows.norm(dim=1), torch.ones(7))
    assert equal(rows, made()(images()))
    assert equal(one.train()(batch), one.eval()(batch))
    other = one(torch.cat([batch[:1], images(6, seed=1)]))
    assert equal(rows[0], other[0])
    assert_close(rows[:1], one(batch[:1]), rtol=1e-5, atol=1e-6)
    assert not torch.allclose(rows[1], other[1], atol=1e-3)
    assert torch.isfinite(one(torch.zeros(2, 1, 14, 14))).all(), "an empty image has features"


def test_the_seed_makes_the_filters():
    one, two = (RandomConvolutions(size=8, seed=seed, filters=4)(images()[:, :, :8, :8]) for seed in (0, 1))
    assert not torch.allclose(one, two)


def test_a_ramp_has_its_direction():
    ramp = torch.linspace(0, 1, 14)[None, None, None, :].expand(1, 1, 14, 14).clone()
    for image, direction in ((ramp, 0), (ramp.mT, 1), (ramp.flip(3), 2), (ramp.mT.flip(2), 3)):
        found = OrientedGradients(size=14, orientations=4, cells=3, alignment=None)(image).view(4, 3, 3)[:, 1, 1]
        assert int(found.argmax()) == direction


def test_alignment_removes_shift_and_slant():
    y, x = torch.meshgrid(torch.arange(28.0), torch.arange(28.0), indexing="ij")

    def blob(cx, cy, slant):
        u = x - cx - slant * (y - cy)
        return torch.exp(-0.5 * ((u / 2.0) ** 2 + ((y - cy) / 4.0) ** 2))

    upright, moved, slanted = aligned(
        torch.stack([blob(13.5, 13.5, 0.0), blob(15.0, 12.0, 0.0), blob(13.5, 13.5, 0.5)])[:, None], strength=0.5
    )
    assert float((upright - moved).abs().max()) < 0.05
    assert float((upright - slanted).abs().max()) < 0.05


def test_windows_average():
    assert_close(windows(28, cells=7, width=0.7).sum(1), torch.ones(7))


def test_transform_is_the_module_in_batches_and_takes_read_only_arrays():
    features = OrientedGradients(size=14, cells=4)
    inputs = images().numpy()
    inputs.setflags(write=False)
    assert_close(transform(features, inputs, batch_size=3), features(images()), rtol=1e-5, atol=1e-6)


def test_an_image_has_the_same_row_to_the_bit_in_whatever_call_it_is_made():
    """Else the rows of a prior that saw it and of a bound that counts it have other hashes."""
    inputs = torch.rand((277, 1, 28, 28), generator=seeded(0))
    features = OrientedGradients(size=28, orientations=12, cells=7)
    whole = transform(features, inputs)
    for start in (13, 250, 270):
        assert equal(transform(features, inputs[start:]), whole[start:])
    turned = inputs.mT.contiguous().mT  # as files of other programs have them
    for form in (turned, np.asfortranarray(inputs.numpy()), turned.numpy()):
        assert equal(transform(features, form), whole)
    colours = torch.rand((40, 3, 28, 28), generator=seeded(1))
    filters = RandomConvolutions(size=28, seed=0, channels=3, filters=96, width=6, cells=3)
    laid = colours.to(memory_format=torch.channels_last)
    assert equal(transform(filters, laid), transform(filters, colours))


class Beside(nn.Module):
    """Features that look at the whole batch: its mean, or how much of it is padding."""

    def __init__(self, of):
        super().__init__()
        self.of = of

    def forward(self, rows):
        return rows.flatten(1) + self.of(rows)


GRADIENTS = OrientedGradients(size=14)
BESIDE = {
    "batch normalisation in train mode": lambda: nn.Sequential(nn.Flatten(), nn.BatchNorm1d(196)),
    "the mean of the batch": lambda: Beside(lambda rows: rows.mean()),
    "repeated rows": lambda: Beside(lambda rows: len(rows.unique(dim=0))),
    "draws": lambda: nn.Sequential(nn.Flatten(), nn.Dropout()),
}


@every_case("name", BESIDE)
def test_features_that_hang_on_the_batch_are_refused(name):
    for n in (40, 300):
        with refusal("depends on the other examples of its batch, or on random numbers"):
            transform(BESIDE[name](), images(n))


REFUSED = {
    "no inputs": (lambda: transform(GRADIENTS, np.zeros((0, 1, 14, 14), np.float32)), "expected inputs"),
    "double precision": (
        lambda: transform(GRADIENTS, np.zeros((1, 1, 14, 14))), "features failed with RuntimeError: .* Double"),
    "NaN": (lambda: transform(GRADIENTS, np.full((1, 1, 14, 14), np.nan, np.float32)), "NaN"),
    "images that are no squares": (
        lambda: seen_through(replace(DIGITS, inputs=DIGITS.inputs[:, :, :5]), "waves"), r"need images \[n, 1, size"),
}  # fmt: skip


test_features_of_what_cannot_be_seen_are_refused = refuses(REFUSED)


COMPLEX, HALVES = torch.ones(6, 2) + 1j * torch.eye(6)[:, :2], torch.arange(6) % 2
HEAD = {"classes": 2, "ridge": 0.1, "tau": 1.0, "normaliser": 6, "provenance": "a test"}
ROWS, WHOLE = COMPLEX.real, "labels must be a tensor of int64 from 0 to 1, one for each of 6 rows of features"


def of_rows(features, labels=HALVES):
    """What each part of a head would make of such rows: a law of other rows, a draw, directions, coordinates, a fit."""
    directions = ridge_heads(ROWS, share=1.0, bias=1.0, **HEAD)
    return (
        lambda: anchored_head(features, labels, seed=0, **HEAD),
        lambda: anchored_head(ROWS, HALVES, seed=0, **HEAD).draw(features, labels),
        lambda: nearest(directions, features, labels),
        lambda: fit_mean(features, labels, prior_mean=torch.zeros(2, 2), std=1.0, cost_nats=1.0, iterations=1),
        lambda: fit_law(features, labels, classes=2, n=6, failure_prob=0.05),
        *((lambda: ridge_heads(features, share=1.0, bias=1.0, **HEAD),) if labels is HALVES else ()),
    )


REFUSED = [(made, words) for words, rows in {
    # of which a head would see the real parts alone
    "features must be real numbers, got torch.complex64: give real and imaginary parts as columns": (COMPLEX,),
    "features must be a tensor without a gradient, got ndarray: call torch.from_numpy": (ROWS.numpy(),),
    "features must be a tensor without a gradient, got Tensor: .* and .detach": (ROWS.clone().requires_grad_(),),
    "features hold a NaN or an infinity": (ROWS / (ROWS - 1),),
    r"expected features as rows.*, got \[0, 2\]": (ROWS[:0],),
    f"{WHOLE}, got 5 of torch.int64": (ROWS, HALVES[:5]),
    f"{WHOLE}, got 6 of torch.int64: .* how many classes": (ROWS, HALVES + 1),
    f"{WHOLE}, got 6 of int64: call torch.from_numpy": (ROWS, HALVES.numpy()),
}.items() for made in of_rows(*rows)]  # fmt: skip
test_features_that_are_no_rows_of_fixed_numbers_are_refused_and_labels_of_no_class = pytest.mark.wrong_types(
    refuses([
        *REFUSED,
        (lambda: ridge_heads(ROWS, share=1.0, bias=1.0, **HEAD | {"tau": 0.0}), "expected tau > 0 and finite"),
        (lambda: ridge_heads(ROWS, share=1.0, bias=1.0, **HEAD | {"normaliser": 0}), "expected normaliser > 0"),
    ])
)  # fmt: skip


def test_gaussian_errors_against_quadrature_of_scipy():
    logits = torch.tensor([[1.0, 0.2, -0.5], [-0.3, 0.4, 2.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    labels = torch.tensor([0, 1, 2])
    for row, label, found in zip(logits.tolist(), range(3), gaussian_errors(logits, labels).tolist(), strict=True):
        others = [value for k, value in enumerate(row) if k != label]
        right, _ = integrate.quad(
            lambda t, own=row[label], rest=tuple(others): stats.norm.pdf(t) * math.prod(
                stats.norm.cdf(own + t - other) for other in rest
            ), -10, 10,
        )  # fmt: skip
        assert found == near(1.0 - right, abs=2e-4)


def test_fitting_lowers_the_objective_that_it_states_and_a_dear_divergence_keeps_the_prior():
    generator, n, cost, std = seeded(0), 300, 5.0, 0.5
    rows = unit(torch.randn((n, 6), generator=generator))
    labels = (rows @ torch.randn((6, 3), generator=generator)).argmax(dim=1)

    def objective(weights):
        risk = float(gaussian_errors(rows @ weights.T / std, labels).mean())
        half = (float(weights.square().sum()) / (2.0 * std**2) + cost) / (2.0 * n)
        return (math.sqrt(risk + half) + math.sqrt(half)) ** 2

    start = torch.zeros(3, rows.shape[1])
    fitted = [fit_mean(rows, labels, prior_mean=start, std=std, cost_nats=cost, iterations=k) for k in (0, 5, 60)]
    values = [objective(weights) for weights in fitted]
    assert equal(fitted[0], start)
    assert values[0] > values[1] > values[2] - 1e-6
    for step in randn((5, 3, rows.shape[1]), seed=1):
        assert objective(fitted[2] + 0.1 * step) > values[2] - 1e-5
    prior = torch.eye(3, 6)
    dear, cheap = (
        (fit_mean(rows, labels, prior_mean=prior, std=std, cost_nats=cost, iterations=30) - prior).norm()
        for std in (1e-3, 1.0)
    )
    assert dear < 0.05 * cheap


@every_case("name", NAMED)
def test_named_features_are_of_one_image_alone_and_of_length_four(name):
    data = DIGITS
    if name.startswith("spot"):  # of images that have room for spots
        small = data.subset(make_splits(data.n, sizes={"few": 60}, seed=0)["few"])
        data = replace(small, inputs=small.inputs.repeat(3, axis=2).repeat(3, axis=3))
    whole = seen_through(data, name).inputs.reshape(data.n, -1)
    assert np.allclose(np.square(whole).sum(axis=1), 16.0, rtol=1e-4)
    assert np.abs(whole.mean(axis=1)).max() < 1e-5
    few = replace(data, inputs=data.inputs[5:8], labels=data.labels[5:8])
    assert np.allclose(seen_through(few, name).inputs.reshape(3, -1), whole[5:8], atol=1e-5)


def test_waves_have_the_inner_products_of_their_kernel():
    rows = randn((2, 6), seed=1) / 4
    found = RandomWaves(inputs=6, dim=200_000, gain=1.5, seed=3)(rows)
    kernel = 0.5 * math.exp(-(1.5**2) * float((rows[0] - rows[1]).square().sum()) / 2)
    assert abs(float(found[0] @ found[1]) / 200_000 - kernel) < 0.005


def test_features_of_many_images_are_kept_on_disk(monkeypatch, tmp_path):
    monkeypatch.setattr(named, "_LARGE", 10)
    monkeypatch.setattr(named, "cache_folder", lambda: tmp_path)
    first = seen_through(DIGITS, "coarse-gradients").inputs
    assert len(list((tmp_path / "features").iterdir())) == 1
    with monkeypatch.context() as patch:
        patch.setattr(named, "kept_rows", None)
        assert array_equal(seen_through(DIGITS, "coarse-gradients").inputs, first)
