"""What a sampler is: pure functions over a state of tensors, for K chains at a time.

A step reads its state and the chains' keys and returns a new state. So a chain is its state, its step count and its
key: save these and it goes on bit for bit. What depends on the step alone (step sizes, noise scales) is computed apart,
by ``coefficients``, so that a GPU can replay one recorded step with new numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float
from torch import Tensor

from pacdp.algorithms.chain import Chain
from pacdp.chains import Keys
from pacdp.objective import Estimate
from pacdp.schedules import Factor

Kind = TypeVar("Kind", bound=Chain)
Coefficients = Mapping[str, Any]
"""Numbers of one step by name, each for one or all chains."""


@runtime_checkable
class Potential(Protocol):
    """A source of stochastic gradients of a mean loss; :class:`pacdp.objective.Objective` is one."""

    def estimate(
        self, weights: Float[Tensor, "chains dim"], keys: Keys, tick: int | Tensor
    ) -> Estimate:
        """Estimate the gradient and the loss at each chain's weights, with the minibatch of this tick."""
        ...


class Info(NamedTuple):
    """What a step saw on the way; not carried on."""

    loss: Float[Tensor, " chains"]
    """Mean minibatch loss over the step's gradients; not finite if any of them was not."""
    error: Float[Tensor, " chains"]
    """Mean minibatch 0-1 loss over the step's gradients."""
    displacement: Float[Tensor, " chains"] | None = None
    """|μ - w|² of Entropy-SG(L)D, which is |∇F|²/(τγ)² of the local entropy F."""
    squared_norms: Float[Tensor, "chains gradients"] | None = None
    """Where they are kept, Σ_i ‖g_i‖² of each of the step's gradients; float64, rounded up."""

    @classmethod
    def of(cls, estimate: Estimate) -> "Info":
        """The record of a step that looked at one minibatch."""
        norms = estimate.squared_norms
        return cls(
            estimate.loss, estimate.error, squared_norms=None if norms is None else norms[:, None]
        )


class Sampler(NamedTuple):
    """A Markov chain."""

    init: Callable[[Tensor], Any]
    """Weights [chains, dim] to the first state, a NamedTuple with ``weights`` first and an int ``step`` last."""
    coefficients: Callable[[int], Coefficients]
    """The numbers of the step that follows step t, from t = 0."""
    transition: Callable[[Any, Coefficients, Keys, int | Tensor], tuple[Any, Info]]
    """One step with these numbers; its last argument is the state's step count, on a GPU as a tensor."""

    def step(self, state: Any, keys: Keys) -> tuple[Any, Info]:
        """The next state."""
        return self.transition(state, self.coefficients(state.step), keys, state.step)


def of_chains(settings: Kind | Sequence[Kind]) -> list[Kind]:
    """The settings of each chain of a batch, from one setting for all or one a chain.

    Raises:
        ValueError: there is none, or they differ in a field that shapes the computation.
    """
    every = list(settings) if isinstance(settings, Sequence) else [settings]
    if not every:
        raise ValueError("expected settings of one chain or more, got none")
    for name in every[0].shared:
        values = {getattr(one, name) for one in every}
        if len(values) > 1:
            raise ValueError(
                f"chains of one batch must agree on {name}, got {sorted(map(str, values))}"
            )
    return every


def columns_of(settings: Sequence[Any], *names: str) -> dict[str, np.ndarray]:
    """Fields of the chains' settings by name, float64 [chains]."""
    return {
        name: np.array([getattr(one, name) for one in settings], dtype=np.float64) for name in names
    }


def rates(initial: np.ndarray, decay: np.ndarray, step: int, schedule: Factor | None) -> np.ndarray:
    """Step sizes [chains] of step number ``step`` (from 1): initial step^-decay, or initial schedule(step)."""
    factor = step**-decay if schedule is None else schedule(step)
    with np.errstate(over="ignore", invalid="ignore"):  # said below, in a sentence
        found = initial * factor
    bad = ~(np.isfinite(found) & (found >= 0))
    if bad.any():
        raise ValueError(
            f"the schedule gives the step size {float(found[bad][0])} at step {step}: expected a finite number >= 0"
        )
    return found


def scheduled(values: np.ndarray, step: int, schedule: Factor | None, name: str) -> np.ndarray:
    """Positive numbers times schedule(step)."""
    found = values if schedule is None else values * schedule(step)
    bad = ~(np.isfinite(found) & (found > 0))
    if bad.any():
        raise ValueError(
            f"the schedule gives {name} = {float(found[bad][0])} at step {step}: expected a finite number > 0"
        )
    return found
