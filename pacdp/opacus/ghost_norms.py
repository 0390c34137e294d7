"""For ghost clipping: norms of gradients that do not come out too small, and sums of linear layers' gradients.

With g_i the gradient of example i's loss at the drawn weights w = mean + softplus(rho) ⊙ ε of a Bayesian layer, that
example's gradients are g_i for the mean and g_i ⊙ ε ⊙ sigmoid(rho) for rho (Blundell et al. 2015).

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
from opacus.grad_sample.utils import register_norm_sampler
from torch import Tensor, nn
from torch.nn import functional

from pacdp.layers.bayes import BayesConv2d, BayesLinear, Draw
from pacdp.step.clip import row_norms

Norms = dict[nn.Parameter, Tensor]
"""By parameter: norms of examples' gradients, or these gradients as rows."""


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


def bayes_linear_gradients(layer: Any, activations: list[Tensor], backprops: Tensor) -> Norms:
    """Per-example gradients of a :class:`BayesLinear`."""
    inputs = activations[0].to(backprops.dtype)
    by_weight = torch.einsum("n...o,n...i->noi", backprops, inputs)
    return _by_law(layer, by_weight, torch.einsum("n...o->no", backprops))


def bayes_conv_gradients(layer: Any, activations: list[Tensor], backprops: Tensor) -> Norms:
    """Per-example gradients of a :class:`BayesConv2d`."""
    inputs = activations[0].to(backprops.dtype)
    patches = functional.unfold(inputs, layer.kernel_size, **layer.geometry)
    n, places = len(inputs), patches.shape[-1]
    grouped = patches.reshape(n, layer.groups, -1, places)
    slopes = backprops.reshape(n, layer.groups, -1, places)
    by_weight = torch.einsum("ngol,ngil->ngoi", slopes, grouped).reshape(
        n, *layer.weight_mean.shape
    )
    return _by_law(layer, by_weight, backprops.sum((2, 3)))


@register_norm_sampler([BayesLinear])
def bayes_linear_norms(layer: Any, activations: list[Tensor], backprops: Tensor) -> Norms:
    """Norms of those gradients; for one vector an example without forming them: ‖b aᵀ ⊙ S‖² = (b²)ᵀ S² a²."""
    if backprops.dim() != 2:
        return _norms(bayes_linear_gradients(layer, activations, backprops))
    squares, slopes = activations[0].double().square(), backprops.double().square()
    noise, bias_noise = layer.drawn.pop()
    by_rho, bias_by_rho = _rho_factors(
        layer, (noise.double(), None if bias_noise is None else bias_noise.double())
    )
    norms = {layer.weight_mean: (slopes.sum(1) * squares.sum(1)).sqrt(),
             layer.weight_rho: torch.einsum("no,oi,ni->n", slopes, by_rho.square(), squares).sqrt()}  # fmt: skip
    if layer.bias_mean is not None and bias_by_rho is not None:
        norms |= {
            layer.bias_mean: slopes.sum(1).sqrt(),
            layer.bias_rho: (slopes @ bias_by_rho.square()).sqrt(),
        }
    return norms


@register_norm_sampler([BayesConv2d])
def bayes_conv_norms(layer: Any, activations: list[Tensor], backprops: Tensor) -> Norms:
    """Norms of a convolution's gradients, one layer's gradients at a time."""
    return _norms(bayes_conv_gradients(layer, activations, backprops))


def _rho_factors(layer: Any, draw: Draw) -> Draw:
    noise, bias_noise = draw
    bias = None if bias_noise is None else bias_noise * layer.bias_rho.detach().sigmoid()
    return noise * layer.weight_rho.detach().sigmoid(), bias


def _by_law(layer: Any, by_weight: Tensor, by_bias: Tensor) -> Norms:
    by_rho, bias_by_rho = _rho_factors(layer, layer.drawn.pop())
    samples = {layer.weight_mean: by_weight, layer.weight_rho: by_weight * by_rho}
    if bias_by_rho is not None:
        samples |= {layer.bias_mean: by_bias, layer.bias_rho: by_bias * bias_by_rho}
    return samples


def _norms(samples: Norms) -> Norms:
    return {parameter: row_norms(rows) for parameter, rows in samples.items()}
