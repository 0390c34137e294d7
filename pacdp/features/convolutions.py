"""Random convolutions: fixed seeded filters, a two-sided threshold, pooling.

Coates, Lee and Ng (2011), "An analysis of single-layer networks in unsupervised feature learning", with random in place
of learnt filters: response f of a unit filter of mean 0 to every patch, max(0, f - t) and max(0, -f - t), averaged in
each cell of a grid; the whole vector is scaled to length 1.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from pacdp.features.pooling import unit, windows


class RandomConvolutions(nn.Module):
    """Images [n, channels, size, size] to unit vectors [n, 2 · filters · cells²].

    The filters are a function of the seed; no parameters, no training, no statistics of a batch.
    """

    def __init__(
        self, *, size: int, seed: int, channels: int = 1, filters: int = 64, width: int = 7, cells: int = 4,
        threshold: float = 0.1,
    ) -> None:  # fmt: skip
        """
        Args:
            size: height and width of the images, in pixels.
            seed: of the filters; fixed before any data is looked at.
            filters: each gives two features a cell.
            width: of a filter, in pixels.
            threshold: t, in units of the image.

        Raises:
            ValueError: a number out of range.
        """
        super().__init__()
        if min(size, channels, filters, width, cells) < 1 or not threshold >= 0.0:
            raise ValueError(
                f"expected size, channels, filters, width and cells >= 1 and threshold >= 0, got {size}, {channels}, "
                f"{filters}, {width}, {cells}, {threshold}"
            )
        drawn = torch.randn(
            (filters, channels, width, width), generator=torch.Generator().manual_seed(seed)
        )
        drawn = drawn - drawn.mean((1, 2, 3), keepdim=True) if width * channels > 1 else drawn
        drawn = drawn / drawn.flatten(1).norm(dim=1).clamp_min(1e-12)[:, None, None, None]
        self.register_buffer("filters", drawn, persistent=False)
        self.register_buffer("windows", windows(size, cells=cells, width=0.5), persistent=False)
        self.threshold, self.width = threshold, width
        self.dim = 2 * filters * cells**2

    def forward(self, images: Float[Tensor, "n channels size size"]) -> Float[Tensor, "n dim"]:
        """Unit vectors."""
        before = (self.width - 1) // 2
        after = self.width - 1 - before
        response = F.conv2d(
            F.pad(images, (before, after, before, after)), self.get_buffer("filters")
        )
        both = torch.cat([response, -response], dim=1).sub_(self.threshold).clamp_min_(0.0)
        cells = self.get_buffer("windows")
        return unit((cells @ both @ cells.T).flatten(1))
