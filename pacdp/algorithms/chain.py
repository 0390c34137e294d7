"""What the settings of a chain say of it beside its moves: what it promises, and which law its weights stand for."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float
from torch import Tensor

import bounds
from bounds.accounting import Event
from pacdp.chains.memory import VECTORS
from pacdp.errors import require_fraction, require_positive, require_share
from pacdp.posterior import LocalGibbs, Point
from pacdp.schedules import Factor
from pacdp.step.event import NoPrivacy, no_promise

Coefficients = Mapping[str, Any]
"""Numbers of one step by name, each for one or all chains."""
Number = float | np.ndarray
"""A setting of one chain, or of each of a batch, [chains]."""


class LangevinStep(NamedTuple):
    """Numbers of w' = keep · w + pull · centre - rate · gradient + scale · N(0, I), named as :func:`langevin` does.

    Each is a :data:`Number`.
    """

    keep: Any
    rate: Any
    scale: Any
    pull: Any = 0.0


class NoisePath(NamedTuple):
    """For each gradient in turn the step's rate and the noise's deviation: - rate · gradient + scale · N(0, I)."""

    rates: Float[np.ndarray, " gradients"]
    scales: Float[np.ndarray, " gradients"]

    @classmethod
    def of(cls, steps: Sequence[LangevinStep]) -> "NoisePath":
        """From the steps of one chain."""
        rates, scales = (
            np.array([getattr(one, name) for one in steps], dtype=np.float64).ravel()
            for name in ("rate", "scale")
        )
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


_SHAPING = {
    "batch_size",
    "clip_norm",
    "keep_norms",
    "every_record",
    "inner_steps",
    "correction",
    "freeze_after",
}
_RANGES: Mapping[Any, tuple[str, ...]] = {
    require_positive: (
        "tau", "beta", "gamma", "base_std", "batch_size", "step_size", "inner_steps", "inner_step_size",
        "outer_step_size", "stabiliser", "probe",
    ),
    require_fraction: ("friction", "alpha"),
    require_share: ("momentum", "smoothing"),
}  # fmt: skip
"""What numbers of these names must be, where a chain has them."""


class Chain:
    """Settings of a chain: a subclass is a frozen record, and says what differs from this one."""

    __slots__ = ()
    vectors: ClassVar[int] = VECTORS
    """Vectors of the weights' size that one chain keeps in memory at most."""
    ending_inside: ClassVar[Mapping[str, float]] = {}
    """Numbers of the sampler's step with which it ends where its inner loop does; none without such a loop."""
    batch_size: int
    """Expected examples behind one gradient."""
    clip_norm: float | None = None
    """The norm to which each example's gradient is clipped; None for no clipping, and no promise of the steps."""
    keep_norms: bool = False
    """Whether the squared norms of all contributions are kept, step by step."""
    every_record: bool = False
    """Whether every record is in every batch, once."""

    def __post_init__(self) -> None:
        for require, names in _RANGES.items():
            given = {name: getattr(self, name, None) for name in names}
            require(**{name: value for name, value in given.items() if value is not None})

    @property
    def shared(self) -> set[str]:
        """Fields in which chains of one batch must agree: those that shape the computation, and schedules."""
        return {one.name for one in fields(self) if one.name in _SHAPING} | self.schedules  # type: ignore[arg-type]

    def step(self, t: int) -> LangevinStep:
        """The step that follows gradient number t = 1, 2, ...: of the weights, or of the velocity that moves them.

        Raises:
            ValueError: nothing is known of how noise enters the steps of this chain.
        """
        del t
        raise ValueError(
            f"steps of {self.name} are not sums over the records plus Gaussian noise: keep_norms needs SGLD, SGHMC or "
            "Entropy-SG(L)D"
        )

    def coefficients(self, t: int) -> Coefficients:
        """The numbers of step t = 1, 2, ... by name, those of :meth:`step`."""
        return self.step(t)._asdict()

    def noise_path(self, steps: int, start: int = 0) -> NoisePath:
        """Step size and noise of every gradient of ``steps`` steps after the first ``start``; noise enters with the
        gradient, and all else that a step does computes with their sum, earlier ones and numbers that no record enters.

        Raises:
            ValueError: the steps of this chain are not of that kind.
        """
        own = columns_of([self])
        return NoisePath.of([own.step(t) for t in range(start + 1, start + steps + 1)])

    @property
    def schedules(self) -> set[str]:
        """Names of the fields that hold a function of the step in place of a number."""
        names = (one.name for one in fields(self))  # type: ignore[arg-type]
        return {name for name in names if callable(getattr(self, name))}

    @property
    def name(self) -> str:
        """The algorithm's name as the field writes it."""
        return type(self).__name__

    @property
    def gradients_per_step(self) -> int:
        """Minibatch gradients that one step evaluates."""
        return 1

    @property
    def thermal_std(self) -> float:
        """Standard deviation of the Gaussian weights that certificates put around the chain's; 0 at no temperature."""
        return 0.0

    def promise(self, n: int, steps: int, *, start: int = 0) -> Event | None:
        """What ``steps`` steps on ``n`` examples reveal that come after the first ``start``.

        Raises:
            ValueError: the steps are no private mechanisms that are accounted for.
        """
        del n, steps, start
        raise no_promise(self)

    def posterior(self, weights: Float[Tensor, " dim"]) -> LocalGibbs | Point:
        """The predictor that the chain's weights stand for."""
        return Point(weights=weights)

    def target_privacy(
        self, *, oscillation: float, n: int, step: int | None
    ) -> bounds.PureDP | NoPrivacy:
        """What one draw from the chain's stationary law promises on ``n`` examples, or why that is nothing.

        Args:
            oscillation: of the loss.
            n: the number of examples.
            step: how many steps the chain has made.
        """
        raise NotImplementedError


class Thermal(Chain):
    """A chain whose stationary law is exp(-τ R̂(w)) times a base measure."""

    __slots__ = ()
    tau: float
    cooling: float | Factor = 0.0
    """The exponent with which τ grows from step to step, or a function of t = 1, 2, ... that multiplies it."""

    def tau_at(self, t: int) -> Number:
        """τ t^cooling, or τ cooling(t).

        Raises:
            ValueError: it is no finite number > 0.
        """
        factor = self.cooling(t) if callable(self.cooling) else float(t) ** self.cooling
        return _scheduled("τ =", self.tau, factor, t, least=np.nextafter(0.0, 1.0))

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
        """The exponential mechanism's epsilon = 2 τ Δ / n, replace-one, Δ the loss's oscillation; at stationarity.

        A chain that cools has no stationary law.
        """
        del step
        if self.cooling != 0.0:
            return NoPrivacy(
                reason="τ grows while the chain runs, so that it has no stationary law: leave cooling at 0"
            )
        return at_stationarity(beta=1.0, tau=self.tau, oscillation=oscillation, n=n)


def at_stationarity(*, beta: float, tau: float, oscillation: float, n: int) -> bounds.PureDP:
    """What a draw from a density proportional to exp(β τ times a utility of that oscillation over n) promises."""
    epsilon = bounds.exponential_mechanism_epsilon(beta=beta, tau=tau, loss_range=oscillation, n=n)
    return bounds.PureDP(epsilon=epsilon, adjacency="replace-one", status="assumes stationarity")


Kind = TypeVar("Kind", bound=Chain)


def of_chains(settings: Kind | Sequence[Kind]) -> list[Kind]:
    """The settings of each chain of a batch, from one setting for all or one a chain.

    Raises:
        ValueError: there is none, they are of different algorithms, or they differ in a field that shapes the
            computation.
    """
    every = list(settings) if isinstance(settings, Sequence) else [settings]
    if not every:
        raise ValueError("expected settings of one chain or more, got none")
    kinds = {type(one).__name__ for one in every}
    if len(kinds) > 1:
        raise ValueError(f"chains of one batch must run one algorithm, got {sorted(kinds)}")
    for name in set[str]().union(*(one.shared for one in every)):
        values = {getattr(one, name) for one in every}
        if len(values) > 1:
            raise ValueError(
                f"chains of one batch must agree on {name}, got {sorted(map(str, values))}"
            )
    return every


def columns_of(every: Sequence[Kind]) -> Kind:
    """The settings of a batch of chains as one record, whose numbers are columns, float64 [chains].

    What the chains share, schedules among it, stays as it is. None, where it stands for no limit, is infinity.
    """
    first, shared = every[0], every[0].shared
    found = object.__new__(type(first))  # columns are not what its __init__ checks
    for name in (one.name for one in fields(first)):  # type: ignore[arg-type]
        value = getattr(first, name)
        if name not in shared:
            values = [getattr(one, name) for one in every]
            value = np.array([math.inf if x is None else x for x in values], dtype=np.float64)
        object.__setattr__(found, name, value)
    return found


def step_sizes(initial: Number, decay: Number | Factor, t: int) -> Number:
    """initial t^-decay, or initial decay(t) of a schedule, for step number t = 1, 2, ...

    Raises:
        ValueError: it is no finite number >= 0.
    """
    return _scheduled("the step size", initial, decay(t) if callable(decay) else t**-decay, t)


def _scheduled(what: str, initial: Number, factor: Number, t: int, *, least: float = 0.0) -> Number:
    with np.errstate(over="ignore", invalid="ignore"):  # said below, in a sentence
        found = initial * factor
    bad = ~(np.isfinite(found) & (found >= least))
    if np.any(bad):
        one = float(np.extract(bad, found)[0])
        raise ValueError(
            f"the schedule gives {what} {one} at step {t}: expected a finite number {'>' if least else '>='} 0"
        )
    return found
