"""Posteriors: the laws over weights whose risk a certificate bounds."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One network, used as it is."""

    weights: Float[Tensor, " dim"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalGibbs:
    """Q ∝ exp(-τ R̂(w')) N(w'; weights, (γτ)⁻¹ I): the Gibbs classifier of Entropy-SG(L)D.

    R̂ is the empirical risk under the bounded training loss; each prediction draws fresh weights.
    """

    weights: Float[Tensor, " dim"]
    tau: float
    gamma: float

    @property
    def prior_std(self) -> float:
        """(γτ)^-½, the standard deviation of the prior of which Q is the Gibbs posterior."""
        return (self.gamma * self.tau) ** -0.5
