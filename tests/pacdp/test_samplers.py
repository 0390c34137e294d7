"""A step is a function of its arguments, and settings that make no sense are refused in a sentence."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from toys import seeded, toy_data, toy_objective

from pacdp.samplers import SGD, SGLD, EntropySGD, Settings, build, restore

SAMPLERS = [
    SGD(step_size=0.3, momentum=0.9),
    SGLD(tau=30.0),
    SGLD(tau=30.0, clip_norm=0.5),
    EntropySGD(tau=30.0, inner_steps=3),
    EntropySGD(tau=30.0, inner_steps=3, beta=None),
    EntropySGD(tau=30.0, inner_steps=3, clip_norm=0.5),
]
NAMES = ["SGD", "SGLD", "SGLD clipped", "Entropy-SGLD", "Entropy-SGD", "Entropy-SGLD clipped"]
POSITIVE = {
    SGD: ["step_size", "batch_size"],
    SGLD: ["tau", "step_size", "base_std", "batch_size"],
    EntropySGD: ["tau", "gamma", "base_std", "inner_steps", "outer_step_size", "inner_step_size", "batch_size", "beta"],
}
DEFAULTS: dict[type, Settings] = {SGD: SGD(), SGLD: SGLD(tau=10.0), EntropySGD: EntropySGD(tau=10.0)}


def tensors(state: tuple) -> list[Tensor]:
    return [value.clone() for value in state if isinstance(value, Tensor)]


def equal(left: Iterable[Tensor], right: Iterable[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("settings", SAMPLERS, ids=NAMES)
def test_a_step_is_a_function_of_state_and_generator(settings: Settings) -> None:
    objective = toy_objective(toy_data(), clip_norm=getattr(settings, "clip_norm", None))
    sampler = build(settings, objective)
    state, _ = sampler.step(sampler.init(objective.weights()), seeded(0))
    kept, ambient = tensors(state), torch.get_rng_state()
    first, seen = sampler.step(state, seeded(1))
    found = tensors(first)
    other, _ = sampler.step(state, seeded(2))
    again, seen_again = sampler.step(state, seeded(1))
    assert equal(tensors(state), kept)
    assert equal(tensors(first), found)
    assert equal(tensors(again), found)
    assert equal(seen, seen_again)
    assert not torch.equal(other.weights, first.weights)
    assert (state.step, first.step) == (1, 2)
    assert torch.equal(torch.get_rng_state(), ambient)


@pytest.mark.parametrize("settings", SAMPLERS, ids=NAMES)
def test_init_copies_and_restore_rebuilds(settings: Settings) -> None:
    objective = toy_objective(toy_data(), clip_norm=getattr(settings, "clip_norm", None))
    weights = objective.weights()
    sampler = build(settings, objective)
    state = sampler.init(weights)
    assert state.step == 0
    weights += 1
    assert torch.equal(state.weights, objective.weights())
    state, _ = sampler.step(state, seeded(0))
    fields = {name: value for name, value in state._asdict().items() if name != "step"}
    again = restore(settings, fields, state.step)
    assert type(again) is type(state)
    assert equal(tensors(again), tensors(state))
    assert again.step == 1


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd_is_that_of_torch(momentum: float) -> None:
    settings = SGD(step_size=0.3, momentum=momentum)
    data = toy_data(classes=3)
    ours, theirs = toy_objective(data), toy_objective(data)
    sampler = build(settings, ours)
    state, generator = sampler.init(ours.weights()), seeded(7)
    weights = torch.nn.Parameter(theirs.weights())
    optimizer, their_generator = torch.optim.SGD([weights], lr=0.3, momentum=momentum), seeded(7)
    for _ in range(20):
        state, info = sampler.step(state, generator)
        estimate = theirs.estimate(weights.detach(), their_generator)
        weights.grad = estimate.gradient.clone()
        optimizer.step()
        torch.testing.assert_close(info.loss, estimate.loss)
        torch.testing.assert_close(state.weights, weights.detach())
    assert (state.weights - toy_objective(data).weights()).norm() > 0.1


def test_sgd_steps_decay() -> None:
    objective = toy_objective(toy_data())
    sampler = build(SGD(step_size=0.5, decay=0.7), objective)
    state, generator = sampler.init(objective.weights()), seeded(0)
    for step in range(1, 6):
        before = state.weights
        gradient = objective.estimate(before, generator.clone_state()).gradient.clone()
        state, _ = sampler.step(state, generator)
        torch.testing.assert_close(state.weights, before - 0.5 * step**-0.7 * gradient)


def test_info_averages_what_the_inner_loop_saw() -> None:
    objective = toy_objective(toy_data())
    settings = EntropySGD(tau=1e6, inner_steps=4, inner_step_size=1e-9, beta=None)
    sampler = build(settings, objective)
    _, info = sampler.step(sampler.init(objective.weights()), seeded(0))
    generator, losses, errors = seeded(0), [], []
    for _ in range(4):  # the inner chain hardly moves, so the four batches are judged at the start
        estimate = objective.estimate(objective.weights(), generator)
        losses.append(estimate.loss)
        errors.append(estimate.error)
        torch.empty(objective.dim).normal_(generator=generator)
    torch.testing.assert_close(info.loss, torch.stack(losses).mean(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(info.error, torch.stack(errors).mean())


def test_thermal_noise_and_prior_width_have_their_units() -> None:
    settings = EntropySGD(tau=50.0, gamma=2.0, inner_steps=7)
    assert settings.thermal_noise == SGLD(tau=50.0).thermal_noise == 0.2
    assert settings.prior_std == 0.1
    assert [s.gradients_per_step for s in (SGD(), SGLD(tau=1.0), settings)] == [1, 1, 7]


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in POSITIVE.items() for name in names])
def test_numbers_must_be_positive(kind: type, name: str) -> None:
    whole = isinstance(getattr(DEFAULTS[kind], name), int)
    for value in (0, -1) if whole else (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match=f"expected {name} > 0, got {value}"):
            replace(DEFAULTS[kind], **{name: value})


@pytest.mark.parametrize("alpha", [0.0, -0.1, 1.1, float("nan")])
def test_alpha_is_a_fraction(alpha: float) -> None:
    with pytest.raises(ValueError, match="expected 0 < alpha <= 1"):
        EntropySGD(tau=1.0, alpha=alpha)


@pytest.mark.parametrize("momentum", [-0.1, 1.0, float("nan")])
def test_momentum_is_below_one(momentum: float) -> None:
    with pytest.raises(ValueError, match="expected 0 <= momentum < 1"):
        SGD(momentum=momentum)
