"""The step of :mod:`pacdp.chains.update` as one Triton kernel: words, normal numbers, drift, noise and running average.

A program is a page of one chain: it makes the page's random words in registers (:mod:`pacdp.random.philox_triton`),
turns them into normal numbers, and reads and writes each weight once. The traffic is the least there is: 12 bytes a
weight with a gradient, 4 more with a centre, 8 more with a running average.
"""

from typing import Any

import torch
import triton  # pyright: ignore[reportMissingImports]  # comes with torch for GPUs
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from pacdp.random.devices import current
from pacdp.random.philox import LANES, PAGE
from pacdp.random.philox_triton import block, normal_pair

_LANES, _PAGE = tl.constexpr(LANES), tl.constexpr(PAGE)


@triton.jit
def _kernel(out, x, keep, g, rate, c, pull, scale, keys, tick, mean, alpha, dim, pages, chains,
            keep_by, rate_by, pull_by, scale_by, alpha_by, stream: tl.constexpr,
            HAS_G: tl.constexpr, HAS_C: tl.constexpr, HAS_MEAN: tl.constexpr):  # fmt: skip
    """One page of one chain."""
    program = tl.program_id(
        0
    )  # one dimension, chain by chain: a second one would end at 65,535 pages
    chain, page = (program // pages).to(tl.int64), (program % pages).to(tl.int64)
    lane = tl.arange(0, _LANES)
    low = tl.load(keys + chain).to(tl.uint32)
    high = tl.load(keys + chains + chain).to(tl.uint32)
    step = tl.load(tick)
    c0 = (page * _LANES + lane).to(tl.uint32)
    c1 = tl.zeros([_LANES], tl.uint32) + stream
    c2 = tl.zeros([_LANES], tl.uint32) + (step & 0xFFFFFFFF).to(tl.uint32)
    c3 = tl.zeros([_LANES], tl.uint32) + ((step >> 32) & 0xFFFFFFFF).to(tl.uint32)
    w0, w1, w2, w3 = block(c0, c1, c2, c3, low, high)
    noise = normal_pair(w0, w1) + normal_pair(w2, w3)
    k = tl.load(keep + chain * keep_by)
    r = tl.load(rate + chain * rate_by)
    p = tl.load(pull + chain * pull_by)
    s = tl.load(scale + chain * scale_by)
    a = tl.load(alpha + chain * alpha_by)
    for part in tl.static_range(4):  # pyright: ignore[reportGeneralTypeIssues]
        offset = page * _PAGE + part * _LANES + lane
        inside = offset < dim
        place = chain * dim + offset
        new = k * tl.load(x + place, mask=inside, other=0.0) + s * noise[part]
        if HAS_G:
            new -= r * tl.load(g + place, mask=inside, other=0.0)
        if HAS_C:
            new += p * tl.load(c + place, mask=inside, other=0.0)
        if HAS_MEAN:
            old = tl.load(mean + place, mask=inside, other=0.0)
            tl.store(mean + place, old + a * (new - old), mask=inside)
        tl.store(out + place, new, mask=inside)


def update(
    x: Tensor, keep: Tensor, gradient: Tensor | None, rate: Tensor, centre: Tensor | None, pull: Tensor, scale: Tensor,
    keys: Tensor, stream: int, tick: Tensor, average: Tensor | None, alpha: Tensor, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """As :func:`pacdp.chains.update.langevin`, of float32 weights [chains, dim], with coefficients in columns.

    Columns are [1, 1] or [chains, 1], vectors contiguous, as :func:`pacdp.chains.update.langevin` makes sure: the
    kernel would read past the end of others. ``out`` may be ``x``.
    """
    chains, dim = x.shape
    out = torch.empty_like(x) if out is None else out
    columns = [one.reshape(-1) for one in (keep, rate, pull, scale, alpha)]
    k, r, p, s, a = columns
    # one number for all chains stays one
    by = [int(len(one) > 1) * one.stride(0) for one in columns]
    pages = -(-dim // PAGE)
    kernel: Any = _kernel
    with current(x.device):
        kernel[(chains * pages,)](
            out, x, k, x if gradient is None else gradient, r, x if centre is None else centre, p, s, keys, tick,
            x if average is None else average, a, dim, pages, chains, *by, stream,
            HAS_G=gradient is not None, HAS_C=centre is not None, HAS_MEAN=average is not None,
            enable_fp_fusion=True,  # Triton's default changes from release to release, and bits with it
        )  # fmt: skip
    return out
