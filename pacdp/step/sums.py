"""The clipped sum of a sample of units: by the reference, in which units cannot meet, or by any unit function.

Formal guarantee: one unit more or less moves every sum by at most the clip norm in Euclidean norm, whatever its
records, up to the rounding of the sum (docs/noise.md).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from pacdp.layers.random import forget_draws, generators, random_state, rewind
from pacdp.step.clip import ClippedSum, ClippingRule, Weights, clipped_sum
from pacdp.step.gradients import clipped_gradient, gradients_of_each
from pacdp.step.units import Network, UnitBatch, UnitFunction, Units, each_unit, mean_loss


class Sum(NamedTuple):
    """What a sample of units adds up to; all of it private."""

    total: Weights
    nonfinite: int | Tensor
    """Units that counted as zero; a tensor, for which nobody has waited yet, is on the weights' device."""
    loss: float | Tensor
    """Sum of the units' losses; 0 where none is computed."""
    within: int | Tensor = 0
    """Units whose contribution had at most norm C before it was clipped."""


@runtime_checkable
class Summer(Protocol):
    """The clipped sum of some units' contributions at the network's present weights."""

    def __call__(self, chosen: Tensor, weights: Weights) -> Sum:
        """Sum the contributions of the chosen units."""
        ...

    def at(self, clip_norm: float) -> "Summer":
        """The same with another clip norm."""
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
    pre_noise: float = 0.0
    """Standard deviation of noise on each example's gradient before clipping (Chen, Wu and Hong 2020, Knolle et al.
    2021). It reduces the bias of clipping and buys no privacy."""
    generator: torch.Generator | None = None
    """Of that noise."""
    clipping: ClippingRule = "flat"

    @property
    def alone(self) -> bool:
        """Whether examples go through one at a time."""
        return not self.vectorised or self.draws > 1 or bool(generators(self.network.module))

    def at(self, clip_norm: float) -> "ByExample":
        """The same with another clip norm."""
        return self._replace(clip_norm=clip_norm)

    def __call__(self, chosen: Tensor, weights: Weights) -> Sum:
        """Written part by part; a network that draws for itself is asked for one example at a time."""
        each = parts(chosen, 1 if self.alone else self.most)
        return added_up(weights, (self._part(weights, part) for part in each))

    def _part(self, weights: Weights, part: Tensor) -> Sum:
        inputs, targets = self.units.examples(part, next(iter(weights.values())).device)
        network, tensors = self.network, {**self.network.fixed, **weights}
        if self.alone:
            rows, mean_loss = self.row(weights, inputs, targets)
        elif self.pre_noise > 0.0:
            rows, losses, _ = gradients_of_each(
                network.module, tensors, inputs, targets, network.loss, weights
            )
            mean_loss = losses.mean()
        else:
            into = {name: torch.empty_like(w) for name, w in weights.items()}
            seen = clipped_gradient(
                network.module,
                tensors,
                inputs,
                targets,
                network.loss,
                clip_norm=self.clip_norm,
                into=into,
                clipping=self.clipping,
            )
            short = seen.squares.sqrt() <= self.clip_norm
            return _counted(ClippedSum(into, seen.finite, short), seen.mean_loss)
        if self.pre_noise > 0.0:
            rows = {name: row + self._noise_like(row) for name, row in rows.items()}
        return _counted(clipped_sum(rows, self.clip_norm, self.clipping), mean_loss)

    def row(self, weights: Weights, inputs: Tensor, targets: Tensor) -> tuple[Weights, Tensor]:
        """The gradient of one example's loss, the mean over the draws, as one row, and that loss."""
        leaves = {name: w.detach().requires_grad_() for name, w in weights.items()}
        with torch.enable_grad():
            losses = [self.network.losses(leaves, inputs, targets).sum() for _ in range(self.draws)]
            mean_loss = torch.stack(losses).mean()
            slopes = torch.autograd.grad(mean_loss, list(leaves.values()), allow_unused=True)
        forget_draws(self.network.module)
        rows = {
            name: torch.zeros_like(w)[None] if slope is None else slope[None]
            for (name, w), slope in zip(leaves.items(), slopes, strict=True)
        }
        return rows, mean_loss.detach()

    def _noise_like(self, row: Tensor) -> Tensor:
        if self.generator is None:
            raise ValueError(f"pre_noise {self.pre_noise} needs a generator of its own")
        drawn = torch.empty(row.shape, dtype=row.dtype, device=self.generator.device)
        return drawn.normal_(generator=self.generator).mul_(self.pre_noise).to(row.device)


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
    clipping: ClippingRule = "flat"

    def at(self, clip_norm: float) -> "ByContribution":
        """The same with another clip norm."""
        return self._replace(clip_norm=clip_norm)

    def __call__(self, chosen: Tensor, weights: Weights) -> Sum:
        """Part by part, each vectorised where the network allows it."""
        each = self.batches(chosen, weights)
        return added_up(weights, (self._part(weights, batch) for batch in each))

    def _part(self, weights: Weights, batch: UnitBatch) -> Sum:
        found = each_unit(
            self.contribution, self.network, weights, batch, vectorised=self.vectorised
        )
        return _counted(clipped_sum(found, self.clip_norm, self.clipping))

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
            yield self.units.batch(part, self.width, device)


def parts(chosen: Tensor, most: int | None) -> tuple[Tensor, ...]:
    """The sample cut into parts of at most ``most`` units; none for an empty sample."""
    return torch.split(chosen, most or len(chosen)) if len(chosen) else ()


def added_up(weights: Weights, sums: Iterable[Sum]) -> Sum:
    """The sum of a sample from the sums of its parts, one after the other."""
    found: Sum | None = None
    for one in sums:
        if found is None:
            found = one
            continue
        total = {name: found.total[name] + one.total[name] for name in weights}
        nonfinite, loss = found.nonfinite + one.nonfinite, found.loss + one.loss
        found = Sum(total, nonfinite, loss, found.within + one.within)
    return found or Sum({name: torch.zeros_like(w) for name, w in weights.items()}, 0, 0.0)


def _counted(found: ClippedSum, mean_loss: Tensor | None = None) -> Sum:
    """A clipped sum of some units with the sum of their losses, where these are known."""
    loss = 0.0 if mean_loss is None else mean_loss.double() * len(found.finite)
    return Sum(found.total, (~found.finite).sum(), loss, found.within.sum())


def runs_at_once(network: Network, weights: Weights, inputs: Tensor, targets: Tensor) -> bool:
    """Whether the reference can take several examples in one pass, tried on made-up ones."""
    before = random_state(network.module)
    into = {name: torch.empty_like(w) for name, w in weights.items()}
    try:
        clipped_gradient(
            network.module,
            {**network.fixed, **weights},
            inputs,
            targets,
            network.loss,
            clip_norm=1.0,
            into=into,
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
