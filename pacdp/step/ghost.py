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
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import grad
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.func import functional_call, vjp, vmap
from torch.nn import functional
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from pacdp.errors import said
from pacdp.layers.bayes import BAYES_LAYERS, BayesLinear, Draw, weight_generators
from pacdp.layers.plain import of_known_layers
from pacdp.layers.random import random_state, rewind
from pacdp.step.clip import (
    Clip,
    Clipping,
    Weights,
    clip_factors,
    coarsest,
    joint_norms,
    kept,
    kind_of_sums,
    row_norms,
    without_subnormals,
)
from pacdp.step.gradients import slopes_of_outputs
from pacdp.step.precision import full_precision
from pacdp.step.sums import Sum, added_up, parts
from pacdp.step.units import Network, Units, rows_at

ByParameter = dict[Any, Tensor]
"""By parameter of a layer."""
_POWERS, _OUT_OF_ORDER = 8, 1e-2
"""How many powers of two tell places of a batch apart, and how far a slope may be off by rounding."""
_KEPT = 2**25
"""Numbers in the gradients of a batch by one layer that are kept until their sum."""


class Measured(NamedTuple):
    """Of some parameters: the norms of examples' gradients, and the sum of these times factors."""

    norms: ByParameter
    total: Callable[[Clipping], ByParameter]
    """Σ_i factor_i g_i."""

    @classmethod
    def by_rows(cls, make: Callable[[], ByParameter]) -> "Measured":
        """Of gradients that are formed; very many are not kept, and are made again for the sum."""
        rows = make()
        norms = {p: row_norms(row) for p, row in rows.items()}
        held = rows if sum(row.numel() for row in rows.values()) <= _KEPT else None
        return cls(norms, lambda clip: {p: weighted(r, clip) for p, r in (held or make()).items()})


def linear(layer: nn.Linear, inputs: Tensor, slopes: Tensor) -> Measured:
    """Of Σ_t b_t a_tᵀ and Σ_t b_t of each example, t its places."""
    one_vector = slopes.dim() == 2
    kind = slopes.dtype if one_vector else torch.float64
    if one_vector:
        by_bias = row_norms(slopes)
        by_weight = by_bias * row_norms(inputs)
    else:
        b, a = (x.flatten(1, -2).to(kind) for x in (slopes, inputs))
        by_weight = _outer_sum_norms(b, torch.einsum("nik,njk->nij", a, a), a.shape[2])
        by_bias = row_norms(b.sum(1))

    def total(clip: Clipping) -> ByParameter:
        b, a = scaled(slopes.to(kind), clip), kept(clip)(inputs).to(kind)
        b, a = (x.flatten(0, -2) for x in (b, a))
        return {layer.weight: b.T @ a, layer.bias: b.sum(0)}

    return Measured({layer.weight: by_weight, layer.bias: by_bias}, total)


def embedding(layer: nn.Embedding, words: Tensor, slopes: Tensor) -> Measured:
    """The same of an embedding, whose inputs a_t are indicators of words."""
    words = words.reshape(len(words), -1)  # one word an example has no dimension of its own
    b = slopes.reshape(*words.shape, -1).double()
    if layer.padding_idx is not None:
        b = b.masked_fill((words == layer.padding_idx)[:, :, None], 0.0)
    alike = (words[:, :, None] == words[:, None, :]).double()

    def total(clip: Clipping) -> ByParameter:
        made = torch.zeros(layer.weight.shape, dtype=b.dtype, device=b.device)
        return {layer.weight: made.index_add_(0, words.flatten(), scaled(b, clip).flatten(0, 1))}

    return Measured({layer.weight: _outer_sum_norms(b, alike, 1)}, total)


def bayes_linear(layer: Any, inputs: Tensor, slopes: Tensor, draw: Draw) -> Measured:
    """Of one vector an example: of b aᵀ by the mean and b aᵀ ⊙ S by rho, S = ε ⊙ sigmoid(rho).

    ‖b aᵀ ⊙ S‖² = (b²)ᵀ S² a², and S is what the derivative of softplus makes of the draw (Blundell et al. 2015).
    """
    by_weight, by_bias = (
        torch.zeros(()) if noise is None else noise.double() * rho.detach().sigmoid()
        for noise, rho in zip(draw, (layer.weight_rho, layer.bias_rho), strict=True)
    )
    a, b = inputs.double().square(), slopes.double().square()
    squares = {
        layer.weight_mean: b.sum(1) * a.sum(1),
        layer.weight_rho: torch.einsum("no,oi,ni->n", b, by_weight.square(), a),
        layer.bias_mean: b.sum(1),
        layer.bias_rho: (b * by_bias.square()).sum(1),
    }

    def total(clip: Clipping) -> ByParameter:
        b = scaled(slopes, clip)
        weight, bias = b.T @ kept(clip)(inputs), b.sum(0)
        return {layer.weight_mean: weight, layer.weight_rho: weight * by_weight,
                layer.bias_mean: bias, layer.bias_rho: bias * by_bias}  # fmt: skip

    return Measured({parameter: square.sqrt() for parameter, square in squares.items()}, total)


RULES: dict[type, Callable[..., Measured]] = {
    nn.Linear: linear,
    nn.Embedding: embedding,
    BayesLinear: bayes_linear,
}
"""Kinds of layers whose examples' gradients need not be formed; of weights that are frozen nobody asks."""


class Use(NamedTuple):
    """One call of a layer with weights of its own that are trained."""

    layer: Any
    own: dict[str, nn.Parameter]
    """The layer's own weights by their names."""
    inputs: list[Any]
    """All arguments; tensors in the precision of the weights, as slopes are."""
    form: Any
    """How they make positional and named arguments."""
    versions: list[int]
    """Of the inputs, when they went in."""
    outputs: GradientEdge
    """Where the outputs lie in the graph, whatever is written into them later."""
    draw: tuple[Draw, ...]
    """Of a Bayesian layer."""
    shared: Set[int] = frozenset()
    """Places of inputs that all examples share."""

    def measured(self, slopes: Tensor) -> Measured:
        """By the rule of its kind, or by gradients that are formed."""
        rule = RULES.get(type(self.layer))
        if rule is None or (rule is bayes_linear and slopes.dim() != 2):
            return Measured.by_rows(partial(self.rows, slopes))
        return rule(self.layer, *self.inputs, slopes, *self.draw)

    def rows(self, slopes: Tensor) -> ByParameter:
        """Each example's gradients."""
        weights = {name: p.detach() for name, p in self.own.items()}

        n = len(slopes)
        by_row = [_is_row(x, n) and k not in self.shared for k, x in enumerate(self.inputs)]

        def of_one(slope: Tensor, *inputs: Any) -> dict[str, Tensor]:
            leaves = [x[None] if cut else x for x, cut in zip(inputs, by_row, strict=True)]
            args, named = tree_unflatten(leaves, self.form)
            given = (*args, *self.draw)
            called = vjp(lambda own: functional_call(self.layer, own, given, named), weights)
            return called[1](slope[None])[0]

        layer = self.layer
        places = (0, *(0 if cut else None for cut in by_row))
        known = type(layer) is nn.Conv2d and layer.padding_mode == "zeros"
        numeric = known and not isinstance(layer.padding, str)
        rows = partial(convolution_rows, layer) if numeric else vmap(of_one, places)
        try:
            found = rows(slopes, *self.inputs)
        except RuntimeError as error:
            raise ValueError(
                f"ghost clipping cannot run a {type(layer).__name__}, which has weights of its own, for single "
                f"examples ({said(error)}): leave grad_sample_mode out"
            ) from error
        return {p: found[name] for name, p in self.own.items()}


def _as_kind(given: Tensor, kind: torch.dtype) -> Tensor:
    return given.to(kind) if given.is_floating_point() else given


def _is_row(x: Any, n: int) -> bool:
    return isinstance(x, Tensor) and x.shape[:1] == (n,)


def _versions(inputs: Sequence[Any]) -> list[int]:
    return [x._version for x in inputs if isinstance(x, Tensor)]


def _powers(count: int, number: int) -> Tensor:
    """A power of two for each place of a batch, so that products are exact; others in each pass, by its number."""
    generator = torch.Generator().manual_seed(number)
    return 2.0 ** torch.randint(_POWERS, (count,), generator=generator)


def _by_place(slopes: Tensor, powers: Tensor) -> Tensor:
    return slopes * powers.to(slopes).view(-1, *[1] * (slopes.dim() - 1))


def _require_in_order(expected: Tensor, found: Tensor) -> None:
    """Refuse, by raising ValueError, slopes that do not grow with those of the example in the same place."""
    size, away = (x.double().nan_to_num(0.0, 0.0, 0.0).flatten(1).norm(dim=1)
                  for x in (expected, expected - found))  # fmt: skip
    least = expected[0].numel() * torch.finfo(expected.dtype).tiny
    if not bool((away <= _OUT_OF_ORDER * size + least).all()):
        raise ValueError(
            "a layer is given the examples of a batch in another order, as where they are sorted by their lengths, so "
            "that the norm of one would clip another's gradient: keep their order, or leave grad_sample_mode out"
        )


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


def scaled(slopes: Tensor, clip: Clipping) -> Tensor:
    """Each example's slopes times its factor, without what is subnormal."""
    factors = clip.factors.to(slopes).view(-1, *[1] * (slopes.dim() - 1))
    return without_subnormals(factors * kept(clip)(slopes))


def weighted(rows: Tensor, clip: Clipping) -> Tensor:
    """Σ_i factor_i row_i."""
    factors = without_subnormals(clip.factors.to(rows))
    return (factors @ kept(clip)(rows).flatten(1)).view(rows.shape[1:])


def _outer_sum_norms(b: Tensor, products: Tensor, width: int) -> Tensor:
    """‖Σ_t b_t a_tᵀ‖, given the products of any two of the a_t, which have ``width`` numbers."""
    squares = (torch.einsum("nik,njk->nij", b, b) * products).sum((1, 2)).clamp(min=0.0)
    # at least the sum of the products' magnitudes
    at_most = (b.norm(dim=2) * products.diagonal(0, 1, 2).sqrt()).sum(1).square()
    unit = 2.0**-53 * 4.0 * (b.shape[2] + width + 64)
    return (squares + unit * at_most).sqrt()


class Ghost:
    """A network with hooks at its layers, which keep what went into each in the last forward pass.

    Calling it is that pass; ``sum`` is the clipped sum of its examples' gradients. Weights are drawn once a batch: its
    parts, whose examples share them, have the same ones until ``next_batch``.
    """

    def __init__(self, module: nn.Module, clip: Clip) -> None:
        self.module, self.clip = module, clip
        self._uses, self._watches, self._passes = list[Use](), False, 0
        self._known, self._shared = of_known_layers(module), dict[Any, set[int]]()
        self._draws, self._begins = weight_generators(module), list[Tensor]()
        layers = filter(own_weights, module.modules())
        self.hooks = [layer.register_forward_hook(self._meet, with_kwargs=True) for layer in layers]

    def __call__(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """The outputs of a batch of examples, or of a part of one."""
        self._begins = self._begins or [own.get_state() for own in self._draws]
        for own, state in zip(self._draws, self._begins, strict=True):
            own.set_state(state)
        if self._known:
            return self._pass(inputs, named)
        before = random_state(self.module)
        outputs = self._pass(inputs, named)
        uses, now = self._uses, random_state(self.module)
        if any(use.layer not in self._shared for use in uses):
            rewind(self.module, before)
            self._find_shared(inputs, named)
            rewind(self.module, now)
        self._uses = [use._replace(shared=self._shared.get(use.layer, set())) for use in uses]
        return outputs

    def next_batch(self) -> None:
        """From the next pass on, other weights are drawn."""
        self._begins = []

    def _pass(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> Any:
        self._uses, self._watches = [], True
        try:
            return self.module(*inputs, **named)
        finally:
            self._watches = False

    def _find_shared(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> None:
        """Find which inputs of layers no example has a row of, as a mask: they do not grow with a batch.

        In a batch of as many examples as a mask has rows, nothing else tells them apart.
        """
        n = next(len(x) for x in tree_leaves((inputs, named)) if isinstance(x, Tensor))
        met = [(use, n) for use in self._uses]
        more, more_named = rows_at(torch.arange(n + 1) % n, (inputs, named))
        self._pass(more, more_named)
        for use, rows in (*met, *((use, n + 1) for use in self._uses)):
            fixed = {k for k, x in enumerate(use.inputs) if not _is_row(x, rows)}
            self._shared[use.layer] = self._shared.get(use.layer, set()) | fixed

    def _meet(self, layer: nn.Module, inputs: Any, named: Any, outputs: Any) -> None:
        # a recurrent layer of Opacus names its cells' weights too, and returns several tensors
        if self._watches and isinstance(outputs, Tensor) and outputs.requires_grad:
            own = own_weights(layer)
            kind = next(iter(own.values())).dtype
            given, form = tree_flatten((inputs, named))
            given = [_as_kind(x.detach(), kind) if isinstance(x, Tensor) else x for x in given]
            draw = (layer.drawn.pop(),) if isinstance(layer, BAYES_LAYERS) else ()
            edge, versions = get_gradient_edge(outputs), _versions(given)
            self._uses.append(Use(layer, own, given, form, versions, edge, draw))

    def sum(self, leaves: Sequence[Any], slopes: Sequence[Tensor | None]) -> Sum:
        """Σ_i clip_C(g_i) by the names of the network's trained parameters; norms and sums keep full precision.

        Args:
            leaves: all outputs of the last pass.
            slopes: each example's gradient of its own loss by them; None where it has none.
        """
        weights = {name: p for name, p in self.module.named_parameters() if p.requires_grad}
        with full_precision(next(iter(weights.values())).device, convolutions=True):
            measured = self._back(leaves, slopes)
            trained, found = {*weights.values()}, [one.norms.items() for one in measured]
            norms = {p: norm for one in found for p, norm in one if p in trained}
            clip = clip_factors(joint_norms([*norms.values()]), self.clip, coarsest(norms))
            sums = {p: total for one in measured for p, total in one.total(clip).items()}
        total = {
            name: sums[p].to(p.device, kind_of_sums(p)) if p in sums else torch.zeros_like(p)
            for name, p in weights.items()
        }
        if clip.scale != 1.0:
            total = {name: clip.scale * one for name, one in total.items()}
        return Sum(total, (~clip.finite).sum(), 0.0, clip.within.sum())

    def _back(self, leaves: Sequence[Any], slopes: Sequence[Tensor | None]) -> list[Measured]:
        """What each layer measures; the gradient by a weight that was used several times is the sum over its uses."""
        uses, self._uses = self._uses, []
        if any(_versions(use.inputs) != use.versions for use in uses):
            raise ValueError(
                "what went into a layer was modified by an inplace operation before the backward pass: write x = f(x)"
            )
        given = [slope for slope in slopes if slope is not None]
        outputs = [leaf for leaf, slope in zip(leaves, slopes, strict=True) if slope is not None]
        edges = [use.outputs for use in uses]
        back = grad(outputs, edges, given, allow_unused=True, retain_graph=not self._known)  # pyright: ignore
        if not self._known:
            self._passes += 1
            powers = _powers(len(given[0]), self._passes)
            scaled_up = [_by_place(x, powers) for x in given]
            grown = grad(outputs, edges, scaled_up, allow_unused=True)  # pyright: ignore
            for one, other in zip(back, grown, strict=True):
                if one is not None and other is not None and len(one) == len(given[0]):
                    _require_in_order(_by_place(one, powers), other)
        met = [(use, s) for use, s in zip(uses, back, strict=True) if s is not None]
        # one row more would be added to the rows of all
        if any(slope.shape[:1] != given[0].shape[:1] for _, slope in met):
            raise ValueError(
                "a layer is given another number of rows than there are examples, so that it tells no example's "
                "gradient from another's: keep examples along the first dimension, or leave grad_sample_mode out"
            )
        times = Counter(p for use, _ in met for p in use.own.values())
        found, shared = list[Measured](), ByParameter()
        for use, slope in met:
            slope = slope.to(next(iter(use.own.values())).dtype)
            if all(times[p] == 1 for p in use.own.values()):
                found.append(use.measured(slope))
                continue
            for p, row in use.rows(slope).items():
                shared[p] = shared[p] + row if p in shared else row
        return [*found, Measured.by_rows(lambda: shared)]


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
        self.ghost.next_batch()
        return added_up(weights, (self._part(part, device) for part in parts(chosen, self.most)))

    def _part(self, part: Tensor, device: torch.device) -> Sum:
        inputs, targets = self.units.examples(part, device)
        outputs = self.ghost([inputs], {})
        slopes, losses = slopes_of_outputs(self.loss, outputs, targets)
        return self.ghost.sum(tree_leaves(outputs), slopes)._replace(loss=losses.double().sum())
