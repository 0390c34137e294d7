"""A block of a convolutional network, forward and backward, without autograd: Conv2d, ReLU and MaxPool2d in one.

    y[b, o, r, s] = max over the window (i, j) of ReLU(bias[o] + Σ_{c,u,v} weight[o, c, u, v] · x[b, c, i + u, j + v])

with stride 1 and no padding in the convolution and windows side by side in the pooling, the remainder of a map that
they do not fill left out (PyTorch's floor). ReLU and maximum commute, so that the order of these two layers is free.
The gradient of a maximum goes to its first position, that of a ReLU at 0 is 0, and NaN is passed on, as in PyTorch.

Formal guarantee: outputs and gradients are a function of the arguments alone. They do not depend on the number of
threads nor on earlier calls, and an example's output and input gradient do not depend on the rest of the batch.
Bits may differ between CPUs.
"""

import math
from typing import Any

import numpy as np

from pacdp.chains.native import clipped, convolution_backward, convolution_forward, threads
from pacdp.chains.native.convolution_backward import BackwardScratch
from pacdp.chains.native.convolution_forward import ForwardScratch, Geometry
from pacdp.chains.native.vectors import TILE, VECTOR_BYTES, lanes_of

SLOTS = 8
"""Parts of a batch that threads share out; part of the order of summation, so that it is the same on every machine."""
CHUNK = 4
"""Examples whose columns the backward pass has in the cache together."""

Array = np.ndarray[Any, np.dtype[Any]]
_NONE = np.empty(0)


class ConvLayer:
    """Conv2d(in_channels, out_channels, kernel) -> [ReLU] -> [MaxPool2d(pool)] for float32 or float64 arrays.

    Filters lie as torch's do. A layer owns its workspace: it serves one caller at a time, and the arrays it returns
    hold until its next call of the same method. Threads follow ``torch.get_num_threads()``.
    """

    def __init__(
        self,
        *,
        in_channels: int,
        out_channels: int,
        kernel: int,
        pool: int,
        relu: bool,
        height: int,
        width: int,
        needs_input_gradient: bool,
        batch: int,
        dtype: Any,
        each: bool = False,
    ) -> None:
        """Allocate the workspace.

        Args:
            pool: side and stride of the pooling windows, 0 for no pooling.
            needs_input_gradient: False leaves out what only the layers below need.
            batch: the most examples of a forward pass that a backward pass follows.
            each: the backward pass keeps every example's own gradient, which :meth:`collect` adds up.
        """
        self.dtype = np.dtype(dtype)
        self.batch, self.needs_input_gradient = batch, needs_input_gradient
        self._slots, self._chunk = (batch, 1) if each else (SLOTS, CHUNK)
        self.geometry = Geometry(in_channels, height, width, kernel, max(pool, 1), relu)
        rows, columns = height - kernel + 1, width - kernel + 1
        self.weight_shape = (out_channels, in_channels, kernel, kernel)
        self.shapes = (self.weight_shape, self.weight_shape[:1])
        self.sizes = (math.prod(self.weight_shape), out_channels)
        self.input_shape = (in_channels, height, width)
        self._operations = (
            out_channels * in_channels * kernel**2 * rows * columns // 16
        )  # an example's, by vectors
        self.output_shape = (
            out_channels,
            rows // self.geometry.pool,
            columns // self.geometry.pool,
        )
        self._forward_scratch = self._allocate_forward()
        self._backward_scratch = self._allocate_backward()
        self._out = np.empty((batch, math.prod(self.output_shape)), self.dtype)
        self._origin = np.empty((batch, math.prod(self.output_shape)), np.int32)
        self._grad_in = np.empty(
            (batch if needs_input_gradient else 0, *self.input_shape), self.dtype
        )
        self._x = np.empty((0, *self.input_shape), self.dtype)

    def forward(self, x: Array, weight: Array, bias: Array, *, keep: bool = True) -> Array:
        """Pooled activations [B, out_channels, H', W'] of ``x`` [B, in_channels, H, W].

        Args:
            weight: [out_channels, in_channels, kernel, kernel].
            bias: [out_channels].
            keep: remember what ``backward`` needs (``x`` itself, not a copy: leave it unchanged until then). Without
                it the batch may have any size, the result is a new array and no backward pass can follow.

        Raises:
            ValueError: an array of another shape or dtype, more examples than ``batch`` with ``keep``.
        """
        self._check("x", x, (len(x), *self.input_shape))
        self._check("weight", weight, self.weight_shape)
        self._check("bias", bias, self.weight_shape[:1])
        if keep and len(x) > self.batch:
            raise ValueError(
                f"expected at most batch={self.batch} examples with keep=True, got {len(x)}"
            )
        x = np.ascontiguousarray(x)
        scratch, examples = self._forward_scratch, len(x)
        convolution_forward.pack(
            np.ascontiguousarray(weight).reshape(len(weight), -1), bias, scratch
        )
        out = self._out[:examples] if keep else np.empty((examples, self._out.shape[1]), self.dtype)
        slots = min(SLOTS, -(-examples // scratch.lanes.shape[2]))
        origin = self._origin[: examples if keep else 0]
        threads.each(
            convolution_forward.forward,
            slots,
            slots,
            x.reshape(examples, -1),
            self.geometry,
            scratch,
            out,
            origin,
            operations=examples * self._operations,
        )
        self._x = x if keep else x[:0]
        return out.reshape(examples, *self.output_shape)

    def backward(
        self,
        slope: Array,
        weight: Array,
        weight_gradient: Array,
        bias_gradient: Array,
        squares: Array | None = None,
    ) -> Array:
        """The gradient by the input of the last forward pass, as rows; empty where it is not needed.

        Args:
            slope: gradient by the result of the last ``forward``, [B, outputs] in any shape.
            weight: the filters of that forward pass.
            weight_gradient: [out_channels, in_channels, kernel, kernel], overwritten with the filters' gradient.
            bias_gradient: [out_channels], overwritten with the bias's gradient.
            squares: float64 [B]; where given, it gains the squared norm of each example's part of these gradients.

        Raises:
            ValueError: an array of another shape or dtype, or no forward pass of as many examples with ``keep``.
        """
        self._check("weight_gradient", weight_gradient, self.weight_shape)
        self._check("bias_gradient", bias_gradient, self.weight_shape[:1])
        grad_in, slots = self._propagate(slope, weight, _NONE if squares is None else squares)
        scratch = self._backward_scratch
        convolution_backward.add_slots(
            slots, scratch.weight_grad, scratch.bias_grad, weight_gradient, bias_gradient
        )
        return grad_in

    def propagate(self, slope: Array, weight: Array, squares: Array) -> Array:
        """As :meth:`backward`, of a layer with ``each``: every example's own gradient stays in the workspace."""
        grad_in, _ = self._propagate(slope, weight, _NONE)
        patch = math.prod(self.weight_shape[1:])
        clipped.add_filter_squares(
            self._backward_scratch.weight_grad, self._backward_scratch.bias_grad, patch, squares
        )
        return grad_in

    def collect(self, scale: Array, weight_gradient: Array, bias_gradient: Array) -> None:
        """Σ scale[i] times the gradient of example i, after one :meth:`propagate`, into the given arrays."""
        filters, biases = self._backward_scratch.weight_grad, self._backward_scratch.bias_grad
        clipped.scale_filters(filters, biases, scale)
        convolution_backward.add_slots(len(scale), filters, biases, weight_gradient, bias_gradient)

    def _propagate(self, slope: Array, weight: Array, squares: Array) -> tuple[Array, int]:
        examples = len(self._x)
        if not examples or len(slope) != examples:
            raise ValueError(
                f"expected the slope of the {examples} examples of the last forward pass with keep=True, "
                f"got {len(slope)}: call forward first"
            )
        self._check("slope", slope, (examples, math.prod(self.output_shape)))
        self._check("weight", weight, self.weight_shape)
        scratch, maps = self._backward_scratch, (examples, len(weight), -1)
        if self.needs_input_gradient:
            convolution_backward.pack(weight, scratch.rows)
        slots, size = min(self._slots, -(-examples // self._chunk)), self.geometry.size
        slope = np.ascontiguousarray(slope).reshape(maps)
        origin, grad_in = self._origin[:examples].reshape(maps), self._grad_in[:examples]
        threads.each(
            convolution_backward.backward,
            slots,
            slots,
            self._x,
            slope,
            origin,
            size,
            scratch,
            grad_in,
            squares,
            operations=examples * self._operations,
        )
        return grad_in.reshape(len(grad_in), math.prod(self.input_shape)), slots

    def _check(self, name: str, array: Array, shape: tuple[int, ...]) -> None:
        if array.shape != shape or array.dtype != self.dtype:
            raise ValueError(
                f"expected {name} of shape {shape} and {self.dtype}, got {array.shape} and {array.dtype}"
            )

    def _allocate_forward(self) -> ForwardScratch:
        channels, height, width = self.input_shape
        lanes, tiles = lanes_of(self.dtype), -(-self.weight_shape[0] // TILE)
        c, i, j = np.indices(self.weight_shape[1:])
        taps = ((c * height + i) * width + j).reshape(-1)
        return ForwardScratch(
            taps=taps.astype(np.int64),
            weights=_aligned((tiles, taps.size, TILE), self.dtype),
            bias=_aligned((tiles, TILE), self.dtype),
            lanes=_aligned((SLOTS, channels * height * width, lanes), self.dtype),
            best=_aligned((SLOTS, TILE, lanes), self.dtype),
            where=_aligned((SLOTS, TILE, lanes), np.dtype(f"i{self.dtype.itemsize}")),
        )

    def _allocate_backward(self) -> BackwardScratch:
        outputs, channels, size, _ = self.weight_shape
        _, height, width = self.input_shape
        lanes, patch, places = (
            lanes_of(self.dtype),
            channels * size * size,
            math.prod(self.output_shape[1:]),
        )
        row = _padded(patch, lanes)
        columns = _padded((width - size + 1) * height * size * channels + row - patch, lanes)
        u, v = np.indices((height - size + 1, width - size + 1))
        starts = (v * height + u).reshape(-1) * size * channels
        items = self._chunk * outputs * places + 1
        return BackwardScratch(
            starts=np.concatenate([[0], starts]).astype(np.int32),
            channel_starts=np.concatenate([[0], np.arange(outputs) * row]).astype(np.int32),
            rows=_aligned((outputs, row), self.dtype),
            cols=_aligned((self._slots, self._chunk, columns), self.dtype),
            grad_cols=_aligned((self._slots, columns), self.dtype),
            offsets=_aligned((self._slots, items), np.dtype(np.int32)),
            factors=_aligned((self._slots, items), self.dtype),
            counts=_aligned((self._slots, starts.size + 1), np.dtype(np.int64)),
            channel_ends=_aligned((self._slots, outputs + 1), np.dtype(np.int64)),
            image=_aligned((self._slots, height * width * channels), self.dtype),
            weight_grad=_aligned((self._slots, outputs, row), self.dtype),
            bias_grad=_aligned((self._slots, outputs), self.dtype),
            own_weight_grad=_aligned((self._slots, outputs, row), self.dtype),
            own_bias_grad=_aligned((self._slots, outputs), self.dtype),
        )


def _padded(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    size = math.prod(shape) * dtype.itemsize
    memory = np.zeros(size + VECTOR_BYTES, np.uint8)
    start = -memory.ctypes.data % VECTOR_BYTES
    return memory[start : start + size].view(dtype).reshape(shape)
