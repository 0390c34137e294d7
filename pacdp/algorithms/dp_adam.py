"""DP-Adam: Adam fed with privatised gradients.

    g = (Σ_i clip_C(g_i) + N(0, (σ_t C)² I)) / B,   m, v ← moments of g and g²,   w ← w - lr m̂ / (√v̂ + ε)

Bias. E[g²] exceeds the squared mean gradient by the noise's variance (σ C / B)², so v̂ is at least that large in every
coordinate, and where the noise dominates the update is momentum SGD with the constant step lr B / (σ C) (Tang,
Shpilevskiy and Lécuyer 2023). The moments of the privatised gradients are used as they are; subtracting the known
variance is not done here. Privacy is untouched either way: the moments are post-processing.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import nn, optim

from pacdp.algorithms.algorithm import Scheduled
from pacdp.algorithms.method import Law, Method, law_of
from pacdp.layers.priors import Prior
from pacdp.schedules import Schedule
from pacdp.step.mechanism import Mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class DPAdam(Scheduled):
    """Settings of DP-Adam.

    Formal guarantee: that of :class:`pacdp.private.DPSGD`; all of Adam is post-processing.
    """

    betas: tuple[float, float] = (0.9, 0.999)
    stabiliser: float = 1e-8
    """Adam's ε, added to √v̂."""
    prior: Prior | None = None

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> optim.Optimizer:
        """Adam, all of whose moments are post-processing."""
        return optim.Adam(parameters, lr=self.rate_at(0), betas=self.betas, eps=self.stabiliser)


@dataclass(frozen=True, slots=True, kw_only=True)
class DPAdamMethod(Method):
    """Adam on clipped, noisy gradients."""

    KIND, NAME = "DPAdam", "DP-Adam"
    NOISY_SUMS = True
    learning_rate: float = 0.002
    prior: Law = "none"
    prior_std: float = 1.0

    def algorithm(self, mechanism: Mechanism, noise: Callable[[], Schedule]) -> DPAdam:
        """See :class:`pacdp.algorithms.method.Method`."""
        return DPAdam(
            mechanism=mechanism,
            noise_multiplier=noise(),
            learning_rate=self.learning_rate,
            prior=law_of(self.prior, self.prior_std),
        )
