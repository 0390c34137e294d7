"""Chains on `meta`, where nothing is computed: what a step costs a GPU in kernels and in memory."""

import weakref
from collections import Counter

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from toys import seeded

from pacdp.chains import update
from pacdp.data import Dataset
from pacdp.losses import bounded_cross_entropy
from pacdp.models import build as network
from pacdp.objective import Objective
from pacdp.random import philox

META = torch.device("meta")
VIEWS = set((
    "view _unsafe_view t transpose expand slice select unsqueeze squeeze detach reshape as_strided "
    "permute alias unbind split split_with_sizes lift_fresh"
).split())  # fmt: skip


class Counted(TorchDispatchMode):
    """Operations that make or change numbers, and those that are handed a tensor of the CPU, which is copied there."""

    def __init__(self):
        super().__init__()
        self.seen, self.copied = Counter[str](), Counter[str]()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        name = operation._schema.name.split("::")[1]
        if name not in VIEWS:
            self.seen[name] += 1
            own = [one for one in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
            self.copied[name] += any(one.device != META for one in own)
        return operation(*args, **(kwargs or {}))


class Live(TorchDispatchMode):
    """Bytes of tensors on `meta` that are held at a time, at most."""

    def __init__(self):
        super().__init__()
        self.now = self.most = 0
        self._seen = set[int]()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        made = operation(*args, **(kwargs or {}))
        for one in torch.utils._pytree.tree_leaves(made):
            if isinstance(one, torch.Tensor) and one.device == META:
                self._count(one.untyped_storage())
        return made

    def _count(self, storage):
        key, size = storage._cdata, storage.nbytes()
        if key in self._seen:
            return
        self._seen.add(key)
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._forget, key, size)

    def _forget(self, key, size):
        self.now -= size
        self._seen.discard(key)


def objective_on_meta(architecture, clip_norm=None):
    data = Dataset("blank", np.zeros((300, 1, 28, 28), np.float32), np.zeros(300, np.int64), 2)
    model = network(architecture, input_shape=(1, 28, 28), classes=2, generator=seeded(0))
    loss = bounded_cross_entropy(classes=2)
    found = Objective(model, loss, data, batch_size=32, batching="vmap", clip_norm=clip_norm)
    found.labels, found._inputs, found.device = found.labels.to(META), found._inputs.to(META), META
    found.network.inputs = found._inputs  # type: ignore[attr-defined]
    found.model.to(META)
    if found._fixed is not None:
        found._fixed._inputs = found._inputs  # type: ignore[assignment]
    found._gradient = torch.empty(0, device=META)
    return found


def one_program(*shape):
    return torch.empty(shape, device=META)


def as_one_program(monkeypatch):
    """Functions under `pacdp.random.devices.fused` are one program on a GPU: they make what they return alone."""
    words = lambda keys, size, stream, tick: one_program(keys.shape[1], size).long()  # noqa: E731
    monkeypatch.setattr(philox, "uniform_words", words)
    monkeypatch.setattr(update, "_plain", lambda x, *rest: one_program(*x.shape))
