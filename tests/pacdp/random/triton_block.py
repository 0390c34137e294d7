"""A kernel that only makes the words of one counter."""

import torch
import triton
import triton.language as tl

from pacdp.random.philox_triton import block


@triton.jit
def _one(out, given):
    lane = tl.arange(0, 1)
    c0, c1, c2, c3 = (
        tl.load(given + lane).to(tl.uint32), tl.load(given + 1 + lane).to(tl.uint32),
        tl.load(given + 2 + lane).to(tl.uint32), tl.load(given + 3 + lane).to(tl.uint32),
    )  # fmt: skip
    low, high = tl.load(given + 4).to(tl.uint32), tl.load(given + 5).to(tl.uint32)
    w0, w1, w2, w3 = block(c0, c1, c2, c3, low, high)
    tl.store(out + lane, w0.to(tl.int64))
    tl.store(out + 1 + lane, w1.to(tl.int64))
    tl.store(out + 2 + lane, w2.to(tl.int64))
    tl.store(out + 3 + lane, w3.to(tl.int64))


def words_of(given):
    """The four words of counter and key, int64 [6], on the device where they lie."""
    out = torch.empty(4, dtype=torch.int64, device=given.device)
    _one[(1,)](out, given)
    return out.tolist()
