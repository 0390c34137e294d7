"""The networks of these studies: made on the device, layers random where the method draws them."""

import torch
from torch import Tensor, nn

from experiments.papers.runs.bayesian_config import CNN
from pacdp.cli.private.algorithms import Public
from pacdp.cli.private.config import PrivateConfig
from pacdp.models import Architecture, build


def network(config: PrivateConfig, public: Public, *, device: str) -> nn.Module:
    """The network with first weights drawn from the seed on the CPU; random layers draw on the device."""
    generator = torch.Generator().manual_seed(config.seed)
    if config.architecture == CNN:
        module = _cnn(public, generator)
    else:
        module = build(Architecture(name=config.architecture, hidden=config.hidden), input_shape=public.input_shape,  # type: ignore[arg-type]
                       classes=max(2, public.classes), outputs=public.classes, generator=generator)  # fmt: skip
    own = torch.Generator(device).manual_seed(config.seed)
    return config.method.network(module.to(device), generator=own).to(device)


def standardised(inputs: Tensor, dataset: str) -> Tensor:
    """Pixels less their usual mean, over their usual deviation: public constants, those of MNIST the paper's code's."""
    mean, std = {"mnist": (0.1307, 0.3081), "digits": (0.305, 0.376)}.get(dataset, (0.0, 1.0))
    return (inputs - mean) / std


def _cnn(public: Public, generator: torch.Generator) -> nn.Module:
    """26,010 weights on MNIST. Smaller images get a smaller network of the same depth."""
    channels, *sides = public.input_shape
    if min(sides) >= 28:
        left = [((side - 2) // 2 - 3) // 2 for side in sides]
        layers = [
            nn.Conv2d(channels, 16, 8, stride=2, padding=3), nn.ReLU(), nn.MaxPool2d(2, stride=1),
            nn.Conv2d(16, 32, 4, stride=2), nn.ReLU(), nn.MaxPool2d(2, stride=1),
            nn.Flatten(), nn.Linear(32 * (left[0] - 1) * (left[1] - 1), 32), nn.ReLU(), nn.Linear(32, public.classes),
        ]  # fmt: skip
    else:
        layers = [
            nn.Conv2d(channels, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(),
            nn.Linear(16 * ((sides[0] + 1) // 2 - 2) * ((sides[1] + 1) // 2 - 2), 32), nn.ReLU(),
            nn.Linear(32, public.classes),
        ]  # fmt: skip
    for layer in layers:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            bound = layer.weight[0].numel() ** -0.5
            for parameter in layer.parameters():
                nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return nn.Sequential(*layers)
