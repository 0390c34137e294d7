"""The network as it was tried at set-up: layers, hooks, attributes and buffers that must stay what they were."""

from typing import Any

from torch import nn

from pacdp.trials.buffers import digest

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_OF_PARAMETERS = ("_backward_hooks", "_post_accumulate_grad_hooks")
_OF_A_PASS = ("training", "activations", "max_batch_len")
"""Attributes of layers that may change: a layer's mode, and what Opacus keeps from a forward pass to its backward."""
_VALUES = (int, float, str, type(None))


def set_up(module: nn.Module) -> list[Any]:
    """All layers with their hooks, attributes and buffers, and which parameters are trained, hooked by what."""
    layers = [(id(layer), *_own(layer)) for layer in module.modules()]
    return [layers, [(hooks_of(p), p.requires_grad) for p in module.parameters()]]


def hooks_of(parameter: nn.Parameter) -> tuple[tuple[int, ...], ...]:
    """The hooks of a parameter, by their numbers, kind for kind."""
    return tuple(tuple(getattr(parameter, kind, None) or ()) for kind in _OF_PARAMETERS)


def _own(layer: nn.Module) -> list[Any]:
    hooks = [tuple(getattr(layer, kind) or ()) for kind in _HOOKS]
    kept = {name: x for name, x in vars(layer).items() if name not in _OF_A_PASS}
    plain = {name: x for name, x in kept.items() if isinstance(x, _VALUES)}
    other = {name: id(x) for name, x in kept.items() if name not in plain and name[0] != "_"}
    return [hooks, plain, other, [digest(x) for x in layer._buffers.values() if x is not None]]
