"""Sums of independent privacy losses on one grid, by fast Fourier transforms whose errors are bounded.

Masses p are tilted first, p(y) e^(θy) / M(θ), so that the loss that matters lies in the middle of the composed law; the
factor M e^(-θy) that takes the tilt back also takes the rounding errors down to the size of the tail.

Errors. Every output of a radix-2 or mixed-radix transform is a sum of its inputs along paths of log₂ n twiddle factors
and additions, so it is off by at most η ‖p‖₁, η = 16 u log₂ n, u = 2⁻⁵³. For the product of F_t, each off by at most η,
|e| ≤ Π (|F_t| + η) - Π |F_t|, to which the rounding of both products is added. By Cauchy-Schwarz and Parseval the n
masses that come back are off by at most sqrt(Σ |e|²) in sum, and each by at most Σ |e| / n. What lies outside the
window of n masses is bounded by Chernoff's inequality, and folds back into it.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
from math import exp, inf, log2, sqrt
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import fft

from bounds._arithmetic import jit
from bounds._check import Array, Complex, Integers

_ULP = 2.0**-53
_EDGES = (0.85, 1.0)
_TOGETHER = 4
_BLOCK = 512  # places of a spectrum that are multiplied together
_NONE, _NEVER = np.empty(0), np.empty(0, np.int64)


class Window(NamedTuple):
    """Where the composed law is wanted: ``size`` grid points from ``start`` on, at the tilt θ.

    ``lower_edge`` and ``upper_edge`` are about the further tilts that best bound what lies outside.
    """

    start: int
    size: int
    tilt: float
    lower_edge: float
    upper_edge: float


class Composite(NamedTuple):
    """A composed law, tilted: true masses are e^(log_scale - tilt·y) times these, y = spacing · (start + k)."""

    spacing: float
    window: Window
    log_scale: float
    masses: Array
    error: float
    cell_error: float
    log_above: float
    log_below: float


@jit
def _fold(values: Array, indices: Integers, out: Array) -> None:
    n = len(out)
    for j in range(len(values)):
        out[indices[j] % n] += values[j]


@jit
def _multiply(
    before: Complex,
    values: Complex,
    shares: Array,
    counts: Integers,
    noises: Array,
    product: Complex,
    size: Array,
) -> None:
    """Multiply in shares[i, 0] · before + shares[i, 1] · values, off by noises[i] at most, counts[i] times each."""
    z, bound = np.empty(_BLOCK, before.dtype), np.empty(_BLOCK)
    for start in range(0, len(values), _BLOCK):  # loops over few places innermost make vector code
        old, new = before[start : start + _BLOCK], values[start : start + _BLOCK]
        total, most = product[start : start + _BLOCK], size[start : start + _BLOCK]
        for i in range(len(counts)):
            own, other, noise, left = shares[i, 0], shares[i, 1], noises[i], counts[i]
            for j in range(len(old)):
                x = own * old[j] + other * new[j]
                z[j], bound[j] = x, sqrt(x.real * x.real + x.imag * x.imag) * (1.0 + 5e-16) + noise
            while left:
                if left & 1:
                    for j in range(len(old)):
                        total[j], most[j] = total[j] * z[j], most[j] * bound[j]
                left >>= 1
                if left:
                    for j in range(len(old)):
                        z[j], bound[j] = z[j] * z[j], bound[j] * bound[j]


class _Row(NamedTuple):
    """A law whose transform is due: its mixtures with the law before it, the law itself first among them.

    ``shares`` [mixtures, 2] are of the two, ``times`` how often each is multiplied in, ``noises`` what it is off by.
    """

    shares: Array
    times: Integers
    noises: Array


class _Moments(NamedTuple):
    """What mixtures need to know of a law: logarithms of its moments, and of the total it was divided by; its ends."""

    logs: Array
    divisor: float
    first: int
    last: int


class Spectrum:
    """The transform of a composed law while its factors come in."""

    def __init__(self, spacing: float, window: Window) -> None:
        self.spacing, self.window = spacing, window
        self._shifts = np.array([0.0] + [edge * at for edge in _EDGES for at in (window.lower_edge, window.upper_edge)])
        self._log_moments = np.zeros(self._shifts.size)
        half = window.size // 2 + 1
        self._product, self._size = np.ones(half, complex), np.ones(half)
        self._buffers, self._rows = np.zeros((_TOGETHER, window.size)), list[_Row]()
        self._noise = 16.0 * _ULP * log2(window.size)
        self._log_scale, self._steps, self._first, self._last = 0.0, 0, 0, 0
        self._before, self._row = _Moments(np.empty(0), 0.0, 0, 0), np.zeros(half, complex)

    def add(
        self,
        indices: Integers,
        masses: Array,
        count: int,
        log_scale: float | None = None,
        *,
        shares: Array = _NONE,
        times: Integers = _NEVER,
    ) -> float:
        """Multiply in a law ``count`` times; returns ln of its tilted total, the divisor unless ``log_scale`` is.

        Also, times[i] times, the mixture of the law that was added before with shares[i], and of this one.
        """
        with np.errstate(divide="ignore"):
            logs = np.log(masses)
        exponents = (self.window.tilt + self._shifts)[:, None] * (self.spacing * indices) + logs
        peaks = exponents.max(axis=1)
        weights = np.exp(exponents - peaks[:, None])
        moments = peaks + np.log(weights.sum(axis=1))
        divisor = float(moments[0]) if log_scale is None else log_scale
        _fold(weights[0] * exp(peaks[0] - divisor), indices, self._buffers[len(self._rows)])
        law = _Moments(moments, divisor, int(indices[0]), int(indices[-1]))
        self._count(count, moments - divisor, divisor, law.first, law.last)
        once = [1, count - 1] if count > 1 else [1]
        mixed = self._mix(law, shares, times) if times.size else np.empty((0, 2))
        # the rounding of a mixture is a few units, of which the noise of transforms is 96 or more
        noises = self._noise * np.repeat([1.0, 1.1], [len(once), len(times)])
        self._rows.append(_Row(np.vstack([[[0.0, 1.0]] * len(once), mixed]), np.append(once, times), noises))
        if len(self._rows) == _TOGETHER:
            self._transform()
        self._before = law
        return divisor

    def _mix(self, law: _Moments, shares: Array, times: Integers) -> Array:
        """Count mixtures with the law before; returns their shares of what both laws were divided by."""
        before = self._before
        with np.errstate(divide="ignore"):
            own, other = np.log(shares)[:, None], np.log1p(-shares)[:, None]
        moments = np.logaddexp(own + before.logs, other + law.logs)
        divisors = moments[:, :1]
        ends = min(before.first, law.first), max(before.last, law.last)
        self._count(int(times.sum()), np.zeros(1), 0.0, *ends)
        self._log_moments += times @ (moments - divisors)
        self._log_scale += float(times @ divisors[:, 0])
        return np.exp(np.hstack([own + before.divisor, other + law.divisor]) - divisors)

    def _count(self, count: int, moments: Array, divisor: float, first: int, last: int) -> None:
        self._log_moments += count * moments
        self._log_scale += count * divisor
        self._steps += count
        self._first += count * first
        self._last += count * last

    def _transform(self) -> None:
        """Several at once, which the library does side by side."""
        waiting = self._buffers[: len(self._rows)]
        for values, row in zip(cast(Any, fft.rfft(waiting)), self._rows, strict=True):
            _multiply(self._row, values, row.shares, row.times, row.noises, self._product, self._size)
            self._row = values
        waiting[:] = 0.0
        self._rows.clear()

    def composite(self) -> Composite:
        """The composed law."""
        if self._rows:
            self._transform()
        n, start = self.window.size, self.window.start
        weight = np.full(self._product.size, 2.0)
        weight[0] = 1.0
        if n % 2 == 0:
            weight[-1] = 1.0
        error = np.maximum(self._size * (1.0 + 8.0 * _ULP * self._steps) - np.abs(self._product), 0.0) * (1.0 + 1e-9)
        back = self._noise * float(weight @ self._size)
        masses = np.maximum(np.roll(cast(Any, fft.irfft(self._product, n)), -(start % n)), 0.0)
        k = np.arange(start, start + n)
        masses[(k < self._first) | (k > self._last)] = 0.0
        rates = self._shifts[1:] * self.spacing
        logs = self._log_moments[1:] + 1e-12 * self._steps
        above = logs - rates * (start + n)
        below = logs - rates * (start - 1)
        return Composite(
            spacing=self.spacing,
            window=self.window,
            log_scale=self._log_scale,
            masses=masses,
            error=sqrt(float(weight @ error**2)) + back,
            cell_error=(float(weight @ error) + back) / n,
            log_above=-inf if self._last < start + n else float(above[rates > 0.0].min(initial=0.0)),
            log_below=-inf if self._first >= start else float(below[rates < 0.0].min(initial=0.0)),
        )
