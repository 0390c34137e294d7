"""Refusals, one sentence each: the argument, its value, what to pass instead. NaN fails every check."""

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import numpy as np

_WIDEST = 2**53  # doubles skip whole numbers beyond
_INF = float("inf")
_ESTIMATED = (
    "a divergence never is, so this is an estimate: pass max(0, estimate) and declare that estimate as an unproved "
    "hypothesis of the certificate"
)

Record = TypeVar("Record")


def real(**values: Any) -> None:
    """Each value must be a real number other than NaN that a double holds, and not of NumPy's other floats.

    A float32 among the arguments would make NumPy round later sums to float32, downward as often as upward.
    """
    for name, value in values.items():
        if type(value) is float and value == value:
            continue
        known = isinstance(value, (float, int, np.integer))
        if not known or value != value or (not isinstance(value, float) and abs(int(cast(Any, value))) > _WIDEST):
            raise ValueError(f"{name} must be a real number in double precision, got {value!r}; pass a float.")


def above_minus_infinity(**values: Any) -> None:
    """Each value must be a real number other than NaN and minus infinity."""
    _each(lambda value: value > -_INF, "be above minus infinity", "leave it out", values)


def probability(**values: float) -> None:
    """Each value must lie in [0, 1]."""
    _each(lambda value: 0.0 <= value <= 1.0, "lie in [0, 1]", "rescale the loss or the rate to [0, 1]", values)


def open_probability(**values: float) -> None:
    """Each value must lie strictly between 0 and 1."""
    _each(lambda value: 0.0 < value < 1.0, "lie strictly between 0 and 1", "0.05 is customary", values)


def positive(**values: float) -> None:
    """Each value must be finite and greater than zero."""
    _each(lambda value: 0.0 < value < _INF, "be positive and finite", "pass a number above 0", values)


def nonnegative(**values: float) -> None:
    """Each value must be zero or more; infinity is allowed and makes a bound vacuous."""
    _each(lambda value: value >= 0.0, "not be negative", "pass 0 or more", values)


def posterior(risk: float, kl_nats: float) -> tuple[float, float]:
    """The two numbers by which a PAC-Bayes bound knows a posterior, as Python's floats."""
    probability(risk=risk)
    return float(risk), divergence(kl_nats=kl_nats)


def divergence(**value: float) -> float:
    """The value as a float; it must be a possible divergence, of which a negative one is a failed estimate."""
    _each(lambda value: value >= 0.0, "not be negative", _ESTIMATED, value)
    return float(*value.values())


def whole(**values: int) -> None:
    """Each value must be a whole number, zero or more."""
    _integers(0, values)


def count(**values: int) -> None:
    """Each value must be a whole number, one or more, that a double holds exactly."""
    _integers(1, values)


def text(**values: Any) -> None:
    """Each value must be text."""
    for name, value in values.items():
        if not isinstance(value, str):
            raise ValueError(f"{name} must be text, got {value!r}.")


def records(name: str, values: Any, kind: type[Record]) -> tuple[Record, ...]:
    """``values`` as a tuple, if each of them is of this kind."""
    made = _items(values)
    if made is None or not all(isinstance(value, kind) for value in made):
        raise ValueError(f"{name} must be {kind.__name__} records in a list, got {short(values)}.")
    return cast(tuple[Record, ...], made)


def pairs(name: str, values: Any) -> list[tuple[Any, Any]]:
    """``values`` as a list of pairs, if they are such."""
    made = [records(name, pair, object) for pair in records(name, values, object)]
    if not all(len(pair) == 2 for pair in made):
        raise ValueError(f"{name} must be pairs in a list, got {short(values)}.")
    return cast(list[tuple[Any, Any]], made)


def reals(name: str, values: Any) -> tuple[float, ...]:
    """``values`` as a tuple of floats, if they are real numbers."""
    made = None if isinstance(values, str) else _items(values)
    if made is None:
        raise ValueError(f"{name} must be a list of real numbers, got {short(values)}; pass floats.")
    for value in made:
        real(**{name: value})
    return tuple(float(value) for value in made)


def json_value(text: str | bytes) -> Any:
    """What JSON text says, if no key stands twice in one object, of which one would be dropped in silence."""
    try:
        return json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {next(name for name in names if names.count(name) > 1)!r} stands twice")
    return made


def json_record(text: Any) -> Any:
    """What JSON text says."""
    try:
        return json_value(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"text is not JSON ({error}); pass what to_json wrote.") from error


def _items(values: Any) -> tuple[Any, ...] | None:
    try:
        return tuple(cast(Iterable[Any], values))
    except TypeError:  # no list, or an array of no dimension
        return None


def _each(good: Callable[[float], bool], rule: str, advice: str, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if type(value) is float and good(value):
            continue
        real(**{name: value})
        if not good(value):
            raise ValueError(f"{name} must {rule}, got {value!r}; {advice}.")


def _integers(least: int, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}; pass an int.")
        if int(cast(Any, value)) > _WIDEST:
            raise ValueError(f"{name} must be at most 2**53, beyond which doubles skip whole numbers; pass fewer.")


def short(values: Any) -> str:
    """Values in a refusal, cut where they are many."""
    text = repr(values)
    return text if len(text) <= 80 else f"{text[:77]}..."
