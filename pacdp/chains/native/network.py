"""Plain feed-forward networks on the CPU, one chain after another: forward and backward without an autograd graph.

Each chain's numbers come from the same calls whether it runs alone or beside others, so that they are equal bit for
bit. Gradients are written straight into the flat vector.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from pacdp.chains.layout import Layout
from pacdp.chains.native import sparse
from pacdp.chains.native.dense import Array, DenseLayer, add_squares, row_squares
from pacdp.chains.native.parse import Block, parse
from pacdp.chains.pixels import Pixels
from pacdp.losses import Loss

SPARSE_BELOW = 0.5
"""Share of non-zero inputs under which the first layer reads only these."""
Slope = Callable[[Tensor, Tensor], tuple[float, float, Tensor]]
"""Outputs and labels to loss, error, and the gradient of the loss by the outputs."""


class Batch(NamedTuple):
    """A minibatch: its inputs [batch, ...], or the examples' positions [batch] in ``rows`` and non-zeros by input."""

    x: Array
    columns: sparse.Columns | None
    rows: sparse.Rows | None = None


class NativeNetwork:
    """A ``Sequential`` of Conv2d, MaxPool2d, ReLU, Flatten and Linear layers over a resident data set.

    Of inputs that are kept in bytes the numbers, and the non-zeros among them, are made batch by batch: the same bits.
    """

    def __init__(
        self, model: nn.Module, inputs: Float[Tensor, "n ..."] | Pixels, *, batch_size: int
    ) -> None:
        blocks = parse(model, tuple(inputs.shape[1:]), batch_size=batch_size, dtype=inputs.dtype)
        if blocks is None:
            raise ValueError("these layers have no compiled form")
        self.layout = Layout(model)
        self.blocks: Sequence[Block] = blocks
        self.inputs = inputs
        self.rows: sparse.Rows | None = None
        self._few_by_batch = False
        sizes = [size for block in blocks for size in block.sizes]
        shapes = [shape for block in blocks for shape in block.shapes]
        ends = pairwise(accumulate(sizes, initial=0))
        self._places = [
            (start, stop, shape) for (start, stop), shape in zip(ends, shapes, strict=True)
        ]
        if isinstance(blocks[0], DenseLayer):
            self.inputs = inputs.flatten(1)
            flat = self.inputs.values if isinstance(self.inputs, Pixels) else self.inputs.numpy()
            sample = flat[:: max(1, len(flat) // 4096)]
            few = np.count_nonzero(sample) < SPARSE_BELOW * sample.size
            self._few_by_batch = few and isinstance(self.inputs, Pixels)
            self.rows = sparse.rows(flat) if few and not self._few_by_batch else None

    def gather(self, indices: Tensor) -> Batch:
        """The examples at ``indices``, in the form that the first layer reads."""
        if self.rows is None:
            x, rows = self._first(self.inputs[indices].numpy())
        else:
            x, rows = indices.numpy(), self.rows
        if rows is None:
            return Batch(x, None)
        columns = sparse.columns_for(self.inputs.shape[1], len(x), rows)
        return Batch(x, sparse.fill_columns(x, rows, columns), rows)

    def backward(
        self,
        weights: Tensor,
        batches: Sequence[Batch],
        group: Sequence[int],
        labels: Sequence[Tensor],
        loss: Loss,
        gradient: Tensor,
    ) -> Tensor:
        """Gradients of each chain's mean loss into ``gradient``; returns mean losses and errors [2, chains]."""
        found = np.empty((2, len(weights)))
        for k, g in enumerate(group):
            found[:, k] = self.slopes(weights[k], batches[g], labels[k], loss.slope, gradient[k])
        return torch.from_numpy(found)

    def slopes(
        self,
        weights: Float[Tensor, " dim"],
        batch: Batch,
        labels: Tensor,
        slope: Slope,
        gradient: Float[Tensor, " dim"],
        squares: Array | None = None,
    ) -> tuple[float, float]:
        """One chain's gradient into ``gradient``, from what ``slope`` says of its outputs; returns the loss and error.

        Args:
            squares: float64 [batch] zeros, where given: they become the squared norms of what each example adds to
                ``gradient``.
        """
        own = self.pieces(weights.numpy())
        logits = self._forward(own, batch.x, batch.rows, keep=True)
        loss, error, back = slope(torch.from_numpy(logits), labels)
        self._backward(own, self.pieces(gradient.numpy()), batch, back.numpy(), squares)
        return loss, error

    def logits(self, weights: Float[Tensor, " dim"], start: int, stop: int) -> Tensor:
        """Outputs for the examples in [start, stop)."""
        if self.rows is None:
            x, rows = self._first(self.inputs[start:stop].numpy())
        else:
            x, rows = np.arange(start, stop), self.rows
        return torch.from_numpy(self._forward(self.pieces(weights.numpy()), x, rows, keep=False))

    def pieces(self, flat: Array) -> list[Array]:
        """Weight and bias of each layer in turn, views of one chain's vector."""
        return [flat[start:stop].reshape(shape) for start, stop, shape in self._places]

    def _first(self, numbers: Array) -> tuple[Array, sparse.Rows | None]:
        """What the first layer reads of inputs: themselves, or places among their non-zeros."""
        return (
            (np.arange(len(numbers)), sparse.rows(numbers))
            if self._few_by_batch
            else (numbers, None)
        )

    def _forward(
        self, own: list[Array], x: Array, rows: sparse.Rows | None, *, keep: bool
    ) -> Array:
        for i, block in enumerate(self.blocks):
            weight, bias = own[2 * i], own[2 * i + 1]
            if i == 0 and isinstance(block, DenseLayer):
                x = block.forward(x, weight, bias, keep=keep, rows=rows)
            else:
                x = block.forward(x, weight, bias, keep=keep)
        return x

    def _backward(
        self,
        own: list[Array],
        gradients: list[Array],
        batch: Batch,
        slope: Array,
        squares: Array | None,
    ) -> None:
        for i in range(len(self.blocks) - 1, 0, -1):
            slope = self.blocks[i].backward(
                slope, own[2 * i], gradients[2 * i], gradients[2 * i + 1], squares
            )
        first = self.blocks[0]
        if not isinstance(first, DenseLayer):
            first.backward(slope, own[0], gradients[0], gradients[1], squares)
            return
        first.last(slope, batch.columns, gradients[0], gradients[1])
        if squares is not None:
            inputs = row_squares(batch.x) if batch.rows is None else batch.rows.squares[batch.x]
            add_squares(slope, inputs, squares)


def supports(model: nn.Module, inputs: Tensor | Pixels) -> bool:
    """Whether the layers of ``model`` have a compiled form on these inputs."""
    floats = inputs.device.type == "cpu" and inputs.dtype in (torch.float32, torch.float64)
    alike = all(
        value.device == inputs.device and value.dtype == inputs.dtype
        for value in model.parameters()
    )
    return (
        floats
        and alike
        and parse(model, tuple(inputs.shape[1:]), batch_size=1, dtype=inputs.dtype) is not None
    )
