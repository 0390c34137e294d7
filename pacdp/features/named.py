"""Fixed features by name, and data sets seen through them."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from pacdp.data import Dataset
from pacdp.features.gradients import OrientedGradients
from pacdp.features.pooling import transform, unit
from pacdp.features.waves import RandomWaves

_LENGTH = 4.0
"""Of the features. A bias adds 1 to the squared length of what a linear layer reads, of which it makes little use."""


class Centred(nn.Module):
    """Each row less its own mean, scaled to ``length``."""

    def __init__(self, length: float) -> None:
        super().__init__()
        self.length = length

    def forward(self, rows: Float[Tensor, "n *shape"]) -> Float[Tensor, "n *shape"]:
        flat = rows.flatten(1)
        return (self.length * unit(flat - flat.mean(dim=1, keepdim=True))).reshape(rows.shape)


def _gradients(orientations: int, cells: int, scale: float, waves: int = 0) -> Callable[[int], nn.Module]:
    def features(size: int) -> nn.Module:
        gradients = OrientedGradients(size=size, orientations=orientations, cells=cells, scale=scale)
        if not waves:
            return nn.Sequential(gradients, Centred(_LENGTH))
        of_them = RandomWaves(inputs=gradients.dim, dim=waves, gain=2.0, seed=0)
        return nn.Sequential(gradients, Centred(1.0), of_them, Centred(_LENGTH))

    return features


_NAMED: Mapping[str, Callable[[int], nn.Module]] = {
    "oriented-gradients": _gradients(12, 7, 1.0),
    "fine-gradients": _gradients(16, 7, 1.0),
    "coarse-gradients": _gradients(8, 4, 0.7),
    "waves": _gradients(16, 7, 1.0, waves=2000),
    "coarse-waves": _gradients(8, 4, 0.7, waves=500),
    "pixels": lambda size: Centred(_LENGTH),
}
FEATURES = tuple(_NAMED)
"""Their names; all are functions of one image alone, with constants that come from no data set."""


_SEEN: dict[tuple[str, str], np.ndarray] = {}
"""The newest features of data sets, by their hashes: training and certifying look at the same ones."""
_MOST_SEEN = 4


def seen_through(data: Dataset, name: str) -> Dataset:
    """The same examples, each image replaced by its features: rows less their own means, of length 4.

    "pixels" are the image itself, so scaled.

    Raises:
        ValueError: no features of that name, or images that are not square or, but for "pixels", of several channels.
    """
    if name not in _NAMED:
        raise ValueError(f"features must be one of {', '.join(FEATURES)}, got {name!r}")
    shape = data.inputs.shape
    if data.inputs.ndim != 4 or shape[2] != shape[3] or (shape[1] != 1 and name != "pixels"):
        raise ValueError(f"features {name!r} need images [n, 1, size, size], got {shape}; leave features out")
    key = (data.hash, name)
    if key not in _SEEN:
        rows = transform(_NAMED[name](shape[-1]), data.inputs).numpy()
        for old in list(_SEEN)[: max(0, len(_SEEN) - _MOST_SEEN + 1)]:
            del _SEEN[old]
        _SEEN[key] = rows
    return replace(data, inputs=_SEEN[key])
