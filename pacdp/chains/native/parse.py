"""Which networks have a compiled form: Sequentials of Conv2d [ReLU] [MaxPool2d] ..., then Linear [ReLU] ..."""

import torch
from torch import nn

from pacdp.chains.native.dense import DenseLayer

Block = DenseLayer


def parse(model: nn.Module, shape: tuple[int, ...], *, batch_size: int, dtype: torch.dtype) -> list[Block] | None:
    """The layers of ``model`` on inputs of one example's ``shape``, or None where one of them has no compiled form."""
    if type(model) is not nn.Sequential:
        return None
    layers = [layer for layer in model if not isinstance(layer, nn.Flatten | nn.Identity)]
    blocks: list[Block] = []
    while layers:
        layer = layers.pop(0)
        if type(layer) is nn.Linear and layer.bias is not None:
            relu = bool(layers) and type(layers[0]) is nn.ReLU
            blocks.append(DenseLayer(layer.in_features, layer.out_features, relu=relu))
            layers = layers[relu:]
        else:
            return None
    return blocks or None
