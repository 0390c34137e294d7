"""What a bound returns: the number, and everything it rests on."""

import json
import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Literal, cast

from bounds import _check

FORMAT = "pacdp-certificate/1"
# A ledger's entries are decimal fractions of decimal totals: their sum may exceed the total by rounding alone.
_ROUNDING = 1.0 + 2.0**-50

Status = Literal["rigorous", "optimistic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """An upper bound on a risk in [0, 1], with its assumptions, ingredients and failure probability.

    Formal guarantee: none by itself. A ``rigorous`` certificate made by a function of this package exceeds the
    true risk except with probability ``failure_prob`` over the sample and the draws that the budget names; an
    ``optimistic`` one does so if its ``assumptions`` hold. What "optimistic" means is in docs/guarantees.md.

    Attributes:
        name: the function that made it.
        value: the bound; larger numbers are stored as exactly 1. ``float(certificate)`` gives it.
        failure_prob: the probability, over everything random, that the bound does not hold.
        status: "rigorous", or "optimistic" when the claim needs hypotheses that nobody has verified.
        assumptions: one sentence each; non-empty exactly when the status is optimistic.
        terms: every ingredient, by name; ``*_nats`` in nats, ``*_per_example`` in nats divided by n.
        budget: what each part of ``failure_prob`` pays for; sums to at most ``failure_prob``.
        reference: paper and theorem.
        inputs: the arguments that the function was called with.

    Raises ValueError when a number is NaN, the budget is overdrawn, or status and assumptions disagree.
    """

    name: str
    value: float
    failure_prob: float
    status: Status
    assumptions: tuple[str, ...] = ()
    terms: Mapping[str, float]
    budget: Mapping[str, float]
    reference: str
    inputs: Mapping[str, float | int | str]

    def __post_init__(self) -> None:
        _check.nonnegative(value=self.value)
        _check.open_probability(failure_prob=self.failure_prob)
        _check.above_minus_infinity(**{f"terms[{name!r}]": value for name, value in self.terms.items()})
        _check.nonnegative(**{f"budget[{name!r}]": value for name, value in self.budget.items()})
        if self.status not in ("rigorous", "optimistic"):
            raise ValueError(f"status must be 'rigorous' or 'optimistic', got {self.status!r}.")
        if isinstance(self.assumptions, str):
            raise ValueError(f"assumptions must be a tuple of sentences, got the string {self.assumptions!r}.")
        if (self.status == "optimistic") != bool(self.assumptions):
            raise ValueError(
                f"assumptions must be given exactly when the status is optimistic, got status {self.status!r} "
                f"with {len(self.assumptions)} of them; list what is assumed, or call the certificate rigorous."
            )
        spent = math.fsum(self.budget.values())
        if spent > self.failure_prob * _ROUNDING:
            raise ValueError(
                f"budget sums to {spent!r}, above failure_prob = {self.failure_prob!r}; spend less or raise it."
            )
        frozen: dict[str, Any] = {
            "value": min(1.0, float(self.value)),
            "failure_prob": float(self.failure_prob),
            "assumptions": tuple(self.assumptions),
            "terms": MappingProxyType({name: float(value) for name, value in self.terms.items()}),
            "budget": MappingProxyType({name: float(value) for name, value in self.budget.items()}),
            "inputs": MappingProxyType({name: _plain(name, value) for name, value in self.inputs.items()}),
        }
        for name, value in frozen.items():
            object.__setattr__(self, name, value)

    def __float__(self) -> float:
        return self.value

    def __hash__(self) -> int:
        return hash((self.name, self.value, self.failure_prob, self.status, self.assumptions, self.reference))

    def __reduce__(self) -> tuple[Any, ...]:
        return Certificate.from_dict, (self.to_dict(),)

    @property
    def vacuous(self) -> bool:
        """Whether the bound says nothing: its value is 1."""
        return self.value >= 1.0

    def with_assumptions(self, *sentences: str) -> "Certificate":
        """The same number as an optimistic certificate that holds under these sentences as well.

        Raises ValueError when no sentence is given or one is empty.
        """
        if not sentences or not all(sentence.strip() for sentence in sentences):
            raise ValueError(f"sentences must be non-empty, got {sentences!r}; say what is assumed.")
        added = tuple(sentence for sentence in sentences if sentence not in self.assumptions)
        return replace(self, status="optimistic", assumptions=self.assumptions + added)

    def charged(self, name: str, failure_prob: float, **terms: float) -> "Certificate":
        """The same bound when its inputs hold only with probability 1 - ``failure_prob``, paid under ``name``.

        For a risk or a divergence that is itself an upper confidence bound, by the union bound; ``terms`` (what
        was estimated, from how many draws) join the certificate's own.

        Raises ValueError when the name is already in the budget, a term exists, or the total reaches 1.
        """
        _check.open_probability(failure_prob=failure_prob)
        if name in self.budget:
            raise ValueError(f"name must be new to the budget, {name!r} is in it already; choose another.")
        if taken := sorted(terms.keys() & self.terms.keys()):
            raise ValueError(f"terms must be new to the certificate, {taken} are in it already; rename them.")
        return replace(
            self,
            failure_prob=math.fsum((self.failure_prob, failure_prob)),
            budget={**self.budget, name: failure_prob},
            terms={**self.terms, **terms},
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain types for JSON; an infinite term or input is written as the string "inf"."""
        record: dict[str, Any] = {"format": FORMAT}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Mapping):
                entries = cast(Mapping[str, Any], value)
                value = {name: "inf" if entry == math.inf else entry for name, entry in entries.items()}
            record[field.name] = list(cast(tuple[str, ...], value)) if isinstance(value, tuple) else value
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Certificate":
        """The certificate that ``to_dict`` wrote. Raises ValueError when the record is not one of this format."""
        found = record.get("format") if isinstance(record, Mapping) else None  # pyright: ignore[reportUnnecessaryIsInstance]
        if found != FORMAT:
            raise ValueError(f"record is not a certificate this version reads: format {found!r}, not {FORMAT!r}.")
        names = {field.name for field in fields(cls)}
        given = set(record) - {"format"}
        if given != names:
            raise ValueError(
                f"record has wrong fields: missing {sorted(names - given)}, extra {sorted(given - names)}."
            )
        values: dict[str, Any] = {name: record[name] for name in names}
        for name in ("terms", "budget", "inputs"):
            if not isinstance(values[name], Mapping):
                raise ValueError(f"record must hold a mapping as {name}, got {values[name]!r}.")
            entries = cast(Mapping[str, Any], values[name])
            values[name] = {key: math.inf if entry == "inf" else entry for key, entry in entries.items()}
        if not isinstance(values["assumptions"], list | tuple):
            raise ValueError(f"record must hold a list of sentences as assumptions, got {values['assumptions']!r}.")
        values["assumptions"] = tuple(cast(list[str], values["assumptions"]))
        return cls(**values)

    def to_json(self, *, indent: int | None = None) -> str:
        """JSON text from which ``from_json`` restores an equal certificate, every float bit for bit."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=indent)

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """The certificate in ``text``. Raises ValueError when it is not JSON or not a certificate."""
        try:
            record = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"text is not JSON ({error}); pass what to_json wrote.") from error
        return cls.from_dict(record)


def _plain(name: str, value: Any) -> float | int | str:
    if isinstance(value, str):
        if value == "inf":  # what to_dict writes for infinity
            raise ValueError(f"inputs[{name!r}] must be a number or another word than 'inf'; pass math.inf.")
        return value
    _check.above_minus_infinity(**{f"inputs[{name!r}]": value})
    return int(value) if isinstance(value, numbers.Integral) else float(value)
