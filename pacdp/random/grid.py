"""Gaussian noise on a grid: Φ⁻¹ of uniform words, scaled, added to what it hides and rounded in exact arithmetic.

The grid is a power of two that only the standard deviation decides, 1,024 to 2,048 times finer than it. docs/noise.md
proves what finite arithmetic costs.
"""

import math
from functools import partial

import numpy as np
import torch
from torch import Tensor

from pacdp.random import cipher, quantile

GRID_LOG2 = 10
"""The grid is the power of two from std/2¹¹ (exclusive) to std/2¹⁰."""
CELL_ERROR = 2.0**-35
"""Logarithm of the ratio between the probability of a point of the grid and that under exact arithmetic, at most."""
TAIL_MASS = 2.0**-84
"""Probability of the points of the grid, beyond 10.6 standard deviations, where that is not promised."""

_SPARE = 320  # words for the tails, of which 32,768 numbers need 128 on average
_ON_DEVICE = 1 << 20  # numbers at a time


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
        while (
            done := quantile.add_on_grid(part, main, spare, quantile.table(), scale, grid, done)
        ) < len(part):
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
        most = quantile.most_tails(len(part))
        made.copy_(quantile.on_grid(part.double(), own, spare, scale, grid, most=most))
