"""The clipped sum of a sample of units: by the reference, in which units cannot meet, or by any unit function.

Formal guarantee: one unit more or less moves every sum by at most the clip norm in Euclidean norm, whatever its
records, up to the rounding of the sum (docs/noise.md).
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from pacdp.layers.random import generators, random_state, rewind
from pacdp.step.clip import Weights, clipped_sum
from pacdp.step.gradients import clipped_gradient
from pacdp.step.units import Network, UnitBatch, UnitFunction, Units, each_unit, mean_loss


class Sum(NamedTuple):
    """What a sample of units adds up to; all of it private."""

    total: Weights
    nonfinite: int | Tensor
    """Units that counted as zero; a tensor, for which nobody has waited yet, is on the weights' device."""
    loss: float | Tensor
    """Sum of the units' losses; 0 where none is computed."""


@runtime_checkable
class Summer(Protocol):
    """The clipped sum of some units' contributions at the network's present weights."""

    def __call__(self, chosen: Tensor, weights: Weights) -> Sum:
        """Sum the contributions of the chosen units."""
        ...


class ByExample(NamedTuple):
    """Clipped gradients of examples, each of its own loss alone: the reference.

    Networks that ``torch.func.vmap`` cannot run, with random layers or branches on their data, go through it one
    example at a time.
    """

    network: Network
    units: Units
    clip_norm: float
    draws: int = 1
    """Forward passes whose losses are averaged before clipping."""
    most: int | None = None
    vectorised: bool = True

    def __call__(self, chosen: Tensor, weights: Weights) -> Sum:
        """Written part by part; a network that draws for itself is asked for one example at a time."""
        total = {name: torch.zeros_like(w) for name, w in weights.items()}
        device = next(iter(weights.values())).device
        seen, nonfinite = (
            torch.zeros((), dtype=torch.float64, device=device),
            torch.zeros((), dtype=torch.int64, device=device),
        )
        alone = not self.vectorised or self.draws > 1 or bool(generators(self.network.module))
        for part in parts(chosen, 1 if alone else self.most):
            if not len(part):
                continue
            if alone:
                batch = self.units.batch(part, None, device)
                found = each_unit(self._mean_gradient, self.network, weights, batch, vectorised=False)
                added = clipped_sum(found, self.clip_norm)
                finite, own = added.finite, added.total
            else:
                inputs, targets = self.units.examples(part, device)
                own = {name: torch.empty_like(w) for name, w in weights.items()}
                tensors = {**self.network.fixed, **weights}
                of = clipped_gradient(self.network.module, tensors, inputs, targets, self.network.loss,
                                      clip_norm=self.clip_norm, into=own)  # fmt: skip
                finite, seen = of.finite, seen + of.mean_loss.double() * len(part)
            nonfinite = nonfinite + (~finite).sum()
            total = {name: total[name] + own[name] for name in total}
        return Sum(total, nonfinite, seen)

    def _mean_gradient(
        self, network: Network, weights: Weights, inputs: Tensor, targets: Tensor, kept: Tensor
    ) -> Weights:
        del kept
        leaves = {name: w.detach().requires_grad_() for name, w in weights.items()}
        with torch.enable_grad():
            losses = [network.losses(leaves, inputs[0], targets[0]).sum() for _ in range(self.draws)]
            slopes = torch.autograd.grad(sum(losses) / self.draws, list(leaves.values()), allow_unused=True)  # pyright: ignore
        return {
            name: torch.zeros_like(w) if slope is None else slope
            for (name, w), slope in zip(leaves.items(), slopes, strict=True)
        }


class ByContribution(NamedTuple):
    """Clipped contributions of any form: what local training moves, the gradient of all of a person's records."""

    network: Network
    units: Units
    clip_norm: float
    contribution: UnitFunction
    width: int | None = None
    """Records of a unit in one batch; all by default."""
    most: int | None = None
    vectorised: bool = False

    def __call__(self, chosen: Tensor, weights: Weights) -> Sum:
        """Part by part, each vectorised where the network allows it."""
        total = {name: torch.zeros_like(w) for name, w in weights.items()}
        nonfinite: int | Tensor = 0
        for batch in self.batches(chosen, weights):
            found = each_unit(self.contribution, self.network, weights, batch, vectorised=self.vectorised)
            part = clipped_sum(found, self.clip_norm)
            total = {name: total[name] + part.total[name] for name in total}
            nonfinite = nonfinite + (~part.finite).sum()
        return Sum(total, nonfinite, 0.0)

    @torch.no_grad()
    def losses(self, chosen: Tensor, weights: Weights) -> Tensor:
        """Mean loss of each unit at other weights, (units,)."""
        found = [
            each_unit(mean_loss, self.network, weights, batch, vectorised=self.vectorised)
            for batch in self.batches(chosen, weights)
        ]
        return torch.cat(found) if found else torch.zeros(0)

    def batches(self, chosen: Tensor, weights: Weights) -> Iterator[UnitBatch]:
        """Units by as many as fit."""
        device = next(iter(weights.values())).device
        for part in parts(chosen, self.most if self.vectorised else 1):
            if len(part):
                yield self.units.batch(part, self.width, device)


def parts(chosen: Tensor, most: int | None) -> tuple[Tensor, ...]:
    """The sample cut into parts of at most ``most`` units; one empty part for an empty sample."""
    return torch.split(chosen, most or max(1, len(chosen)))


def runs_at_once(network: Network, weights: Weights, inputs: Tensor, targets: Tensor) -> bool:
    """Whether the reference can take several examples in one pass, tried on made-up ones."""
    before = random_state(network.module)
    into = {name: torch.empty_like(w) for name, w in weights.items()}
    try:
        clipped_gradient(
            network.module, {**network.fixed, **weights}, inputs, targets, network.loss, clip_norm=1.0, into=into
        )
    except (RuntimeError, ValueError, TypeError):
        return False
    finally:
        rewind(network.module, before)
    return True


def runs_side_by_side(
    functions: tuple[UnitFunction, ...], network: Network, weights: Weights, trial: UnitBatch
) -> bool:
    """Whether units can run under ``torch.func.vmap``, tried on made-up ones."""
    if generators(network.module):
        return False
    before = random_state(network.module)
    try:
        for function in functions:
            each_unit(function, network, weights, trial, vectorised=True)
    except (RuntimeError, ValueError, TypeError):
        return False
    finally:
        rewind(network.module, before)
    return True
