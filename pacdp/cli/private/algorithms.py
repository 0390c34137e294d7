"""From a configuration to the mechanism of its run, the network that its algorithm trains, and a way to predict."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict

import torch
from torch import Tensor, nn

from bounds.accounting import calibrate_noise
from pacdp.cli.private.config import PrivateConfig, Sampling
from pacdp.cli.private.data import Examples
from pacdp.cli.serial import record
from pacdp.layers.predict import average_over_draws, average_over_snapshots, with_weights
from pacdp.models import Architecture, build
from pacdp.schedules import Constant, Schedule
from pacdp.step.budget import calibrated
from pacdp.step.clip import ClippingRule
from pacdp.step.mechanism import Mechanism, QuantileClipping

Predict = Callable[[Tensor], Tensor]


@record
class Public:
    """What is known of the data without looking at it."""

    input_shape: tuple[int, ...]
    classes: int
    size: float
    """Examples, or people where the algorithm protects people."""

    @classmethod
    def of(cls, data: Examples) -> "Public":
        """What is public of these examples."""
        shape, classes = data.train.inputs.shape[1:], data.train.classes
        return cls(input_shape=shape, classes=classes, size=float(data.units))


def network(config: PrivateConfig, public: Public, *, device: torch.device | str) -> nn.Module:
    """The network with its first weights, one output a class; layers made random where the algorithm wants them so.

    First weights are drawn on the CPU; random layers draw on the device.
    """
    generator = torch.Generator().manual_seed(config.seed)
    if config.architecture == "linear":  # which starts at zero
        layer = nn.Linear(math.prod(public.input_shape), public.classes)
        for weights in layer.parameters():
            nn.init.zeros_(weights)
        head = nn.Sequential(nn.Flatten(), layer).to(device)
        if not config.method.RELEASES_LAST:
            return head
        return config.method.network(head, generator=generator, device=device)
    # two classes get two outputs, so that every loss and metric below reads probabilities the same way
    chosen = Architecture(name=config.architecture, hidden=config.hidden, norm=config.norm)  # type: ignore[arg-type]
    module = build(chosen, input_shape=public.input_shape, classes=public.classes, generator=generator,
                   outputs=public.classes)  # fmt: skip
    return config.method.network(module.to(device), generator=generator, device=device)


def mechanism(config: PrivateConfig, public: Public) -> Mechanism:
    """The public numbers of the run, with as much noise as its budget asks for where its algorithm fixes none.

    Raises:
        ValueError: numbers out of range, or a budget that no noise keeps to.
    """
    sampling = config.sampling
    size = sampling.public_size or public.size
    return Mechanism(
        clip_norm=sampling.clip_norm, sample_rate=sampling.sample_rate,
        noise_multiplier=None if config.method.FIXES_NOISE else noise(config),
        expected_batch_size=sampling.sample_rate * size, steps=sampling.steps,
        grad_sample_mode=None if sampling.grad_sample_mode == "auto" else sampling.grad_sample_mode,
        max_physical_batch=sampling.max_physical,
        budget=config.budget,
        clipping=clipping(sampling),
    )  # fmt: skip


def clipping(sampling: Sampling) -> ClippingRule | QuantileClipping:
    """How contributions are clipped."""
    if sampling.clipping != "quantile":
        return sampling.clipping
    return QuantileClipping(
        count_noise=sampling.count_noise, quantile=sampling.quantile, rate=sampling.quantile_rate
    )


def noise(config: PrivateConfig) -> Schedule:
    """The given noise multiplier, or the smallest that keeps all steps to the budget, counts of quantiles included."""
    sampling, budget = config.sampling, config.budget
    if sampling.noise_multiplier:
        return Constant(value=sampling.noise_multiplier)
    if config.method.RELEASES_LAST:
        one = Mechanism(clip_norm=sampling.clip_norm, noise_multiplier=1.0, sample_rate=1.0, expected_batch_size=1.0,
                        steps=sampling.steps)  # fmt: skip
        last = config.method.promise(one, one.steps)
        assert last is not None
        return Constant(value=calibrate_noise(event=last, **asdict(budget)).scale)
    found = calibrated(1.0, sample_rate=sampling.sample_rate, steps=sampling.steps, delta=budget.delta,
                       target_epsilon=budget.epsilon, adjacency=budget.adjacency)  # fmt: skip
    how = clipping(sampling)
    return (
        Constant(value=how.noise_beside(found(0))) if isinstance(how, QuantileClipping) else found
    )


def predictor(
    config: PrivateConfig,
    module: nn.Module,
    weights: Mapping[str, Tensor],
    snapshots: Tensor,
    *,
    alone: bool = False,
) -> Predict:
    """Predictive probabilities of what was trained, averaged as its posterior says, on the device of ``module``;
    with ``alone``, each example as in a batch of its own."""
    device = next(module.parameters()).device
    if len(snapshots):
        return lambda inputs: average_over_snapshots(module, snapshots, inputs.to(device))
    trained, draws = with_weights(module, dict(weights)), config.method.test_draws
    if draws:
        return lambda inputs: average_over_draws(
            trained, inputs.to(device), draws=draws, seed=config.seed, alone=alone
        )
    return lambda inputs: trained(inputs.to(device)).softmax(-1)
