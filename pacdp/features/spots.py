"""Fixed features of single-cell images: how strongly, and over how much of the cell, it is spotted. Nothing is learnt.

Differences of Gaussians at four widths respond to dark and bright spots of their size (Lindeberg 1998); the sorted
responses inside the cell say how strong the strongest are and how much of the cell they cover, wherever they lie. Being
functions of one image, with constants that come from no data set, they are as public as the network's layout: a private
trainer may learn a linear layer on them alone, 118 numbers instead of 10⁵.
"""

import numpy as np
import torch
from jaxtyping import Float32
from torch.nn import functional

_WIDTHS = ((0.7, 1.5), (1.0, 2.0), (1.5, 3.0), (2.0, 4.0))
_RANKS = (0, 2, 5, 10, 20, 50, 100, -101, -51, -21, -11, -6, -3, -1)
_BACKGROUND, _RIM, _GAIN = 0.05, 7, 10.0
_BATCH = 500

COUNT = len(_WIDTHS) * len(_RANKS) + 2


def spot_features(images: np.ndarray) -> Float32[np.ndarray, "n 58"]:
    """Fourteen order statistics of four filters' responses, times ten, then mean and spread of the brightness.

    Args:
        images: float32 [n, 1, height, width] in [0, 1], black outside the cell.

    Raises:
        ValueError: images of more than one channel, or too small.
    """
    if (
        images.ndim != 4
        or images.shape[1] != 1
        or images.shape[2] * images.shape[3] < 2 * max(_RANKS) + 2
    ):
        raise ValueError(
            f"expected grey images [n, 1, height, width] of at least 202 pixels, got {images.shape}"
        )
    kernels = torch.stack([_gaussian(narrow) - _gaussian(wide) for narrow, wide in _WIDTHS])[
        :, None
    ]
    parts = [
        _features(torch.tensor(images[i : i + _BATCH]), kernels)
        for i in range(0, len(images), _BATCH)
    ]
    return np.concatenate(parts)


def _features(images: torch.Tensor, kernels: torch.Tensor) -> Float32[np.ndarray, "n 58"]:
    bright = functional.avg_pool2d((images > _BACKGROUND).float(), _RIM, 1, _RIM // 2)
    inside = (bright > 0.99).float()  # the cell's rim would respond too
    responses = (functional.conv2d(images, kernels, padding="same") * inside).flatten(2).numpy()
    ranks = [rank % responses.shape[2] for rank in _RANKS]
    sorted_ = np.partition(responses, sorted(ranks), axis=2)[:, :, ranks].reshape(len(images), -1)
    area = inside.flatten(1).sum(1).clamp(min=1.0)
    mean, spread = (images * inside).flatten(1).sum(1) / area, images.flatten(1).std(1)
    return np.concatenate(
        [_GAIN * sorted_, torch.stack([mean, spread], 1).numpy()], axis=1, dtype=np.float32
    )


def _gaussian(width: float, size: int = 15) -> torch.Tensor:
    line = torch.exp(-((torch.arange(size) - size // 2).float() ** 2) / (2.0 * width * width))
    kernel = line[:, None] * line
    return kernel / kernel.sum()
