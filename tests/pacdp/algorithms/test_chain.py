"""Every chain's settings answer what the rest of the house asks, so that nobody asks which settings they are."""

import numpy as np
import torch
from exact_laws import EXACT
from numpy.testing import assert_allclose

from pacdp.algorithms import KINDS, PSGLD, SGD, SGHMC, SGLD, EntropySGD, build
from pacdp.posterior import LocalGibbs, Point

TAU = 25.0
EXAMPLES = {
    SGD: SGD(), SGLD: SGLD(tau=TAU, decay=0.3), PSGLD: PSGLD(tau=TAU, freeze_after=3), SGHMC: SGHMC(tau=TAU),
    EntropySGD: EntropySGD(tau=TAU, gamma=4.0, inner_steps=5),
}  # fmt: skip


def test_laws_and_widths_are_those_of_the_papers():
    assert set(EXAMPLES) == set(KINDS)
    weights = torch.zeros(3)
    local = EXAMPLES[EntropySGD].posterior(weights)
    assert isinstance(local, LocalGibbs)
    assert local.prior_std == EXAMPLES[EntropySGD].thermal_std == 0.1
    for kind in (SGD, SGLD, PSGLD, SGHMC):
        assert isinstance(EXAMPLES[kind].posterior(weights), Point)
        assert EXAMPLES[kind].thermal_std == (0.0 if kind is SGD else 0.2)


def test_the_step_that_is_audited_is_the_sampler_s():
    for kind in (SGLD, SGHMC, EntropySGD):
        one, inner = EXAMPLES[kind], EXAMPLES[kind].gradients_per_step
        for t in range(1, 2 * inner + 1):
            made, i = build(one, EXACT).coefficients((t - 1) // inner), (t - 1) % inner
            for name, value in one.step(t)._asdict().items():
                assert_allclose(np.broadcast_to(made[name], (inner, 1))[i, 0], value, rtol=1e-14)
