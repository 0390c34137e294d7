"""SGLD and Entropy-SG(L)D with momentum as the code base of Entropy-SGD has it: noise beside the velocity, not in it.

    v ← m v + ∇R̂(w; batch)
    w ← w - h (v + w / (τ base_std²)) + √(2h/τ) N(0, I)

A gradient that changes slowly acts 1/(1 - m) times as long as it would without momentum, and the noise does not: to
first order in h the weights follow the Langevin dynamics of exp(-τ R̂ / (1 - m)). SGHMC (:mod:`pacdp.algorithms.sghmc`)
has its noise in the velocity, and the temperature that it says. In the inner loop of Entropy-SG(L)D the pull to the
centre is outside the velocity as well, so that R̂ alone is amplified; in the outer loop ∇F is.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pacdp.algorithms import SGLD, EntropySGD, Sampler, entropy_sgd, sgld
from pacdp.algorithms.sampler import Coefficients, Info, Potential
from pacdp.chains import NOISE, OUTER_NOISE, Keys, langevin
from pacdp.objective import Estimate


class State(NamedTuple):
    """Weights, the velocity of the outermost loop and the number of steps taken."""

    weights: Float[Tensor, "chains dim"]
    velocity: Float[Tensor, "chains dim"]
    step: int


def init(weights: Float[Tensor, "chains dim"]) -> State:
    """Start at ``weights``, at rest."""
    return State(weights.clone(), torch.zeros_like(weights), 0)


def build(
    settings: Sequence[SGLD] | Sequence[EntropySGD], potential: Potential, *, momentum: float, outer_momentum: float
) -> Sampler:
    """The sampler of these settings with momentum in its innermost loop, and in the outer loop of Entropy-SG(L)D."""
    if isinstance(settings[0], SGLD):
        plain = sgld.build(settings, potential)  # type: ignore[arg-type]
        return Sampler(init, plain.coefficients, partial(_langevin_step, potential, momentum))
    plain = entropy_sgd.build(settings, potential)  # type: ignore[arg-type]
    return Sampler(init, plain.coefficients, partial(_outer_step, potential, momentum, outer_momentum))


def _langevin_step(
    potential: Potential, momentum: float, state: State, c: Coefficients, keys: Keys, tick: int | Tensor
) -> tuple[State, Info]:
    estimate = potential.estimate(state.weights, keys, tick)
    velocity = state.velocity.mul(momentum).add_(estimate.gradient)
    weights = langevin(state.weights, keep=c["keep"], gradient=velocity, rate=c["rate"], scale=c["scale"],
                       keys=keys, stream=NOISE, tick=tick)  # fmt: skip
    return State(weights, velocity, state.step + 1), Info.of(estimate)


def _outer_step(
    potential: Potential, momentum: float, outer: float, state: State, c: Coefficients, keys: Keys, tick: int | Tensor
) -> tuple[State, Info]:
    centre = state.weights
    heavy = _Heavy(potential, momentum)
    mean, seen = entropy_sgd.local_mean(heavy, centre, c, keys, tick)
    velocity = state.velocity.mul(outer).add_(mean - centre)
    weights = langevin(centre, keep=c["outer_keep"] + c["outer_pull"], centre=velocity, pull=c["outer_pull"],
                       scale=c["outer_scale"], keys=keys, stream=OUTER_NOISE, tick=tick)  # fmt: skip
    displacement = (mean - centre).square().sum(dim=1)
    return State(weights, velocity, state.step + 1), seen._replace(displacement=displacement)


class _Heavy:
    """Gradients of one inner loop, each with the momentum of those before it."""

    def __init__(self, potential: Potential, momentum: float) -> None:
        self.potential, self.momentum = potential, momentum
        self.velocity: Tensor | None = None

    def estimate(self, weights: Float[Tensor, "chains dim"], keys: Keys, tick: int | Tensor) -> Estimate:
        found = self.potential.estimate(weights, keys, tick)
        before = self.velocity if self.velocity is not None else torch.zeros_like(weights)
        self.velocity = before.mul_(self.momentum).add_(found.gradient)
        return found._replace(gradient=self.velocity)
