"""Blocks of ChaCha20's keystream as one Triton kernel: :func:`pacdp.random.device_cipher.blocks`, bit for bit."""

from typing import Any

import torch
import triton  # pyright: ignore[reportMissingImports]  # comes with torch for GPUs
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from pacdp.random.device_cipher import TURNS
from pacdp.random.devices import current

_BLOCK = 128
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
def _word(start, place, zeros):
    return (zeros + tl.load(start + place).to(tl.uint32, bitcast=True)).to(tl.uint32)


@triton.jit
def _put(at, place, word, before, inside):
    tl.store(at + place, (word + before).to(tl.int32, bitcast=True), mask=inside)


@triton.jit
def _blocks(out, start, first, count, SIZE: tl.constexpr):
    """SIZE blocks, one a lane."""
    lane = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    inside = lane < count
    zeros = tl.zeros([SIZE], tl.uint32)
    counter = ((first + lane) & 0xFFFFFFFF).to(tl.uint32)
    s0, s1, s2, s3 = (
        _word(start, 0, zeros),
        _word(start, 1, zeros),
        _word(start, 2, zeros),
        _word(start, 3, zeros),
    )
    s4, s5, s6, s7 = (
        _word(start, 4, zeros),
        _word(start, 5, zeros),
        _word(start, 6, zeros),
        _word(start, 7, zeros),
    )
    s8, s9, s10, s11 = (
        _word(start, 8, zeros),
        _word(start, 9, zeros),
        _word(start, 10, zeros),
        _word(start, 11, zeros),
    )
    s13, s14, s15 = _word(start, 13, zeros), _word(start, 14, zeros), _word(start, 15, zeros)
    x0, x1, x2, x3, x4, x5, x6, x7 = s0, s1, s2, s3, s4, s5, s6, s7
    x8, x9, x10, x11, x12, x13, x14, x15 = s8, s9, s10, s11, counter, s13, s14, s15
    for _ in range(10):
        x0, x4, x8, x12 = _quarter(x0, x4, x8, x12)
        x1, x5, x9, x13 = _quarter(x1, x5, x9, x13)
        x2, x6, x10, x14 = _quarter(x2, x6, x10, x14)
        x3, x7, x11, x15 = _quarter(x3, x7, x11, x15)
        x0, x5, x10, x15 = _quarter(x0, x5, x10, x15)
        x1, x6, x11, x12 = _quarter(x1, x6, x11, x12)
        x2, x7, x8, x13 = _quarter(x2, x7, x8, x13)
        x3, x4, x9, x14 = _quarter(x3, x4, x9, x14)
    at = out + lane * 16
    _put(at, 0, x0, s0, inside)
    _put(at, 1, x1, s1, inside)
    _put(at, 2, x2, s2, inside)
    _put(at, 3, x3, s3, inside)
    _put(at, 4, x4, s4, inside)
    _put(at, 5, x5, s5, inside)
    _put(at, 6, x6, s6, inside)
    _put(at, 7, x7, s7, inside)
    _put(at, 8, x8, s8, inside)
    _put(at, 9, x9, s9, inside)
    _put(at, 10, x10, s10, inside)
    _put(at, 11, x11, s11, inside)
    _put(at, 12, x12, counter, inside)
    _put(at, 13, x13, s13, inside)
    _put(at, 14, x14, s14, inside)
    _put(at, 15, x15, s15, inside)


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
