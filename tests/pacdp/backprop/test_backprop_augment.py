"""Distortions of images."""

import pytest
import torch
from backprop_toys import seeded

from pacdp.backprop import Augmentation, augmented


def test_the_default_changes_nothing():
    images = torch.rand(5, 2, 8, 9)
    assert augmented(images, Augmentation(), seeded(0)) is images


def test_every_image_has_its_own_and_the_seed_decides():
    images = torch.rand(1, 1, 12, 12).expand(6, -1, -1, -1)
    settings = Augmentation(shift=2.0, rotation=10.0, scale=0.1, shear=0.1, elastic=0.5, erase=4)
    first, again, other = (augmented(images, settings, seeded(s)) for s in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert all(not torch.equal(first[0], first[k]) for k in range(1, 6))
    assert first.shape == images.shape
    assert bool(torch.isfinite(first).all())


def test_flips():
    images = torch.rand(40, 3, 6, 7)
    found = augmented(images, Augmentation(flip=True), seeded(0))
    same = torch.isclose(found, images, atol=1e-5).flatten(1).all(dim=1)
    mirrored = torch.isclose(found, images.flip(3), atol=1e-5).flatten(1).all(dim=1)
    assert bool((same | mirrored).all())
    assert 5 < int(mirrored.sum()) < 35


def centre_of_mass(images):
    at = torch.arange(images.shape[-1], dtype=torch.float32)
    mass = images.sum(dim=(1, 2, 3))
    return (images.sum(dim=(1, 2)) * at).sum(dim=1) / mass, (images.sum(dim=(1, 3)) * at).sum(dim=1) / mass


def blot():
    y, x = torch.meshgrid(torch.arange(21.0), torch.arange(21.0), indexing="ij")
    return torch.exp(-((x - 10) ** 2 + (y - 10) ** 2) / 4)[None, None]


@pytest.mark.parametrize("size", [1.0, 3.0])
def test_shifts_are_in_pixels(size):
    found = augmented(blot().expand(400, -1, -1, -1), Augmentation(shift=size), seeded(0))
    for where in centre_of_mass(found):
        assert float((where - 10).abs().max()) <= size + 0.05
        assert float(where.std()) == pytest.approx(size / 3**0.5, rel=0.15)


def test_rotations_are_in_degrees_about_the_centre():
    off = blot().roll(7, dims=3).expand(300, -1, -1, -1)
    x, y = centre_of_mass(augmented(off, Augmentation(rotation=20.0), seeded(0)))
    angle = torch.atan2(y - 10, x - 10).rad2deg()
    assert float(angle.abs().max()) <= 20.5
    assert float(angle.std()) == pytest.approx(20 / 3**0.5, rel=0.15)
    torch.testing.assert_close(torch.hypot(x - 10, y - 10), torch.full((300,), 7.0), atol=0.15, rtol=0)


def test_erased_rectangles():
    images = torch.ones(200, 2, 15, 15)
    found = augmented(images, Augmentation(erase=6), seeded(0))
    gone = found[:, 0] == 0
    assert torch.equal(found[:, 0], found[:, 1])
    assert int(gone.any(dim=2).sum(dim=1).max()) <= 6
    assert int(gone.any(dim=1).sum(dim=1).max()) <= 6
    assert 0 < float(gone.float().mean()) < 36 / 225


def test_refusals():
    for bad in ({"shift": -1.0}, {"scale": 1.5}, {"elastic_cells": 1}, {"rotation": float("nan")}):
        with pytest.raises(ValueError, match="expected"):
            Augmentation(**bad)
