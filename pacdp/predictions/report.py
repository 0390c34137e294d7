"""What is known of a predictor: certificates, measured errors, refusals, and what all of it rests on."""

import html
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, field, fields, is_dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import bounds
from bounds.numbers import confidence, down, up
from pacdp.predictions.bounding import Statement
from pacdp.predictions.named import named, rank_lines
from pacdp.predictions.parts import shown
from pacdp.predictions.sentence import (
    at_price_zero,
    first_sentence,
    headline,
    of_all_settings,
    said_at_price_zero,
)
from pacdp.store.files import path_of, replacing
from pacdp.store.record import Values, record

FORMAT = "pacdp-certificates/2"
FILE = "certificates.json"
COLUMNS = ("quantity", "of", "measured", "at least", "at most", "records")


@record
class Refusal:
    """A certificate that does not apply, and why."""

    name: str
    reason: str


@record
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


@record
class Report:
    """All that is known of a predictor or of a law over predictors, as one record and one JSON object.

    Formal guarantee: with a ``budget``, if the hypotheses of the certificates are true, all ``statements`` and all
    ``certificates`` hold at once with probability at least 1 - ``failure_prob``. Without, each certificate fails with
    its own probability, and :meth:`best` pays for a choice among several.

    Attributes:
        route: how it was certified: "predictions", "gaussian", "gibbs", "drawn", "undrawn", "released", "finite",
            "compression", "disagreement".
        n: independent records that the bound counts.
        unit: what a record is, "example", "person" or "document".
        examples: how many examples they have; None where that was not released.
        failure_prob: of everything together where there is a budget, of each certificate by itself where there is none.
        certificates: the one to quote first.
        refusals: what does not apply, or cannot be said.
        measured: mean losses.
        details: what else a route has to tell, as JSON values.
        statements: a row for each quantity that predictions answer: measured, at least, at most.
        budget: the ledger of the failure probability, an entry for each family of questions.
        remarks: what should be looked at.
    """

    route: str
    n: int
    unit: str = "example"
    examples: int | None
    failure_prob: float
    certificates: tuple[bounds.Certificate, ...]
    refusals: tuple[Refusal, ...] = ()
    measured: tuple[Measured, ...] = ()
    monte_carlo: tuple[Values, ...] = ()
    prior: Values | None = None
    privacy: Values | None = None
    rows: Values | None = None
    choices: Values | None = None
    gibbs: Values | None = None
    diagnosis: Values | None = None
    details: Values = field(default_factory=Values)
    statements: tuple[Statement, ...] = ()
    budget: bounds.FailureBudget | None = None
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(cls, findings: Iterable[Any], data: Any, **known: Any) -> "Report":
        """What a route found on examples that are counted; ``known`` are the attributes that are no findings."""
        kinds = {"certificates": bounds.Certificate, "refusals": Refusal, "measured": Measured}
        found = tuple(findings)
        own: Values = {
            name: tuple(one for one in found if isinstance(one, kind))
            for name, kind in kinds.items()
        }
        sampled = (one.to_dict() for one in found if not isinstance(one, tuple(kinds.values())))
        return cls(
            n=data.units,
            unit=data.unit,
            examples=data.n,
            monte_carlo=tuple(sampled),
            **own,
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

    def statement(self, quantity: str, *, of: str | None = None) -> Statement:
        """The row of this quantity, of the first model that has one, or of this one.

        Raises:
            ValueError: there is none; the sentence lists those that there are.
        """
        rows = (*self.statements, *self.details.get("named", ()))
        found = [one for one in rows if one.quantity == quantity and of in (None, one.of)]
        if not found:
            known = ", ".join(dict.fromkeys(one.quantity for one in rows))
            raise ValueError(f"no statement is about {quantity!r}: there are {known}")
        return found[0]

    def named(self, positive: Any, *, of: str | None = None) -> tuple[Statement, ...]:
        """Sensitivity, specificity, predictive values, F1 and balanced accuracy of two classes, one of them positive.

        Formal guarantee: they hold whenever the rows of recall and precision do, at no further cost.

        Args:
            of: the model; by default the first.

        Raises:
            ValueError: neither recall nor precision of two classes was certified, or ``positive`` is neither.
        """
        model = of or next((one.of for one in self.statements), "")
        return named(self.statements, shown(positive), model)

    def best(self, *, of: str | None = None, measures: str = "0-1 risk") -> bounds.Certificate:
        """The smallest rigorous certificate of a risk, with the choice among them paid for.

        Formal guarantee: that of :func:`bounds.best_of`; its failure probability is the sum of those compared, of
        each setting that is paid for by itself: at the best of J settings it is J times that.

        Args:
            of: the predictor; by default any.

        Raises:
            ValueError: there is none, or they fail with probability 1 or more together.
        """
        compared = [
            one
            for one in self.certificates
            if one.status == "rigorous" and one.measures == measures and of in (None, one.of)
        ]
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
        found = (one.mean for one in self.measured if (one.of, one.on, one.loss) == (of, on, loss))
        return next(found, None)

    def headline(self) -> str:
        """One true sentence to publish, of the plain error where there is one, with all that it takes for true.

        Its confidence is that of everything which is printed together with it.
        """
        paid = self.chosen_failure_prob
        if self.budget is not None:
            return headline(self.certificates[0], failure_prob=paid)
        return first_sentence(
            self.certificates, failure_prob=paid if paid > self.failure_prob else None
        )

    @property
    def chosen_failure_prob(self) -> float:
        """``failure_prob`` for the best of all settings that are paid for: what is left of the confidence after it."""
        return of_all_settings(self.failure_prob, self.choices)

    def cells(self) -> list[tuple[str, ...]]:
        """A row for each quantity under ``COLUMNS``, ends rounded away from what was measured; * for optimistic."""
        if self.statements:
            return [
                (one.quantity, one.of, f"{one.measured:.4f}", _end(one.lower, one.range[0], down),
                 _end(one.upper, one.range[1], up), str(one.n))
                for one in (*self.statements, *self.details.get("named", ()))
            ]  # fmt: skip
        found = list[tuple[str, ...]]()
        for made in self.certificates:
            risk, mark = made.terms.get("empirical_risk"), "" if made.status == "rigorous" else "*"
            risk = made.terms.get("monte_carlo_mean", risk)  # of which the other is an upper limit
            measured, most = "–" if risk is None else f"{risk:.4f}", _end(made.value, 1.0, up)
            n = str(made.inputs.get("n", self.n))
            found.append((made.measures, made.of, measured, "–", most + mark, n))
        return found

    def table(self) -> str:
        """What was measured and certified, a line each, as text."""
        rows = [COLUMNS, *self.cells()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = (
            [cell.rjust(width) if place > 1 else cell.ljust(width)
             for place, (cell, width) in enumerate(zip(row, widths, strict=True))]
            for row in rows
        )  # fmt: skip
        return "\n".join("  ".join(line).rstrip() for line in lines)

    def __str__(self) -> str:
        held = "All of this holds at once" if self.budget else "Each certificate holds by itself"
        refused = [f"Not certified: {one.name}: {one.reason}." for one in self.refusals]
        remarks = [f"Remark: {one}." for one in self.remarks]
        sure = f"{held} with {confidence(self.chosen_failure_prob)} confidence."
        free = said_at_price_zero(self.certificates)
        board = rank_lines(self.details.get("leaderboard", ()))
        lines = (self.headline(), "", self.table(), "", *board, sure, *free, *remarks, *refused)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def save(self, folder: Path | str) -> Path:
        """Write :meth:`to_dict` into a folder as ``certificates.json``, which ``pacdp verify`` checks.

        Raises:
            ValueError: there is a file of that name, or a file where the folder is to be.
        """
        place = path_of(folder=folder)
        if place.suffix == ".json" and not place.is_dir():
            raise ValueError(
                f"folder must be a folder, and {place} names a file: give {place.parent} for {FILE} in it"
            )
        path = place / FILE
        if os.path.lexists(path):
            raise ValueError(f"{path} exists: give a folder that holds no report yet")
        path_of(folder=place, made=True)
        with replacing(path) as file:
            text = json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False)
            file.write((text + "\n").encode())
        return path

    def at_any_of(self, charged: Any, *, failure_prob: float) -> "Report":
        """The same certificates, holding together wherever the run may have ended (:mod:`pacdp.step.planned_steps`)."""
        found, others = (
            self.each(lambda one: one.resting_on(charged.hypothesis)),
            failure_prob - self.failure_prob,
        )
        if charged.stopping_times > 1:
            found = found.each(lambda one: one.charged("other stopping times", others))
        return replace(found, failure_prob=failure_prob)

    def each(self, form: Callable[[bounds.Certificate], bounds.Certificate]) -> "Report":
        """The same with this done to every certificate."""
        return replace(self, certificates=tuple(map(form, self.certificates)))

    def resting_on(self, *hypotheses: bounds.Hypothesis, beside: str) -> "Report":
        """The same with these hypotheses on every certificate that needs the one named ``beside``."""
        return self.each(
            lambda one: (
                one.resting_on(*hypotheses)
                if any(each.name == beside for each in one.hypotheses)
                else one
            )
        )

    def diagnosed(self, diagnosis: Any) -> "Report":
        """With the diagnosis of the chains that learnt the weights, where a certificate assumes that they converged."""
        assumed = any(
            one.name == "chain stationary" for made in self.certificates for one in made.unproved
        )
        return replace(self, diagnosis=diagnosis.to_dict()) if diagnosis and assumed else self

    def joined(self, other: "Report") -> "Report":
        """This report with the certificates, measurements and refusals of another about the same examples.

        Each certificate then holds by itself: what held at once with a budget does so without the other's alone. Ranks,
        and what follows from several rows, are left to the report they are of, which knows no other's models.

        Raises:
            ValueError: it is about other examples, as far as numbers and digests tell, its certificates fail with
                another probability, or it measured something else of a predictor of the same name.
        """
        mine, theirs = ((each.n, each.unit, each.examples) for each in (self, other))
        apart = self.rows and other.rows and self.rows["bound"] != other.rows["bound"]
        if mine != theirs or apart:
            raise ValueError(
                f"expected reports on the same examples, got {mine} and {theirs} as n, unit and examples of two that "
                "have other rows: keep them apart"
            )
        if self.failure_prob != other.failure_prob:
            raise ValueError(
                f"expected reports at one failure_prob, divided by the settings of each, got {self.failure_prob:g} and "
                f"{other.failure_prob:g}: certify at one, or keep them apart"
            )
        choices = max(
            filter(None, (self.choices, other.choices)), key=itemgetter("count"), default=None
        )
        once = ("certificates", "refusals", "measured", "remarks")
        both: Values = {name: _once((*getattr(self, name), *getattr(other, name))) for name in once}
        known = [(one.of, one.on, one.loss) for one in both["measured"]]
        if twice := [of for place, (of, *_) in enumerate(known) if known[place] in known[:place]]:
            raise ValueError(
                f"two reports differ in what they measured of {twice[0]!r}: where these are two networks, name one of "
                "them by Network(network=..., of=...)"
            )
        sampled = (*self.monte_carlo, *other.monte_carlo)
        details = {**other.details, **self.details}
        # which follow from all rows of one report
        for name in ("positive", "named", "leaderboard"):
            details.pop(name, None)
        return replace(
            self,
            **both,
            # whose certificates may fail less often than the report says, as shares of a budget
            route=other.route if other.route == "predictions" else self.route,
            monte_carlo=sampled,
            details=details,
            statements=(),
            budget=None,
            choices=choices,
        )

    def to_dict(
        self, *, subject: Mapping[str, Any] | None = None, provenance: Any = None
    ) -> Values:
        """JSON values in the form ``pacdp-certificates/2``, which docs/certificates.schema.json describes.

        An infinite number is written as the string "inf".
        """
        beside = ("statements", "budget", "remarks")
        own: Values = {
            one.name: getattr(self, one.name) for one in fields(self) if one.name not in beside
        }
        own["not_applicable"] = own.pop("refusals")
        own["certificates"] = made = [one.to_dict() for one in self.certificates]
        if (shared := (self.privacy or {}).get("event")) is not None:  # which then stands once
            said = json.dumps(shared, allow_nan=False)
            for inputs in (one["inputs"] for one in made):
                if inputs.get("privacy_event") == said:
                    del inputs["privacy_event"]
        if self.budget is not None:
            held = {"budget": self.budget.to_dict(), "statements": list(self.statements)}
            own["details"] = {**self.details, **held}
        if self.budget is not None or self.remarks:
            own["details"] = {**own["details"], "remarks": list(self.remarks)}
        for made, value in at_price_zero(self.certificates):
            free = {"name": made.name, "of": made.of, "measures": made.measures, "value": value}
            own["details"] = {**own["details"], "at_price_zero": free}
        head = {"format": FORMAT, "route": self.route, "subject": subject and dict(subject)}
        return _written({**head, **own, "provenance": provenance})


@record(eq=False)
class Reported:
    """What holds a report: it prints itself and is saved as that report."""

    report: Report

    def headline(self) -> str:
        """One true sentence to publish."""
        return self.report.headline()

    def table(self) -> str:
        """What was measured and certified, a line each, as text."""
        return self.report.table()

    def to_dict(self) -> Values:
        """JSON values, in the form of every report."""
        return self.report.to_dict()

    def save(self, folder: Path | str) -> Path:
        """Write them into a folder, see :meth:`Report.save`."""
        return self.report.save(folder)

    def __str__(self) -> str:
        return str(self.report)

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def _end(value: float | None, nothing: float, rounded: Any) -> str:
    """An end of an interval, rounded away from what was measured; a dash where it is not asked or says nothing."""
    return "–" if value is None or value == nothing else str(rounded(value))


def _written(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _written(asdict(value))
    if isinstance(value, Mapping):
        return {name: _written(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_written(entry) for entry in value]
    return "inf" if isinstance(value, float) and value == math.inf else value


def _once(things: tuple[Any, ...]) -> tuple[Any, ...]:
    """In order, without repeats."""
    return tuple(one for place, one in enumerate(things) if one not in things[:place])
