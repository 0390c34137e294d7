"""A predictor with its certificate, and everything that was tried on the way."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import bounds
from bounds.sentence import headline, percent, up
from pacdp.selfcert.plan import HELD_OUT, RoutePlan
from pacdp.selfcert.predictors import Predictor

FORMAT = "pacdp-self-certified/1"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tried:
    """What a route came to.

    Attributes:
        name: the route, and the model where there are several.
        certificate: at the route's own share of the failure probability; None where the route came to nothing.
        error: measured on the records of the bound.
        train, bound: records that training saw, and those that the certificate rests on.
        reason: why there is no certificate.
        predictor: what the certificate is about.
    """

    name: str
    route: str
    certificate: bounds.Certificate | None = None
    error: float | None = None
    train: int = 0
    bound: int = 0
    reason: str = ""
    predictor: Predictor | None = field(default=None, repr=False)

    def sentence(self, unit: str) -> str:
        """What it came to, in a sentence."""
        if self.certificate is None or self.error is None:
            return f"The route {self.name!r} was tried and came to nothing: {self.reason}."
        share = self.certificate.failure_prob
        return (
            f"The route {self.name!r} certifies an error of at most {up(self.certificate.value)} at a failure "
            f"probability of {share:.3g} (measured: {self.error:.4f} on the {self.bound:,} {unit} of its bound; "
            f"trained on {self.train:,})."
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SelfCertified:
    """A predictor that comes with a certificate, the smallest of those that were tried.

    Formal guarantee: the error of ``predict`` on a new record exceeds ``certificate.value`` with probability at most
    ``certificate.failure_prob`` over the records and all random numbers, if the hypotheses that the certificate names
    are true ("Paying for the choice of a route" in docs/guarantees.md).

    Attributes:
        certificate: the smallest, at the failure probability of all that were tried together.
        tried: each route with its own certificate.
        not_tried: routes that were left out before any label was looked at, and why, as pairs.
        budget: the ledger: a share for each route that was tried, those that came to nothing too.
        predictor: what predicts.
        chosen: the name of the route that it came from.
        estimate: what other splits would have promised a held-out count, from the error that was measured; None where
            no held-out count was made.
        n: independent records that were used; unit: "example" or "person".
        train: records in the training part of the split.
        remarks: what should be looked at, such as inputs on both sides of the split.
        seconds: how long all of it took.
    """

    certificate: bounds.Certificate
    tried: tuple[Tried, ...]
    not_tried: tuple[tuple[str, str], ...]
    budget: bounds.FailureBudget
    predictor: Predictor
    chosen: str
    estimate: RoutePlan | None
    n: int
    unit: str
    train: int
    remarks: tuple[str, ...]
    seconds: float

    def predict(self, inputs: Any) -> np.ndarray:
        """A class for each input, by the names that the labels had."""
        return self.predictor.predict(inputs)

    @property
    def predict_proba(self) -> Any:
        """A function from inputs to [n, classes]; AttributeError where the predictor has none."""
        return self.predictor.predict_proba  # type: ignore[attr-defined]

    def headline(self) -> str:
        """One true sentence for a report."""
        return headline(self.certificate)

    def sentences(self) -> list[str]:
        """What was done with how many records, what each route came to, and what other splits would have promised."""
        units = "people" if self.unit == "person" else "examples"
        found = [self.headline()]
        found.append(
            f"Of {self.n:,} {units}, {self.train:,} were drawn by the seed for training and {self.n - self.train:,} "
            "for the bound, without a look at any label."
        )
        found += [f"Remark: {one}." for one in self.remarks]
        found += [one.sentence(units) for one in self.tried]
        shares = ", ".join(f"{name}: {amount:.4g}" for name, amount in self.budget.spent.items())
        if len(self.tried) > 1:
            found.append(
                f"The smallest of {len(self.tried)} was chosen by looking at all of them, and the failure probability "
                f"{self.budget.total:g} pays for that ({shares})."
            )
        found += [f"The route {name!r} was not tried: {why}." for name, why in self.not_tried]
        return [*found, *self._splits(units)]

    def _splits(self, units: str) -> list[str]:
        if self.estimate is None:
            return []
        others = [one for one in self.estimate.routes if one.route == HELD_OUT]
        said = "; ".join(
            f"{one.split}, {one.train:,} for training and {one.bound:,} for the bound: "
            f"{float(percent(one.value)):g}%" for one in others
        )  # fmt: skip
        return [
            f"With other splits of the {units} a held-out count would have promised about this: {said}. That is an "
            "estimate from the error that was measured, which is taken to fall with the square root of the training "
            "part."
        ]

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def to_dict(self) -> Mapping[str, Any]:
        """JSON values: everything but the predictor."""
        return {
            "format": FORMAT,
            "certificate": self.certificate.to_dict(),
            "chosen": self.chosen,
            "tried": [
                {name: getattr(one, name) for name in ("name", "route", "error", "train", "bound", "reason")}
                | {"certificate": one.certificate and one.certificate.to_dict()}
                for one in self.tried
            ],
            "not_tried": [{"name": name, "reason": why} for name, why in self.not_tried],
            "budget": self.budget.to_dict(),
            "split": {"n": self.n, "unit": self.unit, "train": self.train},
            "remarks": list(self.remarks),
            "estimate": None if self.estimate is None else self.estimate.to_dict(),
            "sentences": self.sentences(),
            "seconds": self.seconds,
        }  # fmt: skip
