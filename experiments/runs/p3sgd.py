"""Runs of P3SGD's Table 2 and Figure 3: an accounting alone, or a network trained by a strategy and then inverted.

The networks are a linear layer, or two convolutions; SGD has Dropout or DropBlock where asked for. What is inverted are
the features of an image: the attacker holds the outputs of the last convolution's activation (the paper: of the third
residual block) and searches for an image that has them. Images of the training set and of the test set are attacked
alike, from the mean of test images that are not attacked.
Losses are computed on the data without noise: to publish them, as done for public data here, is covered by no epsilon.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn, optim
from torch.nn.functional import cross_entropy, max_pool2d, pad
from torch.utils.data import TensorDataset

from bounds.accounting import Event
from experiments.runs.inversion import search_attack
from pacdp.algorithms.algorithm import Algorithm
from pacdp.algorithms.p3sgd import P3SGD
from pacdp.cli.private.algorithms import Public, mechanism
from pacdp.cli.private.config import Budget, Method, PrivateConfig, Sampling
from pacdp.cli.private.data import examples
from pacdp.cli.runtime import Runtime
from pacdp.cli.sweep.jobs import single
from pacdp.errors import Diverged
from pacdp.layers.dropout import ExampleDropout
from pacdp.loop import train
from pacdp.losses import cross_entropies
from pacdp.step.accountant import privacy_spent
from pacdp.step.mechanism import Mechanism
from pacdp.step.noise import SeededRandomness

SAMPLE_RATE, STEPS, SELECTION_EPSILON, DELTA = 0.1, 100, 0.1**0.5, 1000**-1.1
"""q, the rounds T, ε' and δ of Section 4.2."""
_MAP = 14
"""The first convolution strides so that its maps have about this side."""
ACTIVATIONS = (1, 4)
"""Places of the convolutions' activations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A linear layer, or two convolutions and a linear layer."""

    width: int = 0
    """Channels of the first convolution, half of the second's; 0 for the linear layer alone."""
    hidden: int = 0
    """Units between the convolutions and the outputs; 0 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """SGD without privacy, on shuffled minibatches of images whosever they are."""

    epochs: int = 20
    """0 leaves the first weights."""
    learning_rate: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 1e-4
    batch_size: int = 128


LINEAR, SMALL, PLAIN = Network(), Network(width=8), Plain()


@dataclass(frozen=True, slots=True, kw_only=True)
class Private:
    """P3SGD, whose unit is the person."""

    method: Method
    sampling: Sampling
    budget: Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """Inversion of the trained network's features."""

    images: int = 64
    """Attacked ones, of the training set and of the test set each, drawn evenly over either set."""
    feature_steps: int = 300
    smoothness: float = 0.05
    """Weight of the total variation, beside a distance that is relative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """One run: everything that decides its numbers."""

    dataset: str = "digits"
    features: str = "pixels"
    network: Network = LINEAR
    strategy: Plain | Private = PLAIN
    attack: Attack | None = None
    seed: int = 0
    """Of first weights, batches, masks and noise: whoever knows it can subtract the noise."""


class Sides(NamedTuple):
    """Training records with the people they are of, and test records of others."""

    inputs: Tensor
    labels: Tensor
    people: Tensor
    test_inputs: Tensor
    test_labels: Tensor


def seeded(seed: int) -> torch.Generator:
    """The generator of a seed."""
    return torch.Generator().manual_seed(seed)


def network(settings: Network, inputs: Tensor, labels: Tensor, *, generator: torch.Generator) -> nn.Sequential:
    """First weights from ``generator``: a linear layer begins at zero, those over square images uniform in ±1/√fan_in.

    The convolutional network: 3x3 convolution, tanh, pool, 3x3 convolution, tanh, pool, then one or two fully connected
    layers. Inputs and labels tell the shape of an input and the number of classes.
    """
    classes, width = int(labels.max()) + 1, settings.width
    if not width:
        layers = nn.Sequential(nn.Flatten(), nn.Linear(inputs[0].numel(), classes))
        for parameter in layers.parameters():
            nn.init.zeros_(parameter)
        return layers
    channels, side, _ = inputs.shape[1:]
    layers = nn.Sequential(
        nn.Conv2d(channels, width, 3, stride=max(1, side // _MAP), padding=1), nn.Tanh(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(),
    )  # fmt: skip
    last = layers(inputs[:1]).shape[1]
    head = [nn.Linear(last, settings.hidden), nn.Tanh()] if settings.hidden else []
    layers.extend([*head, nn.Linear(settings.hidden or last, classes)])
    bound = 0.0
    for parameter in layers.parameters():
        if parameter.dim() > 1:  # a bias has the bound of its weights, which come before it
            bound = parameter[0].numel() ** -0.5
        nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return layers


def regularised(
    layers: nn.Sequential, how: str, rate: float, *, generator: torch.Generator
) -> Callable[[Tensor], Tensor]:
    """The layers' outputs in training: with "DropBlock" squares are set to zero behind the activations of convolutions,
    with "Dropout" numbers behind every activation, or at the inputs of a network that has none."""
    behind, drop = ACTIVATIONS, partial(drop_blocks, rate=rate, generator=generator)
    if how == "Dropout":
        behind = [k for k, layer in enumerate(layers) if isinstance(layer, nn.Tanh)] or [0]
        drop = ExampleDropout(rate, generator=generator)

    def forward(x: Tensor) -> Tensor:
        for k, layer in enumerate(layers):
            x = layer(x)
            if how and k in behind:
                x = drop(x)
        return x

    return forward


def drop_blocks(maps: Tensor, *, rate: float, size: int = 3, generator: torch.Generator) -> Tensor:
    """Square maps (examples, channels, side, side), some squares of them zero, of side ``size`` or the map's own.

    ``rate`` is about the share of numbers dropped: a little less, since squares overlap.
    """
    side = maps.shape[-1]
    size = min(size, side)
    places = side - size + 1
    gamma = min(1.0, rate / size**2 * side**2 / places**2)
    corners = torch.empty(*maps.shape[:2], places, places).bernoulli_(gamma, generator=generator)
    kept = 1.0 - max_pool2d(pad(corners, (size - 1,) * 4), size, stride=1)
    return maps * kept * (kept.numel() / kept.sum().clamp(min=1.0))


def sgd(
    settings: Plain, module: nn.Sequential, inputs: Tensor, labels: Tensor, *, generator: torch.Generator,
    how: str = "", rate: float = 0.0,
) -> None:  # fmt: skip
    """Train ``module`` in place with momentum and weight decay on shuffled minibatches."""
    own = seeded(int(torch.randint(2**62, (), generator=generator)))
    noisy = regularised(module, how, rate, generator=own)
    optimizer = optim.SGD(module.parameters(), lr=settings.learning_rate, momentum=settings.momentum,
                          weight_decay=settings.weight_decay)  # fmt: skip
    for epoch in range(settings.epochs):
        for batch in torch.randperm(len(inputs), generator=generator).split(settings.batch_size):
            loss = cross_entropy(noisy(inputs[batch]), labels[batch])
            if not loss.isfinite():
                raise Diverged(epoch * len(inputs) // settings.batch_size)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def privately(
    algorithm: Algorithm, mechanism: Mechanism, module: nn.Module, found: Sides, *, seed: int
) -> Event | None:
    """Train ``module`` in place, with noise from a seed, as for public data only; returns what was done."""
    data = TensorDataset(found.inputs, found.labels)
    run = train(algorithm, module, data, mechanism=mechanism, people=found.people, loss=cross_entropies,
                randomness=SeededRandomness(seed))  # fmt: skip
    module.load_state_dict(run.weights)
    return run.event


def price(event: Event | None, delta: float) -> dict[str, float]:
    """The upper end of epsilon, of what is promised or was done."""
    return {"epsilon": privacy_spent(event, delta=delta, adjacency="add-remove").upper, "delta": delta}


@torch.no_grad()
def scores(module: nn.Module, found: Sides) -> dict[str, Any]:
    """Losses in nats, accuracies and their gap in percent."""
    made = dict[str, Any]()
    for side, inputs, labels in (("train", *found[:2]), ("test", *found[3:])):
        outputs = torch.cat([module(some) for some in inputs.split(1000)])
        made[f"{side}_loss"] = float(cross_entropies(outputs.double(), labels).mean())
        made[f"{side}_accuracy"] = 100.0 * float((outputs.argmax(1) == labels).double().mean())
    return made | {"gap": made["train_accuracy"] - made["test_accuracy"]}


def compute(config: Training, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Train, judge, attack."""
    data = examples(config.dataset, features=config.features, by_person=True, root=runtime.data_root)
    assert data.people is not None
    test = torch.tensor(data.test.inputs), torch.tensor(data.test.labels)
    inputs, labels = data.tensors().tensors
    found, how = Sides(inputs, labels, data.people, *test), config.strategy
    generator, spent = seeded(config.seed), {}
    module = network(config.network, *test, generator=generator)
    if isinstance(how, Plain):
        sgd(how, module, inputs, labels, generator=generator)
    else:
        public = Public(input_shape=data.train.inputs.shape[1:], classes=data.train.classes, size=float(data.units))
        numbers = mechanism(PrivateConfig(method=how.method, sampling=how.sampling, budget=how.budget), public)
        spent = price(privately(how.method, numbers, module, found, seed=config.seed), how.budget.delta)
    if config.attack:
        spent |= _inverted(config.attack, module, found, config.seed)
    return scores(module, found) | spent


def _inverted(attack: Attack, module: nn.Sequential, found: Sides, seed: int) -> dict[str, float]:
    """Mean ratios in decibels of training and test images; which ones depends on data and seed alone."""
    generator, features, ratios = seeded(seed), module[: max(ACTIVATIONS) + 1], {}
    train, test = (one[torch.randperm(len(one), generator=generator)] for one in (found.inputs, found.test_inputs))
    for side, images in (("train", train), ("test", test)):
        some, start = images[: attack.images], test[attack.images :].mean(0)
        made = search_attack(features, some, start.expand_as(some), steps=attack.feature_steps,
                             smoothness=attack.smoothness)  # fmt: skip
        ratios[f"{side}_psnr"] = float(made.psnr.mean())
    return ratios


TRAINING = single(compute)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """Settings of P3SGD that cost privacy; the paper's by default (Sections 4.2 and 4.3)."""

    noise_scales: tuple[float, ...]
    seed: int = 0
    """The seed of nothing: an accountant draws no numbers."""


def account(config: Accounting, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """By an accountant that holds, and by the paper's. Clip norm, divisor and learning rate cost nothing."""
    numbers = Mechanism(clip_norm=1.0, sample_rate=SAMPLE_RATE, expected_batch_size=1.0, steps=STEPS)
    settings = P3SGD(noise_scales=config.noise_scales, selection_epsilon=SELECTION_EPSILON)
    published = settings.published(numbers, steps=STEPS, delta=DELTA).epsilon
    return price(settings.promise(numbers, STEPS), DELTA) | {"published_epsilon": published}


ACCOUNTING = single(account)


def scale_name(scales: Sequence[float]) -> str:
    """As the paper's Table 2 writes a set."""
    return "{" + ", ".join(f"{z:g}" for z in scales) + "}"
