"""Every chain's settings answer what the rest of the house asks, so that nobody asks which settings they are."""

import torch
from numpy.testing import assert_allclose

from pacdp import LocalGibbs, Point
from pacdp.algorithms import KINDS, PSGLD, SGD, SGHMC, SGLD, EntropySGD, entropy_sgd, sgld
from pacdp.algorithms.sampler import columns_of

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


def test_the_auditor_s_langevin_step_is_the_sampler_s():
    one = EXAMPLES[SGLD]
    columns = columns_of([one], "step_size", "decay", "tau", "base_std", "cooling")
    for asked in range(6):
        made, step = sgld.coefficients(columns, None, None, asked), one.langevin_step(asked)
        expected = [made["rate"][0], made["keep"][0], 0.0, made["scale"][0]]
        assert_allclose(step, expected, rtol=1e-14)
    one = EXAMPLES[EntropySGD]
    names = ("gamma", "tau", "alpha", "inner_step_size", "inner_decay")
    inner = entropy_sgd.inner_coefficients(columns_of([one], *names), one.inner_steps)
    for asked in range(2 * one.inner_steps):
        i, step = asked % one.inner_steps, one.langevin_step(asked)
        assert_allclose(
            step, [inner[name][i, 0] for name in ("rate", "keep", "pull", "scale")], rtol=1e-14
        )
