"""What a bound returns: the number, and everything it rests on."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from math import fsum, inf, ulp
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast

from bounds import _check
from bounds._arithmetic import inward, outward, total
from bounds._check import above_minus_infinity, door, json_record, nonnegative
from bounds.hypotheses import OF_THE_INPUTS, Hypothesis, merged
from bounds.record import record

FORMAT = "pacdp-certificate/2"
# A ledger's entries are decimal fractions of decimal totals: their sum may exceed the total by rounding alone.
ROUNDING = 1.0 + 2.0**-50

Status = Literal["rigorous", "optimistic"]
Named = TypeVar("Named", "Cost", Hypothesis)


@record
class Cost:
    """One of the costs that add up to what a certificate adds to the empirical risk.

    Attributes:
        name: what is paid for, such as "kl", "log_xi", "confidence", "transfer", "grid", "levels" or "draw".
        nats: the cost, rounded up; that of one draw of a posterior may be negative.
        per_example: nats divided by the number of independent records, rounded up.
    """

    name: str
    nats: float
    per_example: float

    def __post_init__(self) -> None:
        _check.fields(self)


@record
class Certificate:
    """An upper bound on a risk in [0, 1], with its hypotheses, costs and failure probability.

    Formal guarantee: none by itself. A certificate made by a function of this package exceeds the true risk except
    with probability ``failure_prob`` over the sample and the draws that the budget names, if all its ``hypotheses``
    are true. It is called rigorous when each of them is proved or declared, and optimistic when one is unproved.

    Attributes:
        name: the function that made it.
        value: the bound; larger numbers are stored as exactly 1. ``float(certificate)`` gives it.
        failure_prob: the probability, over everything random, that the bound does not hold.
        of: the predictor it is about, such as "randomised" or "mean weights".
        measures: the risk that is bounded, such as "0-1 risk".
        hypotheses: what must be true, each proved, declared or unproved; no name twice.
        costs: what was paid, in nats; they add up to ``total_nats``.
        terms: further ingredients by name, such as the empirical risk or the best parameter of a grid.
        budget: what each part of ``failure_prob`` pays for; sums to at most ``failure_prob``.
        reference: paper and theorem.
        inputs: the arguments that the function was called with.

    Raises ValueError when a number is NaN, the budget is overdrawn, or a name stands twice.
    """

    name: str
    value: float
    failure_prob: float
    of: str = "predictor"
    measures: str = "risk"
    hypotheses: tuple[Hypothesis, ...]
    costs: tuple[Cost, ...] = ()
    terms: Mapping[str, float]
    budget: Mapping[str, float]
    reference: str
    inputs: Mapping[str, float | int | str]

    def __post_init__(self) -> None:
        _check.fields(self, value=nonnegative)
        budget = _numbers("budget", self.budget, nonnegative)
        if (spent := fsum(budget.values())) > self.failure_prob * ROUNDING:
            raise ValueError(
                f"budget sums to {spent!r}, above failure_prob = {self.failure_prob!r}; spend less or raise it."
            )
        frozen: dict[str, Any] = {
            "value": min(1.0, self.value),
            "hypotheses": _different("hypotheses", self.hypotheses, Hypothesis),
            "costs": _different("costs", self.costs, Cost),
            "terms": _numbers("terms", self.terms, above_minus_infinity),
            "budget": budget,
            "inputs": _numbers("inputs", self.inputs, _plain),
        }
        for name, value in frozen.items():
            object.__setattr__(self, name, value)

    def __float__(self) -> float:
        return self.value

    def __hash__(self) -> int:
        return hash((self.name, self.value, self.failure_prob, self.of, self.measures, self.hypotheses, self.reference))

    def __reduce__(self) -> tuple[Any, ...]:
        return Certificate.from_dict, (self.to_dict(),)

    @property
    def status(self) -> Status:
        """ "optimistic" when a hypothesis is unproved, "rigorous" otherwise."""
        return "optimistic" if self.unproved else "rigorous"

    @property
    def unproved(self) -> tuple[Hypothesis, ...]:
        """The hypotheses that nothing shows."""
        return tuple(one for one in self.hypotheses if one.standing == "unproved")

    @property
    def declared(self) -> tuple[Hypothesis, ...]:
        """The hypotheses that somebody vouches for."""
        return tuple(one for one in self.hypotheses if one.standing == "declared")

    @property
    def vacuous(self) -> bool:
        """Whether the bound says nothing: its value is 1."""
        return self.value >= 1.0

    @property
    def total_nats(self) -> float:
        """The costs added up, rounded up; no less than 0, since one draw may cost less than nothing."""
        return total_of(one.nats for one in self.costs)

    @property
    def total_per_example(self) -> float:
        """The costs per independent record added up, rounded up: the right-hand side of a bound on kl(R̂‖R)."""
        return total_of(one.per_example for one in self.costs)

    def nats(self, name: str) -> float:
        """The cost of this name, in nats. Raises ValueError when there is none."""
        return _named("costs", self.costs, name).nats

    def hypothesis(self, name: str) -> Hypothesis:
        """The hypothesis of this name. Raises ValueError when the certificate does not need it."""
        return _named("hypotheses", self.hypotheses, name)

    def resting_on(self, *hypotheses: Hypothesis) -> "Certificate":
        """The same number with these hypotheses in place of those of the same names, and beside all others.

        A hypothesis that was unproved stays so where the new one only declares it: what a theorem lacks is not mended
        by saying so.

        Raises ValueError when none is given, and for a hypothesis that the certificate does not need, unless it is
        unproved or about how the numbers were made that the formula was given (``needs.OF_THE_INPUTS``).
        """
        given = _check.records("hypotheses", hypotheses, Hypothesis)
        if not given:
            raise ValueError("hypotheses must be at least one, got none; say what the certificate rests on.")
        known = {*(one.name for one in self.hypotheses), *OF_THE_INPUTS}
        if strange := [one.name for one in given if one.standing != "unproved" and one.name not in known]:
            raise ValueError(
                f"hypotheses must be among those that {self.name} needs, got {strange[0]!r}; leave it out."
            )
        return replace(self, hypotheses=merged(self.hypotheses, given))

    @door()
    def charged(self, name: str, failure_prob: float, **terms: float) -> "Certificate":
        """The same bound when its inputs hold only with probability 1 - ``failure_prob``, paid under ``name``.

        For a risk or a divergence that is itself an upper confidence bound, by the union bound; ``terms`` (what
        was estimated, from how many draws) join the certificate's own.

        Raises ValueError when the name is already in the budget, a term exists, or the total reaches 1.
        """
        if name in self.budget:
            raise ValueError(f"name must be new to the budget, {name!r} is in it already; choose another.")
        if taken := sorted(terms.keys() & self.terms.keys()):
            raise ValueError(f"terms must be new to the certificate, {taken} are in it already; rename them.")
        whole, budget = fsum((self.failure_prob, failure_prob)), {**self.budget, name: failure_prob}
        return replace(self, failure_prob=whole, budget=budget, terms={**self.terms, **terms})

    def to_dict(self) -> dict[str, Any]:
        """Plain types for JSON; an infinite number is written as the string "inf"."""
        names = [one.name for one in fields(self)]
        names.insert(names.index("of"), "status")
        return {"format": FORMAT, **{name: _written(getattr(self, name)) for name in names}}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Certificate":
        """The certificate that ``to_dict`` wrote. Raises ValueError when the record is not one of this format.

        A record whose status is not the one that follows from its hypotheses is refused. Whether its numbers follow
        from each other is for ``pacdp verify`` to say.
        """
        found = record.get("format") if isinstance(record, Mapping) else None  # pyright: ignore[reportUnnecessaryIsInstance]
        if found != FORMAT:
            raise ValueError(f"record is not a certificate this version reads: format {found!r}, not {FORMAT!r}.")
        values = {**record}
        status = values.pop("status", None)
        del values["format"]
        _same_fields("record", cls, values)
        for name in ("terms", "budget", "inputs"):
            values[name] = _read(name, values[name])
        for name, kind in (("hypotheses", Hypothesis), ("costs", Cost)):
            values[name] = [_made(name, kind, entry) for entry in _check.records(name, values[name], object)]
        made = cls(**values)
        if status != made.status:
            raise ValueError(f"status must be {made.status!r}, as the hypotheses say, got {status!r}.")
        return made

    def to_json(self, *, indent: int | None = None) -> str:
        """JSON text from which ``from_json`` restores an equal certificate, every float bit for bit."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=indent)

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """The certificate in ``text``. Raises ValueError when it is not JSON or not a certificate."""
        return cls.from_dict(json_record(text))


def costs_of(nats: Mapping[str, float], n: int) -> tuple[Cost, ...]:
    """Costs in nats by name as records, each with its share of one of n independent records, rounded up."""
    return tuple(Cost(name=name, nats=cost, per_example=_share(cost, n)) for name, cost in nats.items())


def total_of(costs: Iterable[float]) -> float:
    """The sum of costs of either sign, rounded up, and 0 where it is negative."""
    parts = list(costs)
    above = total(*(part for part in parts if part > 0.0))
    below = inward(inward(total(*(-part for part in parts if part < 0.0))))
    return above if above == inf else max(0.0, outward(above - below))


def _share(cost: float, n: int) -> float:
    return outward(max(ulp(0.0), cost / n)) if cost > 0.0 else -inward(-cost / n)


def _mapping(what: str, values: Any) -> Mapping[str, Any]:
    if not isinstance(values, (dict, Mapping)):  # a dict is known at once
        raise ValueError(f"{what} must be a mapping of names to numbers, got {values!r}.")
    return cast(Mapping[str, Any], values)


def _numbers(what: str, values: Any, rule: _check.Rule) -> Mapping[str, Any]:
    found = dict(_mapping(what, values))
    for name, value in found.items():
        if type(value) is not float or not value >= 0.0:  # which every rule allows
            found[name] = rule(**{f"{what}[{name!r}]": value})
    return MappingProxyType(found)


def _different(what: str, values: Any, kind: type[Named]) -> tuple[Named, ...]:
    records = _check.records(what, values, kind)
    names = [one.name for one in records]
    if len(set(names)) < len(names):
        raise ValueError(f"{what} must have different names, got {names}; give each once.")
    return records


def _named(what: str, records: tuple[Named, ...], name: str) -> Named:
    found = {one.name: one for one in records}
    if name not in found:
        raise ValueError(f"name must be one of the {what} {list(found)}, got {name!r}.")
    return found[name]


def _written(value: Any) -> Any:
    if isinstance(value, tuple):
        records = cast(tuple[Any, ...], value)
        return [{name: _written(getattr(one, name)) for name in one.__slots__} for one in records]
    if isinstance(value, MappingProxyType):
        return {name: _written(entry) for name, entry in cast(Mapping[str, Any], value).items()}
    return "inf" if value == inf else value


def _read(what: str, entries: Any) -> dict[str, Any]:
    return {str(name): inf if value == "inf" else value for name, value in _mapping(what, entries).items()}


def _made(what: str, kind: Any, entry: Any) -> Any:
    given = _read(what, entry)
    _same_fields(what, kind, given)
    return kind(**given)


def _same_fields(what: str, kind: Any, given: Mapping[str, Any]) -> None:
    names = {field.name for field in fields(kind)}
    if set(given) != names:
        missing, extra = sorted(names - set(given)), sorted(map(str, set(given) - names))
        raise ValueError(f"{what} has wrong fields: missing {missing}, extra {extra}.")


def _plain(**values: Any) -> float | int | str:
    ((name, value),) = values.items()
    if isinstance(value, str):
        if value == "inf":  # what to_dict writes for infinity
            raise ValueError(f"{name} must be a number or another word than 'inf'; pass math.inf.")
        return value
    if not isinstance(value, float):
        try:
            return int(value.__index__())  # whole numbers of any size, such as seeds
        except (AttributeError, TypeError):
            pass
    return above_minus_infinity(**values)
