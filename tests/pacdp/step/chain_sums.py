"""One list of the networks whose chains' gradients are looked at, and their slow twin in double precision."""

import numpy as np
import torch
from torch.func import functional_call, grad, vmap
from torch.nn import ELU, GELU, Flatten, Identity, Linear, ReLU, Sequential, Sigmoid, Tanh
from toys import seeded, sparse_data, toy_data

from pacdp.losses import bounded_cross_entropy
from pacdp.models import Architecture, build
from pacdp.objective import Objective
from tests.pacdp.draws import randn

WIDE = Architecture(hidden=(130, 150))  # products of 128 rows and more go to oneDNN


def with_layer(layer):
    return lambda: Sequential(Flatten(), Linear(20, 6), layer, Identity(), Linear(6, 3, bias=False))


KINDS = {
    "small": (lambda: toy_data(n=80), Architecture(hidden=(7, 6)), 20),
    "classes": (lambda: toy_data(n=80, classes=4), Architecture(hidden=(7,)), 20),
    "sparse": (lambda: sparse_data(n=80), Architecture(hidden=(9, 8)), 20),
    "wide": (lambda: sparse_data(n=300, shape=(1, 12, 12)), WIDE, 130),
    "wide and dense": (lambda: toy_data(n=300, shape=(120,)), WIDE, 130),
    "one layer": (lambda: sparse_data(n=60), Architecture(hidden=()), 20),
    "conv": (lambda: toy_data(n=60, shape=(1, 28, 28)), Architecture(name="conv"), 40),
    "group": (lambda: toy_data(n=60), Architecture(hidden=(8,), norm="group"), 10),
} | {
    type(layer).__name__: (lambda: toy_data(shape=(1, 4, 5), classes=3), with_layer(layer), 10)
    for layer in (ReLU(inplace=True), Tanh(), Sigmoid(), ELU(inplace=True), GELU())
}
COMPILED = list(KINDS)[:7]


def objective_of(kind, clip_norm=0.3, *, batching="auto", data=None, **more):
    made, network, size = KINDS[kind]
    own = data or made()
    if isinstance(network, Architecture):
        model = build(network, input_shape=own.inputs.shape[1:], classes=own.classes, generator=seeded(0))
    else:
        model = network()
    loss = bounded_cross_entropy(classes=own.classes)
    found = Objective(model, loss, own, **{"batch_size": size, "clip_norm": clip_norm, "batching": batching, **more})
    if data is None and clip_norm is not None:
        assert (found._sums is not None) == (kind in COMPILED and batching == "auto")
        assert (found._fixed is not None) == (batching == "vmap")
    return found


def weights_of(objective, chains=3):
    own = objective.weights()
    spread = randn(chains, objective.dim, seed=3, dtype=torch.float64).to(own.dtype)
    return own + 0.5 * own.square().mean().sqrt() * spread


def twin(objective, weights, examples, labels):
    """Every example's gradient by torch.func, clipped or not, and added one by one; and their sizes."""
    model = objective.model.double()
    views = {name: value.double() for name, value in objective.layout.views(weights).items()}

    def loss(parameters, x, y):
        return objective.loss.function(functional_call(model, parameters, (x[None],)), y[None])[0]

    inputs = objective.examples[0][examples].double()
    rows = vmap(grad(loss), in_dims=(None, 0, 0))(views, inputs, labels[examples])
    model.float()
    flat = torch.stack([objective.layout.flatten({k: v[i] for k, v in rows.items()}) for i in range(len(examples))])
    clip_norm = torch.inf if objective.clip_norm is None else objective.clip_norm
    factors = (clip_norm / flat.norm(dim=1)).clamp(max=1.0)
    each = factors[:, None] * flat / objective.batch_size
    return each.sum(dim=0), float(each.norm(dim=1).sum())


def draw_always(objective, chosen):
    """One chain's batch is always this one."""
    objective.draw = lambda keys, tick: ([torch.tensor(chosen, dtype=torch.int64)], np.zeros(1, np.int64))
