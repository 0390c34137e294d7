"""Ghost clipping: norms and sums of gradients without a gradient of any example.

A backward pass from each example's gradients by the network's outputs goes to the outputs of all layers. Each layer
then finds the norms of the examples' gradients by its own weights, and adds up factor_i times these gradients from what
went into it and what came back ("book-keeping", Bu, Wang, Zha and Karypis 2023). So what is added of an example is as
long as it was found to be, whatever the network: where there is no formula for norm and sum, or several uses of one
weight are added up, examples' gradients are formed by that layer, and these very numbers are measured and summed. An
example whose gradient is NaN would poison the sum whatever its factor (0·NaN = NaN): zeros stand in its place.

What happens outside the layers is missed, a layer's weight used functionally for instance: :mod:`pacdp.step.agreement`
compares with the reference before ghost clipping is used.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import grad
from torch.autograd.graph import get_gradient_edge
from torch.utils._pytree import tree_leaves

from pacdp.layers.bayes import BAYES_LAYERS
from pacdp.step.clip import (
    Clip,
    Clipping,
    Weights,
    clip_factors,
    joint_norms,
    kind_of_sums,
    row_norms,
)
from pacdp.step.ghost_norms import ByParameter, Use, own_weights, weighted
from pacdp.step.precision import full_precision
from pacdp.step.slopes import slopes_of_outputs
from pacdp.step.sums import Sum, added_up, parts
from pacdp.step.units import Network, Units

Met = list[tuple[Use, Tensor]]
"""The layers that a backward pass met, and each example's gradients by their outputs."""
_KEPT = 2**25
"""Numbers in the gradients of a batch by one weight that are kept until their sum."""


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
