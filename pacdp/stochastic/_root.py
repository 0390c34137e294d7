"""Cholesky factors of many small positive semidefinite matrices, compiled for the CPU."""

import math
from typing import no_type_check

from pacdp._kernels import kernel


@kernel()
@no_type_check
def roots(first, last, gram, out, least_pivot):
    """Upper triangular factors of [batch, d, d], from ``first`` to ``last``, into ``out``, which is zero before.

    Rows of pivots that vanish stay zero.
    """
    d = gram.shape[1]
    for b in range(first, last):
        rest, root = gram[b], out[b]
        least = 0.0
        for k in range(d):
            least = max(least, rest[k, k] * least_pivot)
        for k in range(d):
            if rest[k, k] > least:
                scale = 1.0 / math.sqrt(rest[k, k])
                for j in range(k, d):
                    root[k, j] = rest[k, j] * scale
                for i in range(k + 1, d):
                    for j in range(i, d):
                        rest[i, j] -= root[k, i] * root[k, j]
