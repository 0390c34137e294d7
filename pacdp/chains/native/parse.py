"""Which networks have a compiled form: Sequentials of Conv2d [ReLU] [MaxPool2d] ..., then Linear [ReLU] ...

A layer is read by its type, which says what it computes only where nothing was attached to it: hooks,
parametrisations, masks, functions of its own. :func:`pacdp.layers.plain.is_plain` tells. :mod:`pacdp.chains.network`
then compares numbers.
"""

import math
from typing import Any, TypeGuard

from torch import nn

from pacdp.chains.native.convolution import ConvLayer
from pacdp.chains.native.convolution_forward import Geometry
from pacdp.chains.native.dense import DenseLayer, PaddedDense
from pacdp.layers.plain import Kind, is_plain, is_plain_linear

Block = DenseLayer | PaddedDense | ConvLayer


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
