"""Fixed maps before a network: oriented gradients, and shifted copies of the records that it is trained on."""

from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bounds import _check
from pacdp.features import OrientedGradients, unit
from pacdp.features.pooling import padded
from pacdp.store.canonical import JOINED_LATER, left_out
from pacdp.store.record import record

_CHUNK = 500


@record
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
    upright: bool = field(default=True, metadata=JOINED_LATER)
    """Gradients are those of the image centred and without slant, by ``alignment``: for handwriting."""
    pixels: int = field(default=0, metadata=JOINED_LATER)
    """Beside the gradients, the image shrunk to so many pixels a side, in all its colours, less their mean."""

    def __post_init__(self) -> None:
        _check.whole(shift=self.shift, pixels=self.pixels)
        _check.positive(scale=self.scale)

    @property
    def record(self) -> Mapping[str, Any]:
        """All settings, as configurations write them."""
        absent = left_out(self)
        return {name: value for name, value in asdict(self).items() if name not in absent}

    @torch.no_grad()
    def __call__(self, inputs: Tensor) -> Tensor:
        """Each image's own features; ValueError for other numbers than float32, or what must be images and is not."""
        if inputs.dtype != torch.float32:
            raise ValueError(
                f"data of pacdp's own learners must be in single precision, got {inputs.dtype}: call .float()"
            )
        square = inputs.ndim == 4 and inputs.shape[2] == inputs.shape[3]
        if (self.gradients and not square) or (self.shift and inputs.ndim < 3):
            raise ValueError(
                f"data must be images where view shifts them, square ones [n, channels, side, side] for gradients, got "
                f"shape {tuple(inputs.shape)}: give view=View()"
            )
        if not self.gradients:
            return inputs
        made = OrientedGradients(
            size=inputs.shape[-1], orientations=self.orientations, cells=self.cells,
            alignment=self.alignment if self.upright else None
        )  # fmt: skip
        return torch.cat([self.scale * self._seen(made, part) for part in padded(inputs, _CHUNK)])[
            : len(inputs)
        ]

    def _seen(self, made: OrientedGradients, images: Tensor) -> Tensor:
        """Unit vectors of gradients, of the mean of the colours; with pixels, another unit vector beside each."""
        gradients = made(images if images.shape[1] == 1 else images.mean(dim=1, keepdim=True))
        if not self.pixels:
            return gradients
        shrunk = F.adaptive_avg_pool2d(images, self.pixels).flatten(1)
        return torch.cat([gradients, unit(shrunk - shrunk.mean(dim=1, keepdim=True))], dim=1)

    @torch.no_grad()
    def training(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """What training sees of the images: each as it is and shifted, image by image, with its label.

        Those of the last call are remembered where the images begin with the same ones: a run only adds to them.
        """
        before, seen = _LAST.get(self, (images[:0], None))
        if (
            seen is None
            or len(before) > len(images)
            or not torch.equal(images[: len(before)], before)
        ):
            seen = self(self._shifted(images))
        elif len(images) > len(before):
            seen = torch.cat([seen, self(self._shifted(images[len(before) :]))])
        _LAST.clear()
        _LAST[self] = (images.clone(), seen)
        return seen, labels.repeat_interleave((2 * self.shift + 1) ** 2)

    def _shifted(self, images: Tensor) -> Tensor:
        if not self.shift:
            return images
        reach, (high, wide) = self.shift, images.shape[-2:]
        framed, moves = torch.nn.functional.pad(images, [reach] * 4), range(2 * reach + 1)
        parts = [framed[..., dy : dy + high, dx : dx + wide] for dy in moves for dx in moves]
        return torch.stack(parts, dim=1).flatten(0, 1)


_LAST: dict[View, tuple[Tensor, Tensor]] = {}
