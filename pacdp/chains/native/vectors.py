"""The inner loops of the compiled layers, with accumulators that stay in vector registers.

LLVM's vectoriser does not keep a block of accumulators in registers across a reduction, so they are written as
vector code, generic in the float type: a vector holds 64 bytes, which LLVM splits into what the CPU has. There are no
fast-math flags: NaN and infinities behave as IEEE 754 says, and every sum is taken in the order written.
"""

from typing import Any, no_type_check

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from pacdp.random.kernels import kernel

VECTOR_BYTES = 64
BLOCK = 7
"""Vectors of a row whose accumulators are in registers together."""
TILE = 5
"""Output channels that share one pass over the taps: enough to hide the latency of a fused multiply-add."""


def lanes_of(dtype: np.dtype[Any]) -> int:
    """Numbers in one vector."""
    return VECTOR_BYTES // dtype.itemsize


class _Code:
    """Emits loads, stores and fused multiply-adds for the float type of an intrinsic's first argument."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.context, self.builder, self.signature, self.arguments = (
            context,
            builder,
            signature,
            arguments,
        )
        self.bytes = signature.args[0].dtype.bitwidth // 8
        self.width = VECTOR_BYTES // self.bytes
        self.vector = ir.VectorType(context.get_value_type(signature.args[0].dtype), self.width)

    def array(self, position: int) -> Any:
        return self.context.make_array(self.signature.args[position])(
            self.context, self.builder, self.arguments[position]
        )

    def data(self, *positions: int) -> list[Any]:
        return [self.array(position).data for position in positions]

    def scalar_at(self, data: Any, index: Any) -> Any:
        return self.builder.load(self.builder.gep(data, [index]))

    def load(self, data: Any, index: Any, kind: Any = None) -> Any:
        pointer = self.builder.bitcast(
            self.builder.gep(data, [index]), (kind or self.vector).as_pointer()
        )
        return self.builder.load(pointer, align=self.bytes)

    def store(self, value: Any, data: Any, index: Any) -> None:
        pointer = self.builder.bitcast(self.builder.gep(data, [index]), value.type.as_pointer())
        self.builder.store(value, pointer, align=self.bytes)

    def splat(self, value: Any) -> Any:
        vector = ir.Constant(ir.VectorType(value.type, self.width), ir.Undefined)
        first = self.builder.insert_element(vector, value, ir.Constant(ir.IntType(32), 0))
        mask = ir.Constant(ir.VectorType(ir.IntType(32), self.width), [0] * self.width)
        return self.builder.shuffle_vector(first, vector, mask)

    def accumulator(self, value: Any) -> Any:
        return cgutils.alloca_once_value(self.builder, value)  # LLVM turns it into a register

    def add_product(self, accumulator: Any, left: Any, right: Any) -> None:
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        name = f"llvm.fmuladd.v{self.width}f{8 * self.bytes}"
        multiply_add = cgutils.get_or_insert_function(self.builder.module, kind, name)
        total = self.builder.call(multiply_add, [left, right, self.builder.load(accumulator)])
        self.builder.store(total, accumulator)


def _index(value: int) -> Any:
    return ir.Constant(ir.IntType(64), value)


@intrinsic
@no_type_check
def convolve_and_compare(typing, x, base, taps, weights, bias, tile, best, where, place):
    """One position of ``TILE`` output channels for one vector of examples, folded into a running maximum.

    ``x[row, lane]`` holds an input number of each example and tap t reads row ``base + taps[t]``; the channels' filters
    are ``weights[tile, t, :]`` and their biases ``bias[tile, :]``. Where the sum exceeds ``best[o, lane]`` or is NaN it
    takes its place and ``where[o, lane]`` becomes ``place``: the first maximum wins and a NaN stays, as in PyTorch's
    max pooling. Indices are not checked.
    """
    signature = types.void(x, types.intp, taps, weights, bias, types.intp, best, where, types.intp)

    def generate(context, builder, signature, arguments):
        code = _Code(context, builder, signature, arguments)
        _, base, _, _, _, tile, _, _, place = arguments
        x, taps, weights, bias, best, where = code.data(0, 2, 3, 4, 6, 7)
        count = builder.extract_value(code.array(2).shape, 0)
        first = builder.mul(tile, _index(TILE))
        channels = [_index(channel) for channel in range(TILE)]
        sums = [
            code.accumulator(code.splat(code.scalar_at(bias, builder.add(first, o))))
            for o in channels
        ]
        start = builder.mul(first, count)
        with cgutils.for_range(builder, count) as loop:
            row = builder.add(base, code.scalar_at(taps, loop.index))
            values = code.load(x, builder.mul(row, _index(code.width)))
            weight = builder.add(start, builder.mul(loop.index, _index(TILE)))
            for o, total in zip(channels, sums, strict=True):
                code.add_product(
                    total, code.splat(code.scalar_at(weights, builder.add(weight, o))), values
                )
        integers = ir.VectorType(context.get_value_type(signature.args[7].dtype), code.width)
        narrow = integers.element.width < arguments[8].type.width
        here = code.splat(builder.trunc(place, integers.element) if narrow else place)
        for channel, total in enumerate(sums):
            value, at = builder.load(total), _index(channel * code.width)
            old = code.load(best, at)
            wins = builder.or_(
                builder.fcmp_ordered(">", value, old), builder.fcmp_unordered("uno", value, value)
            )
            code.store(builder.select(wins, value, old), best, at)
            code.store(builder.select(wins, here, code.load(where, at, integers)), where, at)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
@no_type_check
def _add_block(typing, total, vectors, start, table, stride, offsets, factors, first, last):
    """The ``vectors`` vectors from ``total[start]`` on gain Σ_i factors[i] · table[stride offsets[i] + column ...].

    For each number of vectors up to ``BLOCK`` there is a loop of its own. ``start`` is a triple: the place in
    ``total``, the column of the rows in ``table``, and how far after the first vector the last one lies, which may
    overlap the one before it. Arrays are flat memory, i runs from ``first`` to ``last`` exclusive, in this order.
    Indices are not checked.
    """
    signature = types.void(
        total, types.intp, start, table, types.intp, offsets, factors, types.intp, types.intp
    )

    def generate(context, builder, signature, arguments):
        code = _Code(context, builder, signature, arguments)
        start, column, end = cgutils.unpack_tuple(builder, arguments[2], 3)
        vectors, stride, first, last = (arguments[place] for place in (1, 4, 7, 8))
        total, table, offsets, factors = code.data(0, 3, 5, 6)
        for count in range(BLOCK, 0, -1):
            with builder.if_then(builder.icmp_signed("==", vectors, _index(count))):
                parts = [_index(part * code.width) for part in range(count - 1)] + [end]
                places = [builder.add(start, part) for part in parts]
                sums = [code.accumulator(code.load(total, place)) for place in places]
                with cgutils.for_range_slice(builder, first, last, _index(1)) as (item, _):
                    offset = builder.sext(code.scalar_at(offsets, item), ir.IntType(64))
                    row = builder.add(builder.mul(offset, stride), column)
                    factor = code.splat(code.scalar_at(factors, item))
                    for part, accumulator in zip(parts, sums, strict=True):
                        vector = code.load(table, builder.add(row, part))
                        code.add_product(accumulator, factor, vector)
                for place, accumulator in zip(places, sums, strict=True):
                    code.store(builder.load(accumulator), total, place)
        return context.get_dummy_value()

    return signature, generate


@kernel()
@no_type_check
def add_rows(total, start, width, table, stride, offsets, factors, first, last):
    """total[start : start + width] gains Σ factors[i] · table[stride offsets[i] ...] over i in [first, last).

    Arrays are flat memory. Each number is one sum in that order. The last vector of a row, which is one vector long or
    longer, ends where the row ends.
    """
    lanes, j = VECTOR_BYTES // total.itemsize, 0
    while j < width:
        left = width - j
        vectors = min(-(-left // lanes), BLOCK)
        if 0 < left - vectors * lanes < lanes:
            vectors -= 1  # so that the rest is two vectors that overlap, not one that has nothing to overlap
        where = (start + j, j, min((vectors - 1) * lanes, left - lanes))
        _add_block(total, vectors, where, table, stride, offsets, factors, first, last)
        j += vectors * lanes
