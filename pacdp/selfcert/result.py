"""A predictor with its certificate, and everything that was tried on the way."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import bounds
from pacdp.predictions.report import Reported
from pacdp.selfcert.plan import RoutePlan


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tried:
    """What a route came to.

    Attributes:
        name: the route, and the model where there are several.
        certificate: at the route's own share of the failure probability; None where the route came to nothing.
        error: measured on the records of the bound.
        train: records that training saw.
        reason: why there is no certificate.
        predictor: what the certificate is about.
    """

    name: str = ""
    route: str = ""
    certificate: bounds.Certificate | None = None
    error: float | None = None
    train: int = 0
    reason: str = ""
    predictor: Any = field(default=None, repr=False)

    @property
    def bound(self) -> int:
        """The records that the certificate rests on."""
        return int(self.certificate.inputs["n"]) if self.certificate else 0

    def to_dict(self) -> dict[str, Any]:
        """JSON values: everything but predictor and certificate."""
        names = ("name", "route", "error", "train", "bound", "reason")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SelfCertified(Reported):
    """A predictor that comes with a certificate, the smallest of those that were tried.

    Formal guarantee: the error of ``predict`` on a new record exceeds ``certificate.value`` with probability at most
    ``certificate.failure_prob`` over the records and all random numbers, if the hypotheses that the certificate names
    are true ("Paying for the choice of a route" in docs/guarantees.md).

    Attributes:
        report: the certificate, those of the routes behind it, and the ledger: a share for each route that was tried,
            those that came to nothing too. What was not tried, or came to nothing, is refused there with its reason.
        tried: each route with its own certificate.
        predictor: what predicts.
        chosen: the name of the route that it came from.
        estimate: what other splits would have promised a held-out count, from the error that was measured; None where
            no held-out count was made.
        train: records in the training part of the split.
    """

    tried: tuple[Tried, ...]
    predictor: Any
    chosen: str
    estimate: RoutePlan | None
    train: int

    @property
    def certificate(self) -> bounds.Certificate:
        """The smallest, at the failure probability of all that were tried together."""
        return self.report.certificates[0]

    def predict(self, inputs: Any) -> np.ndarray:
        """A class for each input, by the names that the labels had."""
        return np.asanyarray(self.predictor.predict(inputs))

    @property
    def predict_proba(self) -> Any:
        """A function from inputs to [n, classes]; AttributeError where the predictor has none."""
        return self.predictor.predict_proba
