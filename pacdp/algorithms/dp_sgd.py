"""DP-SGD (Abadi et al. 2016): w ← w - lr_t (Σ_i clip_C(g_i) + N(0, (σ_t C)² I)) / B, with Poisson batches."""

from collections.abc import Callable
from dataclasses import dataclass

from pacdp.algorithms.algorithm import Scheduled
from pacdp.algorithms.method import Law, Method, law_of
from pacdp.layers.priors import Prior
from pacdp.schedules import Schedule
from pacdp.step.mechanism import Mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class DPSGD(Scheduled):
    """Settings of DP-SGD.

    Formal guarantee: the weights after every step together are the composition of the Poisson-sampled Gaussian
    mechanisms (σ_t, q) in the run's history, add-remove adjacency. Momentum and the prior are post-processing.
    """

    momentum: float = 0.0
    prior: Prior | None = None
    """Its energy over the public size of the data is added to the loss, after the noise: a Normal is weight decay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DPSGDMethod(Method):
    """Clipped, noisy gradient descent."""

    KIND, NAME = "DPSGD", "DP-SGD"
    NOISY_SUMS = True
    learning_rate: float = 2.0
    momentum: float = 0.0
    prior: Law = "none"
    prior_std: float = 1.0
    """Scale of the prior on the weights; a normal one is weight decay."""

    def algorithm(self, mechanism: Mechanism, noise: Callable[[], Schedule]) -> DPSGD:
        """See :class:`pacdp.algorithms.method.Method`."""
        return DPSGD(
            mechanism=mechanism,
            noise_multiplier=noise(),
            learning_rate=self.learning_rate,
            momentum=self.momentum,
            prior=law_of(self.prior, self.prior_std),
        )
