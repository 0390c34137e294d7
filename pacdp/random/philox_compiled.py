"""Philox4x32-10 and normal numbers from it, compiled for the CPU: the words of :mod:`pacdp.random.philox`."""

from typing import no_type_check

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pacdp.random.kernels import kernel
from pacdp.random.philox import MULTIPLIERS, ROUNDS, WEYL

_M0, _M1 = np.uint64(MULTIPLIERS[0]), np.uint64(MULTIPLIERS[1])
_W0, _W1 = np.uint32(WEYL[0]), np.uint32(WEYL[1])
_f = np.float32
_u = np.uint32
_q = np.uint64
_LOW = _q(0xFFFFFFFF)
_LOGARITHM = tuple(map(_f, (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
    2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)))  # fmt: skip
_SINE = tuple(map(_f, (-2.5052108e-8, 2.7557319e-6, -1.9841270e-4, 8.3333333e-3, -1.6666667e-1, 1.0)))  # fmt: skip
_COSINE = tuple(map(_f, (
    2.0876757e-9, -2.7557319e-7, 2.4801587e-5, -1.3888889e-3, 4.1666667e-2, -0.5, 1.0,
)))  # fmt: skip


@intrinsic
@no_type_check
def _bits(context, x):
    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.uint32(types.float32), generate


@intrinsic
@no_type_check
def _float(context, x):
    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), generate


@numba.njit(inline="always")
@no_type_check
def block(c0, c1, c2, c3, k0, k1):
    """The four words of one counter. In 64-bit lanes whose upper halves are garbage: products read the lower ones."""
    a0, a1, a2, a3 = _q(c0), _q(c1), _q(c2), _q(c3)
    for _ in range(ROUNDS):
        p0 = _M0 * (a0 & _LOW)
        p1 = _M1 * (a2 & _LOW)
        a0, a1, a2, a3 = (p1 >> _q(32)) ^ a1 ^ _q(k0), p1, (p0 >> _q(32)) ^ a3 ^ _q(k1), p0
        k0 = _u(k0 + _W0)
        k1 = _u(k1 + _W1)
    return _u(a0), _u(a1), _u(a2), _u(a3)


@numba.njit(inline="always")
@no_type_check
def _polynomial(z, coefficients):
    """By Horner's rule, from the highest power down."""
    total = coefficients[0]
    for k in range(1, len(coefficients)):
        total = total * z + coefficients[k]
    return total


@numba.njit(inline="always")
@no_type_check
def _radius(word):
    """√(-2 ln u) at u = (word + ½)/2³²; the logarithm is Cephes' logf, without branches."""
    bits = _bits((_f(word) + _f(0.5)) * _f(2.0**-32))  # pyright: ignore[reportCallIssue]
    shifted = _u(bits - _u(0x3F3504F3))
    exponent = _f(np.int32(shifted) >> np.int32(23))
    m = _float(_u(_u(shifted & _u(0x007FFFFF)) + _u(0x3F3504F3))) - _f(1.0)  # in [√½ - 1, √2 - 1)
    z = m * m
    y = _polynomial(m, _LOGARITHM) * m * z + exponent * _f(-2.12194440e-4) - _f(0.5) * z
    return np.sqrt(max(_f(-2.0) * (m + y + exponent * _f(0.693359375)), _f(0.0)))


@numba.njit(inline="always")
@no_type_check
def _direction(word):
    """cos and sin of 2π word/2³², by doubling the angle of a Taylor polynomial on [-π/2, π/2); error below 5e-7."""
    a = _f(np.int32(word)) * _f(np.pi * 2.0**-32)
    z = a * a
    s, c = a * _polynomial(z, _SINE), _polynomial(z, _COSINE)
    return _f(1.0) - _f(2.0) * s * s, _f(2.0) * s * c


@numba.njit(inline="always")
@no_type_check
def four_normals(counter, k0, k1, stream, low, high):
    """Four standard normal numbers (Box and Muller 1958) in float32, from one counter."""
    w0, w1, w2, w3 = block(counter, stream, low, high, k0, k1)
    r = _radius(w0)
    c, s = _direction(w1)
    q = _radius(w2)
    d, t = _direction(w3)
    return r * c, r * s, q * d, q * t


@kernel()
@no_type_check
def words(out, key, stream, tick):
    """``out.size`` uniform 32-bit words, four to a block, in order of blocks."""
    k0, k1 = _u(key), _u(key >> np.uint64(32))
    low, high = _u(tick), _u(tick >> np.uint64(32))
    for b in range((out.size + 3) // 4):
        four = block(_u(b), stream, low, high, k0, k1)
        for j in range(min(4, out.size - 4 * b)):
            out[4 * b + j] = four[j]
