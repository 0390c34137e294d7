"""The reference: sums of gradients clipped example by example, in which no path from one example to another exists.

    into ← (1/divisor) Σ_i min(1, C/‖g_i‖) g_i

An example's gradient is taken of its own loss, of its own outputs, alone: a loss or a network that looks at the rest of
the batch has no way in. Networks made of fully connected layers need no gradient of a single example: that of a layer
is the outer product δ_i x_iᵀ of the derivative by the layer's output and its input, of norm ‖δ_i‖ ‖x_i‖, and the
clipped sum is one product of matrices (Goodfellow 2015). That holds for layers which are what their types say, each
used once; all other networks go through ``torch.func.vmap``.

A network's backward pass starts from gradients of losses by its outputs, taken one example at a time. A loss that is
evaluated on a batch of one cannot look at another example: class weights, ignored labels and batch statistics have
nothing to divide by but the example's own.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeGuard, cast

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from pacdp.layers.plain import call_with, is_plain, is_plain_linear
from pacdp.losses import Loss, PerExampleLoss, in_error
from pacdp.step.clip import (
    Clip,
    Clipping,
    Weights,
    clip_factors,
    clipped_sum,
    joint_norms,
    kept,
    kind_of_sums,
    row_norms,
    row_squares,
    without_subnormals,
)
from pacdp.step.precision import full_precision
from pacdp.step.units import Network, side_by_side

_ELEMENTWISE = (
    nn.Flatten,
    nn.Identity,
    nn.ReLU,
    nn.Tanh,
    nn.Sigmoid,
    nn.Softplus,
    nn.ELU,
    nn.GELU,
    nn.SiLU,
)
LossOfOne = Callable[[Any, Any], Tensor]
"""From one example's outputs and its other tensors, all without a batch dimension, to a loss, shape ()."""
NO_CLIPPING = Clip(1e30)
_TOLERANCE = 1e-3
_NO_VMAP = (RuntimeError, ValueError, NotImplementedError)


class Seen(NamedTuple):
    """A clipped sum of gradients, and what it saw of each example; private."""

    total: Weights
    clipping: Clipping
    mean_loss: Float[Tensor, ""]
    outputs: Float[Tensor, "batch ..."]


def clipped_gradient(
    network: Network,
    weights: Weights,
    inputs: Shaped[Tensor, "batch ..."],
    targets: Shaped[Tensor, "batch ..."],
    clip: Clip,
    *,
    into: Weights | None = None,
    member: Bool[Tensor, " batch"] | None = None,
) -> Seen:
    """The clipped sum, over its divisor, of the gradients of some examples, at least one, by these weights.

    Formal guarantee: without one of the examples the exact sum of the written terms moves by at most
    clip.norm / clip.divisor in Euclidean norm, whatever the example: one whose gradient is not finite counts as zero.

    Args:
        into: where the sum is written; new tensors by default.
        member: whose gradients are summed and whose losses make the mean, in a batch whose size is not that of its
            sample; all, where None. Nothing is then read back from the device, and ``torch.func.vmap`` may go over
            many such sums.
    """
    if into is None:
        into = {name: torch.empty_like(w, dtype=kind_of_sums(w)) for name, w in weights.items()}
    whole = all(w.dtype == kind_of_sums(w) for w in weights.values())
    if whole and fully_connected(network.module, inputs.ndim):
        with full_precision(inputs.device):
            return _by_layers(network, weights, inputs, targets, clip, into, member)
    rows, losses, outputs = gradients_of_each(network, weights, inputs, targets)
    return Seen(
        *clipped_sum(rows, clip, into=into, member=member), mean_over(losses, member), outputs
    )


def require_true_sums(
    network: Network,
    weights: Weights,
    inputs: Shaped[Tensor, "batch ..."],
    targets: Shaped[Tensor, "batch ..."],
) -> bool:
    """Compare the sum of a few examples' gradients, clipped to no effect, with what autograd makes of the network.

    Returns:
        Whether there was something to compare: False where the gradient is not finite.

    Raises:
        ValueError: they differ beyond rounding, or the gradient of a single example cannot be taken.
    """
    try:
        found = clipped_gradient(network, weights, inputs, targets, NO_CLIPPING).total
        leaves = {name: value.detach().clone().requires_grad_() for name, value in weights.items()}
        with torch.enable_grad():
            total = network.losses(leaves, inputs.clone(), targets).sum()
            slopes = torch.autograd.grad(
                total, list(leaves.values()), materialize_grads=True, allow_unused=True
            )
    except RuntimeError as error:
        raise ValueError(
            f"the gradient of a single example cannot be taken ({str(error).splitlines()[0]}): where gradients "
            "are clipped or their norms kept, network and loss must run under torch.func.vmap, without branches on "
            "their data and without state, which nn.RNN and nn.GRU do not: loop over nn.RNNCell or nn.GRUCell"
        ) from error
    size = float(joint_norms([row_norms(slope[None]) for slope in slopes]))
    if not math.isfinite(size):
        return False
    for (name, own), slope in zip(found.items(), slopes, strict=True):
        if not float(row_norms((own - slope)[None])) <= _TOLERANCE * size:
            raise ValueError(
                f"clipped gradients of parameter {name} are not those of the network: report this network"
            )
    return True


def fully_connected(model: nn.Module, ndim: int) -> TypeGuard[nn.Sequential]:
    """Whether the network is a chain of plain layers, each with weights of its own, that meet rows of numbers.

    Args:
        ndim: of a batch of inputs. A linear layer on more than two dimensions sums over positions.
    """
    if not isinstance(model, nn.Sequential) or not is_plain(model, nn.Sequential):
        return False
    for layer in model:
        if isinstance(layer, nn.Linear):
            if ndim != 2 or not is_plain_linear(layer):
                return False
        elif type(layer) not in _ELEMENTWISE or not is_plain(layer, type(layer)):
            return False
        elif isinstance(layer, nn.Flatten):
            if (layer.start_dim, layer.end_dim) != (1, -1):
                return False
            ndim = 2
    return len(list(model.parameters())) == len(
        list(model.named_parameters(remove_duplicate=False))
    )


def _by_layers(
    network: Network,
    weights: Weights,
    inputs: Tensor,
    targets: Tensor,
    clip: Clip,
    into: Weights,
    member: Tensor | None,
) -> Seen:
    """The gradients of a layer are outer products of what it met and of the slopes by what it made of that."""
    own, x = {**network.fixed, **weights}, inputs.detach()
    passed = list[tuple[str, Tensor, Callable[[Tensor], Tensor]]]()
    for name, layer in network.module._modules.items():  # named_children() leaves out repeated ones
        if isinstance(layer, nn.Linear):
            weight = own[f"{name}.weight"]
            passed.append((name, x, partial(torch.matmul, other=weight)))
            x = nn.functional.linear(x, weight, own.get(f"{name}.bias"))
        else:
            x, backward = _elementwise(cast(nn.Module, layer), x)
            passed.append((name, x, backward))
    slope, losses = _slopes(network.loss, x, targets)
    trained = {name.rpartition(".")[0] for name in weights}
    outer = dict[str, tuple[Tensor, Tensor]]()
    squares = torch.zeros(len(targets), dtype=torch.float64, device=x.device)
    for name, met, backward in reversed(passed):
        if name in trained:
            outer[name] = met, slope
            by_weight, by_bias = (float(f"{name}.{kind}" in weights) for kind in ("weight", "bias"))
            squares = squares + row_squares(slope) * (row_squares(met) * by_weight + by_bias)
        if len(outer) == len(trained):
            break
        slope = backward(slope)
    clipping = clip_factors(squares.sqrt(), clip, x.dtype)
    counted = kept(clipping, member)
    scale = without_subnormals((clipping.factors / clip.divisor).to(x.dtype))[:, None]
    for name, (met, slope) in outer.items():
        scaled = without_subnormals(counted(slope) * scale)
        if f"{name}.weight" in weights:  # the views of weights lie input-major
            view, met = into[f"{name}.weight"].mT, counted(met).mT
            direct = member is None and view.is_contiguous()
            torch.mm(met, scaled, out=view) if direct else view.copy_(met @ scaled)
        if f"{name}.bias" in weights:
            into[f"{name}.bias"].copy_(scaled.sum(dim=0))
    if clipping.scale != 1.0:
        for view in into.values():
            view.mul_(clipping.scale)
    return Seen(into, clipping, mean_over(losses, member), x)


def _elementwise(layer: nn.Module, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """What a layer makes of ``x``, which it may not overwrite, and how slopes go back through it."""
    in_place = getattr(layer, "inplace", False)
    made: Any = torch.func.vjp(lambda given: layer(given.clone() if in_place else given), x)
    return made[0], lambda slope: made[1](slope)[0]


def judged(
    loss: Loss, outputs: Float[Tensor, "batch ..."], labels: Tensor
) -> tuple[float, float, Tensor]:
    """Mean loss and error of some examples, and the gradient of the mean loss by their outputs, on a CPU."""
    if (
        loss.compiled is not None
    ):  # it goes from example to example, and was compared with the loss at set-up
        return loss.slope(outputs, labels)
    slope, losses = _slopes(loss, outputs, labels)
    error = in_error(outputs, labels).double().mean()
    return float(losses.mean()), float(error), slope / len(labels)


def _slopes(loss: PerExampleLoss, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of each example's loss by its outputs, and the losses."""
    return slopes_of_each(lambda own, y: loss(own[None], y[None])[0], outputs, targets)


def mean_over(values: Float[Tensor, " batch"], member: Tensor | None) -> Float[Tensor, ""]:
    """The mean of the members' values, 0 where there are none; of all, where ``member`` is None."""
    if member is None:
        return values.mean()
    return values.masked_fill(~member, 0.0).sum() / member.sum().clamp(min=1)


def gradients_of_each(
    network: Network,
    weights: Weights,
    inputs: Shaped[Tensor, "batch ..."],
    targets: Shaped[Tensor, "batch ..."],
) -> tuple[Weights, Float[Tensor, " batch"], Any]:
    """The gradient of each example's loss by the weights, the losses, and the outputs."""

    def loss_of_one(w: Weights, x: Tensor, y: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        outputs = call_with(network.module, {**network.fixed, **w}, x[None])
        value = network.loss(outputs, y[None])[0]
        # for what is no tensor, as the weights that attention leaves out
        none = value.new_zeros(())
        own = tree_map(lambda x: x.detach()[0] if isinstance(x, Tensor) else none, outputs)
        return value, (value.detach(), own)

    given = {name: w.detach() for name, w in weights.items()}, inputs, targets
    of_one = torch.func.grad(loss_of_one, has_aux=True)
    rows, (losses, outputs) = side_by_side(of_one, *given, in_dims=(None, 0, 0))
    return rows, losses, outputs


def slopes_of_each(loss: LossOfOne, outputs: Any, others: Any) -> tuple[Any, Tensor]:
    """Differentiate each example's loss by its own outputs.

    Args:
        outputs: a floating-point tensor (n, ...) with n at least 1, or a structure of these.
        others: likewise, what else the loss looks at: targets, masks, outputs without a gradient.

    Returns:
        The gradients, in the shapes of ``outputs``, and the losses, shape (n,): by autograd through losses under
        ``vmap``, which is quickest, or inside of a ``vmap`` by one of ``grad``. Where ``vmap`` cannot run the loss, one
        example follows the other.
    """

    def with_value(own: Any, rest: Any) -> tuple[Tensor, Tensor]:
        value = loss(own, rest)
        return value, value.detach()

    of_one = torch.func.grad(with_value, has_aux=True)
    given = tree_map(lambda x: x.detach(), (outputs, others))
    for together in (partial(_slopes_together, loss), partial(side_by_side, of_one)):
        with suppress(*_NO_VMAP):
            return together(*given)
    each = range(len(tree_leaves(outputs)[0]))
    found = [of_one(*tree_map(lambda x, i=i: x[i], given)) for i in each]
    return tree_map(lambda *rows: torch.stack(rows), *found)


def _slopes_together(loss: LossOfOne, outputs: Any, others: Any) -> tuple[Any, Tensor]:
    """The same of the sum of all losses, none of which sees another example's outputs under ``vmap``."""
    leaves, form = tree_flatten(outputs)
    own = [x.detach().requires_grad_() for x in leaves]
    with torch.enable_grad():  # of copies, into which a loss may write
        losses = side_by_side(loss, tree_unflatten([x.clone() for x in own], form), others)
        slopes = torch.autograd.grad(losses, own, torch.ones_like(losses), materialize_grads=True)
    return tree_unflatten(slopes, form), losses.detach()


def slopes_of_outputs(
    loss: PerExampleLoss, outputs: Any, targets: Tensor
) -> tuple[list[Tensor | None], Tensor]:
    """Differentiate each example's loss by its own part of a network's outputs.

    Args:
        outputs: a tensor, or a structure of tensors, each (n, ...).
        targets: (n, ...).

    Returns:
        The gradients by every output, None for one that has none, and the losses, shape (n,).
    """
    leaves, form = tree_flatten(outputs)
    moving = {place: x for place, x in enumerate(leaves) if x.requires_grad}

    def loss_of_one(own: dict[int, Tensor], rest: list[Tensor]) -> Tensor:
        *rows, target = [own.get(place, x)[None] for place, x in enumerate(rest)]
        return loss(tree_unflatten(rows, form), target)[0]

    slopes, losses = slopes_of_each(loss_of_one, moving, [*leaves, targets])
    return [slopes.get(place) for place in range(len(leaves))], losses
