"""Numba scalars as functions of arrays, built at the first call."""

# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit, vectorize

Scalar = TypeVar("Scalar", bound=Callable[..., Any])
Compiled = TypeVar("Compiled")


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
