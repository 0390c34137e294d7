"""How numbers are computed here: rounded to the safe side, and by compiled functions of scalars and arrays.

Rounding adds a few ulp of slack to sums of non-negative terms. Functions are compiled when first called.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
import functools
import inspect
from collections.abc import Callable
from math import fsum, inf, log, ulp
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit, vectorize

# Sums here have at most eight non-negative terms, each a product, quotient, square root or logarithm within
# 2 ulp: their relative error stays below 8 ulp, 2**-52 being the widest an ulp gets relative to its number.
_OUTWARD = 1.0 + 8 * 2.0**-52
# Below it an ulp is no longer small against its number; eight of the smallest are.
_SMALL, _EIGHT = 2.0**-960, 8 * ulp(0.0)
Scalar = TypeVar("Scalar", bound=Callable[..., Any])
Compiled = TypeVar("Compiled")


def outward(value: float) -> float:
    """A float at or above the exact value of the non-negative expression that ``value`` was rounded from."""
    return value * _OUTWARD + _EIGHT if 0.0 < value < _SMALL else value * _OUTWARD


def inward(value: float) -> float:
    """A float at or below the exact value of the non-negative expression that ``value`` was rounded from."""
    return max(0.0, value / _OUTWARD - _EIGHT) if value < _SMALL else value / _OUTWARD


def total(*nats: float) -> float:
    """The sum of non-negative costs, rounded up; infinite where it passes the largest double."""
    try:
        return outward(fsum(nats))
    except OverflowError:
        return inf


def least(enough: Callable[[float], bool], low: float, high: float, *, relative: float, absolute: float = 0.0) -> float:
    """About the least number above ``low`` that is enough, by halving; always one that is, if ``high`` is."""
    for _ in range(100):
        middle = 0.5 * (low + high)
        if high - low <= absolute + relative * high or not low < middle < high:
            break
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def log_inverse(probability: float) -> float:
    """ln(1 / probability) in nats, rounded up; exact to the last digits also for a probability near one; inf for 0."""
    return outward(-log(probability)) if probability > 0.0 else inf


def jit(function: Scalar) -> Scalar:
    """``function``, compiled at its first call, which then runs without the interpreter's lock.

    It calls functions of its own file only, as Numba's cache sees edits in no other.
    """
    return cast(Scalar, cached(lambda cache: njit(cache=cache, error_model="numpy", nogil=True)(function)))


def cached(compiled: Callable[[bool], Compiled]) -> Compiled:
    """What ``compiled(True)`` makes with Numba's cache on disk, or, where no folder for it can be written, without."""
    try:
        return compiled(True)
    except RuntimeError:  # Numba has "no locator available"
        return compiled(False)


def elementwise(function: Callable[..., float]) -> Callable[..., Any]:
    """``function`` of float64 numbers, lists and arrays, broadcast against each other as by a NumPy ufunc; of numbers
    alone a float.

    The ufunc is built when first called: loading Numba's machinery takes longer than all other imports. It releases
    the interpreter's lock.
    """

    @functools.cache
    def ufunc() -> np.ufunc:
        signature = ", ".join(["float64"] * function.__code__.co_argcount)
        built = cached(lambda cache: cast(Any, vectorize([f"float64({signature})"], cache=cache)(function)))
        return built.ufunc

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        if named:
            arguments = inspect.signature(function).bind(*arguments, **named).args
        try:
            found = ufunc()(*arguments)
            return found if isinstance(found, np.ndarray) else float(found)
        except (TypeError, OverflowError):
            raise ValueError(f"{function.__name__} takes real numbers, got {arguments!r}; pass floats.") from None

    return call
