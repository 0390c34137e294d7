"""DP-Adam: Adam fed with privatised gradients.

    g = (Σ_i clip_C(g_i) + N(0, (σ_t C)² I)) / B,   m, v ← moments of g and g²,   w ← w - lr m̂ / (√v̂ + ε)

Bias. E[g²] exceeds the squared mean gradient by the noise's variance (σ C / B)², so v̂ is at least that large in every
coordinate, and where the noise dominates the update is momentum SGD with the constant step lr B / (σ C) (Tang,
Shpilevskiy and Lécuyer 2023). The moments of the privatised gradients are used as they are; subtracting the known
variance is not done here. Privacy is untouched either way: the moments are post-processing.
"""

from collections.abc import Iterable
from dataclasses import field

from torch import nn, optim

from bounds.record import record
from pacdp.algorithms.algorithm import Descent
from pacdp.layers.priors import Law, Prior
from pacdp.schedules import Schedule
from pacdp.store.canonical import JOINED_LATER


@record
class DPAdam(Descent):
    """Settings of DP-Adam: Adam on clipped, noisy gradients.

    Formal guarantee: that of :class:`pacdp.private.DPSGD`; all of Adam is post-processing.
    """

    NAME = "DP-Adam"
    learning_rate: float | Schedule = 0.002
    prior: Law | Prior = "none"
    prior_std: float = 1.0
    beta1: float = field(default=0.9, metadata=JOINED_LATER)
    """The weight of the past in the mean of the gradients."""
    beta2: float = field(default=0.999, metadata=JOINED_LATER)
    """The weight of the past in the mean of their squares."""
    stabiliser: float = field(default=1e-8, metadata=JOINED_LATER)
    """Adam's ε, added to √v̂."""

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> optim.Optimizer:
        """Adam, whose learning rate every update sets."""
        return optim.Adam(parameters, lr=0.0, betas=(self.beta1, self.beta2), eps=self.stabiliser)
