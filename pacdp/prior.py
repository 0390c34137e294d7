"""Priors: a Gaussian and where it came from, which decides the theorems that may use it."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

import bounds


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
