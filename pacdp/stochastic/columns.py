r"""A random matrix per example times that example's columns, exactly in law.

A convolution is W X_b for the patches X_b [fan-in, positions] of example b, a linear layer the same with one position,
or one a time step. Within an example every position sees the same draw of W. With W = M + s ∘ Ξ there are two exact ways:

- *kernels*: draw Ξ, fan-in normal numbers for each output, and multiply;
- *joint*: where the standard deviation s_o is one number for each output o, row o of s ∘ Ξ X_b is Gaussian with
  covariance s_o² X_bᵀX_b. With RᵀR = X_bᵀX_b (Cholesky) it is s_o g R for a standard normal g of only ``positions``
  numbers. At one position this is the local reparameterisation of Kingma, Salimans and Welling (2015): s_o ‖x‖ g.

Noise that is independent at every position, the local reparameterisation of convolutions in the literature, has another
law: its covariance between positions is zero.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from pacdp.stochastic.law import Law
from pacdp.stochastic.noise import Draws, normals

_NORMAL_COST = 20
"""What a normal number costs, in multiplications of a matrix product."""


def product(
    weight: Law, columns: Float[Tensor, "batch groups fan_in positions"], draws: Draws
) -> Float[Tensor, "batch outputs positions"]:
    """W_b X_b, with W_b an independent draw of ``weight`` [outputs, ...] for each example; outputs lie in groups."""
    batch, groups, fan_in, positions = columns.shape
    outputs = weight.mean.shape[0] // groups
    mean = weight.mean.reshape(groups, outputs, fan_in)
    if not weight.random:
        return torch.matmul(mean, columns).flatten(1, 2)
    if not (weight.one_std_a_row and joint_is_cheaper(outputs, fan_in, positions)):
        kernels = weight.draw(draws).reshape(batch, groups, outputs, fan_in)
        return torch.matmul(kernels, columns).flatten(1, 2)
    noise = normals(draws, weight.stream, groups * outputs * positions, like=columns)
    noise = torch.matmul(noise.view(batch, groups, outputs, positions), gram_root(columns))
    noise = noise.mul_(weight.std.reshape(-1, 1) if weight.std.numel() == 1 else weight.std.reshape(groups, -1, 1))
    return noise.add_(torch.matmul(mean, columns)).flatten(1, 2)


def joint_is_cheaper(outputs: int, fan_in: int, positions: int) -> bool:
    """Whether one Cholesky factor an example costs less than all of the kernel's normal numbers (shapes decide)."""
    kernels = outputs * fan_in * (_NORMAL_COST + positions)
    joint = 2 * fan_in * positions**2 + 3 * positions**3 + outputs * positions * (_NORMAL_COST + positions)
    return joint < kernels


def gram_root(columns: Float[Tensor, "*batch fan_in positions"]) -> Float[Tensor, "*batch positions positions"]:
    """Upper triangular R with RᵀR = XᵀX, zero in the rows of directions that X does not have.

    In float64 whatever the type of X, so that what is taken for no direction, pivots below 1e-13 of the largest squared
    length, is a standard deviation beneath the rounding of single precision.
    """
    wide = columns.double()
    rest = wide.mT @ wide
    positions = rest.shape[-1]
    least = rest.diagonal(dim1=-2, dim2=-1).amax(dim=-1) * 1e-13
    root = torch.zeros_like(rest)
    for k in range(positions):
        pivot = rest[..., k, k]
        row = rest[..., k, k:] * torch.where(pivot > least, pivot, math.inf).rsqrt()[..., None]
        root[..., k, k:] = row
        if k + 1 < positions:
            rest[..., k + 1 :, k + 1 :].sub_(row[..., 1:, None] * row[..., None, 1:])
    return root.to(columns.dtype)
