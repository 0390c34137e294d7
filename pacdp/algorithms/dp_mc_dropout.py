"""DP-MC-Dropout: DP-SGD on a network with dropout, whose masks are also drawn at prediction (Gal and Ghahramani 2016).

Each example has its own mask in every dropout layer, independent of all others, so its clipped gradient is a function
of that example and its own draws. N masks may be averaged before clipping.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from pacdp.algorithms.algorithm import Scheduled
from pacdp.algorithms.method import Law, Method, law_of
from pacdp.layers.dropout import with_example_dropout
from pacdp.layers.priors import Prior
from pacdp.schedules import Schedule
from pacdp.step.mechanism import Mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class DPMCDropout(Scheduled):
    """Settings of DP-MC-Dropout; the network's dropout layers are made by :func:`pacdp.private.with_example_dropout`.

    Formal guarantee: that of :class:`pacdp.private.DPSGD`; masks are independent of the data.
    """

    draws: int = 1
    """Masks an example a step."""
    momentum: float = 0.0
    prior: Prior | None = None
    """A Normal of public size n is the weight decay under which dropout approximates variational inference."""

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise ValueError(f"draws must be at least 1, got {self.draws}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DPMCDropoutMethod(Method):
    """Dropout in training and in prediction."""

    KIND, NAME = "DPMCDropout", "DP-MC-Dropout"
    NOISY_SUMS = True
    rate: float = 0.1
    learning_rate: float = 2.0
    momentum: float = 0.0
    prior: Law = "none"
    prior_std: float = 1.0
    draws: int = 1
    """Masks an example a step."""
    test_draws: int = 20

    def algorithm(self, mechanism: Mechanism, noise: Callable[[], Schedule]) -> DPMCDropout:
        """See :class:`pacdp.algorithms.method.Method`."""
        return DPMCDropout(
            mechanism=mechanism,
            noise_multiplier=noise(),
            learning_rate=self.learning_rate,
            momentum=self.momentum,
            prior=law_of(self.prior, self.prior_std),
            draws=self.draws,
        )

    def network(
        self,
        module: nn.Module,
        *,
        generator: torch.Generator,
        device: torch.device | str | None = None,
    ) -> nn.Module:
        """Dropout with masks of each example's own (:func:`with_dropout`)."""
        return with_example_dropout(
            with_dropout(module, self.rate), generator=generator, device=device
        )


def with_dropout(module: nn.Module, rate: float) -> nn.Module:
    """Dropout on the inputs of every fully connected layer but the first layer of the network."""
    layers: list[nn.Module] = []
    for layer in module:  # type: ignore[union-attr]
        if isinstance(layer, nn.Linear) and any(
            any(True for _ in before.parameters()) for before in layers
        ):
            layers.append(nn.Dropout(rate))
        layers.append(layer)
    return nn.Sequential(*layers)
