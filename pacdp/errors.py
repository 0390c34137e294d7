"""What can go wrong in a run, as types whose message is the sentence to show."""

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real

UNKNOWN = (-1, -(2**31), -(2**63))
"""Numbers of no person: what pandas gives to a missing name, and what whole numbers made of NaN are."""


class Diverged(RuntimeError):
    """A chain met a loss or a weight that is not a finite number."""

    def __init__(self, step: int, what: str = "the training loss") -> None:
        self.step = step
        super().__init__(
            f"{what} became NaN or infinite at step {step}: lower the step size or the thermal noise; "
            "the checkpoint before that step is intact"
        )


class CheckpointError(ValueError):
    """A checkpoint file is missing, empty, truncated, of another format, or belongs to other data."""


class PeerLost(RuntimeError):
    """Another process of a run ended, or cannot be reached."""


class OutOfMemory(MemoryError, ValueError):
    """A batch of chains does not fit."""


class MissingExtra(RuntimeError):
    """A package that only some features need is not installed."""


def require_positive(**values: float | int) -> None:
    """Raise a sentence unless every value is a positive number."""
    for name, value in values.items():
        if not (isinstance(value, Real) and value > 0):
            raise ValueError(f"expected {name} > 0, got {value!r}")


def require_finite(**values: float | int) -> None:
    """Raise a sentence unless every value is a positive number below infinity."""
    for name, value in values.items():
        if not (isinstance(value, Real) and 0 < value < math.inf):
            raise ValueError(f"expected {name} > 0 and finite, got {value!r}")


def require_fraction(**values: float | int) -> None:
    """Raise a sentence unless every value lies in (0, 1]."""
    for name, value in values.items():
        if not (isinstance(value, Real) and 0 < value <= 1):
            raise ValueError(f"expected 0 < {name} <= 1, got {value!r}")


def require_share(**values: float) -> None:
    """Raise a sentence unless every value lies in [0, 1)."""
    for name, value in values.items():
        if not (isinstance(value, Real) and 0 <= value < 1):
            raise ValueError(f"expected 0 <= {name} < 1, got {value!r}")


_TYPES = re.compile("same dtype|scalar type|weight type")
"""In what torch says where numbers of two types meet."""


def said(error: Exception) -> str:
    """The first line of what an error says, after its kind; and what to do where torch met numbers of two types."""
    lines = str(error).strip().splitlines()
    if not lines:
        return type(error).__name__
    line = f"{type(error).__name__}: {lines[0]}"
    if isinstance(error, RuntimeError) and _TYPES.search(line):
        line += (
            "; let inputs and weights be of one type, as .float() and astype('float32') make them, and words whole "
            "numbers in a tensor"
        )
    return line


@contextmanager
def naming(function: str, *, hint: str = "") -> Iterator[None]:
    """What a stranger's function raises comes with its name; what is a sentence already passes as it is, but for the
    ``hint`` that there may be at the end of all.

    Raises:
        ValueError: the function raised something else.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, ValueError | Diverged) and not hint:
            raise
        raise ValueError(f"{function} failed with {said(error)}{hint}") from error
