"""Networks of every kind of layer, each with one input."""

import torch
import torch.nn.functional as F
from torch.nn import (
    BatchNorm2d,
    Conv1d,
    Conv2d,
    Embedding,
    Flatten,
    GroupNorm,
    LayerNorm,
    Linear,
    MaxPool2d,
    Module,
    MultiheadAttention,
    Parameter,
    ReLU,
    Sequential,
    TransformerEncoder,
    TransformerEncoderLayer,
    Unflatten,
)

from tests.pacdp.draws import randn
from tests.pacdp.small_networks import Made


def residual():
    """A graph that is no chain: two branches, their sum, and their product."""
    first, second, last = Linear(4, 5), Linear(4, 5, bias=False), Linear(5, 3)
    return Made(
        lambda own, x: own.last(F.relu(own.first(x)) + torch.tanh(own.second(x)) * x[:, :1]),
        first=first, second=second, last=last
    )  # fmt: skip


class Attention(Module):
    """Self-attention over time steps, with masks, or attention to a part of them."""

    def __init__(self, steps, features, kind=""):
        super().__init__()
        self.steps, self.kind = steps, kind
        self.attention = MultiheadAttention(features, 2, batch_first=True, bias=kind != "cross")

    def forward(self, x):
        tokens = x.view(len(x), self.steps, -1)
        if self.kind == "cross":
            return self.attention(tokens, tokens[:, :2], tokens[:, :2])[0].flatten(1)
        if self.kind == "masked":
            ahead = torch.ones(self.steps, self.steps, dtype=torch.bool).triu(1)
            missing = torch.zeros(len(x), self.steps).masked_fill(torch.arange(self.steps) == 1, -torch.inf)
            return self.attention(tokens, tokens, tokens, attn_mask=ahead.float().masked_fill(ahead, -torch.inf),
                                  key_padding_mask=missing)[0].flatten(1)  # fmt: skip
        return self.attention(tokens, tokens, tokens, need_weights=False)[0].flatten(1)


class VisionTransformer(Module):
    """Patches, a class token, positions, blocks, a head, as in Dosovitskiy et al. (2021)."""

    def __init__(self, *, side, patch, dim, depth, heads, classes):
        super().__init__()
        count = (side // patch) ** 2 + 1
        self.patches = Conv2d(3, dim, patch, stride=patch)
        self.token = Parameter(0.5 * torch.randn(1, 1, dim))
        self.positions = Parameter(0.5 * torch.randn(1, count, dim))
        block = TransformerEncoderLayer(
            dim, heads, 4 * dim, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = TransformerEncoder(block, depth, LayerNorm(dim), enable_nested_tensor=False)
        self.head = Linear(dim, classes)

    def forward(self, x):
        tokens = self.patches(x).flatten(2).mT
        tokens = torch.cat([self.token.expand(len(x), -1, -1), tokens], dim=1) + self.positions
        return self.head(self.blocks(tokens)[:, 0])


class Words(Module):
    """Words, some of them twice, made of the signs of the input."""

    def __init__(self):
        super().__init__()
        self.table = Embedding(5, 2)

    def forward(self, x):
        return self.table((3 * x.abs()).long() % 3).flatten(1)


def norm_with_statistics():
    norm = BatchNorm2d(4)
    norm.running_mean = torch.tensor([0.3, -0.2, 0.0, 1.0])
    norm.running_var = torch.tensor([1.3, 0.2, 2.0, 1.0])
    return norm


NETWORKS = {
    "linear": (lambda: Linear(6, 4), (6,)),
    "linear without bias": (lambda: Linear(6, 4, bias=False), (6,)),
    "conv, kernels": (lambda: Conv2d(1, 3, 2), (1, 5, 4)),
    "conv, joint": (lambda: Conv2d(5, 12, 3), (5, 4, 4)),
    "conv, strided and padded": (
        lambda: Conv2d(4, 4, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2)), (4, 5, 4),
    ),
    "conv, groups": (lambda: Conv2d(4, 6, 3, groups=2, padding="same"), (4, 3, 3)),
    "conv, groups, joint": (lambda: Conv2d(12, 6, 3, groups=2, bias=False), (12, 4, 4)),
    "linear at few steps": (lambda: Sequential(Unflatten(1, (2, 7)), Linear(7, 5)), (14,)),
    "linear at many steps": (lambda: Sequential(Unflatten(1, (7, 2)), Linear(2, 3)), (14,)),
    "group norm": (lambda: Sequential(Unflatten(1, (4, 3)), GroupNorm(2, 4)), (12,)),
    "batch norm": (norm_with_statistics, (4, 2, 2)),
    "attention at few tokens": (lambda: Attention(2, 8), (16,)),
    "attention at many tokens": (lambda: Attention(5, 2), (10,)),
    "attention, masked": (lambda: Attention(3, 4, "masked"), (12,)),
    "vision transformer": (
        lambda: VisionTransformer(side=4, patch=2, dim=4, depth=1, heads=2, classes=3).eval(), (3, 4, 4),
    ),
    "residual": (residual, (4,)),
    "small network": (
        lambda: Sequential(
            Conv2d(1, 4, 3), GroupNorm(2, 4), ReLU(), MaxPool2d(2), Conv2d(4, 5, 2), ReLU(),
            Flatten(), Linear(20, 6), LayerNorm(6), ReLU(), Linear(6, 3),
        ),
        (1, 8, 8),
    ),
}  # fmt: skip


def twice():
    """One layer used twice in a pass, and a parameter of its own: neither has a form by example."""
    parts = {"layer": Linear(4, 4), "scale": Parameter(torch.ones(4))}
    return Made(lambda own, x: own.layer(torch.tanh(own.layer(x))) * own.scale, **parts)


WHOLE = {
    "used twice": (twice, (4,)),
    "conv of one dimension": (lambda: Conv1d(2, 3, 3, padding="same", dilation=2), (2, 5)),
    "embedding": (Words, (6,)),
    "attention to others": (lambda: Attention(3, 4, "cross"), (12,)),
}
"""Networks that are drawn whole for every example."""
NOT_LINEAR = {
    "residual", "small network", "vision transformer",
    *(name for name in NETWORKS if name.startswith("attention")),
}  # fmt: skip
"""Networks whose outputs are no linear function of their weights."""


def made(name):
    torch.manual_seed(0)
    build, shape = (NETWORKS | WHOLE)[name]
    return build().eval(), randn(shape, seed=1)
