"""The linear Langevin update of many chains, compiled: drift, noise and running average in one pass over memory."""

from typing import Any, no_type_check

import numba
import numpy as np

from pacdp.chains.native import threads
from pacdp.random.kernels import kernel
from pacdp.random.philox import LANES, PAGE
from pacdp.random.philox_compiled import four_normals


@numba.njit(inline="always")
@no_type_check
def _page(y, v, g, c, number, lanes, a, h, b, s, k0, k1, stream, low, high):
    """A page of the update, of ``lanes`` in each of four rows, whose noise never leaves the registers."""
    first = np.uint32(number * LANES)
    for lane in range(lanes):
        four = four_normals(np.uint32(first + np.uint32(lane)), k0, k1, stream, low, high)
        for quarter in range(4):
            j = quarter * LANES + lane
            y[j] = a * v[j] - h * g[j] + b * c[j] + s * y.dtype.type(four[quarter])


def update(out, x, *arguments: Any) -> None:
    """The update, from (out, x, keep, gradient, rate, centre, pull, scale, average, alpha, keys, stream, tick):

        out ← keep x - rate gradient + pull centre + scale ξ

    and, where ``average`` has rows, average ← average + alpha (out - average), for [chains, dim] arrays and
    coefficients [chains].

    Every page is a function of its own chain alone, so that neither the number of chains nor of threads matters.
    """
    pages = len(x) * -(-x.shape[1] // PAGE)
    threads.each(_update, pages, out, x, *arguments, operations=x.size)


@kernel(fastmath={"contract", "nsz"}, error_model="numpy")
@no_type_check
def _update(
    begin,
    end,
    out,
    x,
    keep,
    gradient,
    rate,
    centre,
    pull,
    scale,
    average,
    alpha,
    keys,
    stream,
    tick,
):
    dim = x.shape[1]
    pages = (dim + PAGE - 1) // PAGE
    low, high = np.uint32(tick), np.uint32(tick >> np.uint64(32))
    number = x.dtype.type
    for job in range(begin, end):
        k, page = job // pages, job % pages
        start = page * PAGE
        stop = min(start + PAGE, dim)
        a, h, b, s = number(keep[k]), number(rate[k]), number(pull[k]), number(scale[k])
        y, v, g, c = (
            out[k, start:stop],
            x[k, start:stop],
            gradient[k, start:stop],
            centre[k, start:stop],
        )
        k0, k1 = np.uint32(keys[k]), np.uint32(keys[k] >> np.uint64(32))
        if scale[k] == 0.0:
            for j in range(stop - start):
                y[j] = a * v[j] - h * g[j] + b * c[j]
        else:
            whole = stop - start == PAGE
            part = np.zeros((0 if whole else 4, PAGE), x.dtype)
            into, old, slope, middle = y, v, g, c
            if (
                not whole
            ):  # a part of a page is made of a whole one, so that the loop is compiled once
                into, old, slope, middle = part[0], part[1], part[2], part[3]
                for j in range(stop - start):
                    old[j], slope[j], middle[j] = v[j], g[j], c[j]
            lanes = min(stop - start, LANES)
            _page(into, old, slope, middle, page, lanes, a, h, b, s, k0, k1, stream, low, high)
            if not whole:
                for j in range(stop - start):
                    y[j] = into[j]
        if average.shape[0] > 0:
            m, w = average[k, start:stop], number(alpha[k])
            for j in range(stop - start):
                m[j] += w * (y[j] - m[j])
