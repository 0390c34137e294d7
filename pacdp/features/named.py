"""Fixed features by name, and data sets seen through them."""

from collections.abc import Mapping
from dataclasses import replace

from torch import nn

from pacdp.data import Dataset
from pacdp.features.gradients import OrientedGradients
from pacdp.features.pooling import transform, unit

_LENGTH = 4.0
"""Of the features. A bias adds 1 to the squared length of what a linear layer reads, of which it makes little use."""
_SETTINGS: Mapping[str, Mapping[str, float]] = {
    "oriented-gradients": {"orientations": 12, "cells": 7, "scale": 1.0},
    "fine-gradients": {"orientations": 16, "cells": 7, "scale": 1.0},
    "coarse-gradients": {"orientations": 8, "cells": 4, "scale": 0.7},
}
FEATURES = tuple(_SETTINGS)
"""Their names; all are functions of one image alone, with constants that come from no data set."""


def seen_through(data: Dataset, name: str) -> Dataset:
    """The same examples, each image replaced by its features: rows less their own means, of length 4.

    Raises:
        ValueError: no features of that name, or images that are not square with one channel.
    """
    if name not in _SETTINGS or data.inputs.ndim != 4 or data.inputs.shape[1] != 1:
        raise ValueError(f"features {name!r} need a name among {', '.join(FEATURES)} and images [n, 1, size, size]")
    features: nn.Module = OrientedGradients(size=data.inputs.shape[-1], **_SETTINGS[name])  # type: ignore[arg-type]
    rows = transform(features, data.inputs)
    rows = _LENGTH * unit(rows - rows.mean(dim=1, keepdim=True))
    return replace(data, inputs=rows.numpy())
