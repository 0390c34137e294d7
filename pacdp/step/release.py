"""One private step under way: it holds what nobody may see, and the only ways to let something of it out.

Whatever leaves is noted where its noise is drawn: :attr:`PrivateStep.event` is built from that, and nothing else says
what a step cost.

One candidate out of several is chosen by the exponential mechanism on clipped losses: candidate j is chosen with
probability p_j ∝ exp(-ε' Σ_i min(max(ℓ_ij, 0), C_o) / C_o), where ℓ_ij is the mean loss of unit i at candidate j. The
choice is ε'-private without the usual factor of two: with the candidates given, one unit more multiplies each of the
weights exp(...) by a factor in [exp(-ε'), 1], and so each probability by one in [exp(-ε'), exp(ε')].
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bounds.accounting import Event
from pacdp.step.clip import Weights
from pacdp.step.event import sampled_step
from pacdp.step.mechanism import Mechanism, QuantileClipping
from pacdp.step.noise import Randomness
from pacdp.step.processes import Together

Losses = Callable[[Weights], Tensor]
"""Mean loss of each unit of the sample at other weights; private."""


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


@dataclass(slots=True, kw_only=True)
class PrivateStep:
    """Step ``number`` (from 0) of a run, after its sample was drawn and summed and before anything left it."""

    number: int
    mechanism: Mechanism
    module: nn.Module
    optimizer: torch.optim.Optimizer | None
    weights: Weights
    """The trainable parameters of ``module``, which an update changes in place."""
    randomness: Randomness
    together: Together
    total: Weights
    """The clipped sum, without noise: private."""
    clip_norm: float
    """C_t, to which contributions were clipped."""
    units: int
    """How many there are in the sample; private."""
    within: int | Tensor
    """Σ_i b_i, b_i = 1 where the norm was at most C_t before clipping; private."""
    losses: Losses | None
    watch: Callable[[Weights], None] | None = None
    """Called with whatever is released: an auditor."""
    _noise_multipliers: list[float] = field(default_factory=list)
    _choice_epsilon: float = 0.0

    def release(self, noise_multiplier: float) -> Weights:
        """The clipped sum with N(0, (σC)²) on every coordinate, and a note that it was released.

        Formal guarantee: a Gaussian mechanism of multiplier σ on the step's sample, add-remove adjacency, up to the
        rounding of the sum (docs/noise.md).
        """
        self._noise_multipliers.append(float(noise_multiplier))
        made = self.together.noised(self.total, noise_multiplier * self.clip_norm, self.randomness)
        if self.watch is not None:
            self.watch(made)
        return made

    def noisier(self, released: Weights, std_multiplier: float) -> Weights:
        """What was released before with further noise: post-processing, which costs nothing."""
        return self.together.noisier(released, std_multiplier * self.clip_norm, self.randomness)

    def next_clip_norm(self) -> float:
        """C_(t+1), which changes where :class:`pacdp.step.mechanism.QuantileClipping` releases a noisy count.

        Formal guarantee: Σ_i (b_i - 1/2) moves by 1/2 with one unit more or less, so that the count is a Gaussian
        mechanism of multiplier 2σ_b on the step's sample, whatever the unit's records.
        """
        rule = self.mechanism.clipping
        if not isinstance(rule, QuantileClipping):
            return self.clip_norm
        self._noise_multipliers.append(2.0 * rule.count_noise)
        surplus = {"": torch.as_tensor(self.within).double() - 0.5 * self.units}
        made = self.together.noised(surplus, rule.count_noise, self.randomness)
        fraction = 0.5 + float(made[""]) / self.mechanism.expected_batch_size
        return rule.moved(self.clip_norm, fraction, first=self.mechanism.clip_norm)

    def choose(
        self, candidates: list[Weights], *, selection_epsilon: float, score_bound: float
    ) -> int:
        """One of the candidates by the exponential mechanism on the sample's clipped losses (:mod:`choice`)."""
        self._choice_epsilon += selection_epsilon
        assert self.losses is not None
        losses = torch.stack([self.losses(candidate) for candidate in candidates])
        scores = self.together.sums(clipped_scores(losses, score_bound))
        return self.together.first_says(
            choose(probabilities_of(scores, selection_epsilon), self.randomness)
        )

    @property
    def event(self) -> Event:
        """What left, as the accountant sees it.

        Raises:
            ValueError: nothing was released.
        """
        return sampled_step(
            self._noise_multipliers,
            sample_rate=self.mechanism.sample_rate,
            choice_epsilon=self._choice_epsilon,
        )
