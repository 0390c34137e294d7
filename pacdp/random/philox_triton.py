"""Philox4x32-10 and normal numbers from it for Triton's kernels: the words of :mod:`pacdp.random.philox`."""

import triton  # pyright: ignore[reportMissingImports]  # comes with torch for GPUs
import triton.language as tl  # pyright: ignore[reportMissingImports]

from pacdp.random.philox import MULTIPLIERS, ROUNDS, WEYL

_M0, _M1 = (tl.constexpr(value) for value in MULTIPLIERS)
_W0, _W1 = (tl.constexpr(value) for value in WEYL)
_ROUNDS = tl.constexpr(ROUNDS)
_TURN = tl.constexpr(6.283185307179586 * 2.0**-32)


@triton.jit
def block(c0, c1, c2, c3, low, high):
    """The four words of counters, uint32 of one shape, under the key (low, high)."""
    m0 = tl.full(c0.shape, _M0, tl.uint32)
    m1 = tl.full(c0.shape, _M1, tl.uint32)
    for _ in tl.static_range(_ROUNDS):  # pyright: ignore[reportGeneralTypeIssues]  # a form of the compiler's own
        n0 = tl.umulhi(m1, c2) ^ c1 ^ low
        n2 = tl.umulhi(m0, c0) ^ c3 ^ high
        c1 = m1 * c2
        c3 = m0 * c0
        c0, c2 = n0, n2
        low = (low + _W0).to(tl.uint32)
        high = (high + _W1).to(tl.uint32)
    return c0, c1, c2, c3


@triton.jit
def normal_pair(radius_word, angle_word):
    """Two standard normal numbers in float32 from two words (Box and Muller 1958)."""
    inside = (radius_word.to(tl.float32) + 0.5) * 2.3283064365386963e-10
    radius = tl.sqrt(-2.0 * tl.minimum(tl.log(inside), 0.0))
    angle = angle_word.to(tl.int32, bitcast=True).to(tl.float32) * _TURN
    return radius * tl.cos(angle), radius * tl.sin(angle)
