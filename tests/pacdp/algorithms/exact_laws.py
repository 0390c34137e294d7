"""Laws of the samplers' steps on a quadratic, where they are Gaussian and known, and runs beside them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from affine import Law, smallest, states
from toys import Quadratic

from pacdp.algorithms import PSGLD, SGHMC, SGLD, EntropySGD, build
from pacdp.chains import Keys

MATRIX = np.array([[0.8, 0.3], [0.3, 1.4]])
TARGET = np.array([-0.7, 0.4])
START = np.array([1.5, -0.5])
EXACT, NOISY = (Quadratic(MATRIX, TARGET, noise=noise) for noise in (0.0, 0.6))
KEYS = Keys.derive(range(100))
ONE, ZERO = np.eye(2), np.zeros((2, 2))
FROZEN = PSGLD(tau=10.0, step_size=0.1, freeze_after=1, stabiliser=0.3, base_std=0.6)
SETTINGS = {
    "SGLD, constant": SGLD(tau=40.0, step_size=0.3, base_std=0.5),
    "SGLD, decaying": SGLD(tau=40.0, step_size=0.3, decay=0.6, base_std=0.5),
    "SGLD, hot": SGLD(tau=4.0, step_size=0.1, base_std=2.0),
    "SGLD, large steps": SGLD(tau=1000.0, step_size=0.9, decay=1.0, base_std=0.1),
    "SGHMC, underdamped": SGHMC(tau=10.0, step_size=0.1, friction=0.1, base_std=0.7),
    "SGHMC, decaying": SGHMC(tau=40.0, step_size=0.3, decay=0.5, friction=0.3, base_std=0.5),
    "SGHMC, all friction": SGHMC(tau=4.0, step_size=0.05, friction=1.0, base_std=2.0),
    "pSGLD, with correction": FROZEN,
    "pSGLD, decaying": PSGLD(tau=3.0, step_size=0.1, freeze_after=1, decay=0.5, stabiliser=1.0, base_std=3.0),
    "pSGLD, without correction": PSGLD(tau=10.0, step_size=0.1, freeze_after=1, stabiliser=0.3, correction=False),
    "Entropy-SGLD": EntropySGD(tau=20.0, outer_step_size=0.5, base_std=0.4, inner_steps=3),
    "Entropy-SGLD, one inner step": EntropySGD(
        tau=50.0, gamma=0.5, beta=0.5, outer_step_size=0.3, outer_decay=0.2, inner_steps=1
    ),
    "Entropy-SGD": EntropySGD(tau=20.0, outer_step_size=0.5, base_std=0.4, inner_steps=3, beta=None),
    "Entropy-SGLD, long": EntropySGD(
        tau=5.0, gamma=0.3, beta=4.0, outer_step_size=0.8, outer_decay=0.0, inner_steps=7, alpha=0.3,
        inner_step_size=0.7, inner_decay=0.5,
    ),
    "Entropy-SGD, no average": EntropySGD(
        tau=5.0, gamma=3.0, beta=None, outer_step_size=1.2, inner_steps=5, alpha=1.0, inner_step_size=0.2
    ),
}  # fmt: skip


class Counting(Quadratic):
    """How often a gradient was asked for."""

    calls = 0

    def estimate(self, weights, keys, tick):
        self.calls += 1
        return super().estimate(weights, keys, tick)


def sgld_law(law, s, potential, step, *, heat=1.0, h=0.0):
    """w ← w - h (A (w - t) + noise g + w/(τ σ²)) + √(2h/τ) ξ."""
    h, tau, a = h or s.step_size * step**-s.decay, s.tau / heat, potential.matrix
    noise = (2 * h / tau + (h * potential.noise) ** 2) * ONE
    return law.moved(ONE - h * (a + ONE / (tau * s.base_std**2)), h * a @ potential.target, noise)


def sghmc_law(law, s, potential, step):
    """Of (w, v): v ← (1 - a) v - h (A (w - t) + noise g + w/(τ σ²)) + √(2 a h/τ) ξ, w ← w + v."""
    h, a = s.step_size * step**-s.decay, potential.matrix
    kick = np.block([[ONE, ZERO], [-h * (a + ONE / (s.tau * s.base_std**2)), (1 - s.friction) * ONE]])
    noise = (2 * s.friction * h / s.tau + (h * potential.noise) ** 2) * ONE
    shift = np.concatenate([np.zeros(2), h * a @ potential.target])
    kicked = law.moved(kick, shift, np.block([[ZERO, ZERO], [ZERO, noise]]))
    return kicked.moved(np.block([[ONE, ONE], [ZERO, ONE]]))


def psgld_law(law, s, potential, step, *, metric=None):
    """w ← w - h G (A (w - t) + w/(τ σ²)) + (h/τ) Γ + √(2 h G/τ) ξ; Γ at the first step alone.

    From a point the first gradient g, and so the metric 1/(λ + |g|) that stays, is the same for all chains.
    """
    h, a = s.step_size * step**-s.decay, potential.matrix + ONE / (s.tau * s.base_std**2)
    slope = a @ START - potential.matrix @ potential.target
    g = np.diag(1 / (s.stabiliser + np.abs(slope))) if metric is None else metric
    shift = h * g @ potential.matrix @ potential.target
    if step == 1 and s.correction:
        # Γ has the derivative of each coordinate's own metric
        shift = shift - h / s.tau * np.sign(slope) * np.diag(a) * np.diag(g) ** 2
    noise = g @ (2 * h / s.tau * ONE + (h * potential.noise) ** 2 * g)
    return law.moved(ONE - h * g @ a, shift, noise)


def inner_law(centre, s, potential):
    """Of (w', μ, w) after the inner loop, for w of law ``centre``."""
    a = potential.matrix
    law = centre.moved(np.vstack([ONE, ONE, ONE]))
    for i in range(1, s.inner_steps + 1):
        h = s.inner_step_size / 2 * i**-s.inner_decay
        move = np.block(
            [[ONE - h * (a + s.gamma * ONE), ZERO, h * s.gamma * ONE], [ZERO, ONE, ZERO], [ZERO, ZERO, ONE]]
        )
        noise = np.zeros((6, 6))
        noise[:2, :2] = (2 * h / s.tau + (h * potential.noise) ** 2) * ONE
        law = law.moved(move, np.concatenate([h * a @ potential.target, np.zeros(4)]), noise)
        law = law.moved(np.block([[ONE, ZERO, ZERO], [s.alpha * ONE, (1 - s.alpha) * ONE, ZERO], [ZERO, ZERO, ONE]]))
    return law


def entropy_law(law, s, potential, step, *, sign=1.0):
    """w ← w + ½ η τγ (μ - w) - ½ (η/β) w/σ² + √(η/β) ξ; ``sign`` -1 is line 9 of Algorithm 1 as printed."""
    eta = s.outer_step_size / (s.gamma * s.tau) * step**-s.outer_decay
    pull, heat = sign * 0.5 * eta * s.tau * s.gamma, 0.0 if s.beta is None else 1 / s.beta
    keep = 1 - pull - 0.5 * eta * heat / s.base_std**2
    return inner_law(law, s, potential).moved(np.hstack([ZERO, pull * ONE, keep * ONE]), 0.0, eta * heat * ONE)


def weights_of(state):
    """Draws [chains, blocks, 2]."""
    return state.weights.unflatten(1, (-1, 2))


def phase_of(state):
    """Draws [chains, blocks, 4] of position and velocity."""
    return torch.cat([weights_of(state), state.velocity.unflatten(1, (-1, 2))], dim=2)


class Rule(NamedTuple):
    """How a law moves in a step, where it starts, and how its draws are read."""

    moved: Callable[..., Law]
    first: Law = Law.at(START)
    draws: Callable[[Any], torch.Tensor] = weights_of


AT_REST = Law.at(np.concatenate([START, np.zeros(2)]))
RULES = {SGLD: Rule(sgld_law), SGHMC: Rule(sghmc_law, AT_REST, phase_of), PSGLD: Rule(psgld_law),
         EntropySGD: Rule(entropy_law)}  # fmt: skip


def beside(
    *settings, potential = EXACT, keys = None, steps = 8, copies = 200,
    **more,
):  # fmt: skip
    """Draws and their law, after every step from which it has a density: of one setting or of a chain of each."""
    rule = RULES[type(settings[0])]
    laws = [rule.first for _ in settings]
    keys, sampler = keys or KEYS, build(settings if len(settings) > 1 else settings[0], potential)
    for step, state in states(sampler, keys, START, steps=steps, copies=copies):
        laws = [rule.moved(law, one, potential, step, **more) for law, one in zip(laws, settings, strict=True)]
        draws = rule.draws(state)
        if np.linalg.matrix_rank(laws[0].covariance) == len(laws[0].mean):
            yield from zip(draws if len(settings) > 1 else [draws.flatten(0, 1)], laws, strict=True)


def worst(*settings, **given):
    """The smallest p-value along a run."""
    return min(smallest(draws, law) for draws, law in beside(*settings, **given))
