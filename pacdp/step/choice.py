"""The exponential mechanism on clipped losses: one candidate out of several, chosen privately.

Candidate j is chosen with probability p_j ∝ exp(-ε' Σ_i min(max(ℓ_ij, 0), C_o) / C_o), where ℓ_ij is the mean loss of
unit i at candidate j. The choice is ε'-private without the usual factor of two: with the candidates given, one unit
more multiplies each of the weights exp(...) by a factor in [exp(-ε'), 1], and so each probability by one in
[exp(-ε'), exp(ε')].
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from pacdp.step.noise import Randomness


def clipped_scores(
    losses: Float[Tensor, "candidates units"], score_bound: float
) -> Float[Tensor, " candidates"]:
    """Σ_i min(max(ℓ_ij, 0), C_o) / C_o, double precision, on the CPU; NaN counts as C_o. Private."""
    scores = losses.detach().cpu().double() / score_bound
    return torch.where(scores.isnan(), 1.0, scores.clamp(0.0, 1.0)).sum(1)


def probabilities_of(
    scores: Float[Tensor, " candidates"], selection_epsilon: float
) -> Float[Tensor, " candidates"]:
    """p_j ∝ exp(-ε' score_j), in double precision; without units all candidates are equally likely.

    Formal guarantee: adding or removing one unit, whose part in every :func:`clipped_scores` lies in [0, 1], changes
    every probability by a factor of at most exp(``selection_epsilon``), whatever that unit's losses.
    """
    return torch.softmax(-selection_epsilon * scores, 0)


def choose(probabilities: Float[Tensor, " candidates"], randomness: Randomness) -> int:
    """An index with these probabilities: a coin for every candidate but the last, until one falls on its side."""
    values = probabilities.tolist()
    for j, value in enumerate(values[:-1]):
        rest = math.fsum(values[j:])
        if len(randomness.batch(1, min(1.0, value / rest) if rest > 0.0 else 1.0)):
            return j
    return len(values) - 1
