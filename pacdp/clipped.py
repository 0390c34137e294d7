"""Sums of gradients clipped example by example, for networks that treat each example by itself.

    into ← (1/divisor) Σ_i min(1, C/‖g_i‖) g_i

Norms are taken in double precision and the radius aimed at is C(1 - 64 · 2⁻²³), which covers the rounding of norm,
factor and product, so that no example contributes more than C. An example whose gradient is not finite counts as zero.
(A single-precision norm falls short by 3e-5 for a million numbers, and what it clips is longer than C.)

Networks made of fully connected layers need no gradient of a single example: that of a layer is the outer product
δ_i x_iᵀ of the derivative by the layer's output and its input, of norm ‖δ_i‖ ‖x_i‖, and the clipped sum is one product
of matrices (Goodfellow 2015). That holds for layers which are what their types say, each used once; all other networks
go through ``torch.func.vmap``. Either way an example's gradient is taken of its own loss alone, so that a loss which
looks at the rest of the batch has no way in.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple, TypeGuard

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pacdp.losses import Loss, zero_one
from pacdp.plain import call_with, is_plain, is_plain_linear

_ELEMENTWISE = (nn.Flatten, nn.Identity, nn.ReLU, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.ELU, nn.GELU, nn.SiLU)
_MARGIN = 1.0 - 64.0 * 2.0**-23
_NO_CLIPPING = 1e30
_TOLERANCE = 1e-3
_error = zero_one()


def clipped_gradient(
    model: nn.Module,
    parameters: Mapping[str, Tensor],
    inputs: Float[Tensor, "batch ..."],
    labels: Int[Tensor, " batch"],
    loss: Loss,
    *,
    clip_norm: float,
    divisor: float,
    into: Mapping[str, Tensor],
) -> Float[Tensor, " 2"]:
    """Write the clipped sum over ``divisor`` into the tensors ``into``; returns mean loss and mean 0-1 loss.

    Formal guarantee: without one of the examples the exact sum of the written terms moves by at most
    clip_norm / divisor in Euclidean norm, whatever the example.

    Args:
        parameters: the weights by the names of ``model.named_parameters()``.
    """
    if len(labels) == 0:
        for view in into.values():
            view.zero_()
        return next(iter(into.values())).new_zeros(2)
    if _fully_connected(model, inputs.ndim):
        return _by_layers(model, parameters, inputs, labels, loss, clip_norm, divisor, into)
    return _by_examples(model, parameters, inputs, labels, loss, clip_norm, divisor, into)


def require_true_sums(
    model: nn.Module,
    parameters: Mapping[str, Tensor],
    inputs: Float[Tensor, "batch ..."],
    labels: Int[Tensor, " batch"],
    loss: Loss,
) -> None:
    """Compare the sum of a few examples' gradients, clipped to no effect, with what autograd makes of ``model``.

    Raises:
        ValueError: they differ beyond rounding, or the gradient of a single example cannot be taken.
    """
    found = {name: torch.zeros_like(value) for name, value in parameters.items()}
    try:
        clipped_gradient(model, parameters, inputs, labels, loss, clip_norm=_NO_CLIPPING, divisor=1.0, into=found)
    except RuntimeError as error:
        raise ValueError(
            f"the gradient of a single example cannot be taken ({str(error).splitlines()[0]}): with clip_norm the "
            "network and the loss must run under torch.func.vmap, without branches on their data and without state"
        ) from error
    leaves = {name: value.detach().clone().requires_grad_() for name, value in parameters.items()}
    with torch.enable_grad():
        total = loss(call_with(model, leaves, inputs.clone()), labels).sum()
        slopes = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    size = math.sqrt(sum(float(_squares(slope[None])) for slope in slopes if slope is not None))
    for (name, own), slope in zip(found.items(), slopes, strict=True):
        away = own if slope is None else own - slope
        if math.isfinite(size) and not math.sqrt(float(_squares(away[None]))) <= _TOLERANCE * size:
            raise ValueError(f"clipped gradients of parameter {name} are not those of the network: report this network")


class _Pass(NamedTuple):
    name: str
    inputs: Tensor
    outputs: Tensor


def _fully_connected(model: nn.Module, ndim: int) -> TypeGuard[nn.Sequential]:
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
    return len(list(model.parameters())) == len(list(model.named_parameters(remove_duplicate=False)))


def _by_layers(
    model: nn.Sequential,
    parameters: Mapping[str, Tensor],
    inputs: Tensor,
    labels: Tensor,
    loss: Loss,
    clip_norm: float,
    divisor: float,
    into: Mapping[str, Tensor],
) -> Tensor:
    passes: list[_Pass] = []
    x = inputs
    with torch.enable_grad():
        for name, layer in zip(model._modules, model, strict=True):  # named_children() leaves out repeated layers
            if isinstance(layer, nn.Linear):
                before = x
                x = nn.functional.linear(before, parameters[f"{name}.weight"], parameters.get(f"{name}.bias"))
                if not x.requires_grad:
                    x.requires_grad_()
                passes.append(_Pass(name, before.detach(), x))
            elif getattr(layer, "inplace", False):
                x = layer(x.clone())  # or it would overwrite what stands for the outputs of the layer before
            else:
                x = layer(x)
        # of each example's own loss; the layers are known not to mix examples
        by_logits, losses = _slopes(loss, x.detach(), labels)
        slopes = torch.autograd.grad(x, [one.outputs for one in passes], by_logits)
    squares = torch.zeros(len(labels), dtype=torch.float64, device=x.device)
    for one, slope in zip(passes, slopes, strict=True):
        bias = f"{one.name}.bias" in into
        squares += _squares(slope) * (_squares(one.inputs) + float(bias))
    scale, finite = _factors(squares.sqrt(), clip_norm, divisor, x.dtype)
    for one, slope in zip(passes, slopes, strict=True):
        scaled = torch.where(finite[:, None], slope, 0.0) * scale[:, None]
        # the views of weights lie input-major
        into[f"{one.name}.weight"].copy_((torch.where(finite[:, None], one.inputs, 0.0).mT @ scaled).mT)
        if f"{one.name}.bias" in into:
            into[f"{one.name}.bias"].copy_(scaled.sum(dim=0))
    return torch.stack([losses.mean(), _error(x.detach(), labels).mean()])


def _slopes(loss: Loss, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of each example's loss by its logits, and the losses."""

    def loss_of_one(own: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        value = loss(own[None], y[None])[0]
        return value, value.detach()

    return torch.func.vmap(torch.func.grad(loss_of_one, has_aux=True))(logits, labels)


def _by_examples(
    model: nn.Module,
    parameters: Mapping[str, Tensor],
    inputs: Tensor,
    labels: Tensor,
    loss: Loss,
    clip_norm: float,
    divisor: float,
    into: Mapping[str, Tensor],
) -> Tensor:
    def loss_of_one(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        logits = call_with(model, weights, x[None])
        value = loss(logits, y[None])[0]
        return value, (value.detach(), _error(logits.detach(), y[None])[0])

    per_example = torch.func.vmap(torch.func.grad(loss_of_one, has_aux=True), in_dims=(None, 0, 0))
    gradients, (losses, errors) = per_example(dict(parameters), inputs, labels)
    rows = {name: gradient.flatten(1) for name, gradient in gradients.items()}
    squares = torch.stack([_squares(row) for row in rows.values()]).sum(dim=0)
    scale, finite = _factors(squares.sqrt(), clip_norm, divisor, losses.dtype)
    for name, view in into.items():
        view.copy_((scale @ torch.where(finite[:, None], rows[name], 0.0)).view(view.shape))
    return torch.stack([losses.mean(), errors.mean()])


def _squares(rows: Tensor) -> Float[Tensor, " batch"]:
    return torch.linalg.vector_norm(rows.flatten(1), dim=1, dtype=torch.float64).square()


def _factors(norms: Tensor, clip_norm: float, divisor: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    finite = norms.isfinite()
    radius = clip_norm * _MARGIN
    factors = (radius / norms).clamp(max=1.0) / divisor
    return torch.where(finite, factors, 0.0).to(dtype), finite
