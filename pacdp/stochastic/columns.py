r"""Random matrices, one an example, times that example's columns: noise drawn by its joint law.

A convolution is W X for the patches X [fan-in, positions] of an example, a linear layer the same with one position, or
one a time step. Within an example every position sees the same draw of W. Where the standard deviation s_o is one
number for each output o, row o of the noise is Gaussian with covariance s_o² XᵀX; with RᵀR = XᵀX (Cholesky) it is
s_o g R for a standard normal g of ``positions`` numbers, where the kernels themselves have fan-in of them. At one
position this is the local reparameterisation of Kingma, Salimans and Welling (2015): s_o ‖x‖ g.

Noise that is independent at every position, the local reparameterisation of convolutions in the literature, has another
law: its covariance between positions is zero.
"""

import math
from typing import no_type_check

import torch
from jaxtyping import Float
from torch import Tensor

from pacdp.chains.native import threads
from pacdp.random.kernels import kernel
from pacdp.stochastic.law import Law
from pacdp.stochastic.noise import Draws, normals

_NORMAL, _GRAM, _ROOT = 20, 4, 12
"""What a normal number, and a product in XᵀX or its factor, cost in products of a single-precision matrix product."""
LEAST_PIVOT = 1e-13
"""Of the largest squared length of a column: below, a direction that X does not have."""


def joint_is_cheaper(weight: Law, *, fan_in: int, positions: int) -> bool:
    """Whether ``weight`` has the joint form and that costs less than its kernels; shapes alone decide."""
    outputs = weight.mean.shape[0]
    kernels = outputs * fan_in * (_NORMAL + positions)
    joint = (
        outputs * positions * (fan_in + positions + _NORMAL)
        + _GRAM * fan_in * positions**2
        + _ROOT * positions**3
    )
    return weight.random and weight.one_std_a_row and joint < kernels


def joint_noise(
    weight: Law, columns: Float[Tensor, "batch groups fan_in positions"], draws: Draws
) -> Float[Tensor, "batch outputs positions"]:
    """(W - E W) X for an independent draw W of ``weight`` [outputs, ...] for each example; outputs lie in groups.

    Raises no error where the standard deviation varies within a row: ask :func:`joint_is_cheaper` first.
    """
    batch, groups, _, positions = columns.shape
    outputs = weight.mean.shape[0] // groups
    noise = normals(draws, weight.stream, groups * outputs * positions, like=columns)
    noise = torch.matmul(noise.view(batch, groups, outputs, positions), gram_root(columns)).flatten(
        1, 2
    )
    return noise.mul_(weight.std.reshape(-1, 1))


def gram_root(
    columns: Float[Tensor, "*batch fan_in positions"],
) -> Float[Tensor, "*batch positions positions"]:
    """Upper triangular R with RᵀR = XᵀX, zero in the rows of directions that X does not have.

    In float64 whatever the type of X, so that what is taken for no direction is a standard deviation beneath the
    rounding of single precision.
    """
    wide = columns.double()
    gram = wide.mT @ wide
    if gram.device.type == "cpu":
        root = torch.zeros_like(gram)
        positions = gram.shape[-1]
        many = gram.view(-1, positions, positions).numpy()
        threads.each(
            _roots,
            len(many),
            many,
            root.view(-1, positions, positions).numpy(),
            LEAST_PIVOT,
            operations=gram.numel() * positions,
        )
    else:
        root = gram_root_of(gram)
    return root.to(columns.dtype)


@kernel()
@no_type_check
def _roots(first, last, gram, out, least_pivot):
    """Cholesky's upper triangular factors of [batch, d, d], from ``first`` to ``last``, into ``out``, zero before.

    Rows of pivots that vanish stay zero.
    """
    d = gram.shape[1]
    for b in range(first, last):
        rest, root = gram[b], out[b]
        least = 0.0
        for k in range(d):
            least = max(least, rest[k, k] * least_pivot)
        for k in range(d):
            if rest[k, k] > least:
                scale = 1.0 / math.sqrt(rest[k, k])
                for j in range(k, d):
                    root[k, j] = rest[k, j] * scale
                for i in range(k + 1, d):
                    for j in range(i, d):
                        rest[i, j] -= root[k, i] * root[k, j]


def gram_root_of(rest: Tensor) -> Tensor:
    """What the compiled factor computes, in torch; overwrites its argument."""
    least = rest.diagonal(dim1=-2, dim2=-1).amax(dim=-1) * LEAST_PIVOT
    root = torch.zeros_like(rest)
    for k in range(rest.shape[-1]):
        pivot = rest[..., k, k]
        row = rest[..., k, k:] * torch.where(pivot > least, pivot, math.inf).rsqrt()[..., None]
        root[..., k, k:] = row
        rest[..., k + 1 :, k + 1 :].sub_(row[..., 1:, None] * row[..., None, 1:])
    return root
