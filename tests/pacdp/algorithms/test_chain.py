"""Every chain's settings answer what the rest of the house asks, so that nobody asks which settings they are."""

import numpy as np
import pytest
import torch

import bounds
from pacdp import LocalGibbs, NoPrivacy, Point
from pacdp.algorithms import KINDS, PSGLD, SGD, SGHMC, SGLD, Chain, EntropySGD, build, entropy_sgd, sgld
from pacdp.algorithms.chain import ChainDefaults, Thermal
from pacdp.algorithms.sampler import columns_of

TAU, N, OSCILLATION = 25.0, 500, 4.0
EXAMPLES = {
    SGD: SGD(), SGLD: SGLD(tau=TAU, decay=0.3), PSGLD: PSGLD(tau=TAU, freeze_after=3), SGHMC: SGHMC(tau=TAU),
    EntropySGD: EntropySGD(tau=TAU, gamma=4.0, inner_steps=5),
}  # fmt: skip


def test_all_kinds_are_chains():
    assert set(EXAMPLES) == set(KINDS)
    for one in EXAMPLES.values():
        assert isinstance(one, Chain)
        assert set(one.shared) <= set(one.__dataclass_fields__)


def test_laws_widths_and_targets_are_those_of_the_papers():
    weights = torch.zeros(3)
    local = EXAMPLES[EntropySGD].posterior(weights)
    assert isinstance(local, LocalGibbs)
    assert local.prior_std == EXAMPLES[EntropySGD].thermal_std == 0.1
    for kind in (SGD, SGLD, PSGLD, SGHMC):
        assert isinstance(EXAMPLES[kind].posterior(weights), Point)
        assert EXAMPLES[kind].thermal_std == (0.0 if kind is SGD else 0.2)
    for one, factor in ((EXAMPLES[SGLD], 1.0), (EXAMPLES[SGHMC], 1.0), (EXAMPLES[PSGLD], 1.0),
                        (EXAMPLES[EntropySGD], 1.0), (EntropySGD(tau=TAU, beta=0.5), 0.5)):  # fmt: skip
        found = one.target_privacy(oscillation=OSCILLATION, n=N, step=4)
        assert isinstance(found, bounds.PureDP)
        assert found.epsilon == pytest.approx(2.0 * factor * TAU * OSCILLATION / N, rel=1e-14)
    for one in (SGD(), EntropySGD(tau=TAU, beta=None), PSGLD(tau=TAU)):
        assert isinstance(one.target_privacy(oscillation=OSCILLATION, n=N, step=4), NoPrivacy)
    assert isinstance(EXAMPLES[PSGLD].target_privacy(oscillation=OSCILLATION, n=N, step=3), NoPrivacy)


def test_the_auditor_s_langevin_step_is_the_sampler_s():
    one = EXAMPLES[SGLD]
    columns = columns_of([one], "step_size", "decay", "tau", "base_std", "cooling")
    for asked in range(6):
        made, step = sgld.coefficients(columns, None, None, asked), one.langevin_step(asked)
        expected = [made["rate"][0], made["keep"][0], 0.0, made["scale"][0]]
        np.testing.assert_allclose(step, expected, rtol=1e-14)
    one = EXAMPLES[EntropySGD]
    names = ("gamma", "tau", "alpha", "inner_step_size", "inner_decay")
    inner = entropy_sgd.inner_coefficients(columns_of([one], *names), one.inner_steps)
    for asked in range(2 * one.inner_steps):
        i, step = asked % one.inner_steps, one.langevin_step(asked)
        np.testing.assert_allclose(step, [inner[name][i, 0] for name in ("rate", "keep", "pull", "scale")], rtol=1e-14)


@pytest.mark.parametrize("kind", [SGD, PSGLD, SGHMC])
def test_chains_without_private_steps_promise_nothing_and_cannot_be_audited(kind):
    for ask in (lambda one: one.promise(N, 3), lambda one: one.langevin_step(0)):
        with pytest.raises(ValueError, match=f"steps of {kind.__name__} have no privacy accounting"):
            ask(EXAMPLES[kind])


def test_chains_of_one_batch_agree_on_what_shapes_it():
    for kind, field, other in ((SGLD, "clip_norm", 1.0), (PSGLD, "correction", False), (EntropySGD, "inner_steps", 3)):
        first = EXAMPLES[kind]
        second = kind(**{name: getattr(first, name) for name in first.__dataclass_fields__} | {field: other})
        with pytest.raises(ValueError, match=f"chains of one batch must agree on {field}"):
            build([first, second], _nothing())
    with pytest.raises(ValueError, match="one chain or more"):
        sgld.build([], _nothing())


def _nothing():
    class Nothing:
        def estimate(self, weights, keys, tick):
            raise AssertionError

    return Nothing()


def test_a_new_chain_says_only_what_differs():
    class Walk(Thermal):
        def __init__(self) -> None:
            self.tau, self.batch_size, self.clip_norm = TAU, 4, None

    assert isinstance(Walk(), Chain)
    assert Walk().name == "Walk"
    assert not isinstance(ChainDefaults(), Chain)
