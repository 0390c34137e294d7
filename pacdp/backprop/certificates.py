"""Certificates of a trained posterior, on examples that its prior has not seen; every failure probability on a ledger.

Three statements, each by itself: the risk of the randomised network, weights drawn anew for every prediction
(PAC-Bayes-kl on top of Monte Carlo); the risk of one network drawn once; and, for comparison, what the same held-out
examples say of the prior's own mean, which needs no PAC-Bayes.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import bounds
from pacdp.backprop.fit import Examples
from pacdp.backprop.prior import Chosen, Prior, ScaleGrid, choose_scale, examples, unchosen
from pacdp.certify import new_examples_certificate
from pacdp.data import Dataset, Split
from pacdp.losses import Loss, margins, zero_one
from pacdp.posterior import GaussianPosterior
from pacdp.stochastic import MonteCarloRisk, mean_risk

MONTE_CARLO, PAC_STEP = "Monte Carlo", "PAC step"
_BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Certified:
    """The certificate of a randomised network, and what it was made from."""

    certificate: bounds.Certificate
    monte_carlo: MonteCarloRisk
    chosen: Chosen
    bound_hash: str
    """Of the indices of the bound's examples."""

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        chosen = {name: getattr(self.chosen, name) for name in ("index", "scale", "kl_nats", "grid_nats")}
        return {
            "certificate": self.certificate.to_dict(), "monte_carlo": self.monte_carlo.to_dict(),
            "prior_scale": chosen, "bound_hash": self.bound_hash,
        }  # fmt: skip


def ledger(failure_prob: float, *, monte_carlo_share: float = 0.1) -> bounds.FailureBudget:
    """A failure probability split between Monte Carlo and the PAC-Bayes step."""
    return bounds.FailureBudget.split(
        failure_prob, **{MONTE_CARLO: monte_carlo_share, PAC_STEP: 1.0 - monte_carlo_share}
    )


def certify_posterior(
    posterior: GaussianPosterior, prior: Prior, module: nn.Module, data: Dataset, bound: Split, *,
    budget: bounds.FailureBudget, passes: int, seed: int, scales: ScaleGrid | None = None, loss: Loss | None = None,
    device: torch.device | str = "cpu", progress: Callable[[int, int], None] | None = None, resume: Path | None = None,
) -> Certified:  # fmt: skip
    """A bound on the risk of predicting with weights drawn anew from ``posterior`` each time.

    kl⁻¹ of the Monte Carlo bound on R̂(Q) over the bound's n examples, ``passes`` times with fresh weights for each,
    within kl⁻¹ at [KL(Q‖P) + grid + ln ξ(n) + ln(1/δ_PAC)]/n. Maurer 2004 with the exact constant; Hoeffding 1963.

    Formal guarantee: the risk is at most the certificate's value except with the probability that ``budget`` has
    spent, over the bound's examples and the draws, for independent examples of one law, if passes and seed do not
    depend on a result.

    Args:
        posterior: however it was found.
        prior: with its provenance; an overlap with ``bound`` is refused before any work.
        budget: entries "Monte Carlo" and "PAC step", as from :func:`ledger`.
        scales: the grid on which the prior's scale is chosen for this posterior, at its price; None keeps the prior.
        loss: with values in its interval, rescaled to [0, 1]; the 0-1 loss if left out.

    Raises:
        DataError: the prior has seen an example of the bound.
        ValueError: other data than the prior's, or what ``mean_risk`` and the bounds refuse.
    """
    prior.require_unseen(data, bound)
    chosen = unchosen(posterior, prior.law) if scales is None else choose_scale(posterior, prior.law, scales)
    held = examples(data, bound)
    found = mean_risk(
        module, posterior, inputs=held.inputs, labels=held.labels, loss=loss or zero_one(), passes=passes, seed=seed,
        device=device, progress=progress, resume=resume,
    )  # fmt: skip
    step = functools.partial(bounds.maurer, kl_nats=_paid(chosen.kl_nats, chosen.grid_nats), n=bound.n)
    overall = bounds.overall_certificate(risk=found.upper(budget.spent[MONTE_CARLO]), bound=step, budget=budget)
    return Certified(certificate=overall, monte_carlo=found, chosen=chosen, bound_hash=bound.hash)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneDraw:
    """One network drawn from the posterior, to be deployed as it is."""

    weights: dict[str, Tensor]
    errors: int
    """Among the bound's examples."""
    certificate: bounds.Certificate


def certify_one_draw(
    posterior: GaussianPosterior, prior: Prior, module: nn.Module, data: Dataset, bound: Split, *, failure_prob: float,
    generator: torch.Generator, scales: ScaleGrid | None = None, device: torch.device | str = "cpu",
) -> OneDraw:  # fmt: skip
    """A bound on the 0-1 risk of one draw of all weights (Rivasplata et al. 2020, with Maurer's constant).

    Formal guarantee: see :func:`bounds.disintegrated`; the draw must be the only one that was made.

    Raises:
        DataError, ValueError: see :func:`certify_posterior`.
    """
    prior.require_unseen(data, bound)
    chosen = unchosen(posterior, prior.law) if scales is None else choose_scale(posterior, prior.law, scales)
    weights = posterior.sample(generator)
    errors = count_errors(module, {**weights, **posterior.buffers}, examples(data, bound), device=device)
    ratio = _paid(log_density_ratio(weights, posterior, chosen.law), chosen.grid_nats)
    made = bounds.disintegrated(
        risk=errors / bound.n, log_density_ratio=ratio, n=bound.n, failure_prob=failure_prob
    )  # fmt: skip
    return OneDraw(weights=weights, errors=errors, certificate=made)


def log_density_ratio(weights: dict[str, Tensor], posterior: GaussianPosterior, prior: GaussianPosterior) -> float:
    """ln (dQ/dP)(weights) in nats, rounded up; weights that are fixed in both laws, at one value, do not count."""
    parts: list[float] = []
    for name, drawn in weights.items():
        means, stds = (posterior.means[name], prior.means[name]), (posterior.stds[name], prior.stds[name])
        fixed = [not bool((std > 0).any()) for std in stds]
        if all(fixed) and torch.equal(*means):
            continue
        if any(fixed):
            return math.inf
        w, mean_q, mean_p = (value.detach().cpu().double().numpy() for value in (drawn, *means))
        std_q, std_p = (std.detach().cpu().double().expand(drawn.shape).numpy() for std in stds)
        parts.append(bounds.gaussian_log_density_ratio(w, mean_q, std_q, mean_p, std_p))
    total = math.fsum(parts)
    return math.nextafter(total, math.inf) if parts else 0.0


def certify_weights(
    weights: dict[str, Tensor], module: nn.Module, held: Examples, *, failure_prob: float,
    device: torch.device | str = "cpu",
) -> bounds.Certificate:  # fmt: skip
    """Clopper and Pearson's bound on the 0-1 risk of weights that have not seen ``held``: a test set in all but name.

    Formal guarantee: see :func:`bounds.clopper_pearson_upper`.
    """
    errors = count_errors(module, weights, held, device=device)
    return new_examples_certificate(errors, len(held.inputs), failure_prob=failure_prob)


@torch.no_grad()
def count_errors(
    module: nn.Module, weights: dict[str, Tensor], held: Examples, *, device: torch.device | str = "cpu"
) -> int:
    """Errors of the network with these weights and buffers; a tie and a NaN are errors."""
    moved = {name: value.to(device) for name, value in weights.items()}
    found = 0
    for inputs, labels in zip(held.inputs.split(_BATCH), held.labels.split(_BATCH), strict=True):
        logits = torch.func.functional_call(module, moved, (inputs.to(device),))
        found += int((~(margins(logits, labels.to(device)) > 0)).sum())
    return found


def _paid(*nats: float) -> float:
    """A sum, rounded up."""
    terms = [each for each in nats if each]
    return math.nextafter(math.fsum(terms), math.inf) if len(terms) > 1 else math.fsum(terms)
