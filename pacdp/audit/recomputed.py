"""The clipped contributions of units, computed anew: one after the other, by autograd, clipped in double precision.

That is slow, and shares nothing with the sums that it is held against but the network, the loss and, where a unit adds
something else than a gradient, the algorithm's own function of one unit's records.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from pacdp.layers.random import forget_draws, generators, random_state, rewind
from pacdp.step.gradients import PerExampleLoss
from pacdp.step.units import Network, UnitFunction


class Recomputed:
    """Contributions at given weights; random layers draw what they drew in the run, if asked in its order.

    Args:
        dataset: of (input, target) pairs.
        draws: forward passes whose losses are averaged.
        contribution: what a unit adds in place of a gradient, from its records in batches of ``width``.
        seeds: of the random layers' generators, by name.
        most: examples that pass random layers as one batch, or None for all; 1 sends them one by one.
    """

    def __init__(
        self,
        module: nn.Module,
        dataset: Dataset[Any],
        loss: PerExampleLoss,
        *,
        clip_norm: float,
        draws: int = 1,
        contribution: UnitFunction | None = None,
        width: int | None = None,
        seeds: Mapping[str, int] | None = None,
        most: int | None = None,
    ) -> None:
        self.dataset, self.loss, self.clip_norm, self.draws = dataset, loss, clip_norm, draws
        self.contribution, self.width, self.most = contribution, width, most
        self.module = copy.deepcopy(module).train()
        for name, generator in generators(self.module).items():
            generator.manual_seed((seeds or {})[name])
        self.random = bool(generators(self.module))
        self.leaves = {name: p for name, p in self.module.named_parameters() if p.requires_grad}
        self.fixed = {k: v for k, v in self.module.state_dict().items() if k not in self.leaves}

    def __call__(self, weights: Tensor, batch: Sequence[Sequence[int]]) -> Tensor:
        """Clipped contributions of the units, each given by its records' indices; (units, dim), double precision."""
        nn.utils.vector_to_parameters(weights, self.module.parameters())
        if not batch:
            return torch.zeros(0, sum(p.numel() for p in self.leaves.values()), dtype=torch.float64)
        if self.contribution is not None:
            rows = [self._contribution(records) for records in batch]
        elif self.random and self.most != 1:
            rows = self._together([index for records in batch for index in records])
        else:
            rows = [self._gradient(records) for records in batch]
        found = torch.stack([torch.cat([part.double().reshape(-1) for part in row]) for row in rows])
        norms = found.norm(dim=1, keepdim=True)
        factors = (self.clip_norm / norms).clamp(max=1.0)
        return torch.where(torch.isfinite(norms), found * factors, 0.0)

    def _records(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        rows = [self.dataset[i] for i in indices]
        return torch.stack([x for x, _ in rows]), torch.stack([torch.as_tensor(y) for _, y in rows])

    def _slopes(self, loss: Tensor) -> list[Tensor]:
        found = torch.autograd.grad(loss, list(self.leaves.values()), allow_unused=True)
        return [
            torch.zeros_like(p) if slope is None else slope
            for p, slope in zip(self.leaves.values(), found, strict=True)
        ]

    def _gradient(self, records: Sequence[int]) -> list[Tensor]:
        inputs, targets = self._records(records)
        drawn = [self.loss(self.module(inputs), targets).sum() for _ in range(self.draws)]
        forget_draws(self.module)
        return self._slopes(torch.stack(drawn).mean())

    def _together(self, indices: Sequence[int]) -> list[list[Tensor]]:
        """Examples that passed random layers as one batch: each in its own place, with copies of itself for the others.

        So it meets the masks and weights that it met in the run, and nobody else's numbers.
        """
        most, rows = self.most or len(indices), list[list[Tensor]]()
        for start in range(0, len(indices), most):
            part, before = indices[start : start + most], random_state(self.module)
            for place, index in enumerate(part):
                rewind(self.module, before)
                inputs, targets = self._records([index] * len(part))
                drawn = [self.loss(self.module(inputs), targets)[place] for _ in range(self.draws)]
                rows.append(self._slopes(torch.stack(drawn).mean()))
                forget_draws(self.module)
        return rows

    def _contribution(self, records: Sequence[int]) -> list[Tensor]:
        """One unit by itself, unpadded but for its last batch."""
        assert self.contribution is not None
        inputs, targets = self._records(records)
        width = self.width or len(records)
        missing = -len(records) % width
        kept = torch.cat([torch.ones(len(records)), torch.zeros(missing)]).to(inputs)
        first = (len(records) - 1) // width * width
        shaped = [
            torch.cat([x, x[first : first + 1].expand(missing, *x.shape[1:])]).unflatten(0, (-1, width))
            for x in (inputs, targets)
        ]
        weights = {name: p.detach() for name, p in self.leaves.items()}
        network = Network(self.module, self.fixed, self.loss)
        found = self.contribution(network, weights, shaped[0], shaped[1], kept.unflatten(0, (-1, width)))
        return [found[name] for name in self.leaves]

    @torch.no_grad()
    def loss_of(self, weights: Tensor, records: Sequence[int]) -> float:
        """A unit's mean loss at other weights."""
        nn.utils.vector_to_parameters(weights, self.module.parameters())
        inputs, targets = self._records(records)
        found = float(self.loss(self.module(inputs), targets).mean())
        return math.inf if math.isnan(found) else found
