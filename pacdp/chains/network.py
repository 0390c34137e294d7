"""How a network's gradients are taken: compiled loops, autograd chain by chain, or all chains at once.

The compiled form computes a network from the types of its layers. It is taken only where every layer is plain
(:func:`pacdp.layers.plain.is_plain`) and its numbers, outputs and gradients, are those of the network itself on a few
rows.

Any other network goes by automatic differentiation, one chain after another, or all at once under ``torch.func.vmap``.
Both work where a loss of one example is a function of that example and the weights. The loop gives a chain the same
bits alone and beside others; vmap batches the kernels of all chains, which is what a GPU wants, and equals the loop up
to rounding.
"""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pacdp.chains.layout import Layout
from pacdp.chains.native.network import NativeNetwork, supports
from pacdp.chains.pixels import Pixels
from pacdp.layers.plain import call_with
from pacdp.losses import Loss, zero_one

SUPPORTED = (
    "Linear, Conv1d-3d, pooling, ReLU and other elementwise activations, Flatten, GroupNorm, LayerNorm, attention in "
    "evaluation mode"
)
_ZERO_ONE = zero_one()
Batching = Literal["auto", "loop", "vmap"]
_ROWS = 5
"""Examples on which the compiled form is compared with the network."""
_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-8}
"""Differences by rounding, relative to the whole in Euclidean norm."""
_TRIALS = 5


class _Resident:
    """A network and a data set on one device."""

    def __init__(
        self, model: nn.Module, inputs: Float[Tensor, "n ..."] | Pixels, *, bfloat16: bool = False
    ) -> None:
        self.model = model
        self.layout = Layout(model)
        self.inputs = inputs
        self._bfloat16 = bfloat16

    def precision(self) -> AbstractContextManager[object]:
        """Activations in bfloat16 where asked for; weights, gradients and losses stay as they are."""
        if not self._bfloat16:
            return nullcontext()
        return torch.autocast(self.inputs.device.type, dtype=torch.bfloat16)

    def gather(self, indices: Tensor) -> Tensor:
        """The examples at ``indices``."""
        return self.inputs[indices]

    @torch.no_grad()
    def logits(self, weights: Float[Tensor, " dim"], start: int, stop: int) -> Tensor:
        """Outputs for the examples in [start, stop)."""
        return self._call(self.layout.views(weights), self.inputs[start:stop])

    def backward(
        self, weights: Tensor, batches: Sequence[Tensor], group: Sequence[int], labels: Sequence[Tensor], loss: Loss,
        gradient: Tensor,
    ) -> Tensor:  # fmt: skip
        """Gradients of each chain's mean loss into ``gradient``; returns mean losses and errors [2, chains]."""
        found = weights.new_empty((2, len(weights)))
        for k, g in enumerate(group):
            parameters = {
                name: view.requires_grad_()
                for name, view in self.layout.views(weights[k].detach()).items()
            }
            with torch.enable_grad():
                logits = self._call(parameters, batches[g])
                mean = loss(logits, labels[k]).mean()
                slopes = torch.autograd.grad(
                    mean, list(parameters.values()), materialize_grads=True
                )
            for view, slope in zip(self.layout.views(gradient[k]).values(), slopes, strict=True):
                view.copy_(slope)
            found[0, k] = mean.detach()
            found[1, k] = _ZERO_ONE(logits.detach(), labels[k]).mean()
        return found

    def _call(self, parameters: dict[str, Tensor], inputs: Tensor) -> Tensor:
        with self.precision():
            outputs = call_with(self.model, parameters, inputs)
        return outputs.to(self.inputs.dtype)


class LoopedNetwork(_Resident):
    """One forward and backward pass a chain."""


class VmappedNetwork(_Resident):
    """All chains in one call.

    Raises:
        ValueError: on construction, for layers that vmap cannot batch; it names what works.
    """

    def __init__(
        self, model: nn.Module, inputs: Float[Tensor, "n ..."] | Pixels, *, bfloat16: bool = False
    ) -> None:
        super().__init__(model, inputs, bfloat16=bfloat16)
        flat = self.layout.of(model).to(inputs.device)
        weights = torch.stack([flat, flat])

        def one(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
            return self._call(parameters, x).sum()

        try:
            torch.func.vmap(torch.func.grad(one), in_dims=(0, None))(
                self.layout.views(weights), inputs[:2]
            )
        except RuntimeError as error:
            raise ValueError(
                f"this network cannot run as a batch of chains ({str(error).splitlines()[0]}): torch.func.vmap takes "
                f"{SUPPORTED}, and no layer that updates itself in place, changes buffers or branches on its data; "
                "use batching='loop'"
            ) from error

    def together(
        self, weights: Tensor, inputs: Float[Tensor, "batches batch ..."], labels: Int[Tensor, "labellings batch"],
        loss: Loss, gradient: Tensor,
    ) -> Tensor:  # fmt: skip
        """As :meth:`backward`, all at once: inputs and labels have a row for all chains, or one a chain."""

        def one(
            parameters: dict[str, Tensor], x: Tensor, y: Tensor
        ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            logits = self._call(parameters, x)
            mean = loss(logits, y).mean()
            return mean, (mean.detach(), _ZERO_ONE(logits.detach(), y).mean())

        own = tuple(None if len(part) == 1 and len(weights) > 1 else 0 for part in (inputs, labels))
        inputs, labels = (
            part[0] if dim is None else part
            for part, dim in zip((inputs, labels), own, strict=True)
        )
        all_chains = torch.func.vmap(torch.func.grad(one, has_aux=True), in_dims=(0, *own))
        slopes, (losses, errors) = all_chains(self.layout.views(weights), inputs, labels)
        for name, view in self.layout.views(gradient).items():
            view.copy_(slopes[name])
        return torch.stack([losses, errors])


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
