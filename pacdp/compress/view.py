"""Fixed maps before a network: oriented gradients, and shifted copies of the records that it is trained on."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pacdp.features import OrientedGradients

_CHUNK = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a network sees of an image. Nothing of it depends on any sample, so that it costs nothing."""

    gradients: bool = False
    """Oriented gradients (:class:`pacdp.features.OrientedGradients`) in place of pixels."""
    orientations: int = 12
    cells: int = 7
    alignment: float = 0.5
    scale: float = 10.0
    """What the unit vectors of gradients are multiplied by."""
    shift: int = 0
    """Training sees every picked image shifted by up to so many pixels each way as well, black beyond the border."""

    def __post_init__(self) -> None:
        if self.shift < 0 or not self.scale > 0.0:
            raise ValueError(f"expected shift >= 0 and scale > 0, got {self.shift} and {self.scale}")

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        """Each image's own features."""
        if not self.gradients:
            return images
        made = OrientedGradients(
            size=images.shape[-1], orientations=self.orientations, cells=self.cells, alignment=self.alignment
        )
        return torch.cat([self.scale * made(part) for part in padded(images, _CHUNK)])[: len(images)]

    def shifted(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The images, then every shifted copy of all of them, with their labels."""
        reach, (high, wide) = self.shift, images.shape[-2:]
        moves = [(0, 0), *((dy, dx) for dy in range(-reach, reach + 1) for dx in range(-reach, reach + 1) if dy or dx)]
        framed = torch.nn.functional.pad(images, [reach] * 4)
        parts = [framed[..., reach + dy : reach + dy + high, reach + dx : reach + dx + wide] for dy, dx in moves]
        return torch.cat(parts), labels.repeat(len(moves))


def padded(rows: Tensor, size: int) -> list[Tensor]:
    """Batches of exactly ``size`` rows, the last one filled up with zeros.

    A row's outputs may depend on the size of its batch by rounding, and in a batch of one size they do not.
    """
    missing = -len(rows) % size
    filled = torch.cat([rows, rows.new_zeros(missing, *rows.shape[1:])]) if missing else rows
    return list(filled.split(size))
