"""Layers whose weights are drawn anew for every example: the functions of torch that the passes replace.

Each has the arguments of its namesake in ``torch.nn.functional`` after the draws; parameters are laws. Outputs have the
law of the layer with a full draw of its weights for every example, in real arithmetic.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from pacdp.stochastic.columns import joint_is_cheaper, joint_noise
from pacdp.stochastic.law import Law
from pacdp.stochastic.noise import Draws, normals

Sizes = int | tuple[int, ...]
"""One for all directions, or one for each."""


class NotByExample(ValueError):
    """The network cannot be taken apart into layers that are each used once an example."""


def linear(draws: Draws, input: Tensor, weight: Law, bias: Law | None = None) -> Tensor:
    """Local reparameterisation of [batch, features]; other inputs share one draw among all positions of an example."""
    require_batch(draws, input, least=2)
    if input.ndim > 2:
        return _linear_over_steps(draws, input.flatten(1, -2), weight, bias).unflatten(
            1, input.shape[1:-1]
        )
    if not weight.random:
        return _by_channel(F.linear(input, weight.mean), None, bias, draws)
    out = F.linear(input, weight.mean, None if bias is None else bias.mean)
    bias_std = input.new_zeros(()) if bias is None else bias.std.reshape(-1)
    if weight.one_std_a_row:
        # no squares of standard deviations, which underflow
        length = torch.linalg.vector_norm(weight.mixed(input), dim=1, keepdim=True)
        scale = torch.hypot(weight.std.reshape(-1) * length, bias_std)
    else:
        top = weight.std.amax().clamp_min(torch.finfo(weight.std.dtype).tiny)
        squares = F.linear(input.square(), (weight.std / top).square().expand(weight.mean.shape))
        scale = torch.hypot(top * squares.sqrt(), bias_std)
    return out.addcmul_(scale, normals(draws, weight.stream, out.shape[1], like=out))


def conv2d(
    draws: Draws,
    input: Tensor,
    weight: Law,
    bias: Law | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """One kernel an example, the same at all of its positions."""
    require_batch(draws, input, least=4)
    outputs, _, *kernel = tuple(weight.mean.shape)
    steps, spread = _pair(stride), _pair(dilation)
    sides = _sides(padding, kernel, spread)
    if any(sides):
        input = F.pad(input, sides)
    height, width = (
        (input.shape[2 + i] - spread[i] * (kernel[i] - 1) - 1) // steps[i] + 1 for i in range(2)
    )
    fan_in, positions = weight.mean[0].numel(), height * width
    if not weight.random:
        out = F.conv2d(input, weight.mean, None, steps, 0, spread, groups)
    elif joint_is_cheaper(weight, fan_in=fan_in, positions=positions):
        columns = F.unfold(input, tuple(kernel), dilation=spread, stride=steps).unflatten(
            1, (groups, -1)
        )
        out = joint_noise(weight, columns, draws).unflatten(2, (height, width))
        out += F.conv2d(input, weight.mean, None, steps, 0, spread, groups)
    else:  # a group of channels an example
        batch = len(input)
        kernels = weight.draw(draws).flatten(0, 1)
        merged = F.conv2d(
            input.reshape(1, -1, *input.shape[2:]), kernels, None, steps, 0, spread, batch * groups
        )
        out = merged.view(batch, outputs, height, width)
    return _by_channel(out, None, bias, draws)


def group_norm(
    draws: Draws,
    input: Tensor,
    num_groups: int,
    weight: Law | None = None,
    bias: Law | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """One scale and shift a channel and example."""
    require_batch(draws, input, least=2)
    return _by_channel(F.group_norm(input, num_groups, eps=eps), weight, bias, draws)


def batch_norm(
    draws: Draws,
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Law | None = None,
    bias: Law | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """With running statistics, which are fixed numbers; one scale and shift a channel and example."""
    require_batch(draws, input, least=2)
    if training or running_mean is None:
        raise NotByExample("batch normalisation by the statistics of the batch mixes its examples")
    return _by_channel(F.batch_norm(input, running_mean, running_var, eps=eps), weight, bias, draws)


def layer_norm(
    draws: Draws,
    input: Tensor,
    normalized_shape: tuple[int, ...],
    weight: Law | None = None,
    bias: Law | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """One scale and shift an element and example, the same at all positions."""
    require_batch(draws, input, least=1 + len(normalized_shape))
    out = F.layer_norm(input, normalized_shape, eps=eps)
    positions = [1] * (input.ndim - 1 - len(normalized_shape))
    return _affine(out, weight, bias, draws, (-1, *positions, *normalized_shape))


def _linear_over_steps(draws: Draws, input: Tensor, weight: Law, bias: Law | None) -> Tensor:
    """[batch, steps, features], one draw for all steps of an example."""
    steps, features = input.shape[1:]
    if joint_is_cheaper(weight, fan_in=features, positions=steps):
        out = joint_noise(weight, weight.mixed(input).mT[:, None], draws).mT + F.linear(
            input, weight.mean
        )
    elif weight.random:
        out = torch.matmul(input, weight.draw(draws).mT)
    else:
        out = F.linear(input, weight.mean)
    return out if bias is None else out.add_(bias.draw(draws)[:, None])


def _by_channel(out: Tensor, weight: Law | None, bias: Law | None, draws: Draws) -> Tensor:
    """``out``, a tensor of our own, times the scale of each channel and example plus their shift, in place."""
    return _affine(out, weight, bias, draws, (*out.shape[:2], *[1] * (out.ndim - 2)))


def _affine(
    out: Tensor, weight: Law | None, bias: Law | None, draws: Draws, shape: tuple[int, ...]
) -> Tensor:
    """The same with scales and shifts of this shape."""
    for law, apply in ((weight, out.mul_), (bias, out.add_)):
        if law is not None:
            apply(law.draw(draws).reshape(shape))
    return out


def require_batch(draws: Draws, input: Tensor, *, least: int) -> None:
    """Refuse an input whose first dimension is not the examples; raises NotByExample."""
    if input.ndim < least or len(input) != len(draws.ticks):
        raise NotByExample(
            f"a layer meets a tensor of shape {tuple(input.shape)}, whose first dimension is not the examples"
        )


def _pair(value: Sizes) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[-1])


def _sides(padding: Sizes | str, kernel: list[int], dilation: tuple[int, int]) -> list[int]:
    """Left, right, top, bottom, as ``F.pad`` takes them."""
    if padding == "valid":
        return [0, 0, 0, 0]
    if isinstance(padding, str):
        total = [dilation[i] * (kernel[i] - 1) for i in (1, 0)]
        return [side for each in total for side in (each // 2, each - each // 2)]
    rows, columns = _pair(padding)
    return [columns, columns, rows, rows]
