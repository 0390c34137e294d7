"""Refusals, one sentence each: the argument, its value, what to pass instead. NaN fails every check."""

import numbers
from typing import Any

import numpy as np


def real(**values: Any) -> None:
    """Each value must be a real number other than NaN, and not of NumPy's shorter floats.

    A float32 among the arguments would make NumPy round later sums to float32, downward as often as upward.
    """
    for name, value in values.items():
        narrow = isinstance(value, np.floating) and not isinstance(value, float)
        if not isinstance(value, numbers.Real) or value != value or narrow:
            raise ValueError(f"{name} must be a real number in double precision, got {value!r}; pass a float.")


def above_minus_infinity(**values: Any) -> None:
    """Each value must be a real number other than NaN and minus infinity."""
    real(**values)
    for name, value in values.items():
        if value == -float("inf"):
            raise ValueError(f"{name} must be above minus infinity, got {value!r}; leave it out.")


def probability(**values: float) -> None:
    """Each value must lie in [0, 1]."""
    real(**values)
    for name, value in values.items():
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"{name} must lie in [0, 1], got {value!r}; rescale the loss or the rate to [0, 1].")


def open_probability(**values: float) -> None:
    """Each value must lie strictly between 0 and 1."""
    real(**values)
    for name, value in values.items():
        if not 0.0 < value < 1.0:
            raise ValueError(f"{name} must lie strictly between 0 and 1, got {value!r}; 0.05 is customary.")


def positive(**values: float) -> None:
    """Each value must be finite and greater than zero."""
    real(**values)
    for name, value in values.items():
        if not 0.0 < value < float("inf"):
            raise ValueError(f"{name} must be positive and finite, got {value!r}; pass a number above 0.")


def nonnegative(**values: float) -> None:
    """Each value must be zero or more; infinity is allowed and makes a bound vacuous."""
    real(**values)
    for name, value in values.items():
        if not value >= 0.0:
            raise ValueError(f"{name} must not be negative, got {value!r}; pass 0 or more.")


def divergence(**values: float) -> None:
    """Each value must be a possible Kullback-Leibler divergence; a negative one is a failed estimate."""
    real(**values)
    for name, value in values.items():
        if not value >= 0.0:
            raise ValueError(
                f"{name} must not be negative, got {value!r}: a divergence never is, so this is an estimate; "
                f"pass max(0, estimate) and declare the estimate as an assumption of the certificate."
            )


def posterior(risk: float, kl_nats: float) -> None:
    """The two numbers by which a PAC-Bayes bound knows a posterior."""
    probability(risk=risk)
    divergence(kl_nats=kl_nats)


def whole(**values: int) -> None:
    """Each value must be a whole number, zero or more."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 0:
            raise ValueError(f"{name} must be a whole number of at least 0, got {value!r}; pass an int.")


def count(**values: int) -> None:
    """Each value must be a whole number, one or more, that a double holds exactly."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}; pass an int.")
        if value > 2**53:
            raise ValueError(f"{name} must be at most 2**53, beyond which doubles skip whole numbers; pass fewer.")
