"""DP-SGD (Abadi et al. 2016): w ← w - lr_t (Σ_i clip_C(g_i) + N(0, (σ_t C)² I)) / B, with Poisson batches."""

from dataclasses import dataclass

from pacdp.algorithms.algorithm import Descent
from pacdp.layers.priors import Prior
from pacdp.layers.regularise import Regulariser, prior_gradient
from pacdp.schedules import Schedule
from pacdp.step.mechanism import Mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class DPSGD(Descent):
    """Settings of DP-SGD.

    Formal guarantee: the weights after every step together are the composition of the Poisson-sampled Gaussian
    mechanisms (σ_t, q) in the run's history, add-remove adjacency. Momentum and the prior are post-processing.
    """

    mechanism: Mechanism
    noise_multiplier: Schedule | float
    """σ_t."""
    learning_rate: Schedule | float
    momentum: float = 0.0
    prior: Prior | None = None
    """Its energy over the public size of the data is added to the loss, after the noise: a Normal is weight decay."""

    @property
    def data_free_gradient(self) -> Regulariser | None:
        """The prior's, over the public size."""
        return prior_gradient(self.prior, self.mechanism.public_size)
