"""Euler steps of Langevin diffusions, in place on flat vectors; samplers wrap them."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def local_step_(
    local: Float[Tensor, " dim"],
    centre: Float[Tensor, " dim"],
    gradient: Float[Tensor, " dim"],
    noise: Float[Tensor, " dim"],
    generator: torch.Generator,
    *,
    rate: float,
    gamma: float,
    tau: float,
) -> None:
    """w' ← w' - h (∇R̂ + γ (w' - w)) + √(2h/τ) N(0, I): one step towards exp(-τ R̂(w')) N(w'; w, (γτ)⁻¹ I).

    ``rate`` is h; ``noise`` is scratch memory that the draw overwrites.
    """
    noise.normal_(generator=generator)
    local.lerp_(centre, rate * gamma)
    local.add_(gradient, alpha=-rate).add_(noise, alpha=math.sqrt(2.0 * rate / tau))
