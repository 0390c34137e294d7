"""What a sampler is: two pure functions over a state of tensors.

A step reads its state and a generator and returns a new state; it changes nothing but the generator. So a chain is
its state, its step count and its generator: save these three and it goes on bit for bit.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from pacdp.objective import Estimate


@runtime_checkable
class Potential(Protocol):
    """A source of stochastic gradients of a mean loss; :class:`pacdp.objective.Objective` is one."""

    def estimate(self, weights: Float[Tensor, " dim"], generator: torch.Generator) -> Estimate: ...


class Info(NamedTuple):
    """What a step saw on the way; not carried on."""

    loss: Float[Tensor, ""]
    """Mean minibatch loss over the step's gradients; not finite if any of them was not."""
    error: Float[Tensor, ""]
    """Mean minibatch 0-1 loss over the step's gradients."""


class Sampler(NamedTuple):
    """A Markov chain: ``init(weights)`` gives its first state, ``step(state, generator)`` the next one."""

    init: Callable[[Tensor], Any]
    step: Callable[[Any, torch.Generator], tuple[Any, Info]]


def gaussian_like(weights: Float[Tensor, " dim"], generator: torch.Generator) -> Float[Tensor, " dim"]:
    """Standard normal noise from ``generator``, one number a weight."""
    return torch.empty_like(weights).normal_(generator=generator)


def require_positive(**values: float | int) -> None:
    """Raise a sentence unless every value is a positive number."""
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"expected {name} > 0, got {value}")


def require_fraction(**values: float | int) -> None:
    """Raise a sentence unless every value lies in (0, 1]."""
    for name, value in values.items():
        if not 0 < value <= 1:
            raise ValueError(f"expected 0 < {name} <= 1, got {value}")
