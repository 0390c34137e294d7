"""DP-BBP: Bayes by Backprop (Blundell et al. 2015) with private gradients (Zhang, Bu et al. 2021).

The posterior is N(mean, softplus(rho)²), independent weights. A step draws N networks, gives each example the mean of
its N losses' gradients in (mean, rho), clips that to norm C over all parameters, sums, adds noise, divides, and then
adds κ ∇KL(posterior‖prior)/n. The KL depends on no data: outside the clipping it costs no privacy and is not distorted.
(The authors' code clips it together with every example's gradient.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from pacdp.algorithms.algorithm import Scheduled
from pacdp.algorithms.method import Method, law_of
from pacdp.layers.bayes import bayesian
from pacdp.layers.priors import Prior
from pacdp.layers.regularise import Regulariser, kl_gradient
from pacdp.schedules import Schedule
from pacdp.step.mechanism import Mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class DPBBP(Scheduled):
    """Settings of DP-BBP; the network is one made by :func:`pacdp.private.bayesian`.

    Formal guarantee: the posterior's means and rhos after every step are the composition of the Poisson-sampled
    Gaussian mechanisms in the run's history, add-remove adjacency. So are predictions drawn from them.
    """

    prior: Prior
    draws: int = 1
    """N, networks drawn a step; more than one go through the reference."""
    kl_weight: float = 1.0
    """κ; 1 is the evidence bound, less is a cold posterior."""
    momentum: float = 0.0

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise ValueError(f"draws must be at least 1, got {self.draws}")

    @property
    def data_free_gradient(self) -> Regulariser:
        """κ ∇KL(posterior‖prior)/n."""
        return kl_gradient(self.prior, self.kl_weight / self.mechanism.public_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class DPBBPMethod(Method):
    """Bayes by backprop: means and standard deviations of the weights learnt on clipped, noisy gradients."""

    KIND, NAME = "DPBBP", "DP-BBP"
    NOISY_SUMS = True
    learning_rate: float = 2.0
    momentum: float = 0.0
    prior: Literal["normal", "laplace"] = "normal"
    prior_std: float = 1.0
    initial_std: float = 0.02
    draws: int = 1
    """Networks drawn a step."""
    kl_weight: float = 1.0
    test_draws: int = 20

    def algorithm(self, mechanism: Mechanism, noise: Callable[[], Schedule]) -> DPBBP:
        """See :class:`pacdp.algorithms.method.Method`."""
        prior = law_of(self.prior, self.prior_std)
        if prior is None:
            raise ValueError(f"expected a prior, normal or laplace, got {self.prior!r}")
        return DPBBP(
            mechanism=mechanism,
            noise_multiplier=noise(),
            learning_rate=self.learning_rate,
            momentum=self.momentum,
            prior=prior,
            draws=self.draws,
            kl_weight=self.kl_weight,
        )

    def network(
        self,
        module: nn.Module,
        *,
        generator: torch.Generator,
        device: torch.device | str | None = None,
    ) -> nn.Module:
        """Bayesian layers, each weight of standard deviation ``initial_std`` at first."""
        del device
        return bayesian(module, initial_std=self.initial_std, generator=generator)
