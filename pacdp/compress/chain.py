"""Learners of pacdp's own: its chains (SGD, SGLD, pSGLD, SGHMC, Entropy-SGD, Entropy-SGLD), Adam, kernel ridge."""

import functools
from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from bounds import _check
from pacdp.algorithms import SGD, Settings, build, restore
from pacdp.chains import Keys
from pacdp.compress.learner import State
from pacdp.compress.run import prefixed
from pacdp.compress.view import View, padded
from pacdp.data import Dataset
from pacdp.layers.plain import call_with
from pacdp.losses import bounded_cross_entropy
from pacdp.models import Architecture
from pacdp.models import build as network_of
from pacdp.objective import Objective
from pacdp.store.record import record

_BLOCK = 64  # records whose kernel is computed at once
_KNOWN: Any = WeakTensorKeyDictionary()
"""By batch: the learner, the records of the full blocks, and these blocks' columns of the kernel."""
_CHAIN = "chain."  # before the names of what a chain carries besides its weights


@functools.lru_cache(maxsize=8)
def _network(
    architecture: Architecture, shape: tuple[int, ...], classes: int, seed: int
) -> nn.Module:
    """The network with first weights of a seed, which nobody changes."""
    return network_of(
        architecture,
        input_shape=shape,
        classes=classes,
        generator=torch.Generator().manual_seed(seed),
    )


@record
class _Viewing:
    """What all of them have in common."""

    classes: int
    view: View = field(default_factory=View)

    @property
    def record(self) -> Mapping[str, Any]:
        """All settings."""
        return {"kind": type(self).__name__, **asdict(self), "view": self.view.record}


@record
class _OfNetwork(_Viewing):
    """What learners with a network have in common."""

    architecture: Architecture = field(default_factory=Architecture)

    @torch.no_grad()
    def outputs(self, state: State, viewed: Tensor) -> Tensor:
        """The outputs of the network at the state's weights."""
        weights = {name: one for name, one in state.items() if not name.startswith(_CHAIN)}
        return call_with(
            _network(self.architecture, tuple(viewed.shape[1:]), self.classes, 0), weights, viewed
        )


@record
class Chained(_OfNetwork):
    """One of pacdp's chains: each round makes some of its steps on the records picked so far and goes on from there."""

    sampler: Settings = field(default_factory=SGD)
    steps: int = 20
    """Steps a round."""
    max_loss: float = 20.0
    """Upper end of the bounded cross-entropy. Near it there is no gradient left, so that errors are not mended."""

    def __post_init__(self) -> None:
        _check.count(steps=self.steps)

    def train(
        self, state: State | None, inputs: Tensor, labels: Tensor, *, round: int, seed: int
    ) -> State:
        """The chain's state after ``steps`` more steps, numbered on, with the keys of the seed."""
        seen, own = self.view.training(inputs, labels)
        data = Dataset(
            inputs=seen.numpy(), labels=own.numpy(), classes=self.classes, name="picked records"
        )
        network = _network(self.architecture, data.inputs.shape[1:], self.classes, seed)
        loss = bounded_cross_entropy(classes=self.classes, max_loss=self.max_loss)
        objective = Objective(network, loss, data, batch_size=self.sampler.batch_size)
        sampler, keys = build([self.sampler], objective), Keys.derive([seed])
        done = (round - 1) * self.steps
        parts = prefixed(state or {}, _CHAIN)
        first = objective.weights() if state is None else objective.layout.flatten(state)[None]
        now: Any = restore(self.sampler, parts, done) if parts else sampler.init(first)
        for _ in range(self.steps):
            now, _ = sampler.step(now, keys)
        weights = objective.layout.views(now.weights[0])
        carried = {f"{_CHAIN}{name}": getattr(now, name) for name in now._fields if name != "step"}
        return {name: one.detach().clone() for name, one in (weights | carried).items()}


@record
class Adam(_OfNetwork):
    """Adam on random batches of the records picked so far, from the weights of the round before, with new moments."""

    steps: int = 150
    """Steps a round."""
    batch_size: int = 64
    learning_rate: float = 1e-3

    def train(
        self, state: State | None, inputs: Tensor, labels: Tensor, *, round: int, seed: int
    ) -> State:
        """The weights after ``steps`` more steps; batches and moments are those of the round."""
        seen, own = self.view.training(inputs, labels)
        first = _network(self.architecture, tuple(seen.shape[1:]), self.classes, seed)
        start = {name: one.detach() for name, one in first.named_parameters()}
        start = {name: (state or {}).get(name, one) for name, one in start.items()}
        weights = {name: one.clone().requires_grad_() for name, one in start.items()}
        optimizer = torch.optim.Adam(weights.values(), lr=self.learning_rate)
        drawn = np.random.default_rng([seed, round])
        for _ in range(self.steps):
            batch = torch.from_numpy(drawn.integers(len(own), size=self.batch_size))
            outputs = call_with(first, weights, seen[batch])
            optimizer.zero_grad()
            if self.classes == 2:
                loss = F.binary_cross_entropy_with_logits(
                    outputs.reshape(-1), own[batch].to(outputs.dtype)
                )
            else:
                loss = F.cross_entropy(outputs, own[batch])
            loss.backward()
            optimizer.step()
        return {name: one.detach().clone() for name, one in weights.items()}


@record
class KernelRidge(_Viewing):
    """Ridge regression of ±1 on exp(-|x - z|²/(2 width²)), solved anew in every round."""

    view: View = field(default_factory=lambda: View(gradients=True, scale=1.0))
    width: float = 0.5
    ridge: float = 1e-3

    def __post_init__(self) -> None:
        _check.positive(width=self.width, ridge=self.ridge)

    def train(
        self, state: State | None, inputs: Tensor, labels: Tensor, *, round: int, seed: int
    ) -> State:
        """The records' features, and their coefficients for each class."""
        seen, own = self.view.training(inputs, labels)
        support = seen.flatten(1)
        kernel = self._kernel(support, support).double()
        kernel.diagonal().add_(self.ridge)
        wanted = 2.0 * F.one_hot(own, self.classes).double() - 1.0
        coefficients = torch.cholesky_solve(wanted, torch.linalg.cholesky(kernel))
        return {"support": support, "coefficients": coefficients.float()}

    @torch.no_grad()
    def outputs(self, state: State, viewed: Tensor) -> Tensor:
        """A number a class.

        The kernel is computed for blocks of records of one size, the last filled up with copies of coefficient 0, so
        that a block is the same, bit for bit, once it is full: full ones are remembered as long as the batch is there.
        """
        support, rows = state["support"], viewed.flatten(1)
        learner, seen, known = _KNOWN.get(viewed, (self, support[:0], []))
        fits = learner == self and torch.equal(support[: len(seen)], seen)
        columns = [*known] if fits else []
        columns += [self._kernel(rows, block) for block in padded(support, _BLOCK)[len(columns) :]]
        full = len(support) // _BLOCK
        _KNOWN[viewed] = self, support[: full * _BLOCK], columns[:full]
        found = viewed.new_zeros(len(rows), self.classes)
        beyond = -len(support) % _BLOCK
        for column, part in zip(
            columns, F.pad(state["coefficients"], (0, 0, 0, beyond)).split(_BLOCK), strict=True
        ):
            found.addmm_(column, part)
        return found

    def _kernel(self, rows: Tensor, support: Tensor) -> Tensor:
        squares = rows.square().sum(1)[:, None] + support.square().sum(1) - 2.0 * rows @ support.T
        return squares.clamp_min_(0.0).mul_(-0.5 / self.width**2).exp_()
