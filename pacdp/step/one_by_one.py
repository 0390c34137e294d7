"""Sums of one chain's gradients over a batch of any size, some examples at a time: by the reference, or compiled."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pacdp.chains.layout import Layout
from pacdp.chains.native.network import NativeNetwork
from pacdp.losses import Loss, in_error
from pacdp.step.clip import Clip
from pacdp.step.gradients import clipped_gradient, judged
from pacdp.step.units import Network

AT_ONCE = 1000
"""Examples that go through together where norms are kept: a batch may be all of them."""
Part = Callable[
    [Int[Tensor, " part"], Float[Tensor, " dim"]], tuple[Float[Tensor, "2"], Float[Tensor, " part"]]
]
"""Writes the sum over some examples into a vector; returns their mean loss and error, and the squared norm of what each
of them adds before clipping, float64, 0 for those that count as zero."""


def summed(
    part: Part, examples: Int[Tensor, " batch"], into: Float[Tensor, " dim"], most: int | None
) -> tuple[Float[Tensor, "2"], Float[Tensor, " batch"]]:
    """As a :data:`Part`, over examples of which at most ``most`` go through together."""
    count = len(examples)
    if not count:
        into.zero_()
        return into.new_zeros(2), into.new_zeros(0)
    if count <= (most or count):
        return part(examples, into)
    means, squares = into.new_zeros(2), list[Tensor]()
    for k, some in enumerate(examples.split(most or count)):
        gradient = torch.empty_like(into) if k else into
        mean, own = part(some, gradient)
        means = means + mean * (len(some) / count)
        squares.append(own)
        if k:
            into += gradient
    return means, torch.cat(squares)


def by_reference(
    network: Network,
    layout: Layout,
    weights: Float[Tensor, " dim"],
    inputs: Float[Tensor, "n ..."],
    labels: Int[Tensor, " n"],
    clip: Clip,
) -> Part:
    """By :mod:`pacdp.step.gradients`, of a resident data set."""

    def part(some: Tensor, into: Tensor) -> tuple[Tensor, Tensor]:
        own, named = labels[some], layout.views(weights)
        seen = clipped_gradient(network, named, inputs[some], own, clip, into=layout.views(into))
        error = in_error(seen.outputs, own).to(weights.dtype).mean()
        squares = torch.where(seen.clipping.finite, seen.clipping.norms.square(), 0.0)
        return torch.stack([seen.mean_loss, error]), squares

    return part


def by_compiled_layers(
    network: NativeNetwork,
    loss: Loss,
    weights: Float[Tensor, " dim"],
    labels: Int[Tensor, " n"],
    count: int,
) -> Part:
    """Without clipping, over ``count`` examples; squared norms that are not finite stand for those of no use."""

    def part(some: Tensor, into: Tensor) -> tuple[Tensor, Tensor]:
        def slope(outputs: Tensor, own: Tensor) -> tuple[float, float, Tensor]:
            value, error, back = judged(loss, outputs, own)
            return value, error, back.mul_(len(own) / count)

        squares = np.zeros(len(some))
        means = network.slopes(weights, network.gather(some), labels[some], slope, into, squares)
        return torch.tensor(means, dtype=torch.float64), torch.from_numpy(squares) * count**2

    return part


def sum_of_squares(squares: Float[Tensor, " batch"], examples: Int[Tensor, " batch"]) -> float:
    """Σ ‖g_i‖² over the examples that were drawn, g_i all that example i adds: what it adds each time, so many times.

    That is the sum over draws of the squared norm of each, times how often its example was drawn.
    """
    drawn = examples.cpu().numpy()
    ordered = np.sort(drawn)
    times = ordered.searchsorted(drawn, "right") - ordered.searchsorted(drawn, "left")
    return float(squares @ torch.from_numpy(times).to(squares))
