"""Standard normal numbers from 64-bit words by the quantile function, and their exact addition on a grid.

A word is a sign and a probability p in (0, 1/2), and the normal number is ±Φ⁻¹(p). Below 2⁻¹⁰ the probability is made
anew from two more words, so that it keeps its relative precision down to 2⁻⁸⁶ and the noise reaches 13.5 standard
deviations. Φ⁻¹ is a polynomial of degree 7 on each of 32 parts of each octave of p; its coefficients were made with
Arb's ball arithmetic. Nothing but additions, multiplications and a table: IEEE 754 fixes the result on every machine,
and the errors have the proved bounds of docs/noise.md, which a test recomputes for every part.

The same steps stand here twice, compiled for the CPU and as torch operations for other devices; both give the same bits
for the same words.
"""

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import no_type_check

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pacdp.random.kernels import kernel

PARTS_LOG2 = 5  # parts of an octave: 2⁵
DEGREE = 7
LOWEST = -136  # the least octave of the table: probabilities below 2⁻¹³⁶ count as that
LIMIT = (
    2.0**42
)  # sums are cut off here, in units of the grid: sums over 1,024 processes stay exact in 53 bits

_LOW_BITS = 52 - PARTS_LOG2
_LOW = (1 << _LOW_BITS) - 1
_HALF = 1 << (_LOW_BITS - 1)
_FIRST = (1023 + LOWEST) << PARTS_LOG2
_POSITIVE = (1 << 63) - 1
_TAIL = 1 << 54  # of 2⁶³: probabilities below 2⁻¹⁰
_TAIL_UNIT = 2.0**-73
_BLOCK = 1024


@functools.cache
def table() -> NDArray[np.float64]:
    """Coefficients c of Φ⁻¹(p) = Σ c_k tᵏ, t in [-1, 1), one row of eight for each part; the last row begins at 1/2.

    They were made with Arb once and lie in a file, so that they are the same on every machine.
    """
    made = np.load(Path(__file__).with_name("quantile.npy"), allow_pickle=False)
    made.setflags(write=False)
    return made


@kernel(error_model="numpy")
@no_type_check
def add_on_grid(values, words, spare, coefficients, scale, grid, start):
    """``values`` become grid · round(values/grid + scale · normal), from index ``start`` on, in place.

    ``spare`` holds words for the tails. Returns the number of values, or an index before it where they ran out: go on
    from there with fresh spare words. Short loops over blocks let the compiler use vector instructions.
    """
    used, inverse = 0, 1.0 / grid
    p, t, rows = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK, np.int64)
    bits = p.view(np.int64)
    for begin in range(start, len(values), _BLOCK):
        size = min(_BLOCK, len(values) - begin)
        word, value = words[begin : begin + size], values[begin : begin + size]
        for i in range(size):
            p[i] = float((word[i] >> 1) & _POSITIVE) * 2.0**-64
        for i in range(size):
            if (word[i] >> 1) & _POSITIVE < _TAIL:
                if used + 2 > len(spare):
                    return begin
                fine = float((spare[used + 1] >> 1) & _POSITIVE) * 2.0**-63
                p[i] = max((float((spare[used] >> 1) & _POSITIVE) + fine) * _TAIL_UNIT, 2.0**LOWEST)
                used += 2
        for i in range(size):
            t[i] = float((bits[i] & _LOW) - _HALF) * (1.0 / _HALF)
            rows[i] = (bits[i] >> _LOW_BITS) - _FIRST
        for i in range(size):
            row = np.uint64(rows[i])
            z = coefficients[row, DEGREE]
            for k in range(DEGREE - 1, -1, -1):
                z = z * t[i] + coefficients[row, k]
            t[i] = z
        for i in range(size):
            y = scale * t[i] * (1.0 - 2.0 * float(word[i] & 1))
            x = float(value[i]) * inverse
            x = LIMIT if x > LIMIT else x
            x = -LIMIT if x < -LIMIT else x
            below = np.floor(x)
            value[i] = (below + np.rint((x - below) + y)) * grid
    return len(values)


def most_tails(size: int) -> int:
    """So many of ``size`` words are in the tails at most, but for a chance below e⁻²⁰⁰.

    Each is with probability 2⁻⁹. By Bernstein's inequality a mean of m is exceeded by t = 20√m + 200 with probability
    at most exp(-t²/(2m + 2t/3)), and t² - 200 (2m + 2t/3) = (8000 - 8000/3) √m + 40,000/3 > 0.
    """
    mean = size * _TAIL / 2**63
    return min(size, math.ceil(mean + 20.0 * math.sqrt(mean) + 200.0))


def on_grid(
    values: Tensor,
    words: Tensor,
    spare: Callable[[int], Tensor],
    scale: float,
    grid: float,
    *,
    most: int,
) -> Tensor:
    """What :func:`add_on_grid` computes, by torch operations on the device of ``values``, in double precision.

    Args:
        values: a vector in double precision.
        words: as many words, int64.
        spare: gives that many words for the tails.
        scale: standard deviation of the noise in units of the grid.
        grid: a power of two.
        most: words in the tails for which spare ones are taken, so that nobody need count them; beyond, spare words
            would come up a second time.
    """
    whole = (words >> 1) & _POSITIVE
    p, tail = whole.double() * 2.0**-64, whole < _TAIL
    number = tail.cumsum(0) - 1
    if most:
        more = ((spare(2 * most) >> 1) & _POSITIVE).double().reshape(-1, 2)
        fine = ((more[:, 0] + more[:, 1] * 2.0**-63) * _TAIL_UNIT).clamp(min=2.0**LOWEST)
        p = torch.where(tail, fine[number.clamp(min=0) % most], p)
    bits = p.view(torch.int64)
    rows = _table_on(values.device)[(bits >> _LOW_BITS) - _FIRST]
    t = ((bits & _LOW) - _HALF).double() * (1.0 / _HALF)
    z = rows[:, DEGREE]
    for k in range(DEGREE - 1, -1, -1):
        z = z * t + rows[:, k]
    y = scale * z * (1.0 - 2.0 * (words & 1).double())
    x = (values * (1.0 / grid)).clamp(-LIMIT, LIMIT)
    below = x.floor()
    return (below + (x - below + y).round()) * grid


@functools.cache
def _table_on(device: torch.device) -> Tensor:
    return torch.tensor(table(), device=device)
