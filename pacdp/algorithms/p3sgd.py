"""P3SGD (Wu et al. 2019): local SGD for each patient, a noisy sum, and a privately chosen scale of the noise.

Every step draws a Poisson sample S of patients. Patient i trains a copy of w on their own records, which moves it by
Δ_i; with s = Σ_{i∈S} clip_C(Δ_i), scales z_1 ... z_K and B a public constant

    w_j = w + (s + z_j C ξ_j) / B,   p_j ∝ exp(-ε' Σ_{i∈S} ℓ_i(w_j) / C_o),   w ← w_j with probability p_j

where ℓ_i is the mean loss of patient i, clipped to [0, C_o]. What is accounted is the release of *all* candidates, then
the choice, on one sample: a Gaussian of combined multiplier σ, and an ε'-private exponential mechanism, amplified
together. Independent ξ_j have 1/σ² = Σ 1/z_j²; nested ones, of the same scales, σ = min z_j.

The choice is ε'-private without the usual factor of two: with w_j given, one patient more multiplies each of the
weights exp(...) by a factor in [exp(-ε'), 1], and so each probability by one in [exp(-ε'), exp(ε')].

What the paper does otherwise. It divides sum and noise by the size of the sample, which the noise then shows. It
charges the selected candidate alone, though the choice looks at the noise of all and tells which scale it was. It clips
the loss of the whole batch, so that at its ε'² = 0.1 the better of two is chosen with probability 0.54 at most. It
multiplies the moments of the choice by q, which no theorem allows. :func:`published_epsilon` repeats its numbers.
"""

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from torch.func import grad

from bounds import _check, accounting
from bounds.record import record
from pacdp.algorithms.algorithm import Algorithm, Choice
from pacdp.errors import require_finite
from pacdp.step.clip import Weights
from pacdp.step.event import ADJACENCY
from pacdp.step.mechanism import Mechanism
from pacdp.step.release import PrivateStep
from pacdp.step.units import Network, UnitFunction

_MOMENTS = np.arange(1.0, 33.0)


@record
class P3SGD(Algorithm):
    """Settings of P3SGD; give :func:`pacdp.loop.train` the people.

    Formal guarantee: the weights after every step and all choices together, even with the candidates that were not
    chosen, are the composition of the mechanisms in the run's history, add-remove adjacency: neighbours differ by one
    patient, with all of the patient's records, more or less. Up to the rounding of the sum and of probabilities.
    """

    NAME = "P3SGD"
    FIXES_NOISE = True
    noise_scales: tuple[float, ...] = (3.0, 1.0)
    """z_1 ... z_K, over the clip norm C, the paper's C_u; one for no choice."""
    learning_rate: float = 0.1
    """Of the local SGD."""
    local_epochs: int = 1
    local_batch_size: int = 0
    """Records in a local step; 0 takes all of the patient's."""
    selection_epsilon: float = 0.1**0.5
    """ε' of every choice."""
    score_bound: float = 3.0
    """C_o, to which a patient's mean loss is clipped."""
    nested: bool = False
    """Whether every candidate is the next quieter one with more noise: the same scales at the price of the smallest.
    The paper draws each candidate's noise anew."""

    def __post_init__(self) -> None:
        scales = self.noise_scales if isinstance(self.noise_scales, Sequence) else ()
        if not scales or not all(math.isfinite(z) and z > 0.0 for z in scales):
            raise ValueError(
                "noise_scales must be a tuple of one or more finite numbers > 0, as (3.0, 1.0), got "
                f"{self.noise_scales}"
            )
        require_finite(
            learning_rate=self.learning_rate,
            selection_epsilon=self.selection_epsilon,
            score_bound=self.score_bound,
        )
        _check.count(local_epochs=self.local_epochs)
        _check.whole(local_batch_size=self.local_batch_size)

    @property
    def contribution(self) -> UnitFunction:
        """What local SGD on a person's records adds to the weights."""
        rate, epochs = self.learning_rate, self.local_epochs
        return partial(local_update, learning_rate=rate, epochs=epochs)

    @property
    def width(self) -> int | None:
        """``local_batch_size``."""
        return self.local_batch_size or None

    @torch.no_grad()
    def update(self, step: PrivateStep) -> int:
        """Draw the candidates, choose one, move there."""
        divisor = step.mechanism.expected_batch_size
        moved = [
            {name: w + (released[name] / divisor).to(w.dtype) for name, w in step.weights.items()}
            for released in self.candidates(step)
        ]
        chosen, how = 0, self.choice
        if how is not None:
            chosen = step.choose(moved, selection_epsilon=how.epsilon, score_bound=how.score_bound)
        for name, w in step.weights.items():
            w.copy_(moved[chosen][name])
        return chosen

    def candidates(self, step: PrivateStep) -> list[Weights]:
        """s + z_j C ξ_j for every scale.

        Nested ones begin with the quietest: s_(j) = s_(j-1) + √(z_(j)² - z_(j-1)²) C ξ_j.
        """
        scales = self.noise_scales
        if not self.nested:
            return [step.release(z) for z in scales]
        order = sorted(range(len(scales)), key=lambda j: scales[j])
        found = {order[0]: step.release(scales[order[0]])}
        for quieter, j in pairwise(order):
            more = math.sqrt(scales[j] ** 2 - scales[quieter] ** 2)
            found[j] = step.noisier(found[quieter], more)
        return [found[j] for j in range(len(scales))]

    def noises(self, step: int, mechanism: Mechanism) -> Sequence[float]:
        """All scales, together as informative as one sum with 1/σ² = Σ 1/z_j²; of nested candidates the smallest, since
        the others are post-processing."""
        del step, mechanism
        return (min(self.noise_scales),) if self.nested else self.noise_scales

    @property
    def choice(self) -> Choice | None:
        """Among the candidates, where there are several."""
        scales = self.noise_scales
        if len(scales) == 1:
            return None
        return Choice(
            noise_scales=scales, epsilon=self.selection_epsilon, score_bound=self.score_bound
        )

    def published(
        self, mechanism: Mechanism, *, steps: int, delta: float
    ) -> accounting.PrivacyBound:
        """See :func:`published_epsilon`."""
        return published_epsilon(
            noise_scales=self.noise_scales, sample_rate=mechanism.sample_rate, steps=steps,
            selection_epsilon=self.selection_epsilon, delta=delta,
        )  # fmt: skip


def local_update(network: Network, weights: Weights, inputs: Tensor, targets: Tensor, kept: Tensor, *,
                 learning_rate: float, epochs: int) -> Weights:  # fmt: skip
    """What SGD on the mean loss of one patient's batches, in their order, adds to the weights."""

    def batch_loss(w: Weights, x: Tensor, y: Tensor, k: Tensor) -> Tensor:
        return (k * network.losses(w, x, y)).sum() / k.sum().clamp(min=1.0)

    now = weights
    for x, y, k in [*zip(inputs.unbind(), targets.unbind(), kept.unbind(), strict=True)] * epochs:
        gradient, live, before = grad(batch_loss)(now, x, y, k), k.sum() > 0.0, now
        now = {
            name: torch.where(live, w - learning_rate * gradient[name], w)
            for name, w in before.items()
        }
    return {name: now[name] - w for name, w in weights.items()}


def published_epsilon(
    *,
    noise_scales: Sequence[float],
    sample_rate: float,
    steps: int,
    selection_epsilon: float,
    delta: float,
) -> accounting.PrivacyBound:
    """The paper's accounting, optimistic, to compare with its Table 2; no guarantee of what runs here or there.

        epsilon = min_{λ=1..32} (T (mean_j M_j(λ) + q λ(λ+1) ε'²/2) - ln delta) / λ

    M_j is the log-moment of one Poisson-sampled Gaussian of multiplier z_j (Abadi et al. 2016), every scale counted as
    selected equally often; the second term is the paper's Theorem 3. With its settings (q = 0.1, T = 100, ε'² = 0.1,
    delta = 1000^-1.1) that gives the printed values to 0.01, and to 0.03 for the scales {3, 2}; the printed text does
    not state all of it. Not covered: that all candidates share one sum, that the size of the sample shows in the noise,
    that the scale is an output.

    Returns:
        A bound of status "approximate accountant"; ``lower`` is 0.
    """
    moments = np.zeros_like(_MOMENTS)
    for z in noise_scales:
        event = accounting.PoissonSampled(
            sample_rate=sample_rate, event=accounting.Gaussian(noise_multiplier=z)
        )
        divergences = accounting.renyi_divergences(
            event=event, adjacency=ADJACENCY, orders=(_MOMENTS + 1.0).tolist()
        )
        moments += _MOMENTS * divergences / len(noise_scales)
    moments += sample_rate * _MOMENTS * (_MOMENTS + 1.0) * selection_epsilon**2 / 2.0
    found = float(((steps * moments - math.log(delta)) / _MOMENTS).min())
    return accounting.PrivacyBound(lower=0.0, estimate=found, upper=found, epsilon=found, delta=delta,
                                   adjacency=ADJACENCY, status="approximate accountant",
                                   method="moments accountant of P3SGD as published (optimistic)")  # fmt: skip
