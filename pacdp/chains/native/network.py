"""Plain feed-forward networks on the CPU, one chain after another: forward and backward without an autograd graph.

Each chain's numbers come from the same calls whether it runs alone or beside others, so that they are equal bit for
bit. Matrix products are torch's, written straight into the flat gradient; sparse inputs and convolutions are compiled
loops.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from pacdp.chains.layout import Layout
from pacdp.chains.native import sparse
from pacdp.chains.native.dense import DenseLayer
from pacdp.chains.native.parse import Block, parse
from pacdp.losses import Loss

SPARSE_BELOW = 0.5
"""Share of non-zero inputs under which the first layer reads only these."""


class SparseBatch(NamedTuple):
    """A minibatch by example, as positions in the data set, and by input."""

    examples: np.ndarray
    columns: sparse.Columns


class NativeNetwork:
    """A ``Sequential`` of Conv2d, MaxPool2d, ReLU, Flatten and Linear layers over a resident data set."""

    def __init__(self, model: nn.Module, inputs: Float[Tensor, "n ..."], *, batch_size: int) -> None:
        blocks = parse(model, tuple(inputs.shape[1:]), batch_size=batch_size, dtype=inputs.dtype)
        if blocks is None:
            raise ValueError("these layers have no compiled form")
        self.layout = Layout(model)
        self.blocks: Sequence[Block] = blocks
        self.inputs = inputs
        self.rows: sparse.Rows | None = None
        flat = inputs.flatten(1).numpy()
        if isinstance(blocks[0], DenseLayer):
            self.inputs = inputs.flatten(1)
            sample = flat[:: max(1, len(flat) // 4096)]
            if np.count_nonzero(sample) < SPARSE_BELOW * sample.size:
                self.rows = sparse.rows(flat)

    def gather(self, indices: Tensor) -> Any:
        """The examples at ``indices``, in the form that the first layer reads."""
        if self.rows is None:
            return self.inputs[indices]
        examples = indices.numpy()
        return SparseBatch(examples, sparse.Columns(*sparse.columns(examples, *self.rows, self.inputs.shape[1])))

    def backward(
        self, weights: Tensor, batches: Sequence[Any], group: Sequence[int], labels: Sequence[Tensor], loss: Loss,
        gradient: Tensor,
    ) -> Tensor:  # fmt: skip
        """Gradients of each chain's mean loss into ``gradient``; returns mean losses and errors [2, chains]."""
        found = torch.empty((2, len(weights)), dtype=torch.float64)
        parameters, gradients = self._pieces(weights), self._pieces(gradient)
        for k, g in enumerate(group):
            own = [tensor[k] for tensor in parameters]
            logits = self._forward(own, batches[g], keep=True)
            mean, error, slope = loss.slope(logits, labels[k])
            found[0, k], found[1, k] = mean, error
            self._backward(own, [tensor[k] for tensor in gradients], batches[g], slope)
        return found

    def logits(self, weights: Float[Tensor, " dim"], start: int, stop: int) -> Tensor:
        """Outputs for the examples in [start, stop)."""
        if self.rows is None:
            batch: Any = self.inputs[start:stop]
        else:
            batch = SparseBatch(np.arange(start, stop), None)  # type: ignore[arg-type]
        return self._forward([tensor[0] for tensor in self._pieces(weights[None])], batch, keep=False)

    def _pieces(self, flat: Tensor) -> list[Tensor]:
        sizes = [size for block in self.blocks for size in block.sizes]
        shapes = [shape for block in self.blocks for shape in block.shapes]
        return [p.view(-1, *shape) for p, shape in zip(flat.split(sizes, dim=1), shapes, strict=True)]

    def _forward(self, own: list[Tensor], batch: Any, *, keep: bool) -> Tensor:
        x = batch
        for i, block in enumerate(self.blocks):
            weight, bias = own[2 * i], own[2 * i + 1]
            if isinstance(block, DenseLayer) and isinstance(x, SparseBatch):
                assert self.rows is not None
                x = block.forward_sparse(x.examples, self.rows, weight, bias, keep=keep)
            else:
                x = block.forward(x, weight, bias, keep=keep)
        return x

    def _backward(self, own: list[Tensor], gradients: list[Tensor], batch: Any, slope: Tensor) -> None:
        for i in range(len(self.blocks) - 1, -1, -1):
            block, into = self.blocks[i], (gradients[2 * i], gradients[2 * i + 1])
            if i > 0:
                slope = block.backward(slope, own[2 * i], *into)
            elif isinstance(batch, SparseBatch):
                assert isinstance(block, DenseLayer)
                block.last_sparse(slope, batch.columns, *into)
            else:
                block.last(slope, batch, own[0], *into)


def supports(model: nn.Module, inputs: Tensor) -> bool:
    """Whether ``model`` has a compiled form on these inputs."""
    floats = inputs.device.type == "cpu" and inputs.dtype in (torch.float32, torch.float64)
    return floats and parse(model, tuple(inputs.shape[1:]), batch_size=1, dtype=inputs.dtype) is not None
