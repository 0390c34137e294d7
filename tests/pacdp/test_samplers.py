"""A step is a function of its arguments."""

import pytest
import torch
import toys
from torch.testing import assert_close
from toys import keys_of, tensors, toy_data, toy_objective

from pacdp.algorithms import PSGLD, SGD, SGHMC, SGLD, EntropySGD, build, chain_of, restore, stacked
from tests.marks import parametrize, refusal

SAMPLERS = {
    **toys.SAMPLERS,
    "pSGLD frozen": PSGLD(tau=30.0, freeze_after=1, correction=False),
    "Entropy-SGD": EntropySGD(tau=30.0, inner_steps=3, beta=None),
    "Entropy-SGLD clipped": EntropySGD(tau=30.0, inner_steps=3, clip_norm=0.5),
}
pytestmark = pytest.mark.every_case
each = parametrize("name", SAMPLERS)


def equal(left, right):
    return all(a is b is None or torch.equal(a, b) for a, b in zip(left, right, strict=True))  # type: ignore[arg-type]


def problem(name, chains=1):
    settings = SAMPLERS[name]
    objective = toy_objective(toy_data(), clip_norm=getattr(settings, "clip_norm", None))
    return (settings, build(settings, objective), objective.weights() + torch.arange(float(chains))[:, None] / 10)


@each
def test_a_step_is_a_function_of_state_and_keys(name):
    _, sampler, weights = problem(name, chains=2)
    state, _ = sampler.step(sampler.init(weights), keys_of(0, 1))
    kept, ambient = tensors(state), torch.get_rng_state()
    first, seen = sampler.step(state, keys_of(3, 4))
    found, seen = tensors(first), [None if part is None else part.clone() for part in seen]
    other, _ = sampler.step(state, keys_of(5, 6))
    again, seen_again = sampler.step(state, keys_of(3, 4))
    for left, right in ((state, kept), (first, found), (again, found)):
        assert equal(tensors(left), right)
    assert equal(seen, seen_again)
    assert not torch.equal(other.weights, first.weights)
    assert (state.step, first.step) == (1, 2)
    assert torch.equal(torch.get_rng_state(), ambient)
    # the same state at another step draws other numbers
    here, there, tensor_tick = (
        tensors(sampler.transition(state, sampler.coefficients(0), keys_of(3, 4), tick)[0])
        for tick in (0, 1, torch.tensor(1))
    )
    assert not equal(here, there)
    assert equal(there, tensor_tick)


@each
def test_init_copies_and_restore_rebuilds(name):
    settings, sampler, weights = problem(name, chains=3)
    before = weights.clone()
    state = sampler.init(weights)
    assert state.step == 0
    weights += 1
    assert torch.equal(state.weights, before)
    state, _ = sampler.step(state, keys_of(0, 1, 2))
    fields = {field: value for field, value in state._asdict().items() if field != "step"}
    again = restore(settings, fields, state.step)
    assert type(again) is type(state)
    assert again.step == 1
    alone = [chain_of(state, k) for k in range(3)]
    assert [one.weights.shape[0] for one in alone] == [1, 1, 1]
    for one in (again, stacked(alone)):
        assert equal(tensors(one), tensors(state))


@each
def test_chains_that_go_on_apart_go_on_as_before(name):
    _, sampler, weights = problem(name, chains=3)
    keys, state = keys_of(0, 1, 2), sampler.init(weights)
    for _ in range(3):
        state, _ = sampler.step(state, keys)
    together, _ = sampler.step(state, keys)
    apart, _ = sampler.step(stacked([chain_of(state, chain) for chain in (2, 0)]), keys.select([2, 0]))
    for left, right in zip(tensors(apart), tensors(together), strict=True):
        assert_close(left, right[[2, 0]], rtol=1e-5, atol=1e-6)


def test_the_state_of_another_algorithm_is_refused():
    _, sampler, weights = problem("pSGLD frozen")
    state = sampler.init(weights)
    for settings in (SGHMC(tau=30.0), SGLD(tau=30.0), EntropySGD(tau=30.0)):
        with refusal(r"begin with sampler.init\(state.weights\)"):
            build(settings, toy_objective(toy_data())).step(state, keys_of(0))


def test_info_averages_what_the_inner_loop_saw():
    objective, keys = toy_objective(toy_data()), keys_of(0)
    settings = EntropySGD(tau=1e6, inner_steps=4, inner_step_size=1e-9, beta=None)
    sampler = build(settings, objective)
    state = sampler.init(objective.weights())._replace(step=5)
    _, info = sampler.step(state, keys)
    # the inner chain hardly moves, so the four batches are judged at the start
    seen = [objective.estimate(objective.weights(), keys, 20 + i) for i in range(4)]
    assert_close(info.loss, torch.stack([e.loss for e in seen]).mean(dim=0), rtol=1e-4, atol=1e-4)
    assert_close(info.error, torch.stack([e.error for e in seen]).mean(dim=0))


def test_gradients_of_a_step_are_counted():
    known = {SGD(): 1, SGLD(tau=1.0): 1, SGHMC(tau=1.0): 1, PSGLD(tau=1.0): 2, EntropySGD(tau=1.0, inner_steps=7): 7}
    assert {one: one.gradients_per_step for one in known} == known
