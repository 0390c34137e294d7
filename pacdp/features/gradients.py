"""Oriented gradients: how much edge of each direction lies in each cell of a grid.

Dalal and Triggs (2005), "Histograms of oriented gradients for human detection", with soft votes: at a pixel whose
gradient (of the image smoothed by a Gaussian) has length m and direction θ, direction θ_k gets √m max(0, cos(θ-θ_k))^p,
and a cell collects votes with Gaussian weights. The whole vector is scaled to length 1.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from pacdp.features.alignment import aligned
from pacdp.features.pooling import unit, windows


class OrientedGradients(nn.Module):
    """Images [n, 1, height, width] of values in [0, 1] to unit vectors [n, orientations · cells²].

    No parameters, no training, no statistics of a batch: row i is a function of image i.
    """

    def __init__(
        self, *, size: int, orientations: int = 12, sharpness: int = 4, cells: int = 7, scale: float = 1.0,
        pooling: float = 0.7, alignment: float | None = 0.5,
    ) -> None:  # fmt: skip
        """
        Args:
            size: height and width of the images, in pixels.
            orientations: number of directions in the full circle.
            sharpness: p, above.
            cells: cells along a side.
            scale: standard deviation of the smoothing, in pixels.
            pooling: standard deviation of a cell's weights, in cells.
            alignment: strength of :func:`pacdp.features.aligned`; None leaves images where they are.

        Raises:
            ValueError: a number out of range.
        """
        super().__init__()
        if min(size, orientations, sharpness, cells) < 1 or not (scale > 0.0 and pooling > 0.0):
            raise ValueError(
                f"expected size, orientations, sharpness and cells >= 1 and scale, pooling > 0, got {size}, "
                f"{orientations}, {sharpness}, {cells}, {scale}, {pooling}"
            )
        self.sharpness, self.alignment, self.reach = (
            sharpness,
            alignment,
            max(1, math.ceil(3.0 * scale)),
        )
        at = torch.arange(-self.reach, self.reach + 1, dtype=torch.float64)
        smooth = torch.exp(-0.5 * (at / scale) ** 2)
        smooth /= smooth.sum()
        slope = at * smooth / scale**2
        filters = torch.stack([smooth[:, None] * slope[None], slope[:, None] * smooth[None]])[
            :, None
        ]
        angle = 2.0 * math.pi * torch.arange(orientations, dtype=torch.float64) / orientations
        self.register_buffer("filters", filters.float(), persistent=False)
        self.register_buffer(
            "directions", torch.stack([angle.cos(), angle.sin()]).float(), persistent=False
        )
        self.register_buffer("windows", windows(size, cells=cells, width=pooling), persistent=False)
        self.dim = orientations * cells**2

    def forward(self, images: Float[Tensor, "n 1 height width"]) -> Float[Tensor, "n dim"]:
        """Unit vectors, cells fastest."""
        if self.alignment is not None:
            images = aligned(images, strength=self.alignment)
        gradient = F.conv2d(images, self.get_buffer("filters"), padding=self.reach)
        length = gradient.norm(dim=1, keepdim=True)
        cosine = torch.einsum("nchw,ck->nkhw", gradient, self.get_buffer("directions")).clamp_min(
            0.0
        )
        cosine = cosine / (length + 1e-3)
        votes = length.sqrt() * cosine
        for _ in range(self.sharpness - 1):
            votes = votes * cosine
        cells = self.get_buffer("windows")
        return unit((cells @ votes @ cells.T).flatten(1))
