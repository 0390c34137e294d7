"""For ghost clipping: of one call of a layer, the norms of its examples' gradients, these themselves, and their sum.

An example's gradient over a sequence is a sum over places, whose terms may cancel. In single precision its norm then
falls short of the truth by percents or more, and a sum that goes over all examples' terms is off by what the largest of
them rounds to, whatever the norm. Here both are taken in double precision, and their rounding is added to the norm.
Where no formula is known, examples' gradients are formed, and what is summed is what was measured, bit for bit.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge
from torch.func import functional_call, vjp, vmap
from torch.nn import functional

from pacdp.layers.bayes import BayesLinear, Draw
from pacdp.step.clip import Clipping, all_on_a_cpu, drop, row_norms, without_subnormals

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

    def formulas(self, slopes: Tensor) -> "Formulas | None":
        """The formulas of its layer, where there are some."""
        several_vectors = isinstance(self.layer, BayesLinear) and slopes.dim() != 2
        return None if several_vectors else FORMULAS.get(type(self.layer))

    def norms(self, slopes: Tensor) -> ByParameter:
        """Norms of examples' gradients by a formula, given those by the outputs."""
        known = self.formulas(slopes)
        assert known is not None
        found = known.norms(self.layer, *self.inputs, slopes, *self.draw)
        return {p: found[p] for p in self.own.values()}

    def rows(self, slopes: Tensor) -> ByParameter:
        """Each example's gradients."""

        def of_one(slope: Tensor, *inputs: Tensor) -> dict[str, Tensor]:
            return self._gradient(slope[None], *(x[None] for x in inputs))

        known = type(self.layer) is nn.Conv2d and _is_padded_with_zeros(self.layer)
        rows = partial(convolution_rows, self.layer) if known else vmap(of_one)
        return self._by_parameter(rows(slopes, *self.inputs))

    def total(self, slopes: Tensor, clip: Clipping) -> ByParameter:
        """Σ_i factor_i g_i."""
        known = self.formulas(slopes)
        if known is None:
            return {p: weighted(row, clip) for p, row in self.rows(slopes).items()}
        slopes, *inputs = (_finite(x, clip) for x in (slopes, *self.inputs))
        found = known.total(self.layer, *inputs, slopes, *self.draw, clip.factors)
        return {p: found[p] for p in self.own.values()}

    def _gradient(self, slopes: Tensor, *inputs: Tensor) -> dict[str, Tensor]:
        weights = {name: p.detach() for name, p in self.own.items()}
        given = (*inputs, *self.draw)
        return vjp(lambda own: functional_call(self.layer, own, given), weights)[1](slopes)[0]

    def _by_parameter(self, found: dict[str, Tensor]) -> ByParameter:
        return {p: found[name] for name, p in self.own.items()}


def own_weights(layer: nn.Module) -> dict[str, nn.Parameter]:
    """The trained parameters of a layer that are none of a layer inside it."""
    return {name: p for name, p in layer.named_parameters(recurse=False) if p.requires_grad}


def convolution_rows(layer: nn.Conv2d, slopes: Tensor, inputs: Tensor) -> dict[str, Tensor]:
    """Each example's gradients, of a convolution in two dimensions; quicker than by vmap."""
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


def linear_total(layer: nn.Linear, inputs: Tensor, slopes: Tensor, factors: Tensor) -> ByParameter:
    """Σ_i factor_i Σ_t b_it a_itᵀ and Σ_i factor_i Σ_t b_it over examples i and places t."""
    if slopes.dim() == 2:
        b, a = scaled(slopes, factors), inputs
    else:
        b, a = (scaled(slopes.double(), factors).flatten(0, -2), inputs.double().flatten(0, -2))
    return {layer.weight: b.T @ a, layer.bias: b.sum(0)}


def embedding_norms(layer: nn.Embedding, words: Tensor, slopes: Tensor) -> ByParameter:
    """The same of an embedding, whose inputs a_t are indicators of words."""
    words = words.reshape(len(words), -1)  # one word an example has no dimension of its own
    b = slopes.reshape(*words.shape, -1).double()
    kept = words != (-1 if layer.padding_idx is None else layer.padding_idx)
    alike = (words[:, :, None] == words[:, None, :]) & kept[:, None, :]
    return {layer.weight: _outer_sum_norms(b, alike.double(), 1)}


def embedding_total(
    layer: nn.Embedding, words: Tensor, slopes: Tensor, factors: Tensor
) -> ByParameter:
    """The same of an embedding."""
    b = scaled(slopes.double(), factors).reshape(-1, layer.embedding_dim)
    words, outside = words.flatten(), -1 if layer.padding_idx is None else layer.padding_idx
    b = b.masked_fill((words == outside)[:, None], 0.0)
    total = torch.zeros(layer.weight.shape, dtype=b.dtype, device=b.device)
    return {layer.weight: total.index_add_(0, words, b)}


def scaled(slopes: Tensor, factors: Tensor) -> Tensor:
    """Each example's slopes times its factor, without what is subnormal."""
    factors = factors.to(slopes).view(-1, *[1] * (slopes.dim() - 1))
    return without_subnormals(factors * slopes)


def _outer_sum_norms(b: Tensor, products: Tensor, width: int) -> Tensor:
    """‖Σ_t b_t a_tᵀ‖, given the products of any two of the a_t, which have ``width`` numbers."""
    squares = (torch.einsum("nik,njk->nij", b, b) * products).sum((1, 2)).clamp(min=0.0)
    # at least the sum of the products' magnitudes
    at_most = (b.norm(dim=2) * products.diagonal(0, 1, 2).sqrt()).sum(1).square()
    unit = 2.0**-53 * 4.0 * (b.shape[2] + width + 64)
    return (squares + unit * at_most).sqrt()


def bayes_linear_norms(layer: Any, inputs: Tensor, slopes: Tensor, draw: Draw) -> ByParameter:
    """Of one vector an example, without its gradients b aᵀ by the mean and b aᵀ ⊙ S by rho, S = ε ⊙ sigmoid(rho).

    ‖b aᵀ ⊙ S‖² = (b²)ᵀ S² a², and S is what the derivative of softplus makes of the draw (Blundell et al. 2015).
    """
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


def bayes_linear_total(
    layer: Any, inputs: Tensor, slopes: Tensor, draw: Draw, factors: Tensor
) -> ByParameter:
    """Σ_i factor_i b_i a_iᵀ by the mean, and that ⊙ S by rho."""
    b = scaled(slopes, factors)
    by_weight, by_bias = (
        {mean: total} | ({} if noise is None else {rho: total * noise * rho.detach().sigmoid()})
        for mean, rho, noise, total in zip(
            (layer.weight_mean, layer.bias_mean),
            (layer.weight_rho, layer.bias_rho),
            draw,
            (b.T @ inputs, b.sum(0)),
            strict=True,
        )
    )
    return by_weight | by_bias


class Formulas(NamedTuple):
    """Of a kind of layer: the norms of its examples' gradients, and the sum of these times factors."""

    norms: Callable[..., ByParameter]
    total: Callable[..., ByParameter]


FORMULAS: dict[type, Formulas] = {
    nn.Linear: Formulas(linear_norms, linear_total),
    nn.Embedding: Formulas(embedding_norms, embedding_total),
    BayesLinear: Formulas(bayes_linear_norms, bayes_linear_total),
}


def weighted(rows: Tensor, clip: Clipping) -> Tensor:
    """Σ_i factor_i row_i."""
    factors = without_subnormals(clip.factors.to(rows))
    return (factors @ _finite(rows, clip).flatten(1)).view(rows.shape[1:])


def _finite(rows: Tensor, clip: Clipping) -> Tensor:
    """The rows, with zeros for those of examples whose gradients are no finite numbers."""
    whole = all_on_a_cpu(clip.finite, None)
    return rows if whole else drop(rows, clip.finite.to(rows.device))
