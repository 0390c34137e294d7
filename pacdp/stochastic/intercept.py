"""Passes in which every example has its own weights, through any network made of known layers.

The network runs as it is, once, on placeholders in the place of its weights; every function of torch that receives a
placeholder is replaced by its form with weights drawn for each example (:mod:`pacdp.stochastic.layers`). Draws of
different layers are independent, so the outputs have the right law if each parameter is met exactly once. A parameter
that is met twice, by an unknown function, or never (where it is random) is refused. Placeholders are NaN, so that a use
which no one sees cannot pass for the posterior mean.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from pacdp.layers.plain import call_with
from pacdp.stochastic import attention, layers
from pacdp.stochastic.law import Law
from pacdp.stochastic.layers import NotByExample
from pacdp.stochastic.noise import Draws

_LAYERS: dict[Any, Callable[..., Any]] = {
    F.linear: layers.linear,
    F.conv2d: layers.conv2d,
    F.group_norm: layers.group_norm,
    F.batch_norm: layers.batch_norm,
    F.layer_norm: layers.layer_norm,
    F.multi_head_attention_forward: attention.multi_head_attention,
    torch.Tensor.expand: attention.expand,
    torch.Tensor.add: attention.plus,
    torch.add: attention.plus,
}
_SIGNATURES = {func: inspect.signature(layer) for func, layer in _LAYERS.items()}
_LAW_ARGUMENTS = (
    "weight",
    "bias",
    "in_proj_weight",
    "in_proj_bias",
    "out_proj_weight",
    "out_proj_bias",
)
_METADATA = {
    *(
        getattr(torch.Tensor, name).__get__
        for name in ("shape", "dtype", "device", "ndim", "is_cuda", "layout")
    ),
    torch.Tensor.size,
    torch.Tensor.dim,
    torch.Tensor.numel,
    torch.Tensor.is_floating_point,
    torch.is_floating_point,
}


class _Replacing(TorchFunctionMode):
    def __init__(self, laws: Mapping[int, tuple[str, Law]], draws: Draws) -> None:
        super().__init__()
        self._laws = laws
        self._draws = draws
        self.met: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, called = kwargs or {}, getattr(func, "__name__", func)
        touched = [
            self._laws[id(leaf)][0]
            for leaf in tree_leaves((args, kwargs))
            if id(leaf) in self._laws
        ]
        if not touched or func in _METADATA:
            return func(*args, **kwargs)
        layer = _LAYERS.get(func)
        if layer is None:
            raise NotByExample(
                f"parameter {touched[0]} is used by {called}, which has no form by example"
            )
        again = self.met.intersection(touched)
        if again or len(set(touched)) < len(touched):
            raise NotByExample(
                f"parameter {next(iter(again), touched[0])} is used more than once in a pass"
            )
        self.met.update(touched)
        bound = _SIGNATURES[func].bind(self._draws, *args, **kwargs)
        for name, value in bound.arguments.items():
            if name in _LAW_ARGUMENTS:
                bound.arguments[name] = self._law_of(value)
            elif id(value) in self._laws:
                raise NotByExample(
                    f"parameter {touched[0]} is the {name} of {called}, not its weight"
                )
        return layer(*bound.args, **bound.kwargs)

    def _law_of(self, value: Tensor | None) -> Law | None:
        if value is None:
            return None
        return self._laws[id(value)][1] if id(value) in self._laws else Law.fixed(value)


def by_example(
    module: nn.Module,
    laws: Mapping[str, Law],
    buffers: Mapping[str, Tensor],
    inputs: Tensor,
    draws: Draws,
) -> Tensor:
    """Outputs [batch, ...] of ``module``, in which each example has its own independent draw of all weights.

    The joint law of one example's outputs is that of ``module(inputs[i])`` with a draw of the whole network; outputs of
    different examples are independent. Exact in real arithmetic, for networks whose parameters are each used once by
    linear, conv2d, group_norm, layer_norm, batch_norm (with running statistics) or multi-head
    attention, or are added to every example or expanded to one token of each; evaluated in the module's precision.

    Raises:
        NotByExample: the network is another; :func:`pacdp.stochastic.fresh_pass` finds the way that fits.
    """
    stand_ins = {
        name: law.mean.new_full((), torch.nan).expand(law.mean.shape) for name, law in laws.items()
    }
    mode = _Replacing({id(stand_ins[name]): (name, law) for name, law in laws.items()}, draws)
    with torch.no_grad(), mode:
        out = call_with(module, {**stand_ins, **buffers}, inputs)
    missed = [name for name, law in laws.items() if law.random and name not in mode.met]
    if missed:
        raise NotByExample(
            f"parameter {missed[0]} is random but no known layer used it in the pass"
        )
    if not isinstance(out, Tensor) or out.ndim < 1 or len(out) != len(inputs):
        raise NotByExample(
            "the network's output is no tensor whose first dimension is the examples"
        )
    return out
