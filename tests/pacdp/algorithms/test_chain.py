"""Every chain's settings answer what the rest of the house asks, so that nobody asks which settings they are."""

import math
from functools import partial

import numpy as np
import torch
from exact_laws import EXACT, MATRIX, TARGET
from numpy.testing import assert_allclose
from torch.testing import assert_close
from toys import Quadratic

from pacdp.algorithms import KINDS, PSGLD, SGD, SGHMC, SGLD, EntropySGD, build
from pacdp.chains import NOISE, Keys, normal_like
from pacdp.posterior import LocalGibbs, Point
from tests.marks import parametrize

TAU = 25.0
EXAMPLES = {
    SGD: SGD(), SGLD: SGLD(tau=TAU, decay=0.3), PSGLD: PSGLD(tau=TAU, freeze_after=3), SGHMC: SGHMC(tau=TAU),
    EntropySGD: EntropySGD(tau=TAU, gamma=4.0, inner_steps=5),
}  # fmt: skip


def test_laws_and_widths_are_those_of_the_papers():
    assert set(EXAMPLES) == set(KINDS)
    cooled = SGLD(tau=TAU, cooling=0.5)
    assert "no stationary law" in cooled.target_privacy(oscillation=1.0, n=9, step=3).reason
    weights = torch.zeros(3)
    local = EXAMPLES[EntropySGD].posterior(weights)
    assert isinstance(local, LocalGibbs)
    assert local.prior_std == EXAMPLES[EntropySGD].thermal_std == 0.1
    for kind in (SGD, SGLD, PSGLD, SGHMC):
        assert isinstance(EXAMPLES[kind].posterior(weights), Point)
        assert EXAMPLES[kind].thermal_std == (0.0 if kind is SGD else 0.2)


def line(settings, t, w, gradient, noise):
    """The paper's line of SGLD."""
    h, tau = settings.step_size * t**-settings.decay, settings.tau * t**settings.cooling
    return w - h * (gradient + w / (tau * settings.base_std**2)) + math.sqrt(2 * h / tau) * noise


def inner_line(settings, i, w, centre, gradient, noise):
    """That of Entropy-SGD's inner loop."""
    h = settings.inner_step_size / 2 * i**-settings.inner_decay
    return w - h * (gradient + settings.gamma * (w - centre)) + math.sqrt(2 * h / settings.tau) * noise


def moved(settings, potential, w, *, tick=6):
    """The weights after a step of the fused kernel, and a function that draws the noise of its gradients in turn."""
    sampler, keys = build(settings, potential), Keys.derive(range(len(w)))
    state = sampler.init(w)._replace(step=tick)
    return sampler.step(state, keys)[0], partial(normal_like, w, keys=keys, stream=NOISE)


@parametrize(("dtype", "rounding"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_the_fused_step_is_the_paper_s_line(dtype, rounding):
    w, potential = (torch.linspace(-1, 2, 12, dtype=dtype).reshape(2, 6), Quadratic(MATRIX, TARGET, noise=0.0))
    near = partial(assert_close, rtol=rounding, atol=rounding)

    def slope(at):
        return potential.estimate(at, Keys.derive(range(2)), 6).gradient

    sgld = SGLD(tau=TAU, step_size=0.3, decay=0.3, base_std=0.6, cooling=0.2)
    after, noise = moved(sgld, potential, w)
    near(after.weights, line(sgld, 7, w, slope(w), noise(tick=6)))
    # of SGHMC with all friction, from rest, the velocity is SGLD's move
    sghmc = SGHMC(tau=TAU, step_size=0.3, decay=0.3, base_std=0.6, cooling=0.2, friction=1.0)
    after, noise = moved(sghmc, potential, w)
    near(after.weights, line(sgld, 7, w, slope(w), noise(tick=6)))
    near(after.velocity, after.weights - w)
    entropy = EntropySGD(tau=TAU, gamma=4.0, inner_steps=3, alpha=1.0, beta=None, outer_step_size=2.0, outer_decay=0.0)
    after, noise = moved(entropy, potential, w)  # to where its inner loop ended
    local = w
    for i in (1, 2, 3):
        local = inner_line(entropy, i, local, w, slope(local), noise(tick=6 * 3 + i - 1))
    near(after.weights, local)


def test_the_step_that_is_audited_is_the_sampler_s():
    for kind in (SGLD, SGHMC, EntropySGD):
        one, inner = EXAMPLES[kind], EXAMPLES[kind].gradients_per_step
        for t in range(1, 2 * inner + 1):
            made, i = build(one, EXACT).coefficients((t - 1) // inner), (t - 1) % inner
            for name, value in one.step(t)._asdict().items():
                assert_allclose(np.broadcast_to(made[name], (inner, 1))[i, 0], value, rtol=1e-14)
