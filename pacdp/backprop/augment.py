"""Random distortions of a batch of images: affine maps, smooth displacements, erased rectangles.

An image is sampled at A p + t + u(p) for each pixel position p: A rotates, scales and shears, t shifts, and u is a
coarse grid of Gaussian displacements interpolated bicubically (Simard, Steinkraus and Platt 2003 smooth white noise
instead). All in one bilinear ``grid_sample`` a batch, black beyond the border.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


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
    elastic_cells: int = 4
    """Side of their coarse grid."""
    erase: int = 0
    """Largest side, in pixels, of a rectangle that is set to 0."""
    flip: bool = False
    """Mirror left to right half of the images."""

    def __post_init__(self) -> None:
        sizes = (self.shift, self.rotation, self.scale, self.shear, self.elastic, float(self.erase))
        if not all(math.isfinite(size) and size >= 0 for size in sizes):
            raise ValueError(f"expected ranges that are finite and >= 0, got {self}")
        if self.scale >= 1 or self.elastic_cells < 2:
            raise ValueError(
                f"expected scale < 1 and elastic_cells >= 2, got {self.scale} and {self.elastic_cells}"
            )

    @property
    def warps(self) -> bool:
        """Whether any image is resampled."""
        return self.flip or max(self.shift, self.rotation, self.scale, self.shear, self.elastic) > 0


def augmented(
    images: Float[Tensor, "batch channels height width"],
    settings: Augmentation,
    generator: torch.Generator,
) -> Float[Tensor, "batch channels height width"]:
    """A distorted copy of each image, every one by random numbers of its own.

    Args:
        generator: a CPU generator, whatever the device of the images.
    """
    if settings.warps:
        grid = _grid(images, settings, generator).to(images.device)
        images = F.grid_sample(
            images, grid, mode="bilinear", padding_mode="zeros", align_corners=False
        )
    if settings.erase:
        images = images * _kept(images, settings.erase, generator).to(images.device, images.dtype)
    return images


def _grid(images: Tensor, settings: Augmentation, generator: torch.Generator) -> Tensor:
    """Where to look each pixel up, in units of half the image."""
    batch, _, height, width = images.shape
    angle, zoom_x, zoom_y, shear, shift_x, shift_y = (
        2.0 * torch.rand(6, batch, generator=generator) - 1.0
    ).unbind()
    angle = angle * math.radians(settings.rotation)
    zoom_x, zoom_y, shear = (
        1.0 + settings.scale * zoom_x,
        1.0 + settings.scale * zoom_y,
        settings.shear * shear,
    )
    if settings.flip:
        zoom_x = zoom_x * (1 - 2 * torch.randint(2, (batch,), generator=generator))
    cos, sin = torch.cos(angle), torch.sin(angle)
    rows = [zoom_x * cos, shear * cos - sin, settings.shift * 2.0 / width * shift_x]
    rows += [zoom_y * sin, zoom_y * cos + shear * sin, settings.shift * 2.0 / height * shift_y]
    theta = torch.stack(rows, dim=1).view(batch, 2, 3)
    grid = F.affine_grid(theta, [batch, 1, height, width], align_corners=False)
    if settings.elastic:
        cells = settings.elastic_cells
        coarse = torch.randn(batch, 2, cells, cells, generator=generator)
        coarse *= settings.elastic * 2.0 / torch.tensor([width, height]).view(2, 1, 1)
        grid = grid + F.interpolate(
            coarse, (height, width), mode="bicubic", align_corners=True
        ).permute(0, 2, 3, 1)
    return grid


def _kept(images: Tensor, largest: int, generator: torch.Generator) -> Tensor:
    """1 outside of one random rectangle an image, 0 in it."""
    inside = []
    for size in images.shape[2:]:
        centre = torch.rand(len(images), 1, generator=generator) * size
        half = torch.rand(len(images), 1, generator=generator) * largest / 2.0
        inside.append((torch.arange(size) + 0.5 - centre).abs() < half)
    return ~(inside[0][:, :, None] & inside[1][:, None, :])[:, None]
