"""Distortions of images."""

import torch
from torch import equal
from torch.testing import assert_close

from pacdp.backprop import Augmentation, augmented
from tests.marks import near
from tests.pacdp.toys import seeded


def many(image, count=400):
    return image.expand(count, -1, -1, -1)


def blot():
    y, x = torch.meshgrid(torch.arange(21.0), torch.arange(21.0), indexing="ij")
    return torch.exp(-((x - 10) ** 2 + (y - 10) ** 2) / 4)[None, None]


def centre_of_mass(images):
    at, mass = torch.arange(images.shape[-1], dtype=torch.float32), images.sum(dim=(1, 2, 3))
    return (images.sum(dim=(1, 2)) * at).sum(dim=1) / mass, (images.sum(dim=(1, 3)) * at).sum(dim=1) / mass


def test_every_image_has_its_own_the_seed_decides_and_the_default_changes_nothing():
    images = many(torch.rand(1, 1, 12, 12), 6)
    settings = Augmentation(shift=2.0, rotation=10.0, scale=0.1, shear=0.1, elastic=0.5)
    first, again, other = (augmented(images, settings, seeded(s)) for s in (0, 0, 1))
    assert equal(first, again)
    assert not equal(first, other)
    assert len({tuple(image.flatten().tolist()) for image in first}) == 6
    assert torch.isfinite(first).all()
    assert augmented(images, Augmentation(), seeded(0)) is images


def test_shifts_are_in_pixels_and_rotations_in_degrees_about_the_centre():
    for where in centre_of_mass(augmented(many(blot()), Augmentation(shift=3.0), seeded(0))):
        assert float((where - 10).abs().max()) <= 3.05
        assert float(where.std()) == near(3 / 3**0.5, rel=0.15)
    off = many(blot().roll(7, dims=3))
    x, y = (where - 10 for where in centre_of_mass(augmented(off, Augmentation(rotation=20.0), seeded(0))))
    angle = torch.atan2(y, x).rad2deg()
    assert float(angle.abs().max()) <= 20.5
    assert float(angle.std()) == near(20 / 3**0.5, rel=0.15)
    assert_close(torch.hypot(x, y), torch.full((400,), 7.0), atol=0.15, rtol=0)
