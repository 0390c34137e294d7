"""Blocks of ChaCha20's keystream as one Triton kernel: :func:`pacdp.random.device_cipher.blocks`, bit for bit."""

from typing import Any, no_type_check

import torch
import triton  # pyright: ignore[reportMissingImports]  # comes with torch for GPUs
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from pacdp.random.device_cipher import COUNTER, TURNS
from pacdp.random.devices import current

_BLOCK = 128
_COUNTER = tl.constexpr(COUNTER)
_T0, _T1, _T2, _T3 = (tl.constexpr(each) for each in TURNS)


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


def blocks(start: Tensor, first: int, count: int) -> Tensor:
    """As :func:`pacdp.random.device_cipher.blocks`."""
    out = torch.empty((count, 16), dtype=torch.int32, device=start.device)
    kernel: Any = _blocks
    if count:
        with current(start.device):
            kernel[(-(-count // _BLOCK),)](
                out, start, first, count, SIZE=_BLOCK, enable_fp_fusion=False
            )
    return out
