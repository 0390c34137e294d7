"""DP-Adam: Adam fed with privatised gradients.

    g = (Σ_i clip_C(g_i) + N(0, (σ_t C)² I)) / B,   m, v ← moments of g and g²,   w ← w - lr m̂ / (√v̂ + ε)

Bias. E[g²] exceeds the squared mean gradient by the noise's variance (σ C / B)², so v̂ is at least that large in every
coordinate, and where the noise dominates the update is momentum SGD with the constant step lr B / (σ C) (Tang,
Shpilevskiy and Lécuyer 2023). The moments of the privatised gradients are used as they are; subtracting the known
variance is not done here. Privacy is untouched either way: the moments are post-processing.
"""

from dataclasses import dataclass

from torch import optim

from pacdp.layers.priors import Prior
from pacdp.layers.regularise import prior_gradient
from pacdp.loop import Mechanism, Recipe
from pacdp.schedules import Schedule, as_schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class DPAdam:
    """Settings of DP-Adam.

    Formal guarantee: that of :class:`pacdp.private.DPSGD`; all of Adam is post-processing.
    """

    mechanism: Mechanism
    noise_multiplier: Schedule | float
    learning_rate: Schedule | float
    betas: tuple[float, float] = (0.9, 0.999)
    stabiliser: float = 1e-8
    """Adam's ε, added to √v̂."""
    prior: Prior | None = None

    def recipe(self) -> Recipe:
        """What the training loop runs."""
        rate = as_schedule(self.learning_rate)
        return Recipe(
            settings=self,
            mechanism=self.mechanism,
            optimizer=lambda parameters: optim.Adam(parameters, lr=rate(0), betas=self.betas, eps=self.stabiliser),
            noise=as_schedule(self.noise_multiplier),
            learning_rate=rate,
            data_free_gradient=prior_gradient(self.prior, self.mechanism.public_size),
        )
