"""Priors: a law over weights and where it came from, which decides the theorems that may use it."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

import bounds
from pacdp.data import Split
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Private:
    """The prior is a function of what a private mechanism released, which may have seen every example of the bound."""

    privacy: bounds.PrivacyClaim
    """What it promises about those examples; several runs on them, chosen among by looking at them, count together."""


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
