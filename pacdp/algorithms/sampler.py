"""What a sampler is: pure functions over a state of tensors, for K chains at a time.

A step reads its state and the chains' keys and returns a new state. So a chain is its state, its step count and its
key: save these and it goes on bit for bit. What depends on the step alone (step sizes, noise scales) is computed apart,
by ``coefficients``, so that a GPU can replay one recorded step with new numbers.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from pacdp.algorithms.chain import Coefficients
from pacdp.chains import Keys
from pacdp.objective import Estimate


class Position(NamedTuple):
    """Weights and the number of steps taken."""

    weights: Float[Tensor, "chains dim"]
    step: int


class Motion(NamedTuple):
    """Weights, velocity and the number of steps taken."""

    weights: Float[Tensor, "chains dim"]
    velocity: Float[Tensor, "chains dim"]
    step: int


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
    kind: type
    """Of its states."""

    def step(self, state: Any, keys: Keys) -> tuple[Any, Info]:
        """The next state.

        Raises:
            ValueError: a state of another algorithm.
        """
        if not isinstance(state, self.kind):
            raise ValueError(
                f"state must be a {self.kind.__name__} of this sampler, got {type(state).__name__}: begin with "
                "sampler.init(state.weights)"
            )
        return self.transition(state, self.coefficients(state.step), keys, state.step)
