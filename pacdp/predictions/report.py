"""What is known of a model from its predictions: statements under one failure budget, as one record and as JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import bounds
from bounds.sentence import headline
from pacdp.predictions.bounding import Statement

FORMAT = "pacdp-certificates/2"


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionReport:
    """Certificates of predictions that hold together, the plain error first.

    Formal guarantee: if the hypotheses of its certificates are true, all ``statements`` and all ``certificates`` hold
    at once with probability at least 1 - ``failure_prob`` over the examples.

    Attributes:
        statements: a row for each quantity: measured, at least, at most.
        certificates: what the rows rest on, in the form of every other certificate; the first is that of the headline.
        failure_prob: of all of them together.
        budget: the ledger, an entry for each family of questions.
        n: independent records, people or examples.
        unit: what a record is, "example", "person" or "document".
        examples: how many examples they have.
        not_applicable: what was asked and cannot be said, and why, as pairs.
        remarks: what should be looked at.
    """

    statements: tuple[Statement, ...]
    certificates: tuple[bounds.Certificate, ...]
    failure_prob: float
    budget: bounds.FailureBudget
    n: int
    unit: str
    examples: int
    not_applicable: tuple[tuple[str, str], ...] = ()
    remarks: tuple[str, ...] = ()

    def headline(self) -> str:
        """One true sentence for a report: the certificate of the plain error, and what it takes for true.

        Its confidence is that of everything in the report together, which is the one that was asked for.
        """
        return headline(self.certificates[0], failure_prob=self.failure_prob)

    def statement(self, quantity: str, *, of: str | None = None) -> Statement:
        """The row of this quantity, of the first model that has one, or of this one.

        Raises:
            ValueError: there is none; the sentence lists those that there are.
        """
        found = [
            one for one in self.statements if one.quantity == quantity and of in (None, one.of)
        ]
        if not found:
            known = ", ".join(dict.fromkeys(one.quantity for one in self.statements))
            raise ValueError(f"no statement is about {quantity!r}: there are {known}")
        return found[0]

    def to_dict(
        self, *, subject: Mapping[str, Any] | None = None, provenance: Any = None
    ) -> dict[str, Any]:
        """JSON values in the form ``pacdp-certificates/2``, which docs/certificates.schema.json describes."""
        details = {
            "budget": self.budget.to_dict(),
            "statements": [{**asdict(one), "range": list(one.range)} for one in self.statements],
            "remarks": list(self.remarks),
        }
        nothing = dict.fromkeys(("prior", "privacy", "rows", "choices", "gibbs", "diagnosis"))
        return {
            "format": FORMAT,
            "route": "predictions",
            "subject": None if subject is None else dict(subject),
            "n": self.n,
            "unit": self.unit,
            "examples": self.examples,
            "failure_prob": self.failure_prob,
            "certificates": [made.to_dict() for made in self.certificates],
            "not_applicable": [
                {"name": name, "reason": reason} for name, reason in self.not_applicable
            ],
            "measured": self._measured(),
            "monte_carlo": [],
            **nothing,
            "details": details,
            "provenance": provenance,
        }

    def _measured(self) -> list[dict[str, Any]]:
        """The plain error of each model on the examples, where it is one of predictions."""
        found = list[dict[str, Any]]()
        for one in self.statements:
            if one.family == "error" and one.upper_by is not None:
                made = self.certificates[one.upper_by]
                if made.measures.startswith("0-1 risk"):
                    said = {"of": one.of, "on": "bound", "loss": "zero-one", "n": self.n}
                    found.append({**said, "mean": one.measured, "errors": made.inputs.get("k")})
        return found
