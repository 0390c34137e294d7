"""DropBlock (Ghiasi, Lin and Le 2018, Algorithm 1): dropout of squares of feature maps.

Every place of a map where a square of side b fits is the square's corner with probability

    γ = (1 - keep_prob)/b² · side²/(side - b + 1)²,

each channel of each example by itself; what no square covers is scaled by (numbers)/(numbers kept). With b = 1 this is
dropout, up to that scale.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, pad


class DropBlock2d(nn.Module):
    """Sets squares of side ``block_size`` (at most the map's own) to zero, in training mode."""

    def __init__(self, rate: float, block_size: int, *, generator: torch.Generator) -> None:
        """``rate`` is about the share of numbers dropped (a little less, since squares overlap)."""
        super().__init__()
        if not 0.0 <= rate < 1.0:
            raise ValueError(f"expected 0 <= rate < 1, got {rate}")
        if block_size < 1:
            raise ValueError(f"expected block_size >= 1, got {block_size}")
        self.rate, self.block_size, self.generator = rate, block_size, generator

    def forward(self, maps: Tensor) -> Tensor:
        """Maps (examples, channels, height, width), some squares of them zero."""
        if not self.training or self.rate == 0.0:
            return maps
        kept = self._kept(maps)
        return maps * kept * (kept.numel() / kept.sum().clamp(min=1.0))

    @torch.no_grad()
    def _kept(self, maps: Tensor) -> Tensor:
        height, width = maps.shape[-2:]
        side = min(self.block_size, height, width)
        places = (height - side + 1, width - side + 1)
        gamma = min(1.0, self.rate / side**2 * height * width / (places[0] * places[1]))
        corners = maps.new_empty((*maps.shape[:2], *places)).bernoulli_(gamma, generator=self.generator)
        around = side - 1
        return 1.0 - max_pool2d(pad(corners, (around, around, around, around)), side, stride=1)
