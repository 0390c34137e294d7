"""Whether a batch of chains fits, asked before the run."""

import psutil
import torch

from pacdp.errors import OutOfMemory

VECTORS = 6
"""Vectors of the weights' size that a chain needs at most: state (two), next state, gradient, local weights, mean."""


def require_memory(
    *, chains: int, dim: int, device: torch.device, vectors: int = VECTORS, free_bytes: int | None = None
) -> None:
    """Refuse more chains than fit into nine tenths of the free memory, at ``vectors`` vectors of weights each.

    Raises:
        OutOfMemory: names the chains, their dimension, the free memory and how many chains fit.
    """
    free = _free(device) if free_bytes is None else free_bytes
    each = vectors * 4 * dim
    if chains * each > 0.9 * free:
        raise OutOfMemory(
            f"{chains} chains of {dim:,} weights need {chains * each / 1e9:.3g} GB and {free / 1e9:.3g} GB are free on "
            f"{device}: {int(0.9 * free // each)} chains fit"
        )


def _free(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return psutil.virtual_memory().available
