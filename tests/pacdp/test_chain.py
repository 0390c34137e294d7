"""Running a chain in chunks changes no number, and nothing that is not finite is ever yielded."""

import math

import pytest
import torch
from torch import Tensor
from toys import seeded, toy_data, toy_objective

from pacdp.chain import Chunk, run
from pacdp.errors import Diverged
from pacdp.losses import Loss, zero_one
from pacdp.objective import Estimate
from pacdp.samplers import SGD, SGLD, EntropySGD, Settings, build

SAMPLERS = [SGD(momentum=0.5), SGLD(tau=30.0), EntropySGD(tau=30.0, inner_steps=2)]


class Scripted:
    """A potential whose losses, and whose gradients if given, are read from a list."""

    def __init__(self, losses: list[float], gradients: list[float] | None = None) -> None:
        self.losses = iter(losses)
        self.gradients = iter(gradients or [0.0] * len(losses))

    def estimate(self, weights: Tensor, generator: torch.Generator) -> Estimate:
        del generator
        loss = torch.tensor(next(self.losses))
        return Estimate(torch.full_like(weights, next(self.gradients)), loss, torch.zeros(()))


def chunks_of(settings: Settings, *, chunk: int, until: int = 20) -> list[Chunk]:
    objective = toy_objective(toy_data())
    sampler = build(settings, objective)
    return list(run(sampler, sampler.init(objective.weights()), seeded(2), until=until, chunk=chunk))


@pytest.mark.parametrize("settings", SAMPLERS, ids=["SGD", "SGLD", "Entropy-SGLD"])
def test_the_size_of_chunks_changes_no_number(settings: Settings) -> None:
    whole, *rest = chunks_of(settings, chunk=100)
    assert not rest
    assert whole.state.step == len(whole.losses) == len(whole.errors) == 20
    for size in (1, 7):
        chunks = chunks_of(settings, chunk=size)
        assert [c.state.step for c in chunks] == [*range(size, 20, size), 20]
        assert torch.equal(chunks[-1].state.weights, whole.state.weights)
        for name in ("losses", "errors"):
            assert torch.equal(torch.cat([getattr(c, name) for c in chunks]), getattr(whole, name))


def test_chunks_end_at_multiples_wherever_the_chain_starts() -> None:
    objective = toy_objective(toy_data())
    sampler, generator = build(SGD(), objective), seeded(0)
    (part,) = run(sampler, sampler.init(objective.weights()), generator, until=3, chunk=5)
    chunks = list(run(sampler, part.state, generator, until=12, chunk=5))
    assert [c.state.step for c in chunks] == [5, 10, 12]
    assert torch.equal(chunks[-1].state.weights, chunks_of_sgd_by_hand(12))
    assert list(run(sampler, chunks[-1].state, generator, until=12, chunk=5)) == []


def chunks_of_sgd_by_hand(steps: int) -> Tensor:
    objective = toy_objective(toy_data())
    sampler, generator = build(SGD(), objective), seeded(0)
    state = sampler.init(objective.weights())
    for _ in range(steps):
        state, _ = sampler.step(state, generator)
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
        seen.extend(run(sampler, sampler.init(torch.zeros(3)), seeded(0), until=20, chunk=chunk))
    assert caught.value.step == step
    assert [c.state.step for c in seen] == list(range(chunk, step, chunk))


def test_one_bad_inner_gradient_spoils_its_outer_step() -> None:
    losses = [0.5] * 40
    losses[9] = math.nan  # the second inner step of outer step 3
    settings = EntropySGD(tau=10.0, inner_steps=4)
    sampler = build(settings, Scripted(losses))
    with pytest.raises(Diverged, match="at step 3:"):
        list(run(sampler, sampler.init(torch.zeros(3)), seeded(0), until=10, chunk=10))


@pytest.mark.parametrize("gradient", [math.inf, math.nan])
def test_infinite_weights_are_caught_under_finite_losses(gradient: float) -> None:
    gradients = [0.0] * 20
    gradients[11] = gradient
    sampler = build(SGD(), Scripted([0.5] * 20, gradients))
    seen = []
    with pytest.raises(Diverged, match="a weight became NaN or infinite at step 15"):
        seen.extend(run(sampler, sampler.init(torch.zeros(3)), seeded(0), until=20, chunk=5))
    assert [c.state.step for c in seen] == [5, 10]


def test_a_loss_above_its_declared_interval_is_refused() -> None:
    loss = Loss(name="declared", low=0.1, high=1.0, function=zero_one().function)
    losses = [0.0, 0.1, 1.0, 0.5, 1.1, 0.5]  # an empty Poisson batch counts as 0, below the interval, and passes
    sampler = build(SGD(), Scripted(losses))
    seen = []
    with pytest.raises(ValueError, match="loss declared declares the interval"):
        seen.extend(run(sampler, sampler.init(torch.zeros(3)), seeded(0), until=6, chunk=4, loss=loss))
    assert [c.state.step for c in seen] == [4]
