"""The kinds of arrays that numbers come in, and refusals of those that are none."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bounds._check import short

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
Integers = NDArray[np.int64]


def doubles(name: str, values: Any) -> Array:
    """``values`` as an array of doubles, if they are real numbers."""
    made = as_given(values)
    if made.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be real numbers of one shape, got {short(values)}; pass floats.")
    return np.asarray(made, dtype=np.float64)


def vector(name: str, values: Any) -> Array:
    """``values`` as doubles, if they are a list of at least one real number."""
    made = doubles(name, values)
    if made.ndim != 1 or made.size == 0:
        raise ValueError(f"{name} must be a non-empty list of numbers, got shape {made.shape}; flatten it.")
    return made


def rates(name: str, values: Any) -> Array:
    """``values`` as doubles, if they lie in [0, 1]."""
    made = doubles(name, values)
    if not ((made >= 0.0) & (made <= 1.0)).all():
        raise ValueError(f"{name} must lie in [0, 1], got one that does not (or a NaN); rescale the loss to [0, 1].")
    return made


def names(name: str, values: Any) -> NDArray[Any]:
    """``values``, if they are a list of at least one whole number or text."""
    made = as_given(values)
    if made.ndim != 1 or made.size == 0 or made.dtype.kind not in "iuU":
        raise ValueError(
            f"{name} must be a list of whole numbers or texts, got {made.dtype} of shape {made.shape}; number them."
        )
    return made


def as_given(values: Any) -> NDArray[Any]:
    """``values`` as an array of their own type; of objects, where they are none, or some are masked."""
    if np.ma.is_masked(values):
        return np.asarray(None)
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return np.asarray(None)
