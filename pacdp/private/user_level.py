"""User-level DP-SGD: DP-SGD whose unit of privacy is a patient (a user) with all of their records.

    w ← w - lr_t (Σ_i clip_C(Σ_k ∇ℓ(w; x_ik)) + N(0, (σ_t C)² I)) / B

i runs over a Poisson sample of patients, k over all records of patient i. Every patient's gradient is formed whole and
clipped once: a patient cut in two and clipped twice could move the sum by 2C (McMahan, Ramage, Talwar and Zhang 2018).
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import grad

from pacdp.private.patient_training import Moved, PatientMechanism, PatientRecipe, Score
from pacdp.private.patients import Network, PatientSteps, Weights, noised
from pacdp.private.schedules import Schedule, as_schedule
from pacdp.step.noise import Randomness


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLevelDPSGD:
    """Settings of user-level DP-SGD, for :func:`pacdp.private.patient_training.train_patients`.

    Formal guarantee: the weights after every step together are the composition of the Gaussian mechanisms (σ_t, q) in
    the run's history on Poisson samples of patients, add-remove adjacency: neighbours differ by one patient, with all
    of the patient's records, more or less.
    """

    mechanism: PatientMechanism
    noise_multiplier: Schedule | float
    """σ_t, over the norm C of one patient's gradient."""
    learning_rate: Schedule | float
    records_at_once: int | None = None
    """A patient's records go through the network so many at a time, for memory's sake; changes rounding only."""

    def __post_init__(self) -> None:
        if self.records_at_once is not None and self.records_at_once < 1:
            raise ValueError(f"records_at_once must be at least 1, got {self.records_at_once}")

    def recipe(self) -> PatientRecipe:
        """What the training loop runs."""
        rate, noise, mechanism = as_schedule(self.learning_rate), as_schedule(self.noise_multiplier), self.mechanism

        def move(step: int, weights: Weights, total: Weights, score: Score, randomness: Randomness) -> Moved:
            del score
            released = noised(total, noise(step) * mechanism.clip_norm, randomness)
            factor = rate(step) / mechanism.expected_patients
            return Moved({k: w - factor * released[k].to(w.dtype) for k, w in weights.items()}, 0)

        return PatientRecipe(
            settings=self,
            mechanism=mechanism,
            contribution=summed_gradient,
            cost=lambda step: PatientSteps(float(noise(step)), mechanism.sample_rate, 0.0, 1),
            move=move,
            width=self.records_at_once,
        )


def summed_gradient(network: Network, weights: Weights, inputs: Tensor, targets: Tensor, kept: Tensor) -> Weights:
    """Σ_k ∇ℓ(w; x_k) over one patient's records, in parts of the batches' width."""

    def part(w: Weights, x: Tensor, y: Tensor, k: Tensor) -> Tensor:
        return (k * network.losses(w, x, y)).sum()

    total = {name: torch.zeros_like(w) for name, w in weights.items()}
    for x, y, k in zip(inputs.unbind(), targets.unbind(), kept.unbind(), strict=True):
        gradient, live = grad(part)(weights, x, y, k), k.sum() > 0.0
        total = {name: torch.where(live, total[name] + gradient[name], total[name]) for name in weights}
    return total
