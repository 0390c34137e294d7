"""What the processes of one run tell each other: sums, the first process's numbers, whether they agree.

Thin over ``torch.distributed``'s default group. Every function here must be called by all processes, in the same order;
nothing is pickled. Tensors travel on their own device, short messages on the CPU unless the group knows NCCL only.
"""

import hashlib
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, distributed


def process_count() -> int:
    """Processes in the default group; 1 without one."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def process_rank() -> int:
    """This process's place among them, from 0."""
    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else 0


@torch.no_grad()
def sum_at_first(tensors: Sequence[Tensor]) -> None:
    """The first process's ``tensors`` become the sums over all processes; those of the others stay as they are."""
    for alike in _alike(tensors):
        flat = torch.cat([t.reshape(-1) for t in alike])
        distributed.reduce(flat, dst=0)
        if process_rank() == 0:
            _unpack(flat, alike)


@torch.no_grad()
def copy_from_first(tensors: Sequence[Tensor]) -> None:
    """All processes' ``tensors`` become the first's, bit for bit."""
    for alike in _alike(tensors):
        flat = torch.cat([t.reshape(-1) for t in alike])
        distributed.broadcast(flat, src=0)
        _unpack(flat, alike)


def totals(numbers: Sequence[float], device: torch.device) -> list[float]:
    """Sums over the processes, at each of them."""
    flat = torch.tensor(list(numbers), dtype=torch.float64, device=_meeting_place(device))
    distributed.all_reduce(flat)
    return flat.tolist()


def gathered(message: Tensor, device: torch.device) -> list[Tensor]:
    """Every process's ``message`` (bytes, as many at each), by rank, on the CPU."""
    here = message.to(_meeting_place(device))
    messages = [torch.empty_like(here) for _ in range(process_count())]
    distributed.all_gather(messages, here)
    return [m.cpu() for m in messages]


def require_agreement(
    claims: Mapping[str, object], device: torch.device, *, error: type[Exception] = ValueError
) -> None:
    """Refuse, at every process, what is not the same at all of them.

    Args:
        claims: names for the message, with values whose ``repr`` is compared by its hash.

    Raises:
        ValueError: or ``error``, naming the first claim that differs.
    """
    hashes = b"".join(hashlib.sha256(repr(value).encode()).digest() for value in claims.values())
    message = torch.frombuffer(bytearray(hashes), dtype=torch.uint8).reshape(len(claims), -1)
    first, *others = gathered(message, device)
    for index, name in enumerate(claims):
        if any(not torch.equal(first[index], other[index]) for other in others):
            raise error(f"the processes of this run disagree on {name}: give all {process_count()} of them the same")


def _alike(tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    """Groups that can travel as one vector, in an order that all processes share."""
    groups: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for tensor in tensors:
        groups.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    return list(groups.values())


def _unpack(flat: Tensor, tensors: Sequence[Tensor]) -> None:
    for tensor, part in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
        tensor.copy_(part.view_as(tensor))


def _meeting_place(device: torch.device) -> torch.device:
    return device if distributed.get_backend() == "nccl" else torch.device("cpu")
