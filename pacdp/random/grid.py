"""Gaussian noise on a grid: Φ⁻¹ of uniform words, scaled, added to what it hides and rounded in exact arithmetic.

The grid is a power of two that only the standard deviation decides, 1,024 to 2,048 times finer than it. docs/noise.md
proves what finite arithmetic costs.

Standard normal numbers come from 64-bit words by the quantile function. A word is a sign and a probability p in (0,
1/2), and the normal number is ±Φ⁻¹(p). Below 2⁻¹⁰ the probability is made anew from two more words, so that it keeps
its relative precision down to 2⁻⁸⁶ and the noise reaches 13.5 standard deviations. Φ⁻¹ is a polynomial of degree 7 on
each of 32 parts of each octave of p; its coefficients were made with Arb's ball arithmetic. Nothing but additions,
multiplications and a table: IEEE 754 fixes the result on every machine, and the errors have the proved bounds of
docs/noise.md, which a test recomputes for every part.

The same steps stand here twice, compiled for the CPU and as torch operations for other devices; both give the same bits
for the same words.
"""

import functools
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import no_type_check

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pacdp.random import cipher
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
GRID_LOG2 = 10
"""The grid is the power of two from std/2¹¹ (exclusive) to std/2¹⁰."""
CELL_ERROR = 2.0**-35
"""Logarithm of the ratio between the probability of a point of the grid and that under exact arithmetic, at most."""
TAIL_MASS = 2.0**-84
"""Probability of the points of the grid, beyond 10.6 standard deviations, where that is not promised."""
_SPARE = 320  # words for the tails, of which 32,768 numbers need 128 on average
_ON_DEVICE = 1 << 20  # numbers at a time


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


def noised(
    total: Tensor, *, std: float, words: cipher.Keystream | None = None, out: Tensor | None = None
) -> Tensor:
    """``total`` with independent N(0, std²) on every coordinate, on the grid that only ``std`` decides.

    Formal guarantee: if the words are uniform, the result is a rounding of the real number that the Gaussian mechanism
    releases, up to the epsilon and delta of :func:`arithmetic_cost`.

    Args:
        words: where they come from; by default the system, and nobody can repeat them.
        out: memory for the result, contiguous and like ``total``; by default new memory.

    Raises:
        ValueError: ``std`` is beyond 2^±900.
    """
    out = torch.empty_like(total, memory_format=torch.contiguous_format) if out is None else out
    if std == 0.0:
        return out.copy_(total)
    if not 2.0**-900 < std < 2.0**900:
        raise ValueError(f"std must be 0 or between 2^-900 and 2^900, got {std}")
    grid = math.ldexp(1.0, math.frexp(std)[1] - 1 - GRID_LOG2)
    on_host = total.device.type == "cpu" and total.dtype in (torch.float32, torch.float64)
    compute = _by_compiled_code if on_host else _by_torch
    compute(total.detach(), std / grid, grid, words or cipher.fresh(), out)
    return out


def arithmetic_cost(
    *, coordinates: int, steps: int, delta: float, processes: int = 1
) -> tuple[float, float]:
    """The epsilon and delta that finite arithmetic adds to those of the Gaussian mechanism (docs/noise.md).

    Args:
        coordinates: numbers that receive noise in a step.
        steps: of the whole run, all chains and releases together.
        delta: a part of delta that is given up so that epsilon is small.
        processes: whose shares of noise add up.

    Returns:
        a and b. A run that is (epsilon, delta)-private with real Gaussian noise is so with that of
        :func:`noised` at epsilon + a and exp(a) (delta + (1 + exp(epsilon)) b).
    """
    numbers = coordinates * steps * processes
    spread = CELL_ERROR * math.sqrt(2.0 * numbers * math.log(1.0 / delta))
    each = spread + numbers * CELL_ERROR * math.expm1(CELL_ERROR)
    return 2.0 * each, delta + numbers * TAIL_MASS


def _by_compiled_code(
    total: Tensor, scale: float, grid: float, source: cipher.Keystream, out: Tensor
) -> None:
    values = out.copy_(total).view(-1).numpy()
    words = np.empty(min(len(values), cipher.AT_ONCE - _SPARE) + _SPARE, np.int64)
    for begin in range(0, len(values), cipher.AT_ONCE - _SPARE):
        part = values[begin : begin + cipher.AT_ONCE - _SPARE]
        source.fill(words[: _SPARE + len(part)])
        spare, main, done = words[:_SPARE], words[_SPARE:], 0
        while (done := add_on_grid(part, main, spare, table(), scale, grid, done)) < len(part):
            source.fill(spare)


def _by_torch(
    total: Tensor, scale: float, grid: float, source: cipher.Keystream, out: Tensor
) -> None:
    """Part by part, and nothing is waited for: with a number of spare words that suffices but for a chance of e⁻²⁰⁰."""
    for part, made in zip(
        total.reshape(-1).split(_ON_DEVICE), out.view(-1).split(_ON_DEVICE), strict=True
    ):
        device = part.device
        own = source.on(device, len(part))
        spare = partial(source.on, device)
        most = most_tails(len(part))
        made.copy_(on_grid(part.double(), own, spare, scale, grid, most=most))
