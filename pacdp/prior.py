"""Priors: a law over weights and where it came from, which decides the theorems that may use it."""

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

import bounds
from pacdp.bound_set import BoundSet, other_data
from pacdp.data import Split, require_disjoint
from pacdp.posterior import GaussianPosterior


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPrivacy:
    """The procedure read the bound's own examples and promises nothing: no certificate may rest on it."""

    reason: str
    """Why it is not private, one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianPrior:
    """N(mean, std² I) whose mean was learnt from the same examples that the bound uses."""

    mean: Float[Tensor, " dim"]
    std: float
    privacy: bounds.PureDP | NoPrivacy
    """What that procedure promises, under which adjacency, and how well founded the promise is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFree:
    """The prior was fixed before any example was looked at: random first weights, or weights learnt on other data."""

    description: str = "fixed before the examples were seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """The prior was learnt on other examples of the same data set."""

    indices: Split
    """All of the data set that it saw."""
    data_hash: str = ""
    """Of that data set, where it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Private:
    """The prior is a function of what a private mechanism released, which may have seen every example of the bound."""

    privacy: bounds.PrivacyClaim
    """What it promises about those examples; several runs on them, chosen among by looking at them, count together."""
    seen: HeldOut | None = None
    """Other examples, which it saw without any privacy and on which no bound may rest: a hybrid of both."""


Source = DataFree | HeldOut | Private


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """A Gaussian over the weights of a network, with its source."""

    law: GaussianPosterior
    source: Source
    choice_nats: float = 0.0
    """What choosing it among several costs, as in :func:`bounds.prior_scale_grid`; added to the divergence."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.choice_nats < float("inf"):
            raise ValueError(f"expected choice_nats >= 0 and finite, got {self.choice_nats}")

    def to_dict(self) -> dict[str, Any]:
        """JSON values: source, what the choice costs, not the weights."""
        match self.source:
            case DataFree(description=description):
                about: dict[str, Any] = {"description": description}
            case HeldOut(indices=indices):
                about = {"n": indices.n, "hash": indices.hash}
            case Private(privacy=privacy, seen=seen):
                about = {"privacy": {n: getattr(privacy, n) for n in ("notion", "adjacency", "status")}}
                if seen is not None:
                    about |= {"n": seen.indices.n, "hash": seen.indices.hash}
        return {"source": type(self.source).__name__, **about, "choice_nats": self.choice_nats}

    def require_unseen(self, data: BoundSet) -> None:
        """Refuse a bound on examples that a prior without privacy has seen, or whose indices count in other data.

        Raises:
            DataError: the two share an example.
            ValueError: nothing says which examples the bound's are, or the prior learnt from another data set.
        """
        seen = self._seen
        if seen is None:
            return
        if data.indices is None:
            raise ValueError("give data.indices: the prior learnt from examples of this data set, and which ones the "
                             "bound rests on decides whether it may be used")  # fmt: skip
        if other_data(seen.data_hash, data.data_hash):
            raise ValueError(
                f"the bound's data ({data.data_hash[:12]}) are not the data that the prior was learnt from "
                f"({seen.data_hash[:12]}), and indices mean nothing there: certify on those"
            )
        require_disjoint(seen.indices, data.indices, ("what the prior saw", "the bound's examples"))

    def require_untested(self, test: BoundSet) -> None:
        """Refuse a test set with examples that a prior without privacy has seen, as far as indices tell.

        Raises:
            DataError: the two share an example.
        """
        seen = self._seen
        if seen is not None and test.indices is not None and not other_data(seen.data_hash, test.data_hash):
            require_disjoint(seen.indices, test.indices, ("what the prior saw", "the test set's examples"))

    @property
    def _seen(self) -> HeldOut | None:
        """What it met without privacy."""
        return self.source.seen if isinstance(self.source, Private) else (
            self.source if isinstance(self.source, HeldOut) else None
        )  # fmt: skip
