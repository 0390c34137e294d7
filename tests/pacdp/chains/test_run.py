"""Running chains in chunks changes no number, and nothing that is not finite is ever yielded."""

import math

import pytest
import torch
from torch import Tensor
from toys import keys_of, toy_data, toy_objective

from pacdp.algorithms import SGD, SGLD, EntropySGD, Settings, build
from pacdp.chains import Chunk, Keys, run_chains
from pacdp.errors import Diverged
from pacdp.losses import Loss, zero_one
from pacdp.objective import Estimate

SAMPLERS = [SGD(momentum=0.5), SGLD(tau=30.0), EntropySGD(tau=30.0, inner_steps=2)]


class Scripted:
    """A potential whose losses, and whose gradients if given, are read from a list of numbers or rows of them."""

    def __init__(self, losses: list, gradients: list | None = None) -> None:
        self.losses = iter(losses)
        self.gradients = iter(gradients or [0.0] * len(losses))

    def estimate(self, weights: Tensor, keys: Keys, tick: int | Tensor) -> Estimate:
        loss, slope = (torch.as_tensor(next(values)).expand(len(weights)) for values in (self.losses, self.gradients))
        return Estimate(slope[:, None].expand_as(weights).clone(), loss.clone(), torch.zeros(len(weights)))


START = torch.zeros(1, 3)


def chunks_of(settings: Settings, *, chunk: int, until: int = 20) -> list[Chunk]:
    objective = toy_objective(toy_data())
    sampler = build(settings, objective)
    return list(run_chains(sampler, sampler.init(objective.weights()), keys_of(2), until=until, chunk=chunk))


@pytest.mark.parametrize("settings", SAMPLERS, ids=["SGD", "SGLD", "Entropy-SGLD"])
def test_the_size_of_chunks_changes_no_number(settings: Settings) -> None:
    whole, *rest = chunks_of(settings, chunk=100)
    assert not rest
    assert whole.state.step == whole.losses.shape[1] == whole.errors.shape[1] == 20
    for size in (1, 7):
        chunks = chunks_of(settings, chunk=size)
        assert [c.state.step for c in chunks] == [*range(size, 20, size), 20]
        assert torch.equal(chunks[-1].state.weights, whole.state.weights)
        for name in ("losses", "errors", "displacements"):
            if getattr(whole, name) is None:
                assert not isinstance(settings, EntropySGD)
            else:
                assert torch.equal(torch.cat([getattr(c, name) for c in chunks], dim=1), getattr(whole, name))


def test_chunks_end_at_multiples_wherever_the_chain_starts() -> None:
    objective = toy_objective(toy_data())
    sampler, keys = build(SGD(), objective), keys_of(0)
    (part,) = run_chains(sampler, sampler.init(objective.weights()), keys, until=3, chunk=5)
    chunks = list(run_chains(sampler, part.state, keys, until=12, chunk=5))
    assert [c.state.step for c in chunks] == [5, 10, 12]
    assert torch.equal(chunks[-1].state.weights, chunks_of_sgd_by_hand(12))
    assert list(run_chains(sampler, chunks[-1].state, keys, until=12, chunk=5)) == []


def chunks_of_sgd_by_hand(steps: int) -> Tensor:
    objective = toy_objective(toy_data())
    sampler, keys = build(SGD(), objective), keys_of(0)
    state = sampler.init(objective.weights())
    for _ in range(steps):
        state, _ = sampler.step(state, keys)
    return state.weights


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("step", [1, 5, 6, 13])
@pytest.mark.parametrize("chunk", [1, 5, 100])
def test_divergence_names_the_first_bad_step_and_keeps_earlier_chunks(step: int, chunk: int, bad: float) -> None:
    losses = [0.5] * 20
    losses[step - 1] = losses[step + 2] = bad
    sampler = build(SGD(), Scripted(losses))
    seen = []
    with pytest.raises(Diverged, match=rf"became NaN or infinite at step {step}: lower the step size") as caught:
        seen.extend(run_chains(sampler, sampler.init(START), keys_of(0), until=20, chunk=chunk))
    assert caught.value.step == step
    assert [c.state.step for c in seen] == list(range(chunk, step, chunk))


def test_one_bad_inner_gradient_spoils_its_outer_step() -> None:
    losses = [0.5] * 40
    losses[9] = math.nan  # the second inner step of outer step 3
    settings = EntropySGD(tau=10.0, inner_steps=4)
    sampler = build(settings, Scripted(losses))
    with pytest.raises(Diverged, match="at step 3:"):
        list(run_chains(sampler, sampler.init(START), keys_of(0), until=10, chunk=10))


@pytest.mark.parametrize("gradient", [math.inf, math.nan])
def test_infinite_weights_are_caught_under_finite_losses(gradient: float) -> None:
    gradients = [0.0] * 20
    gradients[11] = gradient
    sampler = build(SGD(), Scripted([0.5] * 20, gradients))
    seen = []
    with pytest.raises(Diverged, match="a weight became NaN or infinite at step 15"):
        seen.extend(run_chains(sampler, sampler.init(START), keys_of(0), until=20, chunk=5))
    assert [c.state.step for c in seen] == [5, 10]


def test_a_loss_above_its_declared_interval_is_refused() -> None:
    loss = Loss(name="declared", low=0.1, high=1.0, function=zero_one().function)
    losses = [0.0, 0.1, 1.0, 0.5, 1.1, 0.5]  # an empty Poisson batch counts as 0, below the interval, and passes
    sampler = build(SGD(), Scripted(losses))
    seen = []
    with pytest.raises(ValueError, match="loss declared declares the interval"):
        seen.extend(run_chains(sampler, sampler.init(START), keys_of(0), until=6, chunk=4, loss=loss))
    assert [c.state.step for c in seen] == [4]


def test_divergence_names_the_chains_and_the_first_step_of_any() -> None:
    losses = [[0.5, 0.5, 0.5]] * 4 + [[0.5, 0.5, math.nan], [math.inf, 0.5, 0.5]] + [[0.5] * 3] * 4
    sampler = build(SGD(), Scripted(losses))
    with pytest.raises(Diverged, match="at step 5") as caught:
        list(run_chains(sampler, sampler.init(torch.zeros(3, 2)), keys_of(0, 1, 2), until=10, chunk=10))
    assert (caught.value.step, caught.value.chains) == (5, (0, 2))
    gradients = [[0.0, 0.0, 0.0]] * 4 + [[0.0, math.inf, 0.0]] * 6
    sampler = build(SGD(), Scripted([0.5] * 10, gradients))
    with pytest.raises(Diverged, match="a weight became NaN or infinite at step 10") as caught:
        list(run_chains(sampler, sampler.init(torch.zeros(3, 2)), keys_of(0, 1, 2), until=10, chunk=10))
    assert caught.value.chains == (1,)


@pytest.mark.parametrize("settings", SAMPLERS, ids=["SGD", "SGLD", "Entropy-SGLD"])
def test_chains_together_are_each_alone(settings: Settings) -> None:
    """Same numbers, bits of the matrix products aside (see test_network)."""
    objective, keys = toy_objective(toy_data()), keys_of(3, 4, 3)
    sampler = build(settings, objective)
    start = objective.weights() + torch.tensor([[0.0], [0.1], [0.2]])
    (together,) = run_chains(sampler, sampler.init(start), keys, until=20, chunk=20)
    for k in range(3):
        (alone,) = run_chains(sampler, sampler.init(start[k : k + 1]), keys.select([k]), until=20, chunk=20)
        torch.testing.assert_close(alone.losses[0], together.losses[k], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(alone.state.weights[0], together.state.weights[k], rtol=1e-4, atol=1e-5)
