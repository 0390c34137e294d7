"""Plain feed-forward networks on the CPU, one chain after another: forward and backward without an autograd graph.

Each chain's numbers come from the same calls whether it runs alone or beside others, so that they are equal bit for
bit. Gradients are written straight into the flat vector.

Sequentials of Conv2d [ReLU] [MaxPool2d] ..., then Linear [ReLU] ..., have a compiled form. A layer is read by its type,
which says what it computes only where nothing was attached to it: hooks, parametrisations, masks, functions of its own.
:func:`pacdp.layers.plain.is_plain` tells. :mod:`pacdp.chains.network` then compares numbers.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from pacdp.chains.layout import Layout
from pacdp.chains.native import sparse
from pacdp.chains.native.convolution import ConvLayer, Geometry
from pacdp.chains.native.dense import Array, DenseLayer, PaddedDense
from pacdp.chains.pixels import Pixels
from pacdp.layers.plain import Kind, is_plain, is_plain_linear
from pacdp.losses import Loss

Block = DenseLayer | PaddedDense | ConvLayer
SPARSE_BELOW = 0.5
"""Share of non-zero inputs under which the first layer reads only these."""
Slope = Callable[[Tensor, Tensor], tuple[float, float, Tensor]]
"""Outputs and labels to loss, error, and the gradient of the loss by the outputs."""


def parse(model: nn.Module, shape: tuple[int, ...], *, each: bool = False) -> list[Block] | None:
    """The layers of ``model`` on inputs of one example's ``shape``, or None where one of them has no compiled form.

    Args:
        each: for clipped sums: convolutions keep every example's own gradient, and fully connected layers are padded.
    """
    if not is_plain(model, nn.Sequential) or _shares(model):
        return None
    layers = [layer for layer in model if not is_plain(layer, nn.Identity)]
    dense, blocks = PaddedDense if each else DenseLayer, list[Block]()
    while layers:
        layer = layers.pop(0)
        if is_plain(layer, nn.Flatten) and (layer.start_dim, layer.end_dim) == (1, -1):
            shape = (math.prod(shape),)
        elif is_plain_linear(layer) and layer.bias is not None and shape == (layer.in_features,):
            relu = _take(layers, nn.ReLU) is not None
            blocks.append(dense(relu=relu, first=not blocks))
            shape = (layer.out_features,)
        elif _plain_convolution(layer) and len(shape) == 3 and shape[0] == layer.in_channels:
            relu, pool = _take(layers, nn.ReLU), _take(layers, nn.MaxPool2d)
            relu = relu or (pool and _take(layers, nn.ReLU))
            side, window = _side(layer.kernel_size), 1 if pool is None else _window(pool)
            if window < 1 or min(shape[1:]) < side - 1 + window:
                return None
            geometry = Geometry(*shape, side, window, relu is not None)
            block = ConvLayer(geometry, layer.out_channels, first=not blocks, each=each)
            blocks.append(block)
            shape = block.output_shape
        else:
            return None
    return blocks if blocks and len(shape) == 1 else None


def _shares(model: nn.Module) -> bool:
    # a parameter that two layers share lies only once in the flat vector
    return len(list(model.parameters())) < len(list(model.named_parameters(remove_duplicate=False)))


def _take(layers: list[nn.Module], kind: type[Kind]) -> Kind | None:
    """The next layer, taken away, where it is of this kind."""
    return layers.pop(0) if layers and is_plain(layers[0], kind) else None  # type: ignore[return-value]


def _side(size: Any) -> int:
    """The side of a square, or 0."""
    first, *others = size if isinstance(size, tuple) else (size,)
    return int(first) if all(one == first for one in others) else 0


def _plain_convolution(layer: nn.Module) -> TypeGuard[nn.Conv2d]:
    if type(layer) is not nn.Conv2d or _side(layer.kernel_size) < 1:
        return False
    shape = (layer.out_channels, layer.in_channels, *layer.kernel_size)
    moves = (layer.stride, layer.dilation, layer.groups) == ((1, 1), (1, 1), 1)
    plain = moves and layer.padding in ((0, 0), "valid")
    return plain and is_plain(layer, nn.Conv2d, {"weight": shape, "bias": shape[:1]})


def _window(pool: nn.MaxPool2d) -> int:
    """The side of square windows that lie side by side, or 0."""
    alike = _side(pool.kernel_size) == _side(pool.stride)
    plain = (pool.padding, pool.dilation, pool.ceil_mode, pool.return_indices)
    return _side(pool.kernel_size) if alike and plain == (0, 1, False, False) else 0


class NativeNetwork:
    """A ``Sequential`` of Conv2d, MaxPool2d, ReLU, Flatten and Linear layers over a resident data set.

    Of inputs that are kept in bytes the numbers, and the non-zeros among them, are made batch by batch: the same bits.
    """

    def __init__(self, model: nn.Module, inputs: Float[Tensor, "n ..."] | Pixels) -> None:
        blocks = parse(model, tuple(inputs.shape[1:]))
        if blocks is None:
            raise ValueError("these layers have no compiled form")
        self.layout, self.inputs = Layout(model), inputs
        self.blocks: list[Any] = blocks
        self.rows: sparse.Rows | None = None
        self._few = False
        if isinstance(blocks[0], DenseLayer):
            self.inputs = rows = inputs.flatten(1)
            in_bytes = isinstance(rows, Pixels)
            flat = rows.values if isinstance(rows, Pixels) else rows.numpy()
            sample = flat[:: max(1, len(flat) // 4096)]
            self._few = np.count_nonzero(sample) < SPARSE_BELOW * sample.size
            self.rows = sparse.rows(flat) if self._few and not in_bytes else None

    def gather(self, examples: Tensor | slice) -> Array | sparse.Batch:
        """These examples, in the form that the first layer reads."""
        if self.rows is None:
            numbers = self.inputs[examples].numpy()
            return (
                sparse.Batch(np.arange(len(numbers)), sparse.rows(numbers))
                if self._few
                else numbers
            )
        if isinstance(examples, slice):
            return sparse.Batch(np.arange(examples.start, examples.stop), self.rows)
        return sparse.Batch(examples.numpy(), self.rows)

    def backward(
        self,
        weights: Tensor,
        batches: Sequence[Array | sparse.Batch],
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
        batch: Array | sparse.Batch,
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
        own, into = self.pieces(weights.numpy()), self.pieces(gradient.numpy())
        outputs = torch.from_numpy(self._forward(own, batch, keep=True))
        loss, error, by_outputs = slope(outputs, labels)
        back = by_outputs.numpy()
        for i in reversed(range(len(self.blocks))):
            back = self.blocks[i].backward(back, own[2 * i], into[2 * i], into[2 * i + 1], squares)
        return loss, error

    def logits(self, weights: Float[Tensor, " dim"], start: int, stop: int) -> Tensor:
        """Outputs for the examples in [start, stop)."""
        own = self.pieces(weights.numpy())
        return torch.from_numpy(self._forward(own, self.gather(slice(start, stop)), keep=False))

    def pieces(self, flat: Array) -> list[Array]:
        """Weight and bias of each layer in turn, views of one chain's vector."""
        return [flat[start:stop].reshape(shape) for start, stop, shape in self.layout.places]

    def _forward(self, own: list[Array], x: Any, *, keep: bool) -> Array:
        for i, block in enumerate(self.blocks):
            x = block.forward(x, own[2 * i], own[2 * i + 1], keep=keep)
        return x


def supports(model: nn.Module, inputs: Tensor | Pixels) -> bool:
    """Whether the layers of ``model`` have a compiled form on these inputs."""
    kind = inputs.device, inputs.dtype
    return (
        inputs.device.type == "cpu"
        and inputs.dtype in (torch.float32, torch.float64)
        and all((value.device, value.dtype) == kind for value in model.parameters())
        and parse(model, tuple(inputs.shape[1:])) is not None
    )
