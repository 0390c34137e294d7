"""ChaCha20's keystream (RFC 8439) made on the GPU that needs it, as one Triton kernel: the bits of OpenSSL's.

Nothing but a key of 32 bytes crosses over to the GPU. Freed memory of the device is not scrubbed either.
"""

from typing import Any, no_type_check

import torch
import triton  # pyright: ignore[reportMissingImports]  # comes with torch for GPUs
import triton.language as tl  # pyright: ignore[reportMissingImports]
from jaxtyping import Int64
from torch import Tensor

from pacdp.random.devices import current

WORDS = 8
"""64-bit words of a block."""
_BLOCK = 128
_COUNTER = tl.constexpr(12)
"""The place of a block's number among the 16 words of a state: behind four constants and the key, before the nonce."""
_T0, _T1, _T2, _T3 = (tl.constexpr(each) for each in (16, 12, 8, 7))


@triton.jit
def _turned(x, by: tl.constexpr):
    return ((x << by) | (x >> (32 - by))).to(tl.uint32)


@triton.jit
def _quarter(a, b, c, d):
    a = (a + b).to(tl.uint32)
    d = _turned(d ^ a, _T0)
    c = (c + d).to(tl.uint32)
    b = _turned(b ^ c, _T1)
    a = (a + b).to(tl.uint32)
    d = _turned(d ^ a, _T2)
    c = (c + d).to(tl.uint32)
    b = _turned(b ^ c, _T3)
    return a, b, c, d


@triton.jit
@no_type_check
def _blocks(out, start, first, count, SIZE: tl.constexpr):
    """SIZE blocks, one a lane: each word of the state is a vector of lanes."""
    lane = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    zeros = tl.zeros([SIZE], tl.uint32)
    own = ()
    for place in tl.static_range(16):
        if place == _COUNTER:
            word = ((first + lane) & 0xFFFFFFFF).to(tl.uint32)
        else:
            word = (zeros + tl.load(start + place).to(tl.uint32, bitcast=True)).to(tl.uint32)
        own = own + (word,)  # noqa: RUF005  # the compiler's tuples are joined, not unpacked
    x = own
    for _ in range(10):
        x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15 = x
        x0, x4, x8, x12 = _quarter(x0, x4, x8, x12)
        x1, x5, x9, x13 = _quarter(x1, x5, x9, x13)
        x2, x6, x10, x14 = _quarter(x2, x6, x10, x14)
        x3, x7, x11, x15 = _quarter(x3, x7, x11, x15)
        x0, x5, x10, x15 = _quarter(x0, x5, x10, x15)
        x1, x6, x11, x12 = _quarter(x1, x6, x11, x12)
        x2, x7, x8, x13 = _quarter(x2, x7, x8, x13)
        x3, x4, x9, x14 = _quarter(x3, x4, x9, x14)
        x = (x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15)
    for place in tl.static_range(16):
        word = (x[place] + own[place]).to(tl.int32, bitcast=True)
        tl.store(out + lane * 16 + place, word, mask=lane < count)


def keystream(
    key: bytes, place: bytes, *, first: int, count: int, device: torch.device
) -> Int64[Tensor, " count"]:
    """Words ``first`` to ``first + count`` of :class:`pacdp.random.cipher.Keystream` for the same key and place."""
    state = bytearray(b"expand 32-byte k" + key + bytes(4) + place)
    start = torch.frombuffer(state, dtype=torch.int32).to(device)
    begin, end = first // WORDS, -(-(first + count) // WORDS)
    out = torch.empty((end - begin, 16), dtype=torch.int32, device=device)
    kernel: Any = _blocks
    if count:
        with current(device):
            kernel[(-(-len(out) // _BLOCK),)](
                out, start, begin, len(out), SIZE=_BLOCK, enable_fp_fusion=False
            )
    return out.view(torch.int64).reshape(-1)[first - begin * WORDS :][:count]
