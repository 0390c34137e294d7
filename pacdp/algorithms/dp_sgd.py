"""DP-SGD (Abadi et al. 2016): w ← w - lr_t (Σ_i clip_C(g_i) + N(0, (σ_t C)² I)) / B, with Poisson batches."""

from bounds.record import record
from pacdp.algorithms.algorithm import Descent
from pacdp.layers.priors import Law, Prior
from pacdp.schedules import Schedule


@record
class DPSGD(Descent):
    """Settings of DP-SGD: clipped, noisy gradient descent.

    Formal guarantee: the weights after every step together are the composition of the Poisson-sampled Gaussian
    mechanisms (σ_t, q) in the run's history, add-remove adjacency. Momentum and the prior are post-processing.
    """

    NAME = "DP-SGD"
    learning_rate: float | Schedule = 2.0
    momentum: float = 0.0
    prior: Law | Prior = "none"
    """Its energy over the public size of the data is added to the loss, after the noise: "normal" is weight decay. In
    Python it may be any law of a weight."""
    prior_std: float = 1.0
    """The scale of a prior that is given by its name."""
