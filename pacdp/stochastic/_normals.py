"""Gaussian weights of many examples, compiled for the CPU: one row an example, every row under a counter of its own.

Numbers lie in pages of 4,096 that are four loops of 1,024 lanes, as everywhere; the last page has as many lanes as it
needs, since a row is often short.
"""

from typing import no_type_check

import numba
import numpy as np

from pacdp._kernels import kernel
from pacdp.chains.native.philox import LANES, PAGE, four_normals


@numba.njit(fastmath={"contract", "nsz"}, error_model="numpy", nogil=True)
@no_type_check
def _page(noise, first, lanes, k0, k1, stream, low, high):
    """Standard normal numbers into float32 ``noise``: number i is word i // lanes of block first + i mod lanes."""
    for lane in range(lanes):
        four = four_normals(np.uint32(first + np.uint32(lane)), k0, k1, stream, low, high)
        noise[lane] = four[0]
        noise[lanes + lane] = four[1]
        noise[2 * lanes + lane] = four[2]
        noise[3 * lanes + lane] = four[3]


@kernel(fastmath={"contract", "nsz"})
@no_type_check
def gaussians(begin, end, out, mean, std, key, stream, ticks):
    """out[b, j] ← mean[j] + std[j] ξ(b, j) for [batch, dim], the rows from ``begin`` to ``end``.

    ``mean`` and ``std`` have one number or dim of them.
    """
    dim = out.shape[1]
    k0, k1 = np.uint32(key), np.uint32(key >> np.uint64(32))
    number = out.dtype.type
    for b in range(begin, end):
        noise = np.empty(PAGE, np.float32)
        low, high = np.uint32(ticks[b]), np.uint32(ticks[b] >> np.uint64(32))
        for page in range((dim + PAGE - 1) // PAGE):
            start = page * PAGE
            y = out[b, start : min(start + PAGE, dim)]
            lanes = (len(y) + 3) // 4
            _page(noise, np.uint32(page * LANES), lanes, k0, k1, stream, low, high)
            if len(mean) == 1 and len(std) == 1:
                for j in range(len(y)):
                    y[j] = mean[0] + std[0] * number(noise[j])
            elif len(std) == 1:
                m = mean[start : start + PAGE]
                for j in range(len(y)):
                    y[j] = m[j] + std[0] * number(noise[j])
            else:
                s = std[start : start + PAGE]
                for j in range(len(y)):
                    y[j] = (mean[start + j] if len(mean) > 1 else mean[0]) + s[j] * number(noise[j])
