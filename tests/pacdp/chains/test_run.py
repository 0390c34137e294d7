"""Running chains in chunks changes no number, and nothing that is not finite is ever yielded."""

import math

import torch
from torch import equal
from toys import keys_of, toy_data, toy_objective

from pacdp.algorithms import SGD, SGLD, EntropySGD, build
from pacdp.chains import run_chains
from pacdp.errors import Diverged
from pacdp.losses import Loss, zero_one
from pacdp.objective import Estimate
from tests.marks import parametrize, refusal

SAMPLERS = [SGD(momentum=0.5), SGLD(tau=30.0), EntropySGD(tau=30.0, inner_steps=2)]


class Scripted:
    """A potential whose losses, and whose gradients if given, are read from a list of numbers or rows of them."""

    def __init__(self, losses, gradients=None):
        self.losses = iter(losses)
        self.gradients = iter(gradients or [0.0] * len(losses))

    def estimate(self, weights, keys, tick):
        loss, slope = (torch.as_tensor(next(values)).expand(len(weights)) for values in (self.losses, self.gradients))
        return Estimate(slope[:, None].expand_as(weights).clone(), loss.clone(), torch.zeros(len(weights)))


def chunks_of(settings, *, chunk):
    objective = toy_objective(toy_data())
    sampler = build(settings, objective)
    return list(run_chains(sampler, sampler.init(objective.weights()), keys_of(2), until=20, chunk=chunk))


@parametrize("settings", SAMPLERS, ids=["SGD", "SGLD", "Entropy-SGLD"])
def test_the_size_of_chunks_changes_no_number(settings):
    whole, *rest = chunks_of(settings, chunk=100)
    assert not rest
    assert whole.state.step == whole.losses.shape[1] == whole.errors.shape[1] == 20
    for size in (1, 7):
        chunks = chunks_of(settings, chunk=size)
        assert [c.state.step for c in chunks] == [*range(size, 20, size), 20]
        assert equal(chunks[-1].state.weights, whole.state.weights)
        for name in ("losses", "errors", "displacements"):
            if getattr(whole, name) is None:
                assert not isinstance(settings, EntropySGD)
            else:
                assert equal(torch.cat([getattr(c, name) for c in chunks], dim=1), getattr(whole, name))


def test_chunks_end_at_multiples_wherever_the_chain_starts():
    objective = toy_objective(toy_data())
    sampler, keys = build(SGD(), objective), keys_of(0)
    state = sampler.init(objective.weights())
    (part,) = run_chains(sampler, state, keys, until=3, chunk=5)
    chunks = list(run_chains(sampler, part.state, keys, until=12, chunk=5))
    assert [c.state.step for c in chunks] == [5, 10, 12]
    for _ in range(12):  # by hand
        state, _ = sampler.step(state, keys)
    assert equal(chunks[-1].state.weights, state.weights)
    assert list(run_chains(sampler, state, keys, until=12, chunk=5)) == []


def stopped(losses, gradients=None, *, chains=1, chunk=5):
    """What ended a run of SGD on these, and the chunks before."""
    sampler, seen = build(SGD(), Scripted(losses, gradients)), []
    start = sampler.init(torch.zeros(chains, 3))
    with refusal("became NaN or infinite", Diverged) as caught:
        seen.extend(run_chains(sampler, start, keys_of(*range(chains)), until=20, chunk=chunk))
    return caught.value, [c.state.step for c in seen]


@parametrize("bad", [math.nan, -math.inf])
@parametrize("chunk", [1, 5, 100])
def test_divergence_names_the_first_bad_step_and_keeps_earlier_chunks(chunk, bad):
    for step in (1, 5, 6, 13):
        losses = [0.5] * 20
        losses[step - 1] = losses[step + 2] = bad
        found, seen = stopped(losses, chunk=chunk)
        assert found.step == step
        assert seen == list(range(chunk, step, chunk))


def test_one_bad_inner_gradient_spoils_its_outer_step():
    losses = [0.5] * 40
    losses[9] = math.nan  # the second inner step of outer step 3
    sampler = build(EntropySGD(tau=10.0, inner_steps=4), Scripted(losses))
    with refusal("at step 3:", Diverged):
        list(run_chains(sampler, sampler.init(torch.zeros(1, 3)), keys_of(0), until=10, chunk=10))


def test_a_loss_above_its_declared_interval_is_refused():
    loss = Loss(name="declared", low=0.1, high=1.0, function=zero_one().function)
    losses = [0.0, 0.1, 1.0, 0.5, 1.1, 0.5]  # an empty Poisson batch counts as 0, below the interval, and passes
    sampler = build(SGD(), Scripted(losses))
    seen = []
    with refusal("loss declared declares the interval"):
        seen.extend(run_chains(sampler, sampler.init(torch.zeros(1, 3)), keys_of(0), until=6, chunk=4, loss=loss))
    assert [c.state.step for c in seen] == [4]


def test_divergence_names_the_first_step_of_any_chain():
    losses = [[0.5, 0.5, 0.5]] * 4 + [[0.5, 0.5, math.nan], [math.inf, 0.5, 0.5]] + [[0.5] * 3] * 14
    found, _ = stopped(losses, chains=3, chunk=10)
    assert found.step == 5
    gradients = [[0.0, 0.0, 0.0]] * 4 + [[0.0, math.inf, 0.0]] * 16
    found, _ = stopped([0.5] * 20, gradients, chains=3, chunk=10)
    assert found.step == 10
