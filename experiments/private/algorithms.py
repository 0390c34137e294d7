"""From a configuration to a trainer of :mod:`pacdp.private`, with its network and its way to predict."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from experiments.private import methods
from experiments.private.config import PrivateConfig
from pacdp import private
from pacdp.models import Architecture, build

Predict = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Public:
    """What is known of the data without looking at it."""

    input_shape: tuple[int, ...]
    classes: int
    size: float
    """Examples, or people where the method protects people."""


def network(config: PrivateConfig, public: Public, *, device: torch.device | str) -> nn.Module:
    """The network with its first weights, one output a class; layers made random where the method wants them so.

    First weights are drawn on the CPU; random layers draw on the device.
    """
    generator = torch.Generator().manual_seed(config.seed)
    if config.architecture == "linear":
        return linear(public).to(device)
    # two classes get two outputs, so that every loss and metric below reads probabilities the same way
    module = build(Architecture(name=config.architecture, hidden=config.hidden), input_shape=public.input_shape,  # type: ignore[arg-type]
                   classes=public.classes, generator=generator, outputs=public.classes).to(device)  # fmt: skip
    match config.method:
        case methods.DPBBP(initial_std=std):
            return private.bayesian(module, initial_std=std, generator=generator)
        case methods.DPMCDropout(rate=rate):
            return private.with_example_dropout(with_dropout(module, rate), generator=generator, device=device)
        case _:
            return module


def linear(public: Public) -> nn.Module:
    """One layer that starts at zero."""
    layer = nn.Linear(math.prod(public.input_shape), public.classes)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return nn.Sequential(nn.Flatten(), layer)


def with_dropout(module: nn.Module, rate: float) -> nn.Module:
    """Dropout on the inputs of every fully connected layer but the first layer of the network."""
    layers: list[nn.Module] = []
    for layer in module:  # type: ignore[union-attr]
        if isinstance(layer, nn.Linear) and any(any(True for _ in before.parameters()) for before in layers):
            layers.append(nn.Dropout(rate))
        layers.append(layer)
    return nn.Sequential(*layers)


def schedule(method: methods.DPSGLD) -> private.Polynomial:
    """The step sizes of Langevin dynamics."""
    return private.Polynomial(initial=method.step_size, power=method.decay, offset=method.decay_offset)


def algorithm(config: PrivateConfig, public: Public) -> private.Algorithm:
    """The algorithm, with as much noise as its budget asks for.

    Raises:
        ValueError: numbers out of range, or a budget that no noise keeps to.
    """
    sampling, budget, method = config.sampling, config.budget, config.method
    size = sampling.public_size or public.size
    mechanism = private.Mechanism(
        clip_norm=sampling.clip_norm, sample_rate=sampling.sample_rate,
        expected_batch_size=sampling.sample_rate * size, steps=sampling.steps,
        grad_sample_mode=sampling.grad_sample_mode, max_physical_batch=sampling.max_physical,
        budget=private.PrivacyBudget(epsilon=budget.epsilon, delta=budget.delta, adjacency=budget.adjacency),
    )  # fmt: skip
    match method:
        case methods.DPSGD():
            return private.DPSGD(mechanism=mechanism, noise_multiplier=noise(config), prior=_prior(method),
                                 learning_rate=method.learning_rate, momentum=method.momentum)  # fmt: skip
        case methods.DPAdam():
            return private.DPAdam(mechanism=mechanism, noise_multiplier=noise(config), prior=_prior(method),
                                  learning_rate=method.learning_rate)  # fmt: skip
        case methods.DPSGLD():
            burn_in = math.floor(method.burn_in * sampling.steps)
            thin = max(1, (sampling.steps - burn_in) // method.snapshots) if method.snapshots else 0
            return private.DPSGLD(mechanism=mechanism, convention=_convention(method), prior=_prior(method),
                                  burn_in=burn_in, thin=thin)  # fmt: skip
        case methods.DPBBP():
            prior = _prior(method)
            assert prior is not None
            return private.DPBBP(mechanism=mechanism, noise_multiplier=noise(config), prior=prior,
                                 learning_rate=method.learning_rate, momentum=method.momentum, draws=method.draws,
                                 kl_weight=method.kl_weight)  # fmt: skip
        case methods.DPMCDropout():
            return private.DPMCDropout(mechanism=mechanism, noise_multiplier=noise(config), prior=_prior(method),
                                       learning_rate=method.learning_rate, momentum=method.momentum,
                                       draws=method.draws)  # fmt: skip
        case methods.P3SGD():
            return private.P3SGD(
                mechanism=mechanism, noise_scales=method.noise_scales, learning_rate=method.learning_rate,
                local_epochs=method.local_epochs, local_batch_size=method.local_batch_size or None,
                selection_epsilon=method.selection_epsilon, score_bound=method.score_bound,
                candidates=private.NestedNoise() if method.nested else private.IndependentNoise(),
            )  # fmt: skip
        case methods.UserDPSGD():
            return private.UserLevelDPSGD(
                mechanism=mechanism, noise_multiplier=noise(config), learning_rate=method.learning_rate,
                records_at_once=method.records_at_once or None,
            )  # fmt: skip


def noise(config: PrivateConfig) -> private.Schedule:
    """The given noise multiplier, or the smallest that keeps all steps to the budget."""
    sampling, budget = config.sampling, config.budget
    if sampling.noise_multiplier:
        return private.Constant(value=sampling.noise_multiplier)
    return private.calibrated(1.0, sample_rate=sampling.sample_rate, steps=sampling.steps, delta=budget.delta,
                              target_epsilon=budget.epsilon, adjacency=budget.adjacency)  # fmt: skip


def predictor(config: PrivateConfig, module: nn.Module, run: private.PrivateRun, *, alone: bool = False) -> Predict:
    """Predictive probabilities of what was trained, averaged as its posterior says; with ``alone``, each example as
    in a batch of its own."""
    if len(run.snapshots):
        return lambda inputs: private.average_over_snapshots(module, run.snapshots, inputs)
    trained = private.with_weights(module, run.weights)
    match config.method:
        case methods.DPBBP(test_draws=draws) | methods.DPMCDropout(test_draws=draws):
            return lambda inputs: private.average_over_draws(
                trained, inputs, draws=draws, seed=config.seed, alone=alone
            )
        case _:
            return lambda inputs: trained(inputs).softmax(-1)


def _prior(method: methods.DPSGD | methods.DPAdam | methods.DPSGLD | methods.DPBBP | methods.DPMCDropout
           ) -> private.Prior | None:  # fmt: skip
    match method.prior:
        case "none":
            return None
        case "normal":
            return private.Normal(std=method.prior_std)
        case "laplace":
            return private.Laplace(scale=method.prior_std)


def _convention(method: methods.DPSGLD) -> private.Convention:
    size = schedule(method)
    match method.convention:
        case "gradient-slot":
            return private.GradientSlot(step_size=size, temperature=method.temperature, pre_noise=method.pre_noise)
        case "parameter-slot":
            return private.ParameterSlot(step_size=size, drift=method.drift, noise=method.noise)
        case "tempered":
            return private.Tempered(step_size=size, temperature=method.temperature, pre_noise=method.pre_noise)
