"""The clipped sum of a sample of units by the reference, in which units cannot meet.

Formal guarantee: one unit more or less moves every sum by at most the clip norm in Euclidean norm, whatever its
records, up to the rounding of the sum (docs/noise.md).
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from pacdp.errors import said
from pacdp.layers.random import forget_draws, generators, random_state, rewind
from pacdp.step.clip import Clip, Clipping, Weights, clipped_sum
from pacdp.step.gradients import clipped_gradient, gradients_of_each
from pacdp.step.units import Network, UnitFunction, Units, each_unit, mean_loss


class Sum(NamedTuple):
    """What a sample of units adds up to; all of it private."""

    total: Weights
    nonfinite: int | Tensor
    """Units that counted as zero; a tensor, for which nobody has waited yet, is on the weights' device."""
    loss: float | Tensor
    """Sum of the units' losses; 0 where none is computed."""
    within: int | Tensor = 0
    """Units whose contribution had at most norm C before it was clipped."""


NOT_PACKED = "in place of pack_padded_sequence give the layer padded rows, and take each one's output at its length"


@runtime_checkable
class Summer(Protocol):
    """The clipped sum of some units' contributions at the network's present weights."""

    def __call__(self, chosen: Tensor, weights: Weights) -> Sum:
        """Sum the contributions of the chosen units."""
        ...

    def at(self, clip_norm: float) -> "Summer":
        """The same with another clip norm."""
        ...


class Reference(NamedTuple):
    """Clipped contributions of units, each computed of that unit's records alone.

    A contribution is the gradient of an example's own loss, or what ``contribution`` makes of a person's records: the
    gradient of all of them, what local training moves. Networks that ``torch.func.vmap`` cannot run, with random layers
    or branches on their data, go through it one unit at a time.
    """

    network: Network
    units: Units
    clip: Clip
    contribution: UnitFunction | None = None
    """None for gradients of examples."""
    width: int | None = None
    """Records of a person in one batch; all by default."""
    draws: int = 1
    """Forward passes of an example whose losses are averaged before clipping."""
    most: int | None = None
    """Units in one pass."""
    vectorised: bool = True
    pre_noise: float = 0.0
    """Standard deviation of noise on each example's gradient before clipping (Chen, Wu and Hong 2020, Knolle et al.
    2021). It reduces the bias of clipping and buys no privacy."""
    generator: torch.Generator | None = None
    """Of that noise."""

    @property
    def alone(self) -> bool:
        """Whether units go through one at a time."""
        return not self.vectorised or self.draws > 1 or bool(generators(self.network.module))

    def at(self, clip_norm: float) -> "Reference":
        """The same with another clip norm."""
        return self._replace(clip=self.clip._replace(norm=clip_norm))

    def __call__(self, chosen: Tensor, weights: Weights) -> Sum:
        """Part by part; a network that draws for itself is asked for one unit at a time."""
        return added_up(weights, (self._part(weights, part) for part in self._parts(chosen)))

    @torch.no_grad()
    def losses(self, chosen: Tensor, weights: Weights) -> Tensor:
        """Mean loss of each unit at other weights, (units,)."""
        found = [self._each(mean_loss, part, weights) for part in self._parts(chosen)]
        return torch.cat(found) if found else torch.zeros(0)

    def _parts(self, chosen: Tensor) -> tuple[Tensor, ...]:
        return parts(chosen, 1 if self.alone else self.most)

    def _each(self, function: UnitFunction, part: Tensor, weights: Weights) -> Any:
        batch = self.units.batch(part, self.width, next(iter(weights.values())).device)
        return each_unit(function, self.network, weights, batch, vectorised=not self.alone)

    def _part(self, weights: Weights, part: Tensor) -> Sum:
        if self.contribution is not None:
            return _counted(*clipped_sum(self._each(self.contribution, part, weights), self.clip))
        given = weights, *self.units.examples(part, next(iter(weights.values())).device)
        if not (self.alone or self.pre_noise > 0.0):
            seen = clipped_gradient(self.network, *given, self.clip)
            return _counted(seen.total, seen.clipping, seen.mean_loss)
        if self.alone:
            rows, mean_loss = self.row(*given)
        else:
            rows, losses, _ = gradients_of_each(self.network, *given)
            mean_loss = losses.mean()
        if self.pre_noise > 0.0:
            rows = {name: row + self._noise(row) for name, row in rows.items()}
        return _counted(*clipped_sum(rows, self.clip), mean_loss)

    def row(self, weights: Weights, inputs: Tensor, targets: Tensor) -> tuple[Weights, Tensor]:
        """The gradient of one example's loss, the mean over the draws, as one row, and that loss."""

        def loss(own: Weights) -> Tensor:
            draws = [self.network.losses(own, inputs, targets).sum() for _ in range(self.draws)]
            return torch.stack(draws).mean()

        gradient, mean_loss = torch.func.grad_and_value(loss)(weights)
        forget_draws(self.network.module)
        return {name: one[None] for name, one in gradient.items()}, mean_loss

    def _noise(self, row: Tensor) -> Tensor:
        own = self.generator
        assert own is not None
        drawn = torch.randn(row.shape, generator=own, dtype=row.dtype, device=own.device)
        return drawn.mul_(self.pre_noise).to(row.device)


def parts(chosen: Tensor, most: int | None) -> tuple[Tensor, ...]:
    """The sample cut into parts of at most ``most`` units; none for an empty sample."""
    return torch.split(chosen, most or len(chosen)) if len(chosen) else ()


def added_up(weights: Weights, sums: Iterable[Sum]) -> Sum:
    """The sum of a sample from the sums of its parts, one after the other."""
    found: Sum | None = None
    for one in sums:
        if found is not None:
            total = {name: found.total[name] + one.total[name] for name in weights}
            nonfinite, loss = found.nonfinite + one.nonfinite, found.loss + one.loss
            one = Sum(total, nonfinite, loss, found.within + one.within)
        found = one
    return found or Sum({name: torch.zeros_like(w) for name, w in weights.items()}, 0, 0.0)


def _counted(total: Weights, clipping: Clipping, mean_loss: Tensor | None = None) -> Sum:
    """A clipped sum of some units with the sum of their losses, where these are known."""
    loss = 0.0 if mean_loss is None else mean_loss.double() * len(clipping.finite)
    return Sum(total, (~clipping.finite).sum(), loss, clipping.within.sum())


def runs_at_once(reference: Reference, tried: Units, weights: Weights) -> bool:
    """Whether the reference can take several units in one pass, tried on two that are made up.

    Raises:
        ValueError: it cannot take one alone either.
    """
    trial, before = (
        reference._replace(units=tried, pre_noise=0.0),
        random_state(reference.network.module),
    )
    together, alone = (trial._replace(vectorised=at_once) for at_once in (True, False))
    try:
        if not together.alone and _failure(together, torch.arange(2), weights) is None:
            return True
        failure = _failure(alone, torch.arange(1), weights)
    finally:
        rewind(reference.network.module, before)
    if failure is not None:
        raise ValueError(
            f"the gradient of a single example cannot be taken ({said(failure)}): network and loss must run under "
            "torch.func, as torch.jit, nn.DataParallel, checkpointing and hooks of backward passes do not; "
            f"{NOT_PACKED}"
        )
    return False


def _failure(trial: Reference, chosen: Tensor, weights: Weights) -> Exception | None:
    """Why a sum of these units cannot be taken."""
    try:
        trial(chosen, weights)
        if trial.contribution is not None:
            trial.losses(chosen, weights)
    except (RuntimeError, ValueError, TypeError) as error:
        return error
    return None
