"""DP-BBP: Bayes by Backprop (Blundell et al. 2015) with private gradients (Zhang, Bu et al. 2021).

The posterior is N(mean, softplus(rho)²), independent weights. A step draws N networks, gives each example the mean of
its N losses' gradients in (mean, rho), clips that to norm C over all parameters, sums, adds noise, divides, and then
adds κ ∇KL(posterior‖prior)/n. The KL depends on no data: outside the clipping it costs no privacy and is not distorted.
(The authors' code clips it together with every example's gradient.)
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from bounds import _check
from bounds.record import record
from pacdp.algorithms.algorithm import Descent, add_slope
from pacdp.layers.bayes import bayesian, laws
from pacdp.layers.priors import Law, Prior, law_of
from pacdp.schedules import Schedule
from pacdp.step.mechanism import Mechanism
from pacdp.step.units import Network


@record
class DPBBP(Descent):
    """Settings of DP-BBP, on a network whose layers :meth:`network` made Bayesian.

    Formal guarantee: the posterior's means and rhos after every step are the composition of the Poisson-sampled
    Gaussian mechanisms in the run's history, add-remove adjacency. So are predictions drawn from them.
    """

    NAME = "DP-BBP"
    learning_rate: float | Schedule = 2.0
    momentum: float = 0.0
    prior: Law | Prior = "normal"
    """The law that the KL divergence is taken to; in Python it may be any law of a weight."""
    prior_std: float = 1.0
    """The scale of a prior that is given by its name."""
    initial_std: float = 0.02
    """The standard deviation of every weight at first."""
    draws: int = 1
    """N, the networks drawn in a step; more than one go through the reference."""
    kl_weight: float = 1.0
    """κ; 1 is the evidence bound, less is a cold posterior."""
    test_draws: int = 20

    def __post_init__(self) -> None:
        _check.count(draws=self.draws)
        if law_of(self.prior, self.prior_std) is None:
            raise ValueError(f"expected a prior, normal or laplace, got {self.prior!r}")

    def require(
        self, network: Network, mechanism: Mechanism, *, units: int, targets: Tensor
    ) -> None:
        """Refuse a network whose weights have no law."""
        if not laws(network.module):
            raise ValueError(
                f"{self.NAME} trains the laws of weights, and module has none: give bayesian(module, initial_std=..., "
                "generator=...)"
            )

    def network(
        self,
        module: nn.Module,
        *,
        generator: torch.Generator,
        device: torch.device | str | None = None,
    ) -> nn.Module:
        """Every weight of a linear or convolutional layer gets a Gaussian law, of ``initial_std`` at first."""
        del device
        return bayesian(module, initial_std=self.initial_std, generator=generator)

    @torch.no_grad()
    def add_data_free_gradient(self, module: nn.Module, mechanism: Mechanism) -> None:
        """Add κ ∇KL(posterior‖prior)/n to the gradients of means and rhos."""
        prior = law_of(self.prior, self.prior_std)
        assert prior is not None
        weight = self.kl_weight / mechanism.public_size
        for mean, rho in laws(module):
            by_mean, by_std = prior.kl_gradient(mean.detach(), functional.softplus(rho.detach()))
            add_slope(mean, by_mean, weight)
            add_slope(rho, by_std * rho.detach().sigmoid(), weight)
