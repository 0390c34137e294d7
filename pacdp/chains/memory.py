"""Whether a batch of chains fits, asked before the run."""

import psutil
import torch

from pacdp.errors import OutOfMemory

VECTORS = 6
"""Vectors of the weights' size that a chain needs at most: state (two), next state, gradient, local weights, mean."""


def vectors_on(device: torch.device, vectors: int) -> int:
    """``vectors``, and half as many again on a GPU.

    There a replayed step has its state in fixed memory, with copies while it is recorded and where a chunk ends, and
    what a CPU does in place is a vector of its own.
    """
    return vectors if device.type == "cpu" else -(-3 * vectors // 2)


def room_on(device: torch.device) -> int:
    """Bytes of gradients of single examples that are held at a time: 2 GiB, on a GPU an eighth of its memory.

    Not of what is free: chains go through in parts that this decides, and a resumed run must have the same.
    """
    return (
        torch.cuda.get_device_properties(device).total_memory // 8
        if device.type == "cuda"
        else 2**31
    )


def require_memory(
    *, chains: int, dim: int, device: torch.device, vectors: int = VECTORS, beside: int = 0
) -> None:
    """Refuse more chains than fit into nine tenths of the free memory, at ``vectors`` vectors of weights each.

    Args:
        vectors: on a CPU; see :func:`vectors_on`.
        beside: bytes that are needed whatever the number of chains.

    Raises:
        OutOfMemory: names the chains, their dimension, the free memory and how many chains fit.
    """
    free = _free(device)
    each, room = vectors_on(device, vectors) * 4 * dim, 0.9 * free - beside
    if chains * each > room:
        raise OutOfMemory(
            f"{chains} chains of {dim:,} weights need {(chains * each + beside) / 1e9:.3g} GB and {free / 1e9:.3g} GB "
            f"are free on {device}: {max(0, int(room // each))} chains fit"
        )


def _free(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return psutil.virtual_memory().available
