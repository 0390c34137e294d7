"""What the settings of a chain say of it beside its moves: what it promises, and which law its weights stand for."""

import math
from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

import bounds
from bounds.accounting import Event
from pacdp.chains.memory import VECTORS
from pacdp.posterior import LocalGibbs, Point
from pacdp.step.promise import NoPrivacy, Promising, no_promise


class LangevinStep(NamedTuple):
    """Numbers of w' = keep · w + pull · centre - rate · gradient + std · N(0, I)."""

    rate: float
    keep: float
    pull: float
    std: float


@runtime_checkable
class Chain(Promising, Protocol):
    """Settings of a chain. Subclass :class:`ChainDefaults`, or :class:`Thermal`, and say what differs."""

    @property
    def batch_size(self) -> int:
        """Expected examples behind one gradient."""
        ...

    @property
    def clip_norm(self) -> float | None:
        """The norm to which each example's gradient is clipped; None for no clipping, and no promise of the steps."""
        ...

    @property
    def shared(self) -> tuple[str, ...]:
        """Fields that shape the computation, so that chains of one batch must agree on them."""
        ...

    @property
    def vectors(self) -> int:
        """Vectors of the weights' size that one chain keeps in memory at most."""
        ...

    @property
    def name(self) -> str:
        """The algorithm's name as the field writes it."""
        ...

    @property
    def gradients_per_step(self) -> int:
        """Minibatch gradients that one step evaluates."""
        ...

    @property
    def thermal_std(self) -> float:
        """Standard deviation of the Gaussian weights that certificates put around the chain's; 0 at no temperature."""
        ...

    def promise(self, n: int, steps: int, *, start: int = 0) -> Event | None:
        """What ``steps`` steps on ``n`` examples reveal that come after the first ``start``.

        Raises:
            ValueError: the steps are no private mechanisms that are accounted for.
        """
        ...

    def posterior(self, weights: Float[Tensor, " dim"]) -> LocalGibbs | Point:
        """The predictor that the chain's weights stand for."""
        ...

    def target_privacy(self, *, oscillation: float, n: int, step: int | None) -> bounds.PureDP | NoPrivacy:
        """What one draw from the chain's stationary law promises on ``n`` examples, or why that is nothing.

        Args:
            oscillation: of the loss.
            n: the number of examples.
            step: how many steps the chain has made.
        """
        ...

    def langevin_step(self, asked: int) -> LangevinStep:
        """The step that follows gradient number ``asked`` (from 0), written once more for whoever audits the chain.

        Raises:
            ValueError: the chain's steps promise nothing, so that there is nothing to audit.
        """
        ...

    @property
    def ending_inside(self) -> Mapping[str, float]:
        """Numbers of the sampler's step with which it ends where its inner loop does; none without such a loop."""
        ...


class ChainDefaults:
    """What most chains have in common."""

    __slots__ = ()

    @property
    def shared(self) -> tuple[str, ...]:
        """The size of batches."""
        return ("batch_size",)

    @property
    def vectors(self) -> int:
        """State, next state, gradient, local weights and mean."""
        return VECTORS

    @property
    def name(self) -> str:
        """The class's."""
        return type(self).__name__

    @property
    def gradients_per_step(self) -> int:
        """One."""
        return 1

    @property
    def thermal_std(self) -> float:
        """No temperature."""
        return 0.0

    def posterior(self, weights: Float[Tensor, " dim"]) -> LocalGibbs | Point:
        """The weights themselves."""
        return Point(weights=weights)

    def promise(self, n: int, steps: int, *, start: int = 0) -> Event | None:
        """Refused by a ValueError: these steps are no private mechanisms that are accounted for."""
        raise no_promise(self)

    def langevin_step(self, asked: int) -> LangevinStep:
        """Refused by a ValueError, as the promise is."""
        raise no_promise(self)

    @property
    def ending_inside(self) -> Mapping[str, float]:
        """No inner loop."""
        return {}


class Thermal(ChainDefaults):
    """A chain whose stationary law is exp(-τ R̂(w)) times a base measure."""

    __slots__ = ()
    tau: float

    @property
    def thermal_noise(self) -> float:
        """√(2/τ), the paper's measure of temperature."""
        return math.sqrt(2.0 / self.tau)

    @property
    def thermal_std(self) -> float:
        """τ^-½."""
        return self.tau**-0.5

    def target_privacy(self, *, oscillation: float, n: int, step: int | None) -> bounds.PureDP | NoPrivacy:
        """The exponential mechanism's epsilon = 2 τ Δ / n, replace-one, Δ the loss's oscillation; at stationarity."""
        del step
        return at_stationarity(beta=1.0, tau=self.tau, oscillation=oscillation, n=n)


def at_stationarity(*, beta: float, tau: float, oscillation: float, n: int) -> bounds.PureDP:
    """What a draw from a density proportional to exp(β τ times a utility of that oscillation over n) promises."""
    epsilon = bounds.exponential_mechanism_epsilon(beta=beta, tau=tau, loss_range=oscillation, n=n)
    return bounds.PureDP(epsilon=epsilon, adjacency="replace-one", status="assumes stationarity")
