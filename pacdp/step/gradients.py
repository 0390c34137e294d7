"""The reference: sums of gradients clipped example by example, in which no path from one example to another exists.

    into ← (1/divisor) Σ_i min(1, C/‖g_i‖) g_i

An example's gradient is taken of its own loss, of its own outputs, alone: a loss or a network that looks at the rest of
the batch has no way in. Networks made of fully connected layers need no gradient of a single example: that of a layer
is the outer product δ_i x_iᵀ of the derivative by the layer's output and its input, of norm ‖δ_i‖ ‖x_i‖, and the
clipped sum is one product of matrices (Goodfellow 2015). That holds for layers which are what their types say, each
used once; all other networks go through ``torch.func.vmap``.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeGuard, cast

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from pacdp.layers.plain import call_with, is_plain, is_plain_linear
from pacdp.losses import Loss, PerExampleLoss
from pacdp.step.clip import (
    Clip,
    Weights,
    clip_factors,
    joint_norms,
    row_norms,
    row_squares,
    without_subnormals,
)
from pacdp.step.precision import full_precision

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


class Seen(NamedTuple):
    """What a clipped sum saw of each example; private."""

    mean_loss: Float[Tensor, ""]
    outputs: Float[Tensor, "batch ..."]
    finite: Bool[Tensor, " batch"]
    """Whose gradient was finite and counts."""
    squares: Float[Tensor, " batch"]
    """Squared norm of each gradient before clipping, float64; not finite where the gradient is not."""


def clipped_gradient(
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    inputs: Shaped[Tensor, "batch ..."],
    targets: Shaped[Tensor, "batch ..."],
    loss: PerExampleLoss,
    clip: Clip,
    *,
    into: Mapping[str, Tensor],
    member: Bool[Tensor, " batch"] | None = None,
) -> Seen:
    """Write the clipped sum over its divisor into the tensors ``into``, the gradients by the parameters of that name.

    Formal guarantee: without one of the examples the exact sum of the written terms moves by at most
    clip.norm / clip.divisor in Euclidean norm, whatever the example: one whose gradient is not finite counts as zero.

    Args:
        tensors: parameters and buffers by their names in ``model``; the model's own where one is not given.
        member: whose gradients are summed and whose losses make the mean, in a batch whose size is not that of its
            sample; all, where None. Nothing is then read back from the device, and ``torch.func.vmap`` may go over
            many such sums.
    """
    if len(targets) == 0:
        for view in into.values():
            view.zero_()
        empty = next(iter(into.values())).new_zeros(0)
        return Seen(empty.sum(), empty, empty.bool(), empty.double())
    if fully_connected(model, inputs.ndim):
        return _by_layers(model, tensors, inputs, targets, loss, clip, into, member)
    return _by_examples(model, tensors, inputs, targets, loss, clip, into, member)


def require_true_sums(
    model: nn.Module,
    parameters: Mapping[str, Tensor],
    inputs: Shaped[Tensor, "batch ..."],
    targets: Shaped[Tensor, "batch ..."],
    loss: PerExampleLoss,
) -> bool:
    """Compare the sum of a few examples' gradients, clipped to no effect, with what autograd makes of ``model``.

    Returns:
        Whether there was something to compare: False where the gradient is not finite.

    Raises:
        ValueError: they differ beyond rounding, or the gradient of a single example cannot be taken.
    """
    found = {name: torch.zeros_like(value) for name, value in parameters.items()}
    try:
        clipped_gradient(model, parameters, inputs, targets, loss, NO_CLIPPING, into=found)
    except RuntimeError as error:
        raise ValueError(
            f"the gradient of a single example cannot be taken ({str(error).splitlines()[0]}): with clip_norm the "
            "network and the loss must run under torch.func.vmap, without branches on their data and without state"
        ) from error
    leaves = {name: value.detach().clone().requires_grad_() for name, value in parameters.items()}
    with torch.enable_grad():
        total = loss(call_with(model, leaves, inputs.clone()), targets).sum()
        slopes = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    size = math.sqrt(sum(float(row_squares(slope[None])) for slope in slopes if slope is not None))
    if not math.isfinite(size):
        return False
    for (name, own), slope in zip(found.items(), slopes, strict=True):
        away = own if slope is None else own - slope
        if not math.sqrt(float(row_squares(away[None]))) <= _TOLERANCE * size:
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
    model: nn.Sequential,
    tensors: Mapping[str, Tensor],
    inputs: Tensor,
    targets: Tensor,
    loss: PerExampleLoss,
    clip: Clip,
    into: Mapping[str, Tensor],
    member: Tensor | None = None,
) -> Seen:
    own = {name: tensors.get(name, p).detach() for name, p in model.named_parameters()}
    met: list[tuple[str, nn.Module, Tensor, Tensor]] = []
    x = inputs.detach()
    for name, layer in zip(
        model._modules, model, strict=True
    ):  # named_children() leaves out repeated layers
        before = x
        if isinstance(layer, nn.Linear):
            x = nn.functional.linear(before, own[f"{name}.weight"], own.get(f"{name}.bias"))
        else:  # a copy, or a layer in place would overwrite the outputs of the layer before
            x = layer(before.clone() if getattr(layer, "inplace", False) else before)
        met.append((name, layer, before, x))
    slope, mean = slopes_and_mean(loss, x, targets, member)
    passes: list[tuple[str, Tensor, Tensor]] = []
    squares = torch.zeros(len(targets), dtype=torch.float64, device=x.device)
    lowest = next(k for k, one in enumerate(met) if isinstance(one[1], nn.Linear))
    for k, (name, layer, before, after) in reversed(list(enumerate(met))):
        if k < lowest:
            break
        if not isinstance(layer, nn.Linear):
            slope = _back(layer, slope, before, after)
            continue
        weight, bias = f"{name}.weight" in into, f"{name}.bias" in into
        passes.append((name, before, slope))
        squares = squares + row_squares(slope) * (row_squares(before) * float(weight) + float(bias))
        slope = slope @ own[f"{name}.weight"] if k > lowest else slope
    factors, finite, after, *_ = clip_factors(squares.sqrt(), clip, x.dtype)
    finite = finite if member is None else finite & member
    gone = ~finite[:, None]
    scale = without_subnormals((factors / clip.divisor).to(x.dtype))[:, None]
    whole = (
        member is None and finite.device.type == "cpu" and bool(finite.all())
    )  # a GPU would be waited for
    with full_precision(x.device):
        for name, before, slope in passes:
            scaled = without_subnormals((slope if whole else slope.masked_fill(gone, 0.0)) * scale)
            if f"{name}.weight" in into:  # the views of weights lie input-major
                kept = before if whole else before.masked_fill(gone, 0.0)
                view = into[f"{name}.weight"].mT
                direct = member is None and view.is_contiguous()
                torch.mm(kept.mT, scaled, out=view) if direct else view.copy_(kept.mT @ scaled)
            if f"{name}.bias" in into:
                into[f"{name}.bias"].copy_(scaled.sum(dim=0))
    if after != 1.0:
        for view in into.values():
            view.mul_(after)
    return Seen(mean, x, finite, squares)


def _back(layer: nn.Module, slope: Tensor, before: Tensor, after: Tensor) -> Tensor:
    """The derivative by a layer's inputs, from that by its outputs."""
    if isinstance(layer, nn.ReLU):  # without a second forward pass
        return torch.ops.aten.threshold_backward(slope, after, 0)
    return torch.func.vjp(lambda x: layer(x.clone()), before)[1](slope)[0]


def slopes_and_mean(
    loss: PerExampleLoss, outputs: Tensor, targets: Tensor, member: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The gradient of each example's loss by its outputs, and the mean loss (of the members, where given).

    The compiled form of a loss, where it has one, goes from example to example; it was compared with its function at
    set-up (:func:`pacdp.trials.require_true_slope`).
    """
    if (
        member is None
        and getattr(loss, "compiled", None) is not None
        and outputs.device.type == "cpu"
    ):
        mean, _, slope = cast(Loss, loss).slope(outputs, targets)
        return slope * len(targets), outputs.new_tensor(mean)

    slope_of_one = slope_and_loss(lambda own, y: loss(own[None], y[None])[0])
    slope, losses = torch.func.vmap(slope_of_one)(outputs, targets)
    return slope, mean_over(losses, member)


def slope_and_loss(loss: LossOfOne) -> Callable[[Any, Any], tuple[Any, Tensor]]:
    """From one example's outputs and its other tensors to the gradient of its loss by the outputs, and that loss."""

    def with_value(own: Any, rest: Any) -> tuple[Tensor, Tensor]:
        value = loss(own, rest)
        return value, value.detach()

    return torch.func.grad(with_value, has_aux=True)


def mean_over(values: Float[Tensor, " batch"], member: Tensor | None) -> Float[Tensor, ""]:
    """The mean of the members' values, 0 where there are none; of all, where ``member`` is None."""
    if member is None:
        return values.mean()
    return values.masked_fill(~member, 0.0).sum() / member.sum().clamp(min=1)


def _by_examples(
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    inputs: Tensor,
    targets: Tensor,
    loss: PerExampleLoss,
    clip: Clip,
    into: Mapping[str, Tensor],
    member: Tensor | None = None,
) -> Seen:
    rows, losses, outputs = gradients_of_each(model, tensors, inputs, targets, loss, into)
    norms = joint_norms([row_norms(row) for row in rows.values()])
    factors, finite, after, *_ = clip_factors(norms, clip, losses.dtype)
    finite = finite if member is None else finite & member
    gone = ~finite[:, None]
    scale = without_subnormals((after * factors / clip.divisor).to(losses.dtype))
    with full_precision(losses.device):
        for name, view in into.items():
            flat = rows[name].flatten(1).masked_fill(gone, 0.0)
            view.copy_((scale @ flat).view(view.shape))
    return Seen(mean_over(losses, member), outputs, finite, norms.square())


def gradients_of_each(
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    inputs: Shaped[Tensor, "batch ..."],
    targets: Shaped[Tensor, "batch ..."],
    loss: PerExampleLoss,
    names: Iterable[str],
) -> tuple[Weights, Float[Tensor, " batch"], Any]:
    """The gradient of each example's loss by the parameters of these names, the losses, and the outputs."""
    own = {**dict(model.named_parameters()), **tensors}
    moving = {name: own[name].detach() for name in names}
    fixed = {name: value.detach() for name, value in tensors.items() if name not in moving}

    def loss_of_one(
        weights: dict[str, Tensor], x: Tensor, y: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        outputs = call_with(model, {**fixed, **weights}, x[None])
        value = loss(outputs, y[None])[0]
        return value, (value.detach(), tree_map(lambda each: each.detach()[0], outputs))

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        per_example = torch.func.vmap(
            torch.func.grad(loss_of_one, has_aux=True), in_dims=(None, 0, 0)
        )
        rows, (losses, outputs) = per_example(moving, inputs, targets)
    return rows, losses, outputs
