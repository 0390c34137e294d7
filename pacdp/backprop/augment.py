"""Random distortions of a batch of images: affine maps and smooth displacements.

An image is sampled at A p + t + u(p) for each pixel position p: A rotates, scales and shears, t shifts, and u is a
coarse grid of Gaussian displacements interpolated bicubically (Simard, Steinkraus and Platt 2003 smooth white noise
instead). All in one bilinear ``grid_sample`` a batch, black beyond the border.
"""

import math
from dataclasses import astuple, dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

_CELLS = 4
"""Side of the coarse grid of displacements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Augmentation:
    """How far images are distorted; the defaults leave them as they are. Uniform in ± the given range each."""

    shift: float = 0.0
    """Pixels, in each direction."""
    rotation: float = 0.0
    """Degrees."""
    scale: float = 0.0
    """Share: 0.1 zooms each direction by a factor in [0.9, 1.1]."""
    shear: float = 0.0
    """Horizontal displacement per vertical unit."""
    elastic: float = 0.0
    """Standard deviation of the displacements in pixels."""

    def __post_init__(self) -> None:
        if not all(math.isfinite(size) and size >= 0 for size in astuple(self)):
            raise ValueError(f"expected ranges that are finite and >= 0, got {self}")
        if self.scale >= 1:
            raise ValueError(f"expected scale < 1, got {self.scale}")


def augmented(
    images: Float[Tensor, "batch channels height width"],
    settings: Augmentation,
    generator: torch.Generator,
) -> Float[Tensor, "batch channels height width"]:
    """A distorted copy of each image, every one by random numbers of its own.

    Args:
        generator: a CPU generator, whatever the device of the images.
    """
    if not any(astuple(settings)):
        return images
    grid = _grid(images, settings, generator).to(images.device)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def _grid(images: Tensor, settings: Augmentation, generator: torch.Generator) -> Tensor:
    """Where to look each pixel up, in units of half the image."""
    batch, _, height, width = images.shape
    angle, zoom_x, zoom_y, shear, shift_x, shift_y = (
        2.0 * torch.rand(6, batch, generator=generator) - 1.0
    ).unbind()
    angle = angle * math.radians(settings.rotation)
    zoom_x, zoom_y = 1.0 + settings.scale * zoom_x, 1.0 + settings.scale * zoom_y
    shear = shear * settings.shear
    cos, sin = torch.cos(angle), torch.sin(angle)
    rows = [zoom_x * cos, shear * cos - sin, settings.shift * 2.0 / width * shift_x]
    rows += [zoom_y * sin, zoom_y * cos + shear * sin, settings.shift * 2.0 / height * shift_y]
    theta = torch.stack(rows, dim=1).view(batch, 2, 3)
    grid = F.affine_grid(theta, [batch, 1, height, width], align_corners=False)
    if settings.elastic:
        coarse = torch.randn(batch, 2, _CELLS, _CELLS, generator=generator)
        coarse *= settings.elastic * 2.0 / torch.tensor([width, height]).view(2, 1, 1)
        grid = grid + F.interpolate(
            coarse, (height, width), mode="bicubic", align_corners=True
        ).permute(0, 2, 3, 1)
    return grid
