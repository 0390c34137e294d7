"""Refusals, one sentence each: the argument, its value, what to pass instead. NaN fails every check.

Numbers, records and whole calls come first, then the kinds of arrays that numbers come in.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
import functools
import inspect
import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

_WIDEST = 2**53  # doubles skip whole numbers beyond
_INF = float("inf")
_ESTIMATED = (
    "a divergence never is, so this is an estimate: pass max(0, estimate) and declare that estimate as an unproved "
    "hypothesis of the certificate"
)

Record = TypeVar("Record")
Function = TypeVar("Function", bound=Callable[..., Any])
Rule = Callable[..., Any]
"""Refuses values, given by name, that are out of range; otherwise returns the last of them as Python's own number."""
Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
Integers = NDArray[np.int64]


def real(**values: Any) -> float:
    """Each value must be a real number other than NaN that a double holds, and not of NumPy's other floats.

    A float32 among the arguments would make NumPy round later sums to float32, downward as often as upward.
    """
    return _each(lambda value: value == value, "be a real number in double precision", "pass a float", values)


def above_minus_infinity(**values: Any) -> float:
    """Each value must be a real number other than NaN and minus infinity."""
    return _each(lambda value: value > -_INF, "be above minus infinity", "leave it out", values)


def probability(**values: float) -> float:
    """Each value must lie in [0, 1]."""
    return _each(lambda value: 0.0 <= value <= 1.0, "lie in [0, 1]", "rescale the loss or the rate to [0, 1]", values)


def open_probability(**values: float) -> float:
    """Each value must lie strictly between 0 and 1."""
    return _each(lambda value: 0.0 < value < 1.0, "lie strictly between 0 and 1", "0.05 is customary", values)


def positive(**values: float) -> float:
    """Each value must be finite and greater than zero."""
    return _each(lambda value: 0.0 < value < _INF, "be positive and finite", "pass a number above 0", values)


def nonnegative(**values: float) -> float:
    """Each value must be zero or more; infinity is allowed and makes a bound vacuous."""
    return _each(lambda value: value >= 0.0, "not be negative", "pass 0 or more", values)


def divergence(**values: float) -> float:
    """Each value must be a possible divergence, of which a negative one is a failed estimate."""
    return _each(lambda value: value >= 0.0, "not be negative", _ESTIMATED, values)


def whole(**values: int) -> int:
    """Each value must be a whole number, zero or more."""
    return _integers(0, values)


def count(**values: int) -> int:
    """Each value must be a whole number, one or more, that a double holds exactly."""
    return _integers(1, values)


def text(**values: Any) -> str:
    """Each value must be text."""
    value = ""
    for name, value in values.items():
        if not isinstance(value, str):
            raise ValueError(f"{name} must be text, got {value!r}.")
    return value


_USUAL: dict[str, Rule] = {
    **dict.fromkeys(("n", "draws", "passes", "normaliser", "most_examples", "examples", "min_count", "starts"), count),
    **dict.fromkeys(("failure_prob", "false_alarm_prob"), open_probability),
    **dict.fromkeys(("risk", "target", "calibration_error", "mean_squared_gap", "delta"), probability),
    **dict.fromkeys(("tau", "lam", "inverse_temperature", "noise_multiplier"), positive),
    **dict.fromkeys(("epsilon", "mu", "rho", "largest"), nonnegative),
    **dict.fromkeys(("kl_nats", "renyi_nats"), divergence),
    **dict.fromkeys(("k", "seed"), whole),
    **dict.fromkeys(("nats", "per_example"), above_minus_infinity),
    **dict.fromkeys(("name", "of", "measures", "reference"), text),
    **dict.fromkeys(("loss_low", "loss_high", "log_partition_lower_nats", "log_mean_exp"), real),
}
"""The rule for each name that means the same wherever it is an argument."""


def door(**rules: Rule | type) -> Callable[[Function], Function]:
    """Makes a function public: arguments out of range are refused, others handed over as Python's own numbers.

    Arguments are known by their names: of ``rules`` here, or else of the usual ones. A rule may be the type that a
    record must have. None stands where it is the default.
    """

    def made(function: Function) -> Function:
        parameters = inspect.signature(function).parameters
        own = {name: rules.get(name, _USUAL.get(name)) for name in parameters}

        def plain(name: str, value: Any) -> Any:
            rule: Any = own.get(name)
            if rule is None or (value is None and parameters[name].default is None):
                return value
            return records(name, (value,), rule)[0] if isinstance(rule, type) else rule(**{name: value})

        @functools.wraps(function)
        def call(*given: Any, **named: Any) -> Any:
            first = [plain(name, value) for name, value in zip(parameters, given, strict=False)]
            return function(*first, *given[len(first) :], **{name: plain(name, named[name]) for name in named})

        return cast(Function, call)

    return made


def fields(made: Any, **rules: Rule) -> None:
    """Refuse a record whose fields are out of range, by the same rules as arguments; keep Python's own numbers."""
    for name, rule in {**_ruled(type(made)), **rules}.items():
        value = getattr(made, name)
        if (plain := rule(**{name: value})) is not value:
            object.__setattr__(made, name, plain)


@functools.cache
def _ruled(kind: Any) -> dict[str, Rule]:
    """The usual rules of a record's fields."""
    return {name: _USUAL[name] for name in kind.__dataclass_fields__ if name in _USUAL}


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


def reals(name: str, values: Any, rule: Rule = real) -> tuple[float, ...]:
    """``values`` as a tuple of floats, if they are real numbers, and such as ``rule`` allows."""
    made = None if isinstance(values, str) else _items(values)
    if made is None:
        raise ValueError(f"{name} must be a list of real numbers, got {short(values)}; pass floats.")
    return tuple(rule(**{name: value}) for value in made)


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


def _each(good: Callable[[float], bool], rule: str, advice: str, values: dict[str, Any]) -> float:
    value: Any = 0.0
    for name, value in values.items():
        if type(value) is float and good(value):
            continue
        whole = isinstance(value, (int, np.integer))
        if not (whole or isinstance(value, float)) or value != value or (whole and abs(int(value)) > _WIDEST):
            raise ValueError(f"{name} must be a real number in double precision, got {value!r}; pass a float.")
        if not good(value):
            raise ValueError(f"{name} must {rule}, got {value!r}; {advice}.")
    return float(value)


def _integers(least: int, values: dict[str, Any]) -> int:
    value: Any = 0
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}; pass an int.")
        if int(value) > _WIDEST:
            raise ValueError(f"{name} must be at most 2**53, beyond which doubles skip whole numbers; pass fewer.")
    return int(value)


def short(values: Any) -> str:
    """Values in a refusal, cut where they are many."""
    text = repr(values)
    return text if len(text) <= 80 else f"{text[:77]}..."


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
