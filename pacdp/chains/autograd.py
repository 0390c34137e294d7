"""Any network, by automatic differentiation: one chain after another, or all at once under ``torch.func.vmap``.

Both work where a loss of one example is a function of that example and the weights. The loop gives a chain the same
bits alone and beside others; vmap batches the kernels of all chains, which is what a GPU wants, and equals the loop up
to rounding.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pacdp.chains.layout import Layout
from pacdp.chains.pixels import Pixels
from pacdp.layers.plain import call_with
from pacdp.losses import Loss, zero_one

SUPPORTED = (
    "Linear, Conv1d-3d, pooling, ReLU and other elementwise activations, Flatten, GroupNorm, LayerNorm, attention in "
    "evaluation mode"
)
_ZERO_ONE = zero_one()


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
