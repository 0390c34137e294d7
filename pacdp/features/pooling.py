"""What all fixed features share: pooling windows on a grid, unit length, and one pass over the data."""

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor, nn

from pacdp.errors import naming
from pacdp.trials import require_alone

BATCH = 256
"""Inputs at a time: the last bits of features, and so their hashes, hang on it."""


def windows(size: int, *, cells: int, width: float) -> Float32[Tensor, "cells size"]:
    """Gaussian windows along one side of an image, each of sum 1, centred on ``cells`` equal cells.

    ``width`` is their standard deviation in cells.
    """
    at = (torch.arange(cells, dtype=torch.float64) + 0.5) * size / cells - 0.5
    distance = torch.arange(size, dtype=torch.float64)[None, :] - at[:, None]
    weight = torch.exp(-0.5 * (distance * cells / (size * width)) ** 2)
    return (weight / weight.sum(dim=1, keepdim=True)).float()


def unit(rows: Float[Tensor, "n dim"]) -> Float[Tensor, "n dim"]:
    """Each row over its own Euclidean length; a row of length below 1e-6 comes out shorter, zero as zero."""
    return rows / rows.norm(dim=1, keepdim=True).clamp_min(1e-6)


def padded(rows: Tensor, size: int) -> list[Tensor]:
    """Batches of exactly ``size`` rows, the last one filled up with copies of the last row, which all that is made for
    the rows takes.

    A row's outputs may depend on the size of its batch by rounding, and in a batch of one size they do not.
    """
    missing = -len(rows) % size
    filled = torch.cat([rows, rows[-1:].expand(missing, *rows.shape[1:])]) if missing else rows
    return list(filled.split(size))


@torch.no_grad()
def transform(
    features: nn.Module, inputs: np.ndarray | Tensor, *, batch_size: int = BATCH
) -> Float32[Tensor, "n ..."]:
    """``features`` of all inputs [n, ...], computed once, on the device of ``features``' first buffer, kept on the CPU.

    All batches are of one size, and that one without a remainder for kernels that take several rows at once, and lie
    in memory alike, so that equal inputs have equal rows, and equal hashes, in whatever call of one ``batch_size``: of
    another the last bits may differ, and overlaps are not found. Of each batch a few inputs are seen alone too.

    Raises:
        ValueError: nothing to transform, features that fail, one that is not finite, or one that moves with the others
            of its batch.
    """
    if len(inputs) == 0 or batch_size < 1:
        raise ValueError(
            f"expected inputs and batch_size >= 1, got {len(inputs)} inputs, batch_size={batch_size}"
        )
    device = next((buffer.device for buffer in features.buffers()), torch.device("cpu"))
    batches = (inputs[start : start + batch_size] for start in range(0, len(inputs), batch_size))
    tensors = (
        one if isinstance(one, Tensor) else torch.as_tensor(np.array(one)) for one in batches
    )
    made = list[Tensor]()
    alike = (one.clone(memory_format=torch.contiguous_format) for one in tensors)
    for one in (part.to(device) for each in alike for part in padded(each, batch_size)):
        with naming("features"):  # of inputs in another precision than their own
            found = features(one)
        require_alone(found, lambda places, one=one: features(one[places]))
        made.append(found.cpu())
    found = torch.cat(made)[: len(inputs)]
    if not bool(torch.isfinite(found).all()):
        raise ValueError("features hold a NaN or an infinity: check that the inputs are finite")
    return found
