"""Gradients that depend on no data, added after the noise."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from pacdp.layers.bayes import laws
from pacdp.layers.priors import Prior

Regulariser = Callable[[nn.Module], None]


def prior_gradient(prior: Prior | None, public_size: float) -> Regulariser | None:
    """Adds ∇(-ln p(w))/n to every trainable parameter's gradient; None for a flat prior."""
    if prior is None:
        return None

    @torch.no_grad()
    def add(module: nn.Module) -> None:
        for parameter in module.parameters():
            if parameter.requires_grad and parameter.grad is not None:
                parameter.grad.add_(
                    prior.energy_gradient(parameter.detach()), alpha=1.0 / public_size
                )

    return add


def kl_gradient(prior: Prior, weight: float) -> Regulariser:
    """Adds ``weight`` times the gradient of KL(posterior‖prior) to means and rhos of all Bayesian layers."""

    @torch.no_grad()
    def add(module: nn.Module) -> None:
        for mean, rho in laws(module):
            gradient = prior.kl_gradient(mean.detach(), functional.softplus(rho.detach()))
            for parameter, slope in (
                (mean, gradient.mean),
                (rho, gradient.std * rho.detach().sigmoid()),
            ):
                if parameter.requires_grad and parameter.grad is not None:
                    parameter.grad.add_(slope, alpha=weight)

    return add
