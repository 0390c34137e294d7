"""Ghost clipping: norms and sums of gradients without a gradient of any example.

A backward pass from each example's gradients by the network's outputs goes to the outputs of all layers. Each layer
then finds the norms of the examples' gradients by its own weights, and adds up factor_i times these gradients from what
went into it and what came back ("book-keeping", Bu, Wang, Zha and Karypis 2023). So what is added of an example is as
long as it was found to be, whatever the network: where there is no formula for norm and sum, or several uses of one
weight are added up, examples' gradients are formed by that layer, and these very numbers are measured and summed. An
example whose gradient is NaN would poison the sum whatever its factor (0·NaN = NaN): zeros stand in its place.

What happens outside the layers is missed, a layer's weight used functionally for instance: :mod:`pacdp.step.set_up`
compares with the reference before ghost clipping is used.

Of one call of a layer the norms of its examples' gradients are taken, and their sum. An example's gradient over a
sequence is a sum over places, whose terms may cancel. In single precision its norm then falls short of the truth by
percents or more, and a sum that goes over all examples' terms is off by what the largest of them rounds to, whatever
the norm. Here both are taken in double precision, and their rounding is added to the norm. Where no formula is known,
examples' gradients are formed, and what is summed is what was measured, bit for bit.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import grad
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.func import functional_call, vjp, vmap
from torch.nn import functional
from torch.utils._pytree import tree_leaves

from pacdp.layers.bayes import BAYES_LAYERS, BayesLinear, Draw
from pacdp.step.clip import (
    Clip,
    Clipping,
    Weights,
    all_on_a_cpu,
    clip_factors,
    drop,
    joint_norms,
    kind_of_sums,
    row_norms,
    without_subnormals,
)
from pacdp.step.gradients import slopes_of_outputs
from pacdp.step.precision import full_precision
from pacdp.step.sums import Sum, added_up, parts
from pacdp.step.units import Network, Units

ByParameter = dict[Any, Tensor]
"""By parameter of a layer."""
_KEPT = 2**25
"""Numbers in the gradients of a batch by one weight that are kept until their sum."""


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


Met = list[tuple[Use, Tensor]]
"""The layers that a backward pass met, and each example's gradients by their outputs."""


class Ghost:
    """A network with hooks at its layers, which keep what went into each in the last forward pass.

    Calling it is that pass; ``sum`` is the clipped sum of its examples' gradients.
    """

    def __init__(self, module: nn.Module, clip: Clip) -> None:
        self.module, self.clip = module, clip
        self._uses, self._versions, self._watches = list[Use](), list[list[int]](), False
        layers = filter(own_weights, module.modules())
        self.hooks = [layer.register_forward_hook(self._meet) for layer in layers]

    def __call__(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """The outputs of a batch of examples."""
        self._uses, self._versions, self._watches = [], [], True
        try:
            return self.module(*inputs, **named)
        finally:
            self._watches = False

    def _meet(self, layer: nn.Module, inputs: tuple[Any, ...], outputs: Any) -> None:
        # a recurrent layer of Opacus names its cells' weights too, and returns several tensors
        if self._watches and isinstance(outputs, Tensor):
            draw = (layer.drawn.pop(),) if isinstance(layer, BAYES_LAYERS) else ()
            use = Use(layer, [], get_gradient_edge(outputs), draw)
            rows = [x.detach() for x in inputs if isinstance(x, Tensor)]
            use.inputs.extend(x.to(use.kind) if x.is_floating_point() else x for x in rows)
            self._uses.append(use)
            self._versions.append([x._version for x in use.inputs])

    def sum(self, leaves: Sequence[Any], slopes: Sequence[Tensor | None]) -> Sum:
        """Σ_i clip_C(g_i) by the names of the network's trained parameters; norms and sums keep full precision.

        Args:
            leaves: all outputs of the last pass.
            slopes: each example's gradient of its own loss by them; None where it has none.
        """
        weights = {name: p for name, p in self.module.named_parameters() if p.requires_grad}
        with full_precision(next(iter(weights.values())).device, convolutions=True):
            met = self._back(leaves, slopes)
            norms, rows = _norms(met)
            examples = next(len(slope) for slope in slopes if slope is not None)
            if any(len(one) != examples for one in norms.values()):
                raise ValueError(
                    "a layer is given another number of rows than there are examples, so that it tells no example's "
                    "gradient from another's: keep examples along the first dimension, or leave grad_sample_mode out"
                )
            coarsest = max((p.dtype for p in norms), key=lambda kind: torch.finfo(kind).eps)
            clip = clip_factors(joint_norms([*norms.values()]), self.clip, coarsest)
            found = _added_up(met, rows, clip)
        if clip.scale != 1.0:
            found = {p: clip.scale * one for p, one in found.items()}
        total = {
            name: found[p].to(p.device, kind_of_sums(p)) if p in found else torch.zeros_like(p)
            for name, p in weights.items()
        }
        return Sum(total, (~clip.finite).sum(), 0.0, clip.within.sum())

    def _back(self, leaves: Sequence[Any], slopes: Sequence[Tensor | None]) -> Met:
        uses, self._uses = self._uses, []
        if [[x._version for x in use.inputs] for use in uses] != self._versions:
            raise ValueError(
                "what went into a layer was modified by an inplace operation before the backward pass: write x = f(x)"
            )
        moving = [k for k, slope in enumerate(slopes) if slope is not None]
        outputs, given = ([of[k] for k in moving] for of in (leaves, slopes))
        edges = [use.outputs for use in uses]
        found = grad(outputs, edges, given, allow_unused=True)  # pyright: ignore
        pairs = zip(uses, found, strict=True)
        return [(use, s.to(use.kind)) for use, s in pairs if s is not None]


class GhostSums:
    """Clipped sums of examples' gradients by ghost clipping; the network keeps its hooks.

    Args:
        most: examples at a time.
    """

    def __init__(self, network: Network, units: Units, clip: Clip, most: int | None = None) -> None:
        self.ghost = Ghost(network.module, clip)
        self.units, self.loss, self.most = units, network.loss, most

    def at(self, clip_norm: float) -> "GhostSums":
        """These sums, from now on with another clip norm."""
        self.ghost.clip = self.ghost.clip._replace(norm=clip_norm)
        return self

    def __call__(self, chosen: Tensor, weights: Weights) -> Sum:
        """Forward and backward passes of one part after the other."""
        device = next(iter(weights.values())).device
        return added_up(weights, (self._part(part, device) for part in parts(chosen, self.most)))

    def _part(self, part: Tensor, device: torch.device) -> Sum:
        inputs, targets = self.units.examples(part, device)
        outputs = self.ghost([inputs], {})
        slopes, losses = slopes_of_outputs(self.loss, outputs, targets)
        return self.ghost.sum(tree_leaves(outputs), slopes)._replace(loss=losses.double().sum())


def _norms(met: Met) -> tuple[ByParameter, ByParameter]:
    """Norms of examples' gradients by the weights; and, where no formula is known, these gradients themselves.

    The gradient by a weight that was used several times is the sum of what each use adds. Very many gradients of one
    use are not kept, and are formed again for the sum.
    """
    times = Counter(p for use, _ in met for p in use.own.values())
    norms: ByParameter = {}
    rows: ByParameter = {}
    for use, slopes in met:
        once = all(times[p] == 1 for p in use.own.values())
        if once and use.formulas(slopes):
            norms |= use.norms(slopes)
            continue
        for p, one in use.rows(slopes).items():
            if once and one.numel() > _KEPT:
                norms[p] = row_norms(one)
            else:
                rows[p] = rows[p] + one if p in rows else one
    return norms | {p: row_norms(row) for p, row in rows.items()}, rows


def _added_up(met: Met, rows: ByParameter, clip: Clipping) -> ByParameter:
    """Σ_i factor_i g_i: of the gradients that were kept, and use by use of the others."""
    sums = {p: weighted(row, clip) for p, row in rows.items()}
    for use, slopes in met:
        if not rows.keys() & use.own.values():
            sums |= use.total(slopes, clip)
    return sums
