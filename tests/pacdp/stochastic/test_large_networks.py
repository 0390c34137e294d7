"""Networks of the size that people use: every layer has its form by example, at noise near 0 the network itself."""

import pytest
import torch
from fresh_networks import VisionTransformer
from torch import Tensor, nn

from pacdp.posterior import GaussianPosterior
from pacdp.stochastic import Draws, fresh_outputs


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width),
        )  # fmt: skip
        self.short = nn.Identity()
        if stride > 1 or inputs != 4 * width:
            self.short = nn.Sequential(
                nn.Conv2d(inputs, 4 * width, 1, stride=stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.short(x))


def resnet50() -> nn.Module:
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
    ]  # fmt: skip
    inputs = 64
    for stage, count in enumerate((3, 4, 6, 3)):
        for k in range(count):
            layers.append(Bottleneck(inputs, 64 << stage, 2 if stage and not k else 1))
            inputs = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


LARGE = {
    "resnet-50": (resnet50, 64, 25_557_032),
    "vit-s": (lambda: VisionTransformer(side=224, patch=16, dim=384, depth=12, heads=6, classes=1000), 224, 22_050_664),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_networks_run_by_example(name: str) -> None:
    torch.manual_seed(0)
    build, side, count = LARGE[name]
    module = build().eval()
    assert sum(each.numel() for each in module.parameters()) == count
    x, draws = torch.randn(1, 3, side, side), Draws.of(seed=1, number=0, examples=torch.arange(1))
    still = fresh_outputs(module, GaussianPosterior.around(module, std=1e-9), x, draws)
    with torch.no_grad():
        plain = module(x)
    assert still.shape == plain.shape == (1, 1000)
    torch.testing.assert_close(still, plain, rtol=1e-3, atol=1e-3)
