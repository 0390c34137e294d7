"""Numba scalars as functions of arrays: built at the first call, and spread over the cores when arrays are large."""

# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
import functools
import inspect
import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit, vectorize

# Starting threads costs about as much as a thousand inverses.
_LARGE = 2**15

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
    """``function`` of float64 numbers, lists and arrays, broadcast against each other as by a NumPy ufunc.

    The ufunc is built when first called: loading Numba's machinery takes longer than all other imports. It releases
    the interpreter's lock, so arrays of 2¹⁵ results and more are cut along their longest axis, a part for every core.
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
        size = 1
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                size *= argument.size
        if size < _LARGE:
            try:
                return ufunc()(*arguments)
            except (TypeError, OverflowError):
                raise ValueError(f"{function.__name__} takes real numbers, got {arguments!r}; pass floats.") from None
        parts = np.broadcast_arrays(*arguments)
        cores = _cores()
        if parts[0].size < _LARGE or cores == 1:
            return ufunc()(*arguments)
        return _in_threads(ufunc(), parts, cores)

    return call


def _in_threads(ufunc: np.ufunc, arguments: tuple[np.ndarray, ...], cores: int) -> np.ndarray:
    from concurrent.futures import ThreadPoolExecutor

    out = np.empty(arguments[0].shape)
    axis = int(np.argmax(out.shape))
    pieces = [np.array_split(array, cores, axis) for array in (*arguments, out)]
    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(lambda *piece: ufunc(*piece[:-1], out=piece[-1]), *pieces))
    return out


def _cores() -> int:
    available = getattr(os, "sched_getaffinity", None)  # Linux only
    return len(available(0)) if available else os.cpu_count() or 1
