"""Random waves: cosines of random projections, in which a linear layer has the smooth functions of its input.

Rahimi and Recht (2007), "Random features for large-scale kernel machines": cos(gain ⟨w, x⟩ + b), w standard normal, b
uniform on the circle; the more of them, the nearer their inner products are to exp(-gain² |x - x'|²/2)/2.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


class RandomWaves(nn.Module):
    """Rows [n, inputs] to [n, dim], values in [-1, 1]; a function of the seed and of one row at a time."""

    def __init__(self, *, inputs: int, dim: int, gain: float, seed: int) -> None:
        """
        Args:
            inputs: length of a row.
            dim: number of waves.
            gain: waves across a distance of 2π between rows.
            seed: of directions and phases; fixed before any data is looked at.

        Raises:
            ValueError: a number out of range.
        """
        super().__init__()
        if min(inputs, dim) < 1 or not gain > 0.0:
            raise ValueError(f"expected inputs, dim >= 1 and gain > 0, got {inputs}, {dim}, {gain}")
        generator = torch.Generator().manual_seed(seed)
        self.register_buffer(
            "directions", gain * torch.randn((inputs, dim), generator=generator), persistent=False
        )
        self.register_buffer(
            "phases", 2.0 * math.pi * torch.rand(dim, generator=generator), persistent=False
        )
        self.dim = dim

    def forward(self, rows: Float[Tensor, "n inputs"]) -> Float[Tensor, "n dim"]:
        """One wave a column."""
        return torch.cos(rows @ self.get_buffer("directions") + self.get_buffer("phases"))
