"""ChaCha20's keystream (RFC 8439) made on the device that needs it: the bits of :mod:`pacdp.random.cipher`.

A GPU makes words at its own pace, and nothing but a key of 32 bytes crosses over to it: as one Triton kernel where
Triton is here, else as torch operations. Freed memory of the device is not scrubbed either.
"""

import torch
from jaxtyping import Int32, Int64
from torch import Tensor

from pacdp.random.devices import triton_form

WORDS = 8
"""64-bit words of a block."""
COUNTER = 12
"""The place of a block's number among the 16 words of a state: behind four constants and the key, before the nonce."""
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
    start = state_of(key, place).to(device)
    begin, end = first // WORDS, -(-(first + count) // WORDS)
    kernel = triton_form("pacdp.random.triton_cipher", "blocks") if device.type == "cuda" else None
    made = (kernel or blocks)(start, begin, end - begin)
    return made.view(torch.int64).reshape(-1)[first - begin * WORDS :][:count]


def state_of(key: bytes, place: bytes) -> Int32[Tensor, "16"]:
    """The words that every block of this key and place begins with, but for its number."""
    return torch.frombuffer(
        bytearray(b"expand 32-byte k" + key + bytes(4) + place), dtype=torch.int32
    )


def blocks(start: Int32[Tensor, "16"], first: int, count: int) -> Int32[Tensor, "count 16"]:
    """Blocks of the keystream by torch operations."""
    words = [word.expand(count) for word in start]
    words[COUNTER] = torch.arange(first, first + count, device=start.device).to(torch.int32)
    state = list(words)
    for _ in range(10):
        for a, b, c, d in ROUNDS:
            state[a], state[b], state[c], state[d] = _quarter(
                state[a], state[b], state[c], state[d]
            )
    return torch.stack([x + before for x, before in zip(state, words, strict=True)], dim=1)


def _quarter(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> tuple[Tensor, ...]:
    for one, other in (TURNS[:2], TURNS[2:]):
        a = a + b
        d = _turned(d ^ a, one)
        c = c + d
        b = _turned(b ^ c, other)
    return a, b, c, d


def _turned(x: Tensor, by: int) -> Tensor:
    # the shift to the right carries the sign
    return (x << by) | ((x >> (32 - by)) & ((1 << by) - 1))
