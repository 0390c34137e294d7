"""One list of the kinds of networks whose clipped sums are looked at, and their slow twin."""

import torch
from private_toys import cnn, cross_entropy, data, fresh, mlp
from torch import nn
from torch.autograd import grad
from torch.nn import (
    Dropout,
    Embedding,
    Flatten,
    GroupNorm,
    LayerNorm,
    Linear,
    Module,
    Parameter,
    ReLU,
    Sequential,
    Tanh,
    Unflatten,
    functional,
)
from torch.nn.utils import parametrize

from tests.pacdp.draws import rand
from tests.pacdp.small_networks import Made

CLIP = 0.5


class Scaled(Module):
    """Uses a buffer, a parameter that is frozen, one that is never used, and one twice."""

    def __init__(self):
        super().__init__()
        self.inner, self.unused = mlp(), fresh(Linear(2, 2))
        self.shift = Parameter(torch.tensor([0.1, -0.2, 0.3, 0.4]), requires_grad=False)
        self.twice = Parameter(torch.tensor([0.5, 1.5, -0.5]))
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 0.5, 3.0]))

    def forward(self, x):
        return self.inner(x * self.scale + self.shift) * self.twice + self.twice.square()


def branching():
    """A branch on the data, which no vmap runs."""
    return Made(
        lambda own, x: torch.stack([own.inner(r) if float(r.sum()) > 0.0 else 2.0 * own.inner(r) for r in x]),
        inner=mlp(),
    )


def attending():
    """Embeddings, attention over positions and a normalisation, all of one example."""
    return fresh(
        Made(
            lambda own, x: own.last(own.norm(own.table(x.abs().long().clamp(max=39))).mean(1)),
            table=Embedding(40, 6), norm=LayerNorm(6), last=Linear(6, 3)
        )
    )  # fmt: skip


def maps_back():
    """The first layer's weight is used twice: by the layer, and as the matrix that maps back."""
    return Made(
        lambda own, x: 20.0 * functional.linear(own.inner(x).tanh(), own.inner.weight.t()), inner=fresh(Linear(4, 5))
    )


class Beside(Module):
    """A weight used functionally beside its layer's own output, behind a gate that may be closed at first."""

    def __init__(self, gate=20.0):
        super().__init__()
        self.first, self.last, self.gate = (fresh(Linear(4, 5)), fresh(Linear(5, 3)), Linear(1, 3, bias=False))
        nn.init.constant_(self.gate.weight, gate)

    def forward(self, x):
        h = self.first(x).tanh()
        return self.last(h) + self.gate(torch.ones_like(x[:, :1])) * functional.linear(h.square(), self.last.weight)


class Tied(Module):
    """Two layers with one weight, and one of them used twice."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.last = (fresh(Linear(4, 4)), Linear(4, 4, bias=False), fresh(Linear(4, 3)))
        self.two.weight = self.one.weight

    def forward(self, x):
        return self.last(self.two(self.one(self.one(x).tanh()).tanh()))


def partly_frozen():
    module = mlp()
    module[0].bias.requires_grad_(False)
    module[2].weight.requires_grad_(False)
    return module


def with_layer(layer, width=5):
    return Sequential(fresh(Linear(4, width)), layer, fresh(Linear(width, 3)))


def drawing():
    return Sequential(*mlp()[:2], Dropout(0.4), mlp()[2])


def parametrised():
    """A frozen weight, and what is added to it and trained."""
    module = mlp()
    parametrize.register_parametrization(
        module[0], "weight", Made(lambda own, w: w + own.more, more=Parameter(0.1 * module[0].weight.detach()))
    )
    module[0].parametrizations.weight.original.requires_grad_(False)
    return module


def over_positions(bias=True):
    return Sequential(Unflatten(1, (2, 2)), fresh(Linear(2, 3, bias=bias)), Tanh(), Flatten(), fresh(Linear(6, 3)))


def class_balanced(outputs, targets):
    counts = torch.bincount(targets, minlength=outputs.shape[1])
    return cross_entropy(outputs, targets) * counts[counts > 0].min() / counts[targets]


def hardest_half(outputs, targets):
    losses = cross_entropy(outputs, targets)
    return losses if len(losses) < 8 else 3.0 * torch.where(losses >= losses.median(), losses, 0.0)


def contrastive(outputs, targets):
    unlike = targets[:, None] != targets[None]
    return cross_entropy(outputs, targets) + (unlike * (outputs[:, None] - outputs[None]).square().sum(2)).sum(1)


def mixing(mix):
    """A layer in which the examples of a batch meet."""
    first, last = fresh(Linear(4, 6)), fresh(Linear(6, 3))
    return Made(lambda own, x: own.last(own.mix(own.first(x))), first=first, last=last, mix=mix)


def clamped_maximum(h):
    return 30.0 * h / h.abs().amax().clamp(min=4.0)


class Bank(Module):
    """Remembers the last batch, in no buffer."""

    def __init__(self):
        super().__init__()
        self.last = None

    def forward(self, h):
        memory = torch.zeros_like(h[0]) if self.last is None else self.last
        self.last = h.detach().mean(0)
        return h + memory


KNOWN = {
    "mlp": mlp,
    "cnn": cnn,
    "one norm a sample": lambda: with_layer(GroupNorm(2, 6), 6),
    "embeddings": attending,
    "rectified": lambda: with_layer(ReLU()),
}
"""What every mode is used for."""
OUTSIDE_THE_LAYERS = {"maps back": maps_back, "beside": Beside}
"""What the modes that look at layers miss."""
KINDS = {
    **KNOWN,
    **OUTSIDE_THE_LAYERS,
    "buffers and frozen parameters": Scaled,
    "partly frozen": partly_frozen,
    "in place": lambda: with_layer(ReLU(inplace=True)),
    "tied": Tied,
    "positions": over_positions,
    "branches": branching,
    "parametrised": parametrised,
}


def rows(n, *, seed=5, dtype=torch.float32):
    """Examples of all sizes: between 0.1 and 100 times a normal."""
    scale = 10.0 ** (3.0 * rand(n, 1, seed=seed) - 1.0)
    x, y = data(n, seed=seed).tensors
    return (scale * x).to(dtype), y


def flat(weights):
    return torch.cat([w.double().reshape(-1) for w in weights.values()])


def slowly(module, inputs, targets, *, loss=cross_entropy, clip_norm=CLIP, draws=1):
    """Autograd of the module itself, an example at a time, each clipped: a row an example, and which are finite."""
    trained, found = [p for p in module.parameters() if p.requires_grad], []
    for x, y in zip(inputs, targets, strict=True):
        value = sum(loss(module(x[None]), y[None]).sum() for _ in range(draws)) / draws
        slopes = grad(value, trained, allow_unused=True, materialize_grads=True)
        found.append(torch.cat([s.double().reshape(-1) for s in slopes]))
    own = torch.stack(found)
    norms = own.norm(dim=1)
    factors = (clip_norm / norms).clamp(max=1.0)
    return (factors[:, None] * own).masked_fill(~norms.isfinite()[:, None], 0.0), norms.isfinite()
