"""Running a sampler: steps in chunks, each chunk checked before anyone sees it."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pacdp.errors import Diverged
from pacdp.losses import Loss
from pacdp.samplers import Sampler


class Chunk(NamedTuple):
    """Some steps of a chain."""

    state: Any
    """The sampler's state after the last of them."""
    losses: Float[Tensor, " steps"]
    """Mean minibatch loss of each step, on the CPU."""
    errors: Float[Tensor, " steps"]
    """Mean minibatch 0-1 loss of each step, on the CPU."""


def run(
    sampler: Sampler,
    state: Any,
    generator: torch.Generator,
    *,
    until: int,
    chunk: int,
    loss: Loss | None = None,
) -> Iterator[Chunk]:
    """Advance the chain to step ``until``, yielding at every multiple of ``chunk`` steps.

    The losses stay on the device until the end of a chunk, so that a GPU is never waited for step by step.

    Raises:
        Diverged: a minibatch loss is NaN or infinite (it names the first such step), or a weight is (it names the
            chunk's last step); nothing of that chunk is yielded.
        ValueError: a minibatch loss lies above the interval that ``loss`` declares. (An empty Poisson batch has mean 0;
            the lower end is checked where whole data sets are judged.)
    """
    while state.step < until:
        first = state.step + 1
        stop = min(until, (state.step // chunk + 1) * chunk)
        trace = state.weights.new_empty((2, stop - state.step))
        for i in range(stop - state.step):
            state, info = sampler.step(state, generator)
            trace[0, i] = info.loss
            trace[1, i] = info.error
        losses, errors = trace.cpu()
        bad = (~torch.isfinite(losses)).nonzero()
        if len(bad):
            raise Diverged(first + int(bad[0]))
        if not bool(torch.isfinite(state.weights).all()):
            raise Diverged(state.step, "a weight")
        if loss is not None:
            loss.check(max(float(losses.min()), loss.low), float(losses.max()))
        yield Chunk(state, losses, errors)
