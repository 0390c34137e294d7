"""A private algorithm is one frozen record: its own numbers, how a step moves the weights, and what that promises.

The same record is given to :func:`pacdp.loop.train`, set on a command line and kept as JSON; its fields are the JSON.
What every algorithm needs of a run (clip norm, noise multiplier, sample rate) is the run's own
:class:`pacdp.step.mechanism.Mechanism`.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn, optim

from bounds.accounting import Event, PrivacyBound
from bounds.record import record
from pacdp.errors import require_share
from pacdp.layers.priors import Law, Prior, law_of
from pacdp.schedules import Schedule, value_at
from pacdp.step.event import history, sampled_step
from pacdp.step.mechanism import Mechanism
from pacdp.step.release import PrivateStep
from pacdp.step.units import Network, UnitFunction


@record
class Choice:
    """How a step chooses privately among candidates, one for each noise scale."""

    noise_scales: tuple[float, ...]
    """Noise multiplier of each candidate."""
    epsilon: float
    """Of the exponential mechanism."""
    score_bound: float
    """To which a unit's mean loss is clipped."""


class Algorithm:
    """What the loop asks of a private algorithm; a subclass is a frozen record, and says what differs from this one.

    Steps are counted from 0.
    """

    __slots__ = ()
    NAME: ClassVar[str]
    """The algorithm's name as the field writes it."""
    NOISY_SUMS: ClassVar[bool] = False
    """Whether each step adds Gaussian noise to one sum of clipped contributions over one secret Poisson batch, and
    computes with that sum alone: certificates then pay for the sums (:class:`bounds.PoissonSum`)."""
    RELEASES_LAST: ClassVar[bool] = False
    """Whether the promise is of the weights after the last step alone, and all before them stay in the run's folder."""
    FIXES_NOISE: ClassVar[bool] = False
    """Whether the record's own numbers say how much noise there is; the mechanism then gives none."""
    draws: int = 1
    """Forward passes whose losses are averaged before clipping."""
    test_draws: int = 0
    """Networks or masks that a prediction averages over; 0 where the network is one."""
    pre_noise: float = 0.0
    """Standard deviation of noise on each example's gradient before clipping; it buys no privacy."""

    @property
    def contribution(self) -> UnitFunction | None:
        """What one person's records add to the sum; None where a unit is an example, which adds its loss's gradient."""
        return None

    @property
    def least_clip_norm(self) -> float:
        """The clip norm that the promise needs; 0 where any will do."""
        return 0.0

    @property
    def by_person(self) -> bool:
        """Whether the unit of privacy is a person rather than an example."""
        return self.contribution is not None

    @property
    def width(self) -> int | None:
        """How many of a person's records are in one batch; None for all."""
        return None

    def network(
        self,
        module: nn.Module,
        *,
        generator: torch.Generator,
        device: torch.device | str | None = None,
    ) -> nn.Module:
        """The network as the algorithm trains it, with random layers where it wants them; these draw on ``device``, by
        default the generator's."""
        del generator, device
        return module

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> optim.Optimizer | None:
        """What keeps state between steps; None where the update itself moves the weights."""
        del parameters
        return None

    def update(self, step: PrivateStep) -> int:
        """Move ``step.weights`` by what the step releases; the number of the candidate that was chosen, or 0."""
        raise NotImplementedError

    def require(
        self, network: Network, mechanism: Mechanism, *, units: int, targets: Tensor
    ) -> None:
        """Refuse, by raising ValueError, a run that is not what is promised.

        Args:
            units: how many there are.
            targets: a few, of which the kind matters.
        """
        del network, mechanism, units, targets

    def noises(self, step: int, mechanism: Mechanism) -> Sequence[float]:
        """The noise multiplier of each of a step's releases of the sum, in their order."""
        raise NotImplementedError

    def step_event(self, step: int, mechanism: Mechanism) -> Event:
        """The releases and the choice of one step."""
        return sampled_step(
            mechanism.releases(self.noises(step, mechanism)),
            sample_rate=mechanism.sample_rate,
            choice_epsilon=0.0 if self.choice is None else self.choice.epsilon,
        )

    @property
    def choice(self) -> Choice | None:
        """The choice of every step; None where nothing is chosen."""
        return None

    def promise(self, mechanism: Mechanism, steps: int) -> Event | None:
        """What the first ``steps`` steps release; it depends on public numbers alone."""
        return history(self.step_event(t, mechanism) for t in range(steps))

    def keeps(self, steps: int, mechanism: Mechanism) -> bool:
        """Whether the weights after so many steps become a snapshot: none do."""
        del steps, mechanism
        return False

    def published(self, mechanism: Mechanism, *, steps: int, delta: float) -> PrivacyBound | None:
        """What the algorithm's paper says that ``steps`` steps cost, where that is no guarantee; None for no such."""
        del mechanism, steps, delta


class Descent(Algorithm):
    """p.grad = (Σ_i clip_C(g_i) + N(0, (σ_t C)² I)) / B + ∇r(w)/n, for any optimizer; r = -ln p is the prior's energy.

    What an optimizer makes of released gradients (momentum, moments) is post-processing.
    """

    __slots__ = ()
    NOISY_SUMS = True
    learning_rate: float | Schedule
    momentum: float = 0.0
    prior: Law | Prior = "none"
    prior_std: float = 1.0

    def noise_at(self, step: int, mechanism: Mechanism) -> float:
        """σ_t."""
        if mechanism.noise_multiplier is None:
            raise ValueError(f"{self.NAME} needs a noise_multiplier: give the mechanism one")
        return value_at(step, noise_multiplier=mechanism.noise_multiplier)

    def rate_at(self, step: int, mechanism: Mechanism) -> float:
        """lr_t."""
        del mechanism
        return value_at(step, learning_rate=self.learning_rate)

    @torch.no_grad()
    def add_data_free_gradient(self, module: nn.Module, mechanism: Mechanism) -> None:
        """Add ∇r(w)/n, the prior's gradient over the public size, to the released one; nothing for a flat prior."""
        prior = law_of(self.prior, self.prior_std)
        if prior is not None:
            for parameter in module.parameters():
                slope = prior.energy_gradient(parameter.detach())
                add_slope(parameter, slope, 1.0 / mechanism.public_size)

    def promise(self, mechanism: Mechanism, steps: int) -> Event | None:
        """As for every algorithm, once each step is known to have a learning rate."""
        for step in range(steps):
            self.rate_at(step, mechanism)
        return super().promise(mechanism, steps)

    def noises(self, step: int, mechanism: Mechanism) -> Sequence[float]:
        """The sum is released once."""
        return (self.noise_at(step, mechanism),)

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> optim.Optimizer | None:
        """Stochastic gradient descent, whose learning rate every update sets."""
        require_share(momentum=self.momentum)
        law_of(self.prior, self.prior_std)
        return optim.SGD(parameters, lr=0.0, momentum=self.momentum)

    def update(self, step: PrivateStep) -> int:
        """One step of the formula above."""
        assert step.optimizer is not None
        mechanism = step.mechanism
        released = step.release(self.noise_at(step.number, mechanism))
        for name, parameter in step.module.named_parameters():
            if parameter.requires_grad:
                parameter.grad = released[name].to(parameter.dtype).view_as(parameter)
                parameter.grad /= mechanism.expected_batch_size
        self.add_data_free_gradient(step.module, mechanism)
        for group in step.optimizer.param_groups:
            group["lr"] = self.rate_at(step.number, mechanism)
        step.optimizer.step()
        step.optimizer.zero_grad()
        return 0


def add_slope(parameter: nn.Parameter, slope: Tensor, weight: float) -> None:
    """Add ``weight`` times ``slope`` to the gradient of a parameter that is trained."""
    if parameter.requires_grad and parameter.grad is not None:
        parameter.grad.add_(slope, alpha=weight)
