"""Model inversion: inputs reconstructed from a network's intermediate features.

The attacker searches, for each example, the input whose features are the given ones,

    min_x ‖φ(x) - φ(x*)‖²/‖φ(x*)‖² + smoothness · TV(x),   x in [0, 1]

(Mahendran and Vedaldi 2015, "Understanding deep image representations by inverting them"), by Adam. Wu et al. 2019
(P3SGD) compare networks trained without and with noise in this way; their averages are 27.84 and 27.82 dB. The quality
is the peak signal-to-noise ratio.

No guarantee follows from a low ratio. What the features of an example tell about that example is another question than
what the weights tell about the training data, and differential privacy answers the second only.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from bounds import _check

Images = Float[Tensor, "examples *shape"]
Features = Callable[[Tensor], Tensor]


class Inversion(NamedTuple):
    """Reconstructed inputs and how close they are."""

    reconstructed: Tensor
    """Shape of the inputs."""
    psnr: Float[Tensor, " examples"]
    """Decibels, double precision."""


def psnr(reconstructed: Images, original: Images) -> Float[Tensor, " examples"]:
    """10 log₁₀(1/mean squared error) of each example of numbers in [0, 1], in decibels; infinity where equal."""
    error = (reconstructed.double() - original.double()).flatten(1).square().mean(1)
    return -10.0 * torch.log10(error)


def search_attack(
    features: Features,
    inputs: Images,
    start: Images,
    *,
    steps: int = 500,
    step_size: float = 0.02,
    smoothness: float = 0.0,
) -> Inversion:
    """Reconstruct ``inputs`` by searching for what has their features, all examples at once and each on its own.

    Args:
        features: the part of the network that the attacker sees the outputs of; differentiable, no batch statistics.
        inputs: numbers in [0, 1] whose features the attacker holds; used for those and for the ratio.
        start: where the search begins, such as the mean of public inputs.
        steps: of Adam.
        step_size: Adam's learning rate, in units of the inputs.
        smoothness: weight of the mean absolute difference of neighbours along the last axis, and along the last but one
            where there are two.

    Raises:
        ValueError: no step.
    """
    _check.count(steps=steps)
    with torch.no_grad():
        wanted = features(inputs).flatten(1)
        scale = wanted.square().sum(1).clamp(min=1e-12)
    guess = start.detach().clone().requires_grad_(True)
    adam = torch.optim.Adam([guess], lr=step_size)
    for _ in range(steps):
        distance = (features(guess).flatten(1) - wanted).square().sum(1) / scale
        loss = (distance + smoothness * _roughness(guess)).sum()
        (guess.grad,) = torch.autograd.grad(loss, guess)
        adam.step()
        with torch.no_grad():
            guess.clamp_(0.0, 1.0)
    made = guess.detach()
    return Inversion(made, psnr(made, inputs))


def _roughness(x: Tensor) -> Tensor | int:
    """Mean absolute difference of neighbours, one number an example."""
    axes = [axis for axis in range(max(1, x.dim() - 2), x.dim()) if x.shape[axis] > 1]
    return sum(x.diff(dim=axis).abs().flatten(1).mean(1) for axis in axes)
