"""How a network's gradients are taken: compiled loops, autograd chain by chain, or all chains at once.

The compiled form computes a network from the types of its layers. It is taken only where every layer is plain
(:func:`pacdp.layers.plain.is_plain`) and its numbers, outputs and gradients, are those of the network itself on a few
rows.
"""

import math
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from pacdp.chains.autograd import LoopedNetwork, VmappedNetwork
from pacdp.chains.native.network import NativeNetwork, supports
from pacdp.chains.pixels import Pixels
from pacdp.losses import Loss

Batching = Literal["auto", "loop", "vmap"]
_ROWS = 5
"""Examples on which the compiled form is compared with the network."""
_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-8}
"""Differences by rounding, relative to the whole in Euclidean norm."""
_TRIALS = 5


Network = NativeNetwork | LoopedNetwork | VmappedNetwork
"""A network over a resident data set, for K weight vectors at a time: each has a layout, and says what its ``gather``,
``backward`` and ``logits`` do."""


def resident(
    model: nn.Module,
    inputs: Tensor | Pixels,
    *,
    batching: Batching = "auto",
    bfloat16: bool = False,
) -> Network:
    """The fastest form of ``model`` on the device of ``inputs``.

    ``auto`` is the compiled form where there is one, else the loop on a CPU and vmap on a GPU.

    Formal guarantee: a compiled form agreed with ``model`` on rows of ``inputs``, at the weights of ``model`` and at
    random ones, in outputs and in gradients, to single precision.

    Raises:
        ValueError: vmap cannot batch the network.
    """
    if batching == "auto" and not bfloat16 and supports(model, inputs):
        compiled = NativeNetwork(model, inputs)
        if _agrees(compiled, model, inputs):
            return compiled
    if batching == "vmap" or (batching == "auto" and inputs.device.type != "cpu"):
        return VmappedNetwork(model, inputs, bfloat16=bfloat16)
    return LoopedNetwork(model, inputs, bfloat16=bfloat16)


def _agrees(compiled: NativeNetwork, model: nn.Module, inputs: Tensor | Pixels) -> bool:
    """Whether outputs, gradients and norms of examples' own are those of ``model``, called as it is and by autograd.

    Gradients jump where a unit is at zero or two pixels are equal, so that rounding alone can move one; they must agree
    at two of a few random weights. Outputs must agree everywhere.
    """
    generator = torch.Generator().manual_seed(0)
    own, rows = compiled.layout.of(model), min(_ROWS, len(inputs))
    with torch.no_grad():
        if not _close(compiled.logits(own, 0, rows), model(inputs[:rows])):
            return False
    plain, places = LoopedNetwork(model, inputs), torch.linspace(0, len(inputs) - 1, rows).long()
    agreed = 0
    for _ in range(_TRIALS):
        named = {
            name: torch.randn(shape, generator=generator, dtype=own.dtype)
            / math.sqrt(math.prod(shape[1:]))
            for name, shape in compiled.layout.shapes.items()
        }
        spread = compiled.layout.flatten(named)
        if not _close(compiled.logits(spread, 0, rows), plain.logits(spread, 0, rows)):
            return False
        gradient, squares = torch.empty_like(spread), np.zeros(rows)
        batch, labels = compiled.gather(places), torch.zeros_like(places)
        compiled.slopes(spread, batch, labels, _SMOOTH.slope, gradient, squares)
        each = torch.stack([_gradient(plain, spread, place[None]) for place in places]) / rows
        agreed += _close(gradient, each.sum(dim=0)) and _close(
            torch.from_numpy(squares).sqrt().to(own.dtype), torch.linalg.vector_norm(each, dim=1)
        )
        if agreed == 2:
            return True
    return False


def _gradient(plain: LoopedNetwork, weights: Tensor, places: Tensor) -> Tensor:
    found, labels = torch.empty_like(weights), torch.zeros_like(places)
    plain.backward(weights[None], [plain.gather(places)], [0], [labels], _SMOOTH, found[None])
    return found


def _close(found: Tensor, expected: Tensor) -> bool:
    if found.shape != expected.shape:
        return False
    away, size = (torch.linalg.vector_norm(x.double()) for x in (found - expected, expected))
    return bool(away <= _TOLERANCE[expected.dtype] * size)


def _sines(outputs: Tensor, labels: Tensor) -> Tensor:
    return torch.sin(outputs.reshape(len(labels), -1) + torch.arange(outputs[0].numel())).mean(
        dim=1
    )


_SMOOTH = Loss(name="sines", low=-1.0, high=1.0, function=_sines)
"""A loss whose slope differs between all outputs."""
