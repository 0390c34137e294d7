"""Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011) and normal numbers of it, in torch: what its kernels equal.

A counter-based generator has no state: its words are a fixed function of a 64-bit key and a 128-bit counter, so that
number i of step t of a chain is the same whatever else is drawn, by whom and in which order.

Coordinates are laid out in pages of 4,096: coordinate i of a vector is word (i mod 4096) // 1024 of block
1024 (i // 4096) + (i mod 1024), so that a page is four loops of 1,024 lanes that vectorise. Counter words are
(block, stream, low and high half of the tick).

The words of the kernels, :mod:`pacdp.random.philox_compiled` for CPUs and :mod:`pacdp.random.philox_triton` for GPUs,
are these bit for bit; their normal numbers agree up to the rounding of logarithm, sine and cosine.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pacdp.random.devices import fused

LANES = 1024
PAGE = 4 * LANES
ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)

_MASK = 0xFFFFFFFF

Number = int | Tensor


def words(
    blocks: Int[Tensor, "..."], stream: int, tick: Number, low: Number, high: Number
) -> tuple[Tensor, ...]:
    """The four 32-bit words, as int64, of the counters (blocks, stream, tick) under the key (low, high).

    Products wrap modulo 2⁶⁴, as int64 does, and masking after the shift drops the sign.
    """
    # adds a zero that no compiler knows: it takes a range alone for indices, and multiplies these in 32 bits on a GPU
    c0, c1, c2, c3 = blocks + (low >> 32), stream, tick & _MASK, tick >> 32
    for _ in range(ROUNDS):
        p0, p1 = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (
            ((p1 >> 32) & _MASK) ^ c1 ^ low, p1 & _MASK, ((p0 >> 32) & _MASK) ^ c3 ^ high, p0 & _MASK,
        )  # fmt: skip
        low, high = (low + WEYL[0]) & _MASK, (high + WEYL[1]) & _MASK
    zero = torch.zeros_like(blocks)
    return c0 + zero, c1 + zero, c2 + zero, c3 + zero  # type: ignore[return-value]


def box_muller(four: Sequence[Int[Tensor, "..."]]) -> list[Float[Tensor, "..."]]:
    """Four standard normal numbers in float32 from four words (Box and Muller 1958)."""
    made: list[Tensor] = []
    for radius_word, angle_word in (four[:2], four[2:]):
        radius = torch.sqrt(-2.0 * torch.log((radius_word.float() + 0.5) * 2.0**-32).clamp(max=0.0))
        signed = torch.where(angle_word < 2**31, angle_word, angle_word - 2**32)
        angle = signed.float() * (2.0 * math.pi * 2.0**-32)
        made += [radius * torch.cos(angle), radius * torch.sin(angle)]
    return made


def normal(
    dim: int, keys: Int[Tensor, "2 chains"], stream: int, tick: Number
) -> Float[Tensor, "chains dim"]:
    """Standard normal numbers of K chains in float32."""
    pages = -(-dim // PAGE)
    blocks = torch.arange(pages * LANES, device=keys.device)[None, :]
    four = box_muller(words(blocks, stream, tick, keys[0][:, None], keys[1][:, None]))
    lanes = torch.stack(four, dim=1).view(-1, 4, pages, LANES)
    return lanes.transpose(1, 2).reshape(len(keys[0]), -1)[:, :dim]


@fused
def uniform_words(
    keys: Int[Tensor, "2 keys"], size: int, stream: int, tick: Number
) -> Int[Tensor, "keys size"]:
    """``size`` uniform 32-bit words of each key, as int64, in order of blocks: as many operations as for one key."""
    blocks = torch.arange(-(-size // 4), device=keys.device)[None, :]
    four = words(blocks, stream, tick, keys[0][:, None], keys[1][:, None])
    return torch.stack(four, dim=2).reshape(len(keys[0]), -1)[:, :size]
