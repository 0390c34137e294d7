"""Layers that compute what their types say, and networks called with other weights than their own."""

import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeGuard, TypeVar

import torch
from torch import Tensor, nn

Kind = TypeVar("Kind", bound=nn.Module)
Shapes = Mapping[str, tuple[int, ...] | None]
"""Parameters by name, in order; None where a layer has none of that name."""
ONE_AT_A_TIME = threading.RLock()
"""Held while a network is read or called here: other tensors stand in it meanwhile, for all threads."""
_HOOKS = ("forward_pre_hooks", "forward_hooks", "backward_pre_hooks", "backward_hooks")
_REPEATING = {
    nn.Sequential, nn.Flatten, nn.Identity, nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ReLU, nn.Tanh, nn.Sigmoid,
    nn.GELU, nn.SiLU, nn.ELU, nn.Softplus, nn.MaxPool2d, nn.AvgPool2d, nn.Dropout,
}  # fmt: skip
_CALLS = {"forward", "__call__", "_call_impl", "_wrapped_call_impl", "_conv_forward"}


def call_with(module: nn.Module, tensors: Mapping[str, Tensor], inputs: Tensor) -> Any:
    """``module(inputs)`` with other tensors in the place of its parameters and buffers, which come back afterwards.

    ``torch.func.functional_call`` alone leaves its tensors behind in a layer that the network holds twice. Here a
    tensor stands for its parameter wherever layers share it.

    Args:
        tensors: by the names of ``named_parameters()`` and ``named_buffers()``.
    """
    first: dict[int, str] = {}
    everywhere = dict(tensors)
    with ONE_AT_A_TIME:
        for prefix, layer in module.named_modules():  # each layer once
            for own in (layer._parameters, layer._buffers):
                for name, value in own.items():
                    path = f"{prefix}.{name}" if prefix else name
                    known = first.setdefault(id(value), path) if value is not None else path
                    if known != path and known in tensors:
                        everywhere.setdefault(path, tensors[known])
        return torch.func.functional_call(module, everywhere, (inputs,), tie_weights=False)


def is_plain(
    layer: nn.Module, kind: type[Kind], shapes: Shapes = MappingProxyType({})
) -> TypeGuard[Kind]:
    """Whether calling ``layer`` is the forward function of ``kind`` on its own parameters, and nothing besides.

    Code that computes a layer's outputs from its type must ask this first. False for subclasses (parametrised layers
    among them), for parameters of other names, order or shapes (pruned and spectrally normalised layers), for buffers,
    for hooks of the layer or of all modules, and for functions replaced on the instance. The layers inside a
    ``Sequential`` are not looked at; other kinds may have none.
    """
    given = [
        (name, None if value is None else tuple(value.shape))
        for name, value in layer._parameters.items()
    ]
    more = bool(
        layer._buffers
        or (layer._modules and kind is not nn.Sequential)
        or _CALLS & vars(layer).keys()
    )
    return type(layer) is kind and given == list(shapes.items()) and not (is_hooked(layer) or more)


def repeats_itself(network: Any) -> bool:
    """Whether a network is made of a few layers of ``torch.nn`` alone, in evaluation mode, so that it computes the same
    at every pass, whatever the values: without hooks, and without a function or a kind of tensor of somebody else's.
    """
    return isinstance(network, nn.Module) and all(
        type(layer) in _REPEATING
        and not layer.training
        and not is_hooked(layer)
        and type(layer).forward.__module__ == type(layer).__module__
        and not any(callable(value) for value in vars(layer).values())
        and all(
            type(weight) is nn.Parameter
            for weight in layer._parameters.values()
            if weight is not None
        )
        for layer in network.modules()
    )


def is_hooked(layer: nn.Module) -> bool:
    """Whether a call of the layer runs a hook, its own or one of all modules."""
    return any(
        getattr(layer, f"_{hooks}") or getattr(nn.modules.module, f"_global_{hooks}")
        for hooks in _HOOKS
    )


def is_plain_linear(layer: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether ``layer`` computes x Wᵀ + b for its own weight [out, in] and bias [out], or without a bias."""
    if type(layer) is not nn.Linear:
        return False
    bias = (layer.out_features,) if layer._parameters.get("bias") is not None else None
    return is_plain(
        layer, nn.Linear, {"weight": (layer.out_features, layer.in_features), "bias": bias}
    )


def of_known_layers(module: nn.Module) -> bool:
    """Whether no code but torch's and ours runs in the network, so that trials on made-up examples decide for all.

    Other code may use a weight outside of its layer for some examples only, whose norm ghost clipping would miss, or
    give a layer the examples in an order that their data decide.
    """
    return all(
        type(layer).__module__.startswith(("torch.nn.modules.", "pacdp.")) and not is_hooked(layer)
        for layer in module.modules()
    )
