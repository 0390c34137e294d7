"""Networks of every kind of layer, each with one input."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Residual(nn.Module):
    """A graph that is no chain: two branches, their sum, and their product."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 5), nn.Linear(4, 5, bias=False), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.relu(self.first(x)) + torch.tanh(self.second(x)) * x[:, :1])


class Steps(nn.Module):
    """Linear and layer norm over time steps, then the last and the sum of them."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps, self.inner, self.norm = steps, nn.Linear(6, 5), nn.LayerNorm(5)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.inner(x.view(len(x), self.steps, -1))).flatten(1)


class Words(nn.Module):
    """Words, some of them twice, made of the signs of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.table((3 * x.abs()).long() % 3).flatten(1)


def norm_with_statistics() -> nn.Module:
    norm = nn.BatchNorm2d(4)
    norm.running_mean = torch.tensor([0.3, -0.2, 0.0, 1.0])
    norm.running_var = torch.tensor([1.3, 0.2, 2.0, 1.0])
    return norm


NETWORKS = {
    "linear": (lambda: nn.Linear(6, 4), (6,)),
    "linear without bias": (lambda: nn.Linear(6, 4, bias=False), (6,)),
    "linear over few steps": (lambda: Steps(2), (12,)),
    "linear over many steps": (lambda: Steps(8), (48,)),
    "conv, kernels": (lambda: nn.Conv2d(1, 3, 2), (1, 5, 4)),
    "conv, joint": (lambda: nn.Conv2d(5, 12, 3), (5, 4, 4)),
    "conv, strided and padded": (
        lambda: nn.Conv2d(4, 4, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2)), (4, 5, 4),
    ),
    "conv, groups": (lambda: nn.Conv2d(4, 6, 3, groups=2, padding="same"), (4, 3, 3)),
    "conv, groups, joint": (lambda: nn.Conv2d(12, 6, 3, groups=2, bias=False), (12, 4, 4)),
    "linear at few steps": (lambda: nn.Sequential(nn.Unflatten(1, (2, 7)), nn.Linear(7, 5)), (14,)),
    "linear at many steps": (lambda: nn.Sequential(nn.Unflatten(1, (7, 2)), nn.Linear(2, 3)), (14,)),
    "group norm": (lambda: nn.Sequential(nn.Unflatten(1, (4, 3)), nn.GroupNorm(2, 4)), (12,)),
    "batch norm": (norm_with_statistics, (4, 2, 2)),
    "conv of one dimension": (lambda: nn.Conv1d(2, 3, 3, padding=1, stride=2), (2, 6)),
    "conv of one dimension, same": (lambda: nn.Conv1d(2, 3, 3, padding="same", dilation=2), (2, 5)),
    "embedding": (Words, (6,)),
    "residual": (Residual, (4,)),
    "small network": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 5, 2), nn.ReLU(),
            nn.Flatten(), nn.Linear(20, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 3),
        ),
        (1, 8, 8),
    ),
}  # fmt: skip


def made(name: str) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    build, shape = NETWORKS[name]
    return build().eval(), torch.randn(shape, generator=torch.Generator().manual_seed(1))
