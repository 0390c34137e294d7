"""ChaCha20's keystream (RFC 8439) made on the device that needs it: the bits of :mod:`pacdp.random.cipher`.

A GPU makes words at its own pace, and nothing but a key of 32 bytes crosses over to it: as one Triton kernel where
Triton is here, else as torch operations. Freed memory of the device is not scrubbed either.
"""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import torch
from jaxtyping import Int32, Int64
from torch import Tensor

WORDS = 8
"""64-bit words of a block."""
CONSTANTS = tuple(int(each) for each in np.frombuffer(b"expand 32-byte k", "<u4"))
ROUNDS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
          (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))  # fmt: skip
"""Columns, then diagonals, of the state of 16 words, ten times over."""
TURNS = (16, 12, 8, 7)


def keystream(
    key: bytes, place: bytes, *, first: int, count: int, device: torch.device
) -> Int64[Tensor, " count"]:
    """Words ``first`` to ``first + count`` of the key and place, as :class:`pacdp.random.cipher.Keystream` counts them.

    Args:
        key: 32 bytes.
        place: 12 bytes, the nonce.

    Raises:
        ValueError: key or place are of another length.
    """
    if len(key) != 32 or len(place) != 12:  # compiled code would read past the end
        raise ValueError(
            f"expected a key of 32 bytes and a place of 12, got {len(key)} and {len(place)}"
        )
    fixed = torch.from_numpy(np.frombuffer(key + place, "<i4").copy()).to(device)
    begin, end = first // WORDS, -(-(first + count) // WORDS)
    make = _kernel() if device.type == "cuda" else None
    made = (make or blocks)(fixed, begin, end - begin)
    return made.view(torch.int64).reshape(-1)[first - begin * WORDS :][:count]


def blocks(fixed: Int32[Tensor, "11"], first: int, count: int) -> Int32[Tensor, "count 16"]:
    """Blocks of the keystream by torch operations; ``fixed`` holds key and nonce."""
    device = fixed.device
    counter = torch.arange(first, first + count, device=device).to(torch.int32)
    words = [
        torch.full((count,), each - (each >> 31 << 32), dtype=torch.int32, device=device)
        for each in CONSTANTS
    ]
    words += (
        [each.expand(count) for each in fixed[:8]]
        + [counter]
        + [each.expand(count) for each in fixed[8:]]
    )
    state = list(words)
    for _ in range(10):
        for places in ROUNDS:
            _quarter(state, places)
    return torch.stack([x + start for x, start in zip(state, words, strict=True)], dim=1)


def _quarter(state: list[Tensor], places: Sequence[int]) -> None:
    a, b, c, d = (state[k] for k in places)
    for into, turn in zip((0, 1) * 2, TURNS, strict=True):
        if into == 0:
            a = a + b
            d = _turned(d ^ a, turn)
        else:
            c = c + d
            b = _turned(b ^ c, turn)
    for k, value in zip(places, (a, b, c, d), strict=True):
        state[k] = value


def _turned(x: Tensor, by: int) -> Tensor:
    return (x << by) | (
        (x >> (32 - by)) & ((1 << by) - 1)
    )  # the shift to the right carries the sign


@cache
def _kernel() -> Callable[[Tensor, int, int], Tensor] | None:
    try:
        from pacdp.random.triton_cipher import blocks as made
    except ImportError:
        return None
    return made
