"""For ghost clipping: norms of gradients that do not come out too small, and sums of linear layers' gradients.

Opacus finds the norm of a linear layer's gradient over a sequence as a single-precision sum of products that may
cancel, and then falls short of the truth by percents or more. Here the sum is taken in double precision and its
rounding is added on top.
"""

from collections import ChainMap
from typing import Any

import torch
from opacus.grad_sample import GradSampleHooks
from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import (
    GradSampleHooksFastGradientClipping,
)
from torch import Tensor, nn

from pacdp.step.clip import row_norms

Norms = dict[nn.Parameter, Tensor]


def linear_norms(layer: Any, activations: list[Tensor], backprops: Tensor) -> Norms:
    """‖Σ_t b_t a_tᵀ‖ and ‖Σ_t b_t‖ of each example, a layer's inputs a and output gradients b at the places t."""
    inputs, one_place = activations[0].to(backprops.dtype), backprops.dim() == 2
    norms: Norms = {}
    of_slopes = row_norms(backprops if one_place else backprops.flatten(1, -2).double().sum(1))
    if layer.weight.requires_grad and one_place:
        norms[layer.weight] = of_slopes * row_norms(inputs)
    elif layer.weight.requires_grad:
        norms[layer.weight] = _outer_sum_norms(
            backprops.flatten(1, -2).double(), inputs.flatten(1, -2).double()
        )
    if layer.bias is not None and layer.bias.requires_grad:
        norms[layer.bias] = of_slopes
    return norms


def gradient_norms(layer: Any, activations: list[Tensor], backprops: Tensor) -> Norms:
    """Norms of the gradients themselves, one layer's gradients at a time."""
    rows = GradSampleHooks.GRAD_SAMPLERS[type(layer)](layer, activations, backprops)
    return {parameter: row_norms(row) for parameter, row in rows.items()}


NORM_SAMPLERS = ChainMap(
    {nn.Linear: linear_norms, **dict.fromkeys((nn.Conv1d, nn.Conv2d, nn.Conv3d), gradient_norms)},
    GradSampleHooksFastGradientClipping.NORM_SAMPLERS,
)
"""Opacus's table with these in front; layers registered with Opacus later are found too."""


def is_linear(layer: Any, inputs: Tensor, outputs: Tensor) -> bool:
    """Whether `linear_sum` is the sum of the layer's gradients: a linear layer, in one precision."""
    batched = inputs.dim() > 1 and len(inputs) == len(outputs)
    return (
        type(layer) is nn.Linear and batched and inputs.dtype == outputs.dtype == layer.weight.dtype
    )


def linear_sum(layer: Any, inputs: Tensor, slopes: Tensor) -> dict[nn.Parameter, Tensor]:
    """Σ_i,t b_it a_itᵀ and Σ_i,t b_it over examples i and places t."""
    at_places, sums = slopes.flatten(0, -2), dict[nn.Parameter, Tensor]()
    if layer.weight.requires_grad:
        sums[layer.weight] = at_places.T @ inputs.flatten(0, -2)
    if layer.bias is not None and layer.bias.requires_grad:
        sums[layer.bias] = at_places.sum(0)
    return sums


def _outer_sum_norms(left: Tensor, right: Tensor) -> Tensor:
    products = torch.einsum("nik,njk->nij", left, left) * torch.einsum("nik,njk->nij", right, right)
    at_most = (
        (left.norm(dim=2) * right.norm(dim=2)).sum(1).square()
    )  # at least the sum of the products' magnitudes
    unit = 2.0**-53 * 4.0 * (left.shape[2] + right.shape[2] + 64)
    return (products.sum((1, 2)).clamp(min=0.0) + unit * at_most).sqrt()
