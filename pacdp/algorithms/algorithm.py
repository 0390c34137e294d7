"""What a private algorithm is: frozen settings that say how one step moves the weights and what that promises."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn, optim

from bounds.accounting import Event, PrivacyBound
from pacdp.layers.regularise import Regulariser, prior_gradient
from pacdp.schedules import Schedule, as_schedule
from pacdp.step.event import history, sampled_step
from pacdp.step.mechanism import Mechanism
from pacdp.step.release import PrivateStep
from pacdp.step.units import UnitFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How a step chooses privately among candidates, one for each noise scale."""

    noise_scales: tuple[float, ...]
    """Noise multiplier of each candidate."""
    epsilon: float
    """Of the exponential mechanism."""
    score_bound: float
    """To which a unit's mean loss is clipped."""


class Algorithm:
    """Settings of a private training algorithm: a subclass is a frozen record, and says what differs from this one."""

    __slots__ = ()
    mechanism: Mechanism
    """The public numbers."""
    draws: int = 1
    """Forward passes whose losses are averaged before clipping."""

    @property
    def pre_noise(self) -> float:
        """Standard deviation of noise on each example's gradient before clipping; it buys no privacy."""
        return 0.0

    @property
    def contribution(self) -> UnitFunction | None:
        """What one unit adds to the sum; None for the gradient of an example's loss."""
        return None

    @property
    def width(self) -> int | None:
        """Records of a unit in one batch; None for all."""
        return None

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> optim.Optimizer | None:
        """What keeps state between steps; None where the update itself moves the weights."""
        del parameters
        return None

    def update(self, step: PrivateStep) -> int:
        """Move ``step.weights`` by what the step releases; the number of the candidate that was chosen, or 0."""
        raise NotImplementedError

    def noises(self, step: int) -> Sequence[float]:
        """The noise multiplier of each of a logical step's releases of the sum, in their order."""
        raise NotImplementedError

    @property
    def choice(self) -> Choice | None:
        """The choice of every step; None where nothing is chosen."""
        return None

    def promise(self, n: int, steps: int, *, start: int = 0) -> Event | None:
        """The releases and the choice of every step; rate and divisor are public, whatever ``n``."""
        del n
        rate, chosen = (
            self.mechanism.sample_rate,
            0.0 if self.choice is None else self.choice.epsilon,
        )
        numbers = range(start, start + steps)
        return history(
            sampled_step(
                self.mechanism.releases(self.noises(t)), sample_rate=rate, choice_epsilon=chosen
            )
            for t in numbers
        )

    def keeps(self, step: int) -> bool:
        """Whether the weights after ``step`` steps become a snapshot: none do."""
        del step
        return False

    def published(self, *, steps: int, delta: float) -> PrivacyBound | None:
        """What the algorithm's paper says that ``steps`` steps cost, where that is no guarantee; None for no such."""
        del steps, delta


class Descent(Algorithm):
    """p.grad = (Σ_i clip_C(g_i) + N(0, (σ_t C)² I)) / B, plus a gradient that depends on no data, for any optimizer.

    What an optimizer makes of released gradients (momentum, moments) is post-processing.
    """

    __slots__ = ()
    noise_multiplier: Any
    learning_rate: Any
    momentum: Any = 0.0
    prior: Any = None

    def noise_at(self, step: int) -> float:
        """σ_t."""
        return float(as_schedule(self.noise_multiplier)(step))

    def rate_at(self, step: int) -> float:
        """lr_t."""
        return as_schedule(self.learning_rate)(step)

    @property
    def data_free_gradient(self) -> Regulariser | None:
        """What is added to the released gradient: the prior's, over the public size."""
        return prior_gradient(self.prior, self.mechanism.public_size)

    def noises(self, step: int) -> Sequence[float]:
        """One release."""
        return (self.noise_at(step),)

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> optim.Optimizer | None:
        """Stochastic gradient descent."""
        return optim.SGD(parameters, lr=self.rate_at(0), momentum=self.momentum)

    def update(self, step: PrivateStep) -> int:
        """One step of the formula above."""
        assert step.optimizer is not None
        released = step.release(self.noise_at(step.number))
        for name, parameter in step.module.named_parameters():
            if parameter.requires_grad:
                parameter.grad = released[name].to(parameter.dtype).view_as(parameter)
                parameter.grad /= self.mechanism.expected_batch_size
        add_gradient = self.data_free_gradient
        if add_gradient is not None:
            add_gradient(step.module)
        for group in step.optimizer.param_groups:
            group["lr"] = self.rate_at(step.number)
        step.optimizer.step()
        step.optimizer.zero_grad()
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled(Descent):
    """A descent whose noise and step sizes are given, each as a number or for every logical step."""

    mechanism: Mechanism
    noise_multiplier: Schedule | float
    """σ_t, over the norm C of one unit's contribution."""
    learning_rate: Schedule | float
    """lr_t."""
