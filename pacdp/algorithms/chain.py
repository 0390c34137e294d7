"""What the settings of a chain say of it beside its moves: what it promises, and which law its weights stand for."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from torch import Tensor

import bounds
from bounds.accounting import Event
from pacdp.chains.memory import VECTORS
from pacdp.posterior import LocalGibbs, Point
from pacdp.step.promise import NoPrivacy, Promising, no_promise


class NoisePath(NamedTuple):
    """For each gradient in turn the step's rate and the noise's deviation: - rate · gradient + scale · N(0, I)."""

    rates: Float[np.ndarray, " gradients"]
    scales: Float[np.ndarray, " gradients"]

    @classmethod
    def of(cls, coefficients: Callable[[int], Mapping[str, Any]], steps: int) -> "NoisePath":
        """From the coefficients of each step, for one chain."""
        found = [coefficients(step) for step in range(steps)]
        rates, scales = (np.array([one[name][0] for one in found]) for name in ("rate", "scale"))
        return cls(rates, scales)

    def noise_multipliers(self, batch_size: int) -> Float[np.ndarray, " gradients"]:
        """Deviations of the noise in units of the sum of the gradients, whose mean over ``batch_size`` is what enters.

        Rounded down, for step sizes and scales that reach the update in single precision.

        Raises:
            ValueError: a gradient without a step or without noise.
        """
        with np.errstate(all="ignore"):
            found = batch_size * self.scales / self.rates * (1.0 - 2.0**-20)
        if not (np.isfinite(found) & (found > 0.0)).all():
            raise ValueError(
                f"every gradient must enter with noise, got a noise multiplier of {found.min()}; lower tau"
            )
        return found


def require_own_schedule(every: Sequence["Chain"], *schedules: object) -> None:
    """Refuse schedules of others where norms are kept: certificates read step sizes and noise off the settings.

    Raises:
        ValueError: a chain keeps norms, and a schedule is given.
    """
    if any(one.keep_norms for one in every) and any(one is not None for one in schedules):
        raise ValueError(
            "step_size and temperature must be left out with keep_norms: what a step pays is read off the settings, "
            "and a schedule of a caller may have looked at training errors; use decay and cooling"
        )


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
    def keep_norms(self) -> bool:
        """Whether the squared norms of all contributions are kept, step by step."""
        ...

    @property
    def every_record(self) -> bool:
        """Whether every record is in every batch, once."""
        ...

    def noise_path(self, steps: int) -> NoisePath:
        """Step size and noise of every gradient of ``steps`` steps; noise enters with the gradient, and all else that a
        step does computes with their sum, earlier ones and numbers that no record enters.

        Raises:
            ValueError: the steps of this chain are not of that kind.
        """
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

    def target_privacy(
        self, *, oscillation: float, n: int, step: int | None
    ) -> bounds.PureDP | NoPrivacy:
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
    keep_norms: bool = False
    every_record: bool = False

    @property
    def shared(self) -> tuple[str, ...]:
        """The size of batches."""
        return ("batch_size",)

    def noise_path(self, steps: int) -> NoisePath:
        """Refused by a ValueError: nothing is known of how noise enters these steps."""
        raise ValueError(
            f"steps of {self.name} are not sums over the records plus Gaussian noise: keep_norms needs SGLD, SGHMC or "
            "Entropy-SG(L)D"
        )

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

    def target_privacy(
        self, *, oscillation: float, n: int, step: int | None
    ) -> bounds.PureDP | NoPrivacy:
        """The exponential mechanism's epsilon = 2 τ Δ / n, replace-one, Δ the loss's oscillation; at stationarity."""
        del step
        return at_stationarity(beta=1.0, tau=self.tau, oscillation=oscillation, n=n)


def at_stationarity(*, beta: float, tau: float, oscillation: float, n: int) -> bounds.PureDP:
    """What a draw from a density proportional to exp(β τ times a utility of that oscillation over n) promises."""
    epsilon = bounds.exponential_mechanism_epsilon(beta=beta, tau=tau, loss_range=oscillation, n=n)
    return bounds.PureDP(epsilon=epsilon, adjacency="replace-one", status="assumes stationarity")
