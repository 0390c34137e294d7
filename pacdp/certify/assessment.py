"""What is known of a predictor: certificates, measured errors, refusals, and what all of it rests on."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any

import bounds
from bounds.sentence import first_sentence
from pacdp.certify.examples import BoundSet, Unit
from pacdp.chains import Diagnosis
from pacdp.step.planned_steps import ChargedSteps
from pacdp.stochastic import MonteCarloRisk

FORMAT = "pacdp-certificates/2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A certificate that does not apply, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A mean loss of one predictor on the bound's examples or on the test set.

    Attributes:
        of: the predictor, by the name it has in certificates.
        on: "bound" or "test".
        loss: name of the loss.
        mean: its mean; over people of their own means where people are counted.
        errors: the number of examples in error, where it was counted.
        n: how many records the mean is over.
    """

    of: str
    on: str
    loss: str = "zero-one"
    mean: float
    errors: int | None = None
    n: int


Finding = bounds.Certificate | Refusal | Measured | MonteCarloRisk
"""One thing that a route has to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """All that is known of one law over networks, as one record and one JSON object.

    Attributes:
        route: how it was certified: "gaussian", "gibbs", "released", "new examples", "finite".
        n: independent records that the bound counts.
        unit: what a record is, "example" or "person".
        examples: how many examples they have; None where that was not released.
        failure_prob: of each certificate by itself; :meth:`best` pays for a choice among several.
        certificates: the one to quote first.
        refusals: what does not apply.
        measured: mean losses.
        details: what else a route has to tell, as JSON values.
    """

    route: str
    n: int
    unit: Unit = "example"
    examples: int | None
    failure_prob: float
    certificates: tuple[bounds.Certificate, ...]
    refusals: tuple[Refusal, ...] = ()
    measured: tuple[Measured, ...] = ()
    monte_carlo: tuple[dict[str, Any], ...] = ()
    prior: dict[str, Any] | None = None
    privacy: dict[str, Any] | None = None
    rows: dict[str, Any] | None = None
    choices: dict[str, Any] | None = None
    gibbs: dict[str, Any] | None = None
    diagnosis: dict[str, Any] | None = None
    details: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, findings: Iterable[Finding], data: BoundSet, **known: Any) -> "Assessment":
        """What a route found on these examples; ``known`` are the attributes that are no findings."""
        found = tuple(findings)
        return cls(
            n=data.units,
            unit=data.unit,
            examples=data.n,
            certificates=tuple(one for one in found if isinstance(one, bounds.Certificate)),
            refusals=tuple(one for one in found if isinstance(one, Refusal)),
            measured=tuple(one for one in found if isinstance(one, Measured)),
            monte_carlo=tuple(one.to_dict() for one in found if isinstance(one, MonteCarloRisk)),
            **known,
        )

    def certificate(
        self, *, of: str = "randomised", measures: str = "0-1 risk"
    ) -> bounds.Certificate:
        """The first that bounds this risk of this predictor.

        Raises:
            ValueError: there is none.
        """
        found = (made for made in self.certificates if (made.of, made.measures) == (of, measures))
        if (first := next(found, None)) is None:
            raise ValueError(f"no certificate bounds the {measures} of {of}")
        return first

    def best(self, *, of: str | None = None, measures: str = "0-1 risk") -> bounds.Certificate:
        """The smallest rigorous certificate of a risk, with the choice among them paid for.

        Formal guarantee: that of :func:`bounds.best_of`; its failure probability is the sum of those compared.

        Args:
            of: the predictor; by default any.

        Raises:
            ValueError: there is none, or they fail with probability 1 or more together.
        """
        rigorous = [
            one
            for one in self.certificates
            if one.status == "rigorous" and one.measures == measures
        ]
        compared = [one for one in rigorous if of in (None, one.of)]
        if not compared:
            raise ValueError(
                f"no rigorous certificate bounds the {measures} of {of or 'any predictor'}"
            )
        spent = math.fsum(made.failure_prob for made in compared)
        if not spent < 1.0:
            raise ValueError(
                f"{len(compared)} certificates fail with probability {spent:.3g} together: certify at a failure_prob "
                f"below 1/{len(compared)}"
            )
        return bounds.best_of(compared, budget=spent)

    def error(self, of: str, on: str, loss: str = "zero-one") -> float | None:
        """A measured mean loss, if there is one."""
        wanted = (of, on, loss)
        return next(
            (one.mean for one in self.measured if (one.of, one.on, one.loss) == wanted), None
        )

    def headline(self) -> str:
        """One true sentence for a report: the first certificate of the 0-1 risk, else of another; see its text."""
        return first_sentence(self.certificates)

    def at_any_of(self, charged: ChargedSteps, *, failure_prob: float) -> "Assessment":
        """The same certificates, holding together wherever the run may have ended (:mod:`pacdp.step.planned_steps`)."""
        made, others = self.certificates, failure_prob - self.failure_prob
        if charged.stopping_times > 1:
            made = (one.charged("other stopping times", others) for one in made)
        made = tuple(one.resting_on(charged.hypothesis) for one in made)
        return replace(self, certificates=made, failure_prob=failure_prob)

    def resting_on(self, *hypotheses: bounds.Hypothesis, beside: str) -> "Assessment":
        """The same with these hypotheses on every certificate that needs the one named ``beside``."""
        needs = [any(each.name == beside for each in one.hypotheses) for one in self.certificates]
        made = (
            one.resting_on(*hypotheses) if need else one
            for one, need in zip(self.certificates, needs, strict=True)
        )
        return replace(self, certificates=tuple(made))

    def diagnosed(self, diagnosis: Diagnosis | None) -> "Assessment":
        """With the diagnosis of the chains that learnt the weights, where a certificate assumes that they converged."""
        assumed = any(
            one.name == "chain stationary" for made in self.certificates for one in made.unproved
        )
        return replace(self, diagnosis=diagnosis.to_dict()) if diagnosis and assumed else self

    def joined(self, *others: "Assessment") -> "Assessment":
        """This assessment with the certificates, measurements and refusals of others about the same examples.

        Raises:
            ValueError: the others are about other examples, as far as their numbers and digests tell.
        """
        parts = (self, *others)
        for other in others:
            mine, theirs = ((each.n, each.unit, each.examples) for each in (self, other))
            if mine != theirs or (
                self.rows and other.rows and self.rows["bound"] != other.rows["bound"]
            ):
                raise ValueError(
                    f"expected assessments of the same examples, got {mine} and {theirs} as n, unit and examples of "
                    "two that have other rows: keep them apart"
                )
        return replace(
            self,
            certificates=_once(made for part in parts for made in part.certificates),
            refusals=_once(one for part in parts for one in part.refusals),
            measured=_once(one for part in parts for one in part.measured),
            monte_carlo=tuple(one for part in parts for one in part.monte_carlo),
            gibbs=next((part.gibbs for part in parts if part.gibbs), None),
            diagnosis=next((part.diagnosis for part in parts if part.diagnosis), None),
            details={
                name: value for part in reversed(parts) for name, value in part.details.items()
            },
        )

    def to_dict(
        self, *, subject: Mapping[str, Any] | None = None, provenance: Any = None
    ) -> dict[str, Any]:
        """JSON values in the form ``pacdp-certificates/2``, which docs/certificates.schema.json describes.

        An infinite number is written as the string "inf".
        """
        own = {
            "not_applicable" if one.name == "refusals" else one.name: getattr(self, one.name)
            for one in fields(self)
        }
        head = {
            "format": FORMAT,
            "route": self.route,
            "subject": None if subject is None else dict(subject),
        }
        own["certificates"] = [self._of(made) for made in self.certificates]
        return _written({**head, **own, "provenance": provenance})

    def _of(self, made: bounds.Certificate) -> dict[str, Any]:
        """A certificate's record; an event that the whole report rests on stands once, under "privacy"."""
        record, shared = made.to_dict(), (self.privacy or {}).get("event")
        if shared is not None and record["inputs"].get("privacy_event") == json.dumps(
            shared, allow_nan=False
        ):
            del record["inputs"]["privacy_event"]
        return record


def _written(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _written(asdict(value))
    if isinstance(value, Mapping):
        return {name: _written(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_written(entry) for entry in value]
    return "inf" if isinstance(value, float) and value == math.inf else value


def _once(things: Iterable[Any]) -> tuple[Any, ...]:
    """In order, without repeats."""
    found: list[Any] = []
    for thing in things:
        if thing not in found:
            found.append(thing)
    return tuple(found)
