"""For ghost clipping: of one call of a layer, the norms of its examples' gradients, these themselves, and their sum.

The norm of a linear layer's gradient over a sequence is a sum of products that may cancel. In single precision it then
falls short of the truth by percents or more: here it is taken in double precision, and its rounding is added on top.
"""

from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge
from torch.func import functional_call, vjp, vmap
from torch.nn import functional

from pacdp.layers.bayes import BayesLinear, Draw
from pacdp.step.clip import row_norms

ByParameter = dict[Any, Tensor]
"""By parameter of a layer."""


class Use(NamedTuple):
    """One call of a layer with weights of its own that are trained."""

    layer: Any
    inputs: list[Tensor]
    """In the precision of the weights, as slopes are."""
    outputs: GradientEdge
    """Where the outputs lie in the graph, whatever is written into them later."""
    draw: tuple[Draw, ...]
    """Of a Bayesian layer."""

    @property
    def own(self) -> dict[str, nn.Parameter]:
        """The layer's own weights by their names."""
        return own_weights(self.layer)

    @property
    def kind(self) -> torch.dtype:
        """The precision of these weights."""
        return next(iter(self.own.values())).dtype

    def norms(self, slopes: Tensor) -> ByParameter | None:
        """Norms of examples' gradients, given those by the outputs; None where no formula is known."""
        known = NORMS.get(type(self.layer))
        return None if known is None else known(self.layer, *self.inputs, slopes, *self.draw)

    def rows(self, slopes: Tensor) -> ByParameter:
        """Each example's gradients."""

        def of_one(slope: Tensor, *inputs: Tensor) -> dict[str, Tensor]:
            return self._gradient(slope[None], *(x[None] for x in inputs))

        known = type(self.layer) is nn.Conv2d and _is_padded_with_zeros(self.layer)
        rows = partial(convolution_rows, self.layer) if known else vmap(of_one)
        return self._by_parameter(rows(slopes, *self.inputs))

    def total(self, slopes: Tensor) -> ByParameter:
        """The sum of the gradients."""
        return self._by_parameter(self._gradient(slopes, *self.inputs))

    def _gradient(self, slopes: Tensor, *inputs: Tensor) -> dict[str, Tensor]:
        known = SUMS.get(type(self.layer))
        if known is not None and _is_padded_with_zeros(self.layer):
            return known(self.layer, slopes, *inputs)
        weights = {name: p.detach() for name, p in self.own.items()}
        given = (*inputs, *self.draw)
        return vjp(lambda own: functional_call(self.layer, own, given), weights)[1](slopes)[0]

    def _by_parameter(self, found: dict[str, Tensor]) -> ByParameter:
        return {p: found[name] for name, p in self.own.items()}


def own_weights(layer: nn.Module) -> dict[str, nn.Parameter]:
    """The trained parameters of a layer that are none of a layer inside it."""
    return {name: p for name, p in layer.named_parameters(recurse=False) if p.requires_grad}


def linear_sum(layer: nn.Linear, slopes: Tensor, inputs: Tensor) -> dict[str, Tensor]:
    """Σ_i,t b_it a_itᵀ and Σ_i,t b_it over examples i and places t, a layer's inputs a and output gradients b."""
    del layer
    b, a = slopes.flatten(0, -2), inputs.flatten(0, -2)
    return {"weight": b.T @ a, "bias": b.sum(0)}


def convolution_sum(layer: Any, slopes: Tensor, inputs: Tensor) -> dict[str, Tensor]:
    """The same of a convolution, without a forward pass of it."""
    back = torch.ops.aten.convolution_backward
    geometry = layer.stride, layer.padding, layer.dilation, False, layer.output_padding
    _, weight, bias = back(slopes, inputs, layer.weight.detach(), [layer.out_channels], *geometry, layer.groups,
                           [False, True, True])  # fmt: skip
    return {"weight": weight, "bias": bias}


def convolution_rows(layer: nn.Conv2d, slopes: Tensor, inputs: Tensor) -> dict[str, Tensor]:
    """Each example's part of that sum, of two dimensions; quicker than by vmap."""
    window = layer.kernel_size, layer.dilation, layer.padding, layer.stride
    patches = functional.unfold(inputs, *window)  # pyright: ignore[reportArgumentType]
    a, b = (x.reshape(len(x) * layer.groups, -1, patches.shape[2]) for x in (patches, slopes))
    weight = torch.bmm(b, a.mT).reshape(len(inputs), *layer.weight.shape)
    return {"weight": weight, "bias": slopes.sum((2, 3))}


def _is_padded_with_zeros(layer: Any) -> bool:
    """Whether it is no convolution, or one whose padding is a number of zeros."""
    zeros = getattr(layer, "padding_mode", "zeros") == "zeros"
    return zeros and not isinstance(getattr(layer, "padding", 0), str)


def linear_norms(layer: nn.Linear, inputs: Tensor, slopes: Tensor) -> ByParameter:
    """‖Σ_t b_t a_tᵀ‖ and ‖Σ_t b_t‖ of each example."""
    if slopes.dim() == 2:
        by_bias = row_norms(slopes)
        return {layer.weight: by_bias * row_norms(inputs), layer.bias: by_bias}
    b, a = (x.flatten(1, -2).double() for x in (slopes, inputs))
    norms = _outer_sum_norms(b, torch.einsum("nik,njk->nij", a, a), a.shape[2])
    return {layer.weight: norms, layer.bias: row_norms(b.sum(1))}


def embedding_norms(layer: nn.Embedding, words: Tensor, slopes: Tensor) -> ByParameter:
    """The same of an embedding, whose inputs a_t are indicators of words."""
    words = words.reshape(len(words), -1)  # one word an example has no dimension of its own
    b = slopes.reshape(*words.shape, -1).double()
    kept = words != (-1 if layer.padding_idx is None else layer.padding_idx)
    alike = (words[:, :, None] == words[:, None, :]) & kept[:, None, :]
    return {layer.weight: _outer_sum_norms(b, alike.double(), 1)}


def _outer_sum_norms(b: Tensor, products: Tensor, width: int) -> Tensor:
    """‖Σ_t b_t a_tᵀ‖, given the products of any two of the a_t, which have ``width`` numbers."""
    squares = (torch.einsum("nik,njk->nij", b, b) * products).sum((1, 2)).clamp(min=0.0)
    # at least the sum of the products' magnitudes
    at_most = (b.norm(dim=2) * products.diagonal(0, 1, 2).sqrt()).sum(1).square()
    unit = 2.0**-53 * 4.0 * (b.shape[2] + width + 64)
    return (squares + unit * at_most).sqrt()


def bayes_linear_norms(
    layer: Any, inputs: Tensor, slopes: Tensor, draw: Draw
) -> ByParameter | None:
    """Of one vector an example, without its gradients b aᵀ by the mean and b aᵀ ⊙ S by rho, S = ε ⊙ sigmoid(rho).

    ‖b aᵀ ⊙ S‖² = (b²)ᵀ S² a², and S is what the derivative of softplus makes of the draw (Blundell et al. 2015).
    """
    if slopes.dim() != 2:
        return None
    a, b = inputs.double().square(), slopes.double().square()
    by_weight, by_bias = (
        None if noise is None else (noise.double() * rho.detach().sigmoid()).square()
        for noise, rho in zip(draw, (layer.weight_rho, layer.bias_rho), strict=True)
    )
    squares = {layer.weight_mean: b.sum(1) * a.sum(1),
               layer.weight_rho: torch.einsum("no,oi,ni->n", b, by_weight, a)}  # fmt: skip
    if by_bias is not None:
        squares |= {layer.bias_mean: b.sum(1), layer.bias_rho: b @ by_bias}
    return {parameter: square.sqrt() for parameter, square in squares.items()}


NORMS: dict[type, Any] = {
    nn.Linear: linear_norms,
    nn.Embedding: embedding_norms,
    BayesLinear: bayes_linear_norms,
}
SUMS: dict[type, Any] = {
    nn.Linear: linear_sum,
    **dict.fromkeys((nn.Conv1d, nn.Conv2d, nn.Conv3d), convolution_sum),
}
