"""What is known of a predictor: certificates, measured errors, refusals, and what all of it rests on."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import bounds
from bounds.sentence import headline
from pacdp.certify.examples import Unit
from pacdp.steps import ChargedSteps

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
    loss: str
    mean: float
    errors: int | None
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """All that is known of one law over networks, as one record and one JSON object.

    Attributes:
        route: how it was certified: "gaussian", "gibbs", "released", "new examples", "finite".
        n: independent records that the bound counts.
        unit: what a record is, "example" or "person".
        examples: how many examples they have.
        failure_prob: of each certificate by itself; :meth:`best` pays for a choice among several.
        certificates: the one to quote first.
        refusals: what does not apply.
        measured: mean losses.
        details: what else a route has to tell, as JSON values.
    """

    route: str
    n: int
    unit: Unit = "example"
    examples: int
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

    def certificate(self, *, of: str = "randomised", measures: str = "0-1 risk") -> bounds.Certificate:
        """The first that bounds this risk of this predictor.

        Raises:
            ValueError: there is none.
        """
        for made in self.certificates:
            if (made.of, made.measures) == (of, measures):
                return made
        raise ValueError(f"no certificate bounds the {measures} of {of}")

    def best(self, *, of: str | None = None, measures: str = "0-1 risk") -> bounds.Certificate:
        """The smallest rigorous certificate of a risk, with the choice among them paid for.

        Formal guarantee: that of :func:`bounds.best_of`; its failure probability is the sum of those compared.

        Args:
            of: the predictor; by default any.

        Raises:
            ValueError: there is none, or they fail with probability 1 or more together.
        """
        compared = [
            made
            for made in self.certificates
            if made.measures == measures and made.status == "rigorous" and of in (None, made.of)
        ]
        if not compared:
            raise ValueError(f"no rigorous certificate bounds the {measures} of {of or 'any predictor'}")
        spent = math.fsum(made.failure_prob for made in compared)
        if not spent < 1.0:
            raise ValueError(
                f"{len(compared)} certificates fail with probability {spent:.3g} together: certify at a failure_prob "
                f"below 1/{len(compared)}"
            )
        return bounds.best_of(compared, budget=spent)

    def error(self, of: str, on: str, loss: str = "zero-one") -> float | None:
        """A measured mean loss, if there is one."""
        for one in self.measured:
            if (one.of, one.on, one.loss) == (of, on, loss):
                return one.mean
        return None

    def headline(self) -> str:
        """One true sentence for a report: the first certificate of the 0-1 risk, and what it takes for true."""
        found = [made for made in self.certificates if made.measures.startswith("0-1 risk")]
        return headline(found[0]) if found else "Nothing was certified."

    def at_any_of(self, charged: ChargedSteps, *, failure_prob: float) -> "Assessment":
        """The same certificates, holding together at all steps where the run may have ended (:mod:`pacdp.steps`)."""
        others = failure_prob - self.failure_prob
        made = self.certificates
        if charged.stopping_times > 1:
            made = tuple(one.charged("other stopping times", others) for one in made)
        made = tuple(one.resting_on(charged.hypothesis) for one in made)
        return replace(self, certificates=made, failure_prob=failure_prob)

    def resting_on(self, *hypotheses: bounds.Hypothesis, beside: str) -> "Assessment":
        """The same with these hypotheses on every certificate that needs the one named ``beside``."""
        made = (
            one.resting_on(*hypotheses) if any(h.name == beside for h in one.hypotheses) else one
            for one in self.certificates
        )
        return replace(self, certificates=tuple(made))

    def joined(self, *others: "Assessment") -> "Assessment":
        """This assessment with the certificates, measurements and refusals of others about the same examples.

        Raises:
            ValueError: the others are about other examples, as far as their numbers and digests tell.
        """
        parts = (self, *others)
        for other in others:
            mine, theirs = ((each.n, each.unit, each.examples) for each in (self, other))
            if mine != theirs or (self.rows and other.rows and self.rows["bound"] != other.rows["bound"]):
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
            details={name: value for part in reversed(parts) for name, value in part.details.items()},
        )

    def to_dict(self, *, subject: Mapping[str, Any] | None = None, provenance: Any = None) -> dict[str, Any]:
        """JSON values in the form ``pacdp-certificates/2``, which docs/certificates.schema.json describes.

        An infinite number is written as the string "inf".
        """
        record = {
            "format": FORMAT,
            "route": self.route,
            "subject": None if subject is None else dict(subject),
            "n": self.n,
            "unit": self.unit,
            "examples": self.examples,
            "failure_prob": self.failure_prob,
            "certificates": [made.to_dict() for made in self.certificates],
            "not_applicable": [asdict(refusal) for refusal in self.refusals],
            "measured": [asdict(one) for one in self.measured],
            "monte_carlo": list(self.monte_carlo),
            "prior": self.prior,
            "privacy": self.privacy,
            "rows": self.rows,
            "choices": self.choices,
            "gibbs": self.gibbs,
            "diagnosis": self.diagnosis,
            "details": self.details,
            "provenance": provenance,
        }
        return _written(record)


def _written(value: Any) -> Any:
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
