"""DP-BBP: Bayes by Backprop (Blundell et al. 2015) with private gradients (Zhang, Bu et al. 2021).

The posterior is N(mean, softplus(rho)²), independent weights. A step draws N networks, gives each example the mean of
its N losses' gradients in (mean, rho), clips that to norm C over all parameters, sums, adds noise, divides, and then
adds κ ∇KL(posterior‖prior)/n. The KL depends on no data: outside the clipping it costs no privacy and is not distorted.
(The authors' code clips it together with every example's gradient.)
"""

from dataclasses import dataclass

from pacdp.algorithms.algorithm import Descent
from pacdp.layers.priors import Prior
from pacdp.layers.regularise import Regulariser, kl_gradient
from pacdp.schedules import Schedule
from pacdp.step.mechanism import Mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class DPBBP(Descent):
    """Settings of DP-BBP; the network is one made by :func:`pacdp.private.bayesian`.

    Formal guarantee: the posterior's means and rhos after every step are the composition of the Poisson-sampled
    Gaussian mechanisms in the run's history, add-remove adjacency. So are predictions drawn from them.
    """

    mechanism: Mechanism
    noise_multiplier: Schedule | float
    learning_rate: Schedule | float
    prior: Prior
    draws: int = 1
    """N, networks drawn a step; ghost clipping allows one."""
    kl_weight: float = 1.0
    """κ; 1 is the evidence bound, less is a cold posterior."""
    momentum: float = 0.0

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise ValueError(f"draws must be at least 1, got {self.draws}")
        mode = self.mechanism.grad_sample_mode
        if mode not in ("hooks", "ghost"):
            raise ValueError(f"grad_sample_mode must be 'hooks' or 'ghost' for Bayesian layers, got {mode!r}")
        if mode == "ghost" and self.draws > 1:
            raise ValueError(
                f"ghost clipping sees each layer once a step: use draws=1 or mode 'hooks', got {self.draws}"
            )

    @property
    def data_free_gradient(self) -> Regulariser:
        """κ ∇KL(posterior‖prior)/n."""
        return kl_gradient(self.prior, self.kl_weight / self.mechanism.public_size)
