"""Norms of per-example gradients of the Bayesian layers, as ghost clipping asks for them.

With g_i the gradient of example i's loss at the drawn weights w = mean + softplus(rho) ⊙ ε, that example's gradients
are g_i for the mean and g_i ⊙ ε ⊙ sigmoid(rho) for rho (Blundell et al. 2015).
"""

from typing import Any

import torch
from opacus.grad_sample.utils import register_norm_sampler
from torch import Tensor, nn
from torch.nn import functional

from pacdp.layers.bayes import BayesConv2d, BayesLinear, Draw
from pacdp.step.clip import row_norms

Samples = dict[nn.Parameter, Tensor]


def linear_gradients(layer: Any, activations: list[Tensor], backprops: Tensor) -> Samples:
    """Per-example gradients of a :class:`BayesLinear`."""
    inputs = activations[0].to(backprops.dtype)
    by_weight = torch.einsum("n...o,n...i->noi", backprops, inputs)
    return _by_law(layer, by_weight, torch.einsum("n...o->no", backprops))


def conv_gradients(layer: Any, activations: list[Tensor], backprops: Tensor) -> Samples:
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
def linear_norms(layer: Any, activations: list[Tensor], backprops: Tensor) -> Samples:
    """Norms of those gradients; for one vector an example without forming them: ‖b aᵀ ⊙ S‖² = (b²)ᵀ S² a²."""
    if backprops.dim() != 2:
        return _norms(linear_gradients(layer, activations, backprops))
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
def conv_norms(layer: Any, activations: list[Tensor], backprops: Tensor) -> Samples:
    """Norms of a convolution's gradients, one layer's gradients at a time."""
    return _norms(conv_gradients(layer, activations, backprops))


def _rho_factors(layer: Any, draw: Draw) -> Draw:
    noise, bias_noise = draw
    bias = None if bias_noise is None else bias_noise * layer.bias_rho.detach().sigmoid()
    return noise * layer.weight_rho.detach().sigmoid(), bias


def _by_law(layer: Any, by_weight: Tensor, by_bias: Tensor) -> Samples:
    by_rho, bias_by_rho = _rho_factors(layer, layer.drawn.pop())
    samples = {layer.weight_mean: by_weight, layer.weight_rho: by_weight * by_rho}
    if bias_by_rho is not None:
        samples |= {layer.bias_mean: by_bias, layer.bias_rho: by_bias * bias_by_rho}
    return samples


def _norms(samples: Samples) -> Samples:
    return {parameter: row_norms(rows) for parameter, rows in samples.items()}
