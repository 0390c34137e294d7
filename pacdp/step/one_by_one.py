"""Clipped sums of one chain at a time by the reference, :mod:`pacdp.step.gradients`, on batches of any size."""

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pacdp.chains.layout import Layout
from pacdp.chains.native.network import NativeNetwork
from pacdp.losses import Loss, in_error
from pacdp.step.clip import Clip
from pacdp.step.gradients import clipped_gradient, slopes_and_mean

_PART = 1000
"""Examples that go through together where norms are kept: a batch may be all of them."""


class OneByOne(NamedTuple):
    """A network and its resident data set."""

    model: nn.Module
    layout: Layout
    inputs: Tensor
    loss: Loss

    def sum(
        self, weights: Float[Tensor, " dim"], examples: Int[Tensor, " batch"], labels: Int[Tensor, " n"], clip: Clip,
        into: Float[Tensor, " dim"], squares: Float[Tensor, ""] | None,
    ) -> Float[Tensor, "2"]:  # fmt: skip
        """The chain's sum into ``into``; returns the batch's mean loss and error.

        Args:
            labels: of all examples.
            squares: float64; where given, it becomes the sum over examples of the squared norm of all that each of
                them adds, before clipping.
        """
        if squares is None:
            return self._part(weights, examples, labels[examples], clip, into)[0]
        whole, means, total = torch.zeros_like(into), weights.new_zeros(2), squares.new_zeros(())
        often = multiplicities(examples)
        for part, times in zip(examples.split(_PART), often.split(_PART), strict=True):
            mean, own = self._part(weights, part, labels[part], clip, into)
            whole += into
            means += mean * (len(part) / len(examples))
            total += own @ times.to(own.dtype)
        into.copy_(whole)
        squares.copy_(total)
        return means

    def _part(
        self, weights: Tensor, examples: Tensor, labels: Tensor, clip: Clip, into: Tensor
    ) -> tuple[Tensor, Float[Tensor, " batch"]]:
        seen = clipped_gradient(
            self.model,
            self.layout.views(weights),
            self.inputs[examples],
            labels,
            self.loss,
            clip,
            into=self.layout.views(into),
        )
        if len(labels) == 0:
            return weights.new_zeros(2), seen.squares
        means = torch.stack(
            [seen.mean_loss, in_error(seen.outputs, labels).to(weights.dtype).mean()]
        )
        return means, torch.where(seen.finite, seen.squares, 0.0)


def sum_with_norms(
    network: NativeNetwork, loss: Loss, weights: Float[Tensor, " dim"], examples: Int[Tensor, " batch"],
    labels: Int[Tensor, " n"], into: Float[Tensor, " dim"], squares: Float[Tensor, ""],
) -> Float[Tensor, "2"] | None:  # fmt: skip
    """As :meth:`OneByOne.sum` without clipping, by compiled layers; None where an example's gradient is not finite."""
    count, means, total = len(examples), np.zeros(2), 0.0
    often = multiplicities(examples).double().numpy()

    def slope(outputs: Tensor, own: Tensor) -> tuple[float, float, Tensor]:
        share = len(own) / count
        if loss.compiled is not None:
            value, error, back = loss.slope(outputs, own)
            return value * share, error * share, back.mul_(share)
        back, value = slopes_and_mean(loss, outputs, own)
        wrong = in_error(outputs, own).double().mean()
        return float(value) * share, float(wrong) * share, back / count

    for start in range(0, count, _PART):
        part = examples[start : start + _PART]
        gradient, each = into if start == 0 else torch.empty_like(into), np.zeros(len(part))
        means += network.slopes(weights, network.gather(part), labels[part], slope, gradient, each)
        total += float(often[start : start + _PART] @ each)
        if start:
            into += gradient
    squares.fill_(total * count**2)
    return torch.from_numpy(means) if math.isfinite(total) else None


def multiplicities(examples: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
    """How often each of the drawn examples was drawn.

    An example adds its gradient to a sum as often as it was drawn: the squared norms of all that is added sum to
    Σ over draws of multiplicity times the gradient's squared norm.
    """
    drawn = examples.cpu().numpy()
    first, last = (np.searchsorted(np.sort(drawn), drawn, side) for side in ("left", "right"))
    return torch.from_numpy(last - first).to(examples.device)
