"""Which networks have a compiled form: Sequentials of Conv2d [ReLU] [MaxPool2d] ..., then Linear [ReLU] ...

A layer is read by its type, which says what it computes only where nothing was attached to it: hooks,
parametrisations, masks, functions of its own. :func:`pacdp.layers.plain.is_plain` tells. :mod:`pacdp.chains.network`
then compares numbers.
"""

from typing import TypeGuard

import torch
from torch import nn

from pacdp.chains.native.convolution import ConvLayer
from pacdp.chains.native.dense import DenseLayer
from pacdp.layers.plain import Kind, is_plain, is_plain_linear

Block = DenseLayer | ConvLayer


def parse(
    model: nn.Module,
    shape: tuple[int, ...],
    *,
    batch_size: int,
    dtype: torch.dtype,
    each: bool = False,
) -> list[Block] | None:
    """The layers of ``model`` on inputs of one example's ``shape``, or None where one of them has no compiled form.

    Args:
        each: convolutions keep every example's own gradient.
    """
    if not is_plain(model, nn.Sequential) or _shares(model):
        return None
    layers = [layer for layer in model if not is_plain(layer, nn.Identity)]
    blocks: list[Block] = []
    while layers:
        layer = layers.pop(0)
        if is_plain(layer, nn.Flatten) and (layer.start_dim, layer.end_dim) == (1, -1):
            shape = (int(torch.Size(shape).numel()),)
        elif is_plain_linear(layer) and layer.bias is not None and shape == (layer.in_features,):
            relu = _take(layers, nn.ReLU) is not None
            blocks.append(DenseLayer(layer.in_features, layer.out_features, relu=relu))
            shape = (layer.out_features,)
        elif _plain_convolution(layer) and len(shape) == 3 and shape[0] == layer.in_channels:
            relu = _take(layers, nn.ReLU) is not None
            pool = _take(layers, nn.MaxPool2d)
            if pool is not None and not _side_by_side(pool):
                return None
            relu = relu or (pool is not None and _take(layers, nn.ReLU) is not None)
            side = _side(pool.kernel_size) if pool is not None else 0
            if min(shape[1:]) < int(layer.kernel_size[0]) - 1 + max(side, 1):
                return None
            block = ConvLayer(
                in_channels=layer.in_channels,
                out_channels=layer.out_channels,
                kernel=int(layer.kernel_size[0]),
                pool=side,
                relu=relu,
                height=shape[1],
                width=shape[2],
                needs_input_gradient=bool(blocks),
                batch=batch_size,
                dtype=torch.empty(0, dtype=dtype).numpy().dtype,
                each=each,
            )
            blocks.append(block)
            shape = block.output_shape
        else:
            return None
    return blocks if blocks and len(shape) == 1 else None


def _shares(model: nn.Module) -> bool:
    # a parameter that two layers share lies only once in the flat vector
    return len(list(model.parameters())) < len(list(model.named_parameters(remove_duplicate=False)))


def _take(layers: list[nn.Module], kind: type[Kind]) -> Kind | None:
    if layers and is_plain(layer := layers[0], kind):
        del layers[0]
        return layer
    return None


def _side(size: object) -> int:
    sides = set(size) if isinstance(size, tuple) else {size}
    return int(sides.pop()) if len(sides) == 1 else -1  # type: ignore[call-overload]


def _plain_convolution(layer: nn.Module) -> TypeGuard[nn.Conv2d]:
    if type(layer) is not nn.Conv2d or _side(layer.kernel_size) < 1:
        return False
    shape = (layer.out_channels, layer.in_channels, *layer.kernel_size)
    plain = (layer.stride, layer.dilation, layer.groups) == (
        (1, 1),
        (1, 1),
        1,
    ) and layer.padding in ((0, 0), "valid")
    return plain and is_plain(layer, nn.Conv2d, {"weight": shape, "bias": shape[:1]})


def _side_by_side(pool: nn.MaxPool2d) -> bool:
    alike = _side(pool.kernel_size) > 0 and _side(pool.kernel_size) == _side(pool.stride)
    return alike and (pool.padding, pool.dilation, pool.ceil_mode, pool.return_indices) == (
        0,
        1,
        False,
        False,
    )
