"""Model inversion: inputs reconstructed from a network's intermediate features, or from its weights alone.

Three attackers. One fits a linear decoder from features to inputs on public data. The second searches, for each
example, the input whose features are the given ones,

    min_x ‖φ(x) - φ(x*)‖²/‖φ(x*)‖² + smoothness · TV(x),   x in [low, high]

(Mahendran and Vedaldi 2015, "Understanding deep image representations by inverting them"), by Adam. Wu et al. 2019
(P3SGD) compare networks trained without and with noise in this way; their averages are 27.84 and 27.82 dB. The third
holds no example: it climbs to an input that the network takes for a class,

    max_x log p(c | x)/(1 - p(c | x)) - smoothness · TV(x),   x in [low, high]

(after Fredrikson, Jha and Ristenpart 2015, who minimise 1 - p), by steps of fixed length. The quality is the peak
signal-to-noise ratio; for the third, against a class's mean or the training image that comes closest.

No guarantee follows from a low ratio. What the features of an example tell about that example, which the first two
measure, is another question than what the weights tell about the training data, and differential privacy answers the
second only.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from bounds import _check

Features = Callable[[Tensor], Tensor]
_PAIRS = 1 << 24
"""Most numbers of differences between images held at a time."""


class Inversion(NamedTuple):
    """Reconstructed inputs and how close they are."""

    reconstructed: Tensor
    """Shape of the inputs."""
    psnr: Float[Tensor, " examples"]
    """Decibels, double precision."""


def psnr(
    reconstructed: Float[Tensor, "examples *shape"],
    original: Float[Tensor, "examples *shape"],
    *,
    peak: float = 1.0,
) -> Float[Tensor, " examples"]:
    """10 log₁₀(peak²/mean squared error) of each example, in decibels; infinity where equal.

    Args:
        reconstructed: the attacker's.
        original: the truth.
        peak: length of the inputs' range, 1 for pixels in [0, 1].

    Raises:
        ValueError: a peak that is not positive.
    """
    _check.positive(peak=peak)
    error = (reconstructed.double() - original.double()).flatten(1).square().mean(1)
    return 10.0 * torch.log10(peak * peak / error)


@torch.no_grad()
def decoder_attack(
    features: Features,
    inputs: Float[Tensor, "examples *shape"],
    public: Float[Tensor, "public *shape"],
    *,
    ridge: float = 1e-3,
    peak: float = 1.0,
) -> Inversion:
    """Reconstruct ``inputs`` by ridge regression of inputs on features, fitted to ``public``.

    Args:
        features: the part of the network that the attacker sees the outputs of.
        inputs: whose features the attacker holds.
        public: inputs of the same kind that the attacker owns.
        ridge: penalty on squared weights, relative to the mean squared feature.
        peak: see :func:`psnr`.

    Raises:
        ValueError: a ridge that is not positive, or features that are not finite.
    """
    _check.positive(ridge=ridge)
    known, seen = features(public).flatten(1).double(), features(inputs).flatten(1).double()
    if not bool(torch.isfinite(known).all() and torch.isfinite(seen).all()):
        raise ValueError("features must be finite, got a NaN or an infinity")
    centre, middle = known.mean(0), public.flatten(1).double().mean(0)
    deviations = known - centre
    gram = deviations.T @ deviations / len(known)
    gram.diagonal().add_(ridge * max(float(gram.diagonal().mean()), 1e-12))
    weights = torch.linalg.solve(
        gram, deviations.T @ (public.flatten(1).double() - middle) / len(known)
    )
    made = ((seen - centre) @ weights + middle).to(inputs.dtype).reshape(inputs.shape)
    return Inversion(made, psnr(made, inputs, peak=peak))


def search_attack(
    features: Features,
    inputs: Float[Tensor, "examples *shape"],
    start: Float[Tensor, "examples *shape"],
    *,
    steps: int = 500,
    step_size: float = 0.02,
    smoothness: float = 0.0,
    low: float = 0.0,
    high: float = 1.0,
) -> Inversion:
    """Reconstruct ``inputs`` by searching for what has their features, all examples at once and each on its own.

    Args:
        features: the part of the network that the attacker sees the outputs of; differentiable, no batch statistics.
        inputs: whose features the attacker holds; used for those and for the ratio.
        start: where the search begins, such as the mean of public inputs.
        steps: of Adam.
        step_size: Adam's learning rate, in units of the inputs.
        smoothness: weight of the mean absolute difference of neighbours along the last axis, and along the last but one
            where there are two.
        low: smallest value of an input.
        high: largest; high - low is the peak of the ratio.

    Raises:
        ValueError: no step, or an empty range.
    """
    _require_search(steps, low, high)
    with torch.no_grad():
        wanted = features(inputs).flatten(1)
        scale = wanted.square().sum(1).clamp(min=1e-12)
    guess = start.detach().clone().requires_grad_(True)
    adam = torch.optim.Adam([guess], lr=step_size)
    for _ in range(steps):
        distance = (features(guess).flatten(1) - wanted).square().sum(1) / scale
        guess.grad = torch.autograd.grad((distance + smoothness * _roughness(guess)).sum(), guess)[
            0
        ]
        adam.step()
        with torch.no_grad():
            guess.clamp_(low, high)
    made = guess.detach()
    return Inversion(made, psnr(made, inputs, peak=high - low))


def class_attack(
    logits: Features,
    labels: Integer[Tensor, " labels"],
    start: Float[Tensor, "examples *shape"],
    *,
    steps: int = 500,
    step_size: float = 0.5,
    smoothness: float = 0.0,
    low: float = 0.0,
    high: float = 1.0,
) -> Float[Tensor, "examples *shape"]:
    """Inputs that a network takes for the given classes, by ascent from ``start``, each example on its own.

    Args:
        logits: the network, one output a class, two or more; differentiable, no batch statistics.
        labels: the class to climb to, for each row of ``start``.
        start: where the climb begins; nothing else about any example is used.
        steps: of gradient ascent.
        step_size: Euclidean length of a step before it is cut to the range, so that all networks are climbed as far.
        smoothness: as in :func:`search_attack`.
        low: smallest value of an input.
        high: largest.

    Returns:
        The inputs after the last step, of the shape of ``start``.

    Raises:
        ValueError: no step, an empty range, a step size that is not positive, or labels of another number.
    """
    _require_search(steps, low, high)
    _check.positive(step_size=step_size)
    if len(labels) != len(start):
        raise ValueError(
            f"expected a label for each of the {len(start)} rows of start, got {len(labels)}"
        )
    guess = start.detach().clone()
    for _ in range(steps):
        guess.requires_grad_(True)
        score = log_odds(logits(guess), labels) - smoothness * _roughness(guess)
        slope = torch.autograd.grad(score.sum(), guess)[0]
        length = slope.flatten(1).norm(dim=1).clamp(min=1e-30).reshape(-1, *[1] * (slope.dim() - 1))
        guess = (guess.detach() + step_size * slope / length).clamp(low, high)
    return guess


def closest_psnr(
    reconstructed: Float[Tensor, "examples *shape"],
    candidates: Float[Tensor, "candidates *shape"],
    *,
    peak: float = 1.0,
) -> Float[Tensor, " examples"]:
    """The largest :func:`psnr` of each reconstruction against any candidate, in decibels.

    Raises:
        ValueError: no candidate, or a peak that is not positive.
    """  # fmt: skip
    if len(candidates) == 0:
        raise ValueError("expected at least one candidate to compare with, got none")
    rows = max(1, _PAIRS // max(1, candidates[0].numel()))
    return torch.tensor(
        [max(float(psnr(one.expand_as(part), part, peak=peak).max()) for part in candidates.split(rows))
         for one in reconstructed],
        dtype=torch.float64,
    )  # fmt: skip


def log_odds(
    outputs: Float[Tensor, "examples classes"], labels: Integer[Tensor, " examples"]
) -> Tensor:
    """ln p(c)/(1 - p(c)) of each row's class, without forming p; it has a slope even where p rounds to 1."""
    others = outputs.scatter(1, labels[:, None], -math.inf).logsumexp(1)
    return outputs.gather(1, labels[:, None])[:, 0] - others


def _require_search(steps: int, low: float, high: float) -> None:
    _check.count(steps=steps)
    if not low < high:
        raise ValueError(f"expected low < high, got {low} and {high}")


def _roughness(x: Tensor) -> Tensor:
    """Mean absolute difference of neighbours, one number an example."""
    axes = [axis for axis in range(max(1, x.dim() - 2), x.dim()) if x.shape[axis] > 1]
    parts = [x.diff(dim=axis).abs().flatten(1).mean(1) for axis in axes]
    return torch.stack([x.new_zeros(len(x)), *parts]).sum(0)
