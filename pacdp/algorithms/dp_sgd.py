"""DP-SGD (Abadi et al. 2016): w ← w - lr_t (Σ_i clip_C(g_i) + N(0, (σ_t C)² I)) / B, with Poisson batches."""

from dataclasses import dataclass

from torch import optim

from pacdp.layers.priors import Prior
from pacdp.layers.regularise import prior_gradient
from pacdp.loop import Mechanism, Recipe
from pacdp.schedules import Schedule, as_schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class DPSGD:
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

    def recipe(self) -> Recipe:
        """What the training loop runs."""
        rate = as_schedule(self.learning_rate)
        return Recipe(
            settings=self,
            mechanism=self.mechanism,
            optimizer=lambda parameters: optim.SGD(parameters, lr=rate(0), momentum=self.momentum),
            noise=as_schedule(self.noise_multiplier),
            learning_rate=rate,
            data_free_gradient=prior_gradient(self.prior, self.mechanism.public_size),
        )
