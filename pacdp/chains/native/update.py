"""The linear Langevin update of many chains, compiled: drift, noise and running average in one pass over memory."""

from typing import no_type_check

import numba
import numpy as np

from pacdp.chains.native.philox import LANES, PAGE, four_normals, normal_page


@numba.njit(nogil=True, fastmath={"contract", "nsz"}, error_model="numpy")
@no_type_check
def _whole_page(y, v, g, c, number, a, h, b, s, k0, k1, stream, low, high):
    """A page of the update whose noise never leaves the registers."""
    first = np.uint32(number * LANES)
    for lane in range(LANES):
        four = four_normals(np.uint32(first + np.uint32(lane)), k0, k1, stream, low, high)
        for quarter in range(4):
            j = quarter * LANES + lane
            y[j] = a * v[j] - h * g[j] + b * c[j] + s * y.dtype.type(four[quarter])


@numba.njit(parallel=True, nogil=True, cache=True, fastmath={"contract", "nsz"})
@no_type_check
def update(out, x, keep, gradient, rate, centre, pull, scale, average, alpha, keys, stream, tick):
    """out ← keep x - rate gradient + pull centre + scale ξ and, where ``average`` has rows, average ← average +
    alpha (out - average), for [chains, dim] arrays and coefficients [chains].

    Every page is a function of its own chain alone, so that neither the number of chains nor of threads matters.
    """
    chains, dim = x.shape
    pages = (dim + PAGE - 1) // PAGE
    low, high = np.uint32(tick), np.uint32(tick >> np.uint64(32))
    number = x.dtype.type
    for job in numba.prange(chains * pages):
        k, page = job // pages, job % pages
        start = page * PAGE
        stop = min(start + PAGE, dim)
        a, h, b, s = number(keep[k]), number(rate[k]), number(pull[k]), number(scale[k])
        y, v, g, c = out[k, start:stop], x[k, start:stop], gradient[k, start:stop], centre[k, start:stop]
        k0, k1 = np.uint32(keys[k]), np.uint32(keys[k] >> np.uint64(32))
        if scale[k] == 0.0:
            for j in range(stop - start):
                y[j] = a * v[j] - h * g[j] + b * c[j]
        elif stop - start == PAGE:
            _whole_page(y, v, g, c, page, a, h, b, s, k0, k1, stream, low, high)
        else:
            noise = np.empty(PAGE, np.float32)
            normal_page(noise, page, stop - start, k0, k1, stream, low, high)
            for j in range(stop - start):
                y[j] = a * v[j] - h * g[j] + b * c[j] + s * number(noise[j])
        if average.shape[0] > 0:
            m, w = average[k, start:stop], number(alpha[k])
            for j in range(stop - start):
                m[j] += w * (y[j] - m[j])


@numba.njit(parallel=True, nogil=True, cache=True)
@no_type_check
def normal(out, keys, stream, tick):
    """Standard normal numbers into out [chains, dim], the same that :func:`update` adds."""
    chains, dim = out.shape
    pages = (dim + PAGE - 1) // PAGE
    low, high = np.uint32(tick), np.uint32(tick >> np.uint64(32))
    for job in numba.prange(chains * pages):
        k, page = job // pages, job % pages
        noise = np.empty(PAGE, np.float32)
        k0, k1 = np.uint32(keys[k]), np.uint32(keys[k] >> np.uint64(32))
        stop = min((page + 1) * PAGE, dim)
        normal_page(noise, page, stop - page * PAGE, k0, k1, stream, low, high)
        for j in range(stop - page * PAGE):
            out[k, page * PAGE + j] = noise[j]
