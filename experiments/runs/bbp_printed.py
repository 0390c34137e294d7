"""Bayes by Backprop with the KL inside the clip, as Zhang, Bu et al. print and code it.

A step draws one network w = mean + softplus(rho) ⊙ ε. Example i's objective is F_i = -ln p(y_i | x_i, w) + share
(ln q(w | mean, rho) - ln p(w)); its gradient in (mean, rho) is clipped as a whole, summed, noised and divided. An
example moves the sum by at most the clip norm, so that epsilon is that of DP-BBP. The text does not say how the KL is
shared among examples: each carrying 1/n of it makes their sum the evidence bound, and each carrying a batch's part, as
in Blundell et al.'s loop over batches, makes the KL as many times heavier as a batch has examples.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import softplus

from pacdp.layers.bayes import BAYES_LAYERS
from pacdp.schedules import Schedule
from pacdp.step.noise import SeededRandomness, add_noise

Weights = dict[str, Tensor]
_PART = 200
"""Examples whose gradients are held together."""


def train_printed(
    plain: nn.Module, posterior: nn.Module, inputs: Tensor, targets: Tensor, *,
    loss: Callable[[Tensor, Tensor], Tensor],
    share: float, prior_std: float, clip_norm: float, sample_rate: float, steps: int, learning_rate: Schedule,
    noise_multiplier: Schedule, seed: int,
) -> None:  # fmt: skip
    """Move the means and rhos of ``posterior``, whose layers are those of ``plain``, in place.

    Args:
        loss: outputs and targets of m examples to their m losses.
        share: of the KL, in every example's objective.
    """
    law = _law(plain, posterior)
    randomness, size = SeededRandomness(seed), sample_rate * len(inputs)
    draws = randomness.generator("weights")

    def objective(mean: Weights, rho: Weights, drawn: Weights, x: Tensor, y: Tensor) -> Tensor:
        std = {name: softplus(value) for name, value in rho.items()}
        w = {name: mean[name] + std[name] * drawn[name] for name in mean}
        log_q = sum((-std[name].log() - 0.5 * ((w[name] - mean[name]) / std[name]).square()).sum() for name in mean)
        log_p = sum((-0.5 * (w[name] / prior_std).square()).sum() for name in mean)
        return loss(functional_call(plain, w, (x[None],)), y[None]).sum() + share * (log_q - log_p)

    of_each = vmap(grad(objective, argnums=(0, 1)), in_dims=(None, None, None, 0, 0))
    for t in range(steps):
        chosen = randomness.batch(len(inputs), sample_rate)
        drawn = {name: torch.empty_like(mean).normal_(generator=draws) for name, (mean, _) in law.items()}
        mean, rho = ({name: pair[k].detach() for name, pair in law.items()} for k in (0, 1))
        total = [torch.zeros_like(parameter) for pair in law.values() for parameter in pair]
        for part in chosen.split(_PART):
            slopes = of_each(mean, rho, drawn, inputs[part], targets[part])
            found = [slope[name] for name in law for slope in slopes]
            norms = torch.stack([one.flatten(1).square().sum(1) for one in found]).sum(0).sqrt()
            factor = (clip_norm / norms.clamp(min=1e-12)).clamp(max=1.0)
            for into, one in zip(total, found, strict=True):
                into += torch.tensordot(factor, one, dims=1)
        std, rate = noise_multiplier(t) * clip_norm, learning_rate(t) / size
        with torch.no_grad():
            for parameter, one in zip((p for pair in law.values() for p in pair), total, strict=True):
                parameter -= rate * add_noise(one, std=std, randomness=randomness)


def _law(plain: nn.Module, posterior: nn.Module) -> dict[str, tuple[nn.Parameter, nn.Parameter]]:
    """(mean, rho) by the name that the weight has in the plain network."""
    layers = {name: layer for name, layer in posterior.named_modules() if isinstance(layer, BAYES_LAYERS)}
    found = dict[str, tuple[nn.Parameter, nn.Parameter]]()
    for name, _ in plain.named_parameters():
        layer, _, kind = name.rpartition(".")
        found[name] = getattr(layers[layer], f"{kind}_mean"), getattr(layers[layer], f"{kind}_rho")
    return found
