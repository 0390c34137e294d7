"""The clipped contributions of units, computed anew: one after the other, clipped and added up in double precision.

The gradient of an example is autograd's, of that example alone. What another unit adds is the reference of one unit
(:func:`pacdp.step.units.each_unit`), asked for one unit at a time, unpadded. What is audited is what a run makes of
many units: fast modes, batches, clipping, sums. None of these is used here, so that a fault in one of them shows.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from pacdp.audit.observed import Observer, flat
from pacdp.layers.random import forget_draws, generators, random_state, rewind
from pacdp.step.clip import Weights
from pacdp.step.gradients import PerExampleLoss
from pacdp.step.units import Network, UnitBatch, UnitFunction, Units, each_unit, take


@dataclass(kw_only=True)
class Recomputed:
    """Contributions at given weights; random layers draw what they drew in the run, if asked in its order."""

    module: nn.Module
    """Copied, and not changed."""
    units: Units
    """The auditor's own list of whose records are whose."""
    loss: PerExampleLoss
    clip_norm: float
    contribution: UnitFunction | None = None
    """What a unit adds in place of a gradient, from its records in batches of ``width``."""
    width: int | None = None
    draws: int = 1
    """Forward passes whose losses are averaged."""
    seeds: Mapping[str, int] = field(default_factory=dict)
    """Of the random layers' generators, by name."""
    most: int | None = None
    """Examples that pass random layers as one batch, or None for all; 1 sends them one by one."""

    def __post_init__(self) -> None:
        self.module = copy.deepcopy(self.module).train()
        self.network, random = Network.of(self.module, self.loss), generators(self.module)
        for name, generator in random.items():
            generator.manual_seed(self.seeds[name])
        self.most = self.most if random else 1

    @classmethod
    def of(cls, observed: Observer) -> "Recomputed":
        """The contributions of a run that was watched."""
        subject, algorithm = observed.subject, observed.algorithm
        records = None if subject.people is None else tuple(map(torch.tensor, subject.members))
        return cls(
            module=subject.module,
            units=Units(subject.dataset, records),
            loss=subject.loss,
            clip_norm=algorithm.mechanism.clip_norm,
            contribution=algorithm.contribution,
            width=algorithm.width,
            draws=algorithm.draws,
            seeds=observed.seeds,
            most=1 if observed.alone else algorithm.mechanism.max_physical_batch,
        )

    def __call__(self, weights: Tensor, chosen: Sequence[int]) -> Tensor:
        """Clipped contributions of the chosen units at these weights of all parameters; (units, dim)."""
        live = self._live(weights)
        rows = (
            self._gradients(chosen)
            if self.contribution is None
            else self._contributions(live, chosen)
        )
        none = flat(live.values()).double()[None][:0]
        found = torch.cat([none, *(flat(row.values()).double()[None] for row in rows)])
        norms = found.norm(dim=1, keepdim=True)
        return torch.where(
            torch.isfinite(norms), found * (self.clip_norm / norms).clamp(max=1.0), 0.0
        )

    def losses(self, weights: Tensor, chosen: Sequence[int]) -> list[float]:
        """Each unit's mean loss at these weights."""
        live = self._live(weights)
        batches = [self._batch(unit) for unit in chosen]
        return [float(self.network.losses(live, batch.inputs[batch.kept > 0], batch.targets[batch.kept > 0]).mean())
                for batch in batches]  # fmt: skip

    def _live(self, weights: Tensor) -> Weights:
        nn.utils.vector_to_parameters(weights, self.module.parameters())
        return {name: p.detach() for name, p in self.module.named_parameters() if p.requires_grad}

    def _batch(self, unit: int) -> UnitBatch:
        return self.units.batch(torch.tensor([unit]), self.width, torch.device("cpu"))

    def _contributions(self, live: Weights, chosen: Sequence[int]) -> list[Weights]:
        assert self.contribution is not None
        found = [
            each_unit(self.contribution, self.network, live, self._batch(u), vectorised=False)
            for u in chosen
        ]
        return [{name: row[name][0] for name in live} for row in found]

    def _gradients(self, chosen: Sequence[int]) -> list[Weights]:
        """Gradients of single examples.

        Where examples passed random layers as one batch, each is put in its own place, with copies of itself for the
        others: so it meets the masks and weights that it met in the run, and nobody else's numbers.
        """
        rows, most = list[Weights](), self.most or max(1, len(chosen))
        for start in range(0, len(chosen), most):
            part, before = chosen[start : start + most], random_state(self.module)
            for place, index in enumerate(part):
                if place:
                    rewind(self.module, before)
                rows.append(self._gradient([index] * len(part), place))
        return rows

    def _gradient(self, indices: Sequence[int], place: int) -> Weights:
        leaves = {name: p for name, p in self.module.named_parameters() if p.requires_grad}
        inputs, targets = take(self.units.dataset, torch.tensor(indices))
        losses = [self.loss(self.module(inputs), targets)[place] for _ in range(self.draws)]
        forget_draws(self.module)
        slopes = torch.autograd.grad(
            torch.stack(losses).mean(),
            list(leaves.values()),
            allow_unused=True,
            materialize_grads=True,
        )
        return dict(zip(leaves, slopes, strict=True))
