"""Clipped sums of many chains at once: Poisson batches in rows of one length, with nothing read back from the device.

What is summed is what :mod:`pacdp.step.gradients` defines, under one ``torch.func.vmap`` over the chains. No shape
depends on a draw, so that a step can be recorded as one CUDA graph. A row has room for more units than a batch has in
any run that can be carried out; the mean loss of one that had more would be NaN, which stops the chain.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pacdp.chains.layout import Layout
from pacdp.chains.memory import room_on
from pacdp.losses import Loss, in_error
from pacdp.random import Words
from pacdp.step.clip import Clip
from pacdp.step.gradients import clipped_gradient, fully_connected, mean_over
from pacdp.step.sample import most_of_poisson, poisson_rows
from pacdp.step.units import Network

_COPIES = 3
"""What a step holds at a time, in gradients of single examples: these, those that count, and what leads to them."""


class FixedSizeSums:
    """Clipped sums over a resident data set, where a batch has ``batch_size`` of its n examples on average."""

    def __init__(
        self,
        model: nn.Module,
        layout: Layout,
        inputs: Float[Tensor, "n ..."],
        loss: Loss,
        *,
        batch_size: int,
    ) -> None:
        self._model, self._layout, self._inputs, self._loss = model, layout, inputs, loss
        self._rate = batch_size / len(inputs)
        self.most = most_of_poisson(len(inputs), self._rate)
        """Examples of a row."""
        self._alone = not fully_connected(model, inputs.ndim)

    def at_once(self, device: torch.device) -> int | None:
        """So many chains go through together where gradients of single examples are needed, else all of them: None."""
        return max(1, room_on(device) // self._rows) if self._alone else None

    def beside(self, chains: int, device: torch.device) -> int:
        """Bytes that a step of so many chains needs for gradients of single examples, about."""
        return _COPIES * min(chains, self.at_once(device) or 0) * self._rows

    @property
    def _rows(self) -> int:
        """Bytes of one chain's."""
        return self.most * self._layout.dim * self._inputs.element_size()

    def __call__(
        self,
        weights: Float[Tensor, "chains dim"],
        words: Words,
        group: Int[Tensor, " chains"],
        labels: Int[Tensor, "labellings n"],
        clip: Clip,
        into: Float[Tensor, "chains dim"],
    ) -> Float[Tensor, "2 chains"]:
        """Every chain's clipped sum into ``into``; returns mean losses and errors.

        Args:
            words: a row of n for each distinct batch.
            group: which of these batches is each chain's.
            labels: of all examples, for all chains or for each.
        """
        rows = poisson_rows(words, self._rate, self.most)
        shared = len(rows.indices) == 1 and len(weights) > 1
        drawn, member, whole = (one if shared else one[group] for one in rows)
        alike = len(labels) == 1
        own = labels[0][drawn] if alike else labels.gather(1, drawn.expand(len(weights), -1))
        network = Network(self._model, {}, self._loss)

        def one(
            parameters: dict[str, Tensor], x: Tensor, y: Tensor, of: Tensor, sums: dict[str, Tensor]
        ) -> tuple[Tensor, Tensor]:
            seen = clipped_gradient(network, parameters, x, y, clip, into=sums, member=of)
            return seen.mean_loss, mean_over(in_error(seen.outputs, y).to(x.dtype), of)

        given, axes = [self._inputs[drawn], own, member], (0, 0, 0)
        if shared:  # by all chains
            axes = (None, None if alike else 0, None)
            given = [x if axis == 0 else x[0] for x, axis in zip(given, axes, strict=True)]
        x, y, of = given
        every = torch.func.vmap(one, in_dims=(0, *axes, 0), chunk_size=self.at_once(weights.device))
        found = every(self._layout.views(weights), x, y, of, self._layout.views(into))
        # one record's loss must not decide whether the chain goes on
        kept = [
            part.masked_fill(~part.isfinite(), most)
            for part, most in zip(found, (self._loss.high, 1.0), strict=True)
        ]
        return torch.stack(kept).masked_fill(~whole, torch.nan)
