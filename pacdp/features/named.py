"""Fixed features by name, and data sets seen through them."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from pacdp.data import Dataset
from pacdp.data.registry import cache_folder
from pacdp.features.backbone_cache import entry, kept_rows, read_rows
from pacdp.features.convolutions import RandomConvolutions
from pacdp.features.gradients import OrientedGradients
from pacdp.features.pooling import BATCH, transform, unit
from pacdp.features.spots import spot_features
from pacdp.features.waves import RandomWaves

_LENGTH = 4.0
"""Of the features. A bias adds 1 to the squared length of what a linear layer reads, of which it makes little use."""
_LARGE = 10_000
"""Examples whose gradients take long enough to be kept on disk."""


class Centred(nn.Module):
    """Each row less its own mean, scaled to ``length``."""

    def __init__(self, length: float) -> None:
        super().__init__()
        self.length = length

    def forward(self, rows: Float[Tensor, "n *shape"]) -> Float[Tensor, "n *shape"]:
        """Rows of that length; one of equal numbers stays zero."""
        flat = rows.flatten(1)
        return (self.length * unit(flat - flat.mean(dim=1, keepdim=True))).reshape(rows.shape)


class _Named(NamedTuple):
    orientations: int = 0
    """Of the gradients; 0 takes no gradients."""
    cells: int = 0
    scale: float = 0.0
    waves: int = 0
    gain: float = 2.0
    """Of the waves: the larger, the more they tell apart rows that are alike."""
    slanted: bool = False
    """Whether images stay as slanted as they are: digits are set upright."""
    filters: int = 0
    """Random convolutions in place of gradients, of all channels."""
    spots: bool = False


_NAMED: Mapping[str, _Named] = {
    "oriented-gradients": _Named(12, 7, 1.0),
    "fine-gradients": _Named(16, 7, 1.0),
    "coarse-gradients": _Named(8, 4, 0.7),
    "waves": _Named(16, 7, 1.0, waves=2000),
    "some-waves": _Named(16, 7, 1.0, waves=800),
    "coarse-waves": _Named(8, 4, 0.7, waves=500),
    "film-gradients": _Named(8, 6, 1.5, slanted=True),
    "film-waves": _Named(8, 6, 1.5, waves=500, slanted=True),
    "patches": _Named(filters=96, cells=3),
    "spots": _Named(spots=True),
    "spot-waves": _Named(spots=True, waves=200),
    "pixels": _Named(),
}
FEATURES = tuple(_NAMED)
"""Their names; all are functions of one image alone, with constants that come from no data set."""


def seen_through(data: Dataset, name: str) -> Dataset:
    """The same examples, each image replaced by its features: rows less their own means, of length 4.

    "pixels" are the image itself, so scaled; "waves" are cosines of random projections of gradients or spots; "patches"
    are random convolutions.

    Raises:
        ValueError: no features of that name, or images that are not square or, but for "pixels", of several channels.
    """
    if name not in _NAMED:
        raise ValueError(f"features must be one of {', '.join(FEATURES)}, got {name!r}")
    shape, of = data.inputs.shape, _NAMED[name]
    grey = of.orientations or of.spots
    if data.inputs.ndim != 4 or shape[2] != shape[3] or (shape[1] != 1 and grey):
        raise ValueError(
            f"features {name!r} need images [n, 1, size, size], got {shape}; leave features out"
        )
    rows = _rows(data.inputs, of)
    if of.waves:
        waves = RandomWaves(inputs=rows.shape[1], dim=of.waves, gain=of.gain, seed=0)
        rows = transform(nn.Sequential(Centred(1.0), waves), rows).numpy()
    return replace(data, inputs=transform(Centred(_LENGTH), rows).numpy())


def _rows(images: np.ndarray, of: _Named) -> np.ndarray:
    """What lies below waves, centring and length; the images themselves where nothing does."""
    size, channels = images.shape[-1], images.shape[1]
    if of.spots:
        return spot_features(images)
    if of.filters:
        return _kept(images, of, RandomConvolutions(size=size, seed=0, channels=channels, filters=of.filters,
                                                    width=6, cells=of.cells))  # fmt: skip
    if not of.orientations:
        return images
    alignment = None if of.slanted else 0.5
    return _kept(images, of, OrientedGradients(size=size, orientations=of.orientations, cells=of.cells, scale=of.scale,
                                               alignment=alignment))  # fmt: skip


def _kept(
    images: np.ndarray, of: _Named, features: OrientedGradients | RandomConvolutions
) -> np.ndarray:
    if len(images) < _LARGE:
        return transform(features, images).numpy()
    # what is kept is believed as long as the same code would make it, in such batches: by what it makes of some images
    probe = transform(features, images[:32]).numpy()
    code = hashlib.sha256(
        repr((of._replace(waves=0, gain=0.0), BATCH)).encode() + probe.tobytes()
    ).hexdigest()
    place = entry(images, weights_sha256=code, dim=features.dim, folder=cache_folder() / "features")
    rows = read_rows(place)
    return kept_rows(place, transform(features, images).numpy()) if rows is None else rows
