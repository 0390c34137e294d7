"""Priors with their provenance: which examples they have seen, and so which examples a bound may use.

A Gaussian prior is any function of the examples that it was learnt from, standard deviations and all, and of nothing
else; or of no example, when its means are a network's first weights. A grid of scales is a countable family of priors,
one of which may be chosen on the bound's own examples for 2 ln j + ln(π²/6) nats (:func:`bounds.prior_scale_grid`).
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

import bounds
from pacdp.backprop.fit import Examples, FitSettings, fit
from pacdp.certify import DataFree, HeldOut, Prior
from pacdp.data import Dataset, Split, index_hash, make_splits, require_disjoint
from pacdp.posterior import GaussianPosterior


class Parts(NamedTuple):
    """The examples of the prior and those of the bound: disjoint."""

    prior: Split
    bound: Split


def hold_out(
    n: int, *, prior_share: float = 0.5, seed: int, people: np.ndarray | None = None
) -> Parts:
    """A random share of n examples for the prior, all others for the bound; of the people, where these are given.

    Raises:
        DataError: a part would be empty, or the share lies outside (0, 1).
    """
    owners = np.arange(n) if people is None else np.unique(people, return_inverse=True)[1]
    sizes = {"prior": prior_share, "bound": 1.0 - prior_share}
    parts = make_splits(int(owners.max(initial=-1)) + 1, sizes=sizes, seed=seed)
    require_disjoint(parts["prior"], parts["bound"], names=("prior", "bound"))
    if people is None:
        return Parts(parts["prior"], parts["bound"])
    places = [np.flatnonzero(np.isin(owners, parts[name].indices)) for name in sizes]
    return Parts(*(Split(one, index_hash(one)) for one in places))


def fit_prior(
    module: nn.Module, data: Dataset, split: Split, *, std: float, settings: FitSettings, generator: torch.Generator,
    device: torch.device | str = "cpu"
) -> Prior:  # fmt: skip
    """A prior around the weights that training ``module`` on the examples of ``split`` arrives at.

    Args:
        std: of every weight; fixed beforehand, or chosen on the same examples.
        generator: see :func:`pacdp.backprop.fit`; the module's own weights are where training starts.

    Raises:
        ValueError, Diverged: see :func:`pacdp.backprop.fit`.
    """
    part = data.subset(split)
    seen = Examples(torch.tensor(part.inputs), torch.tensor(part.labels))
    trained = fit(module, seen, settings=settings, generator=generator, device=device)
    source = HeldOut(indices=split, data_hash=data.hash, rows=part.rows())
    return Prior(law=GaussianPosterior.around(trained.cpu(), std=std), source=source)


def data_free_prior(module: nn.Module, *, std: float) -> Prior:
    """A prior around the module's weights as they are: first weights from a seed, which have seen no example."""
    return Prior(
        law=GaussianPosterior.around(module, std=std),
        source=DataFree(description="first weights, drawn before the examples were seen"),
    )


def choose_scale(
    posterior: GaussianPosterior, prior: Prior, *, largest: float, precision: int
) -> Prior:
    """The prior of least divergence and cost together, of those whose deviations are times largest · e^(-j/precision).

    Both numbers must be fixed before the bound's examples are seen.

    Formal guarantee: a certificate of the posterior from that prior, which adds ``choice_nats`` to the divergence,
    holds for all posteriors and all j at once, however the two were chosen (the mixture of the priors with weights
    6/(π² j²) is one prior). The scale is rounded to the grid first, and the divergence is that from the rounded prior.

    Raises:
        ValueError: largest or precision is not positive, or the posterior is infinitely far from the prior at every
        scale.
    """
    found, paid = list[Prior](), prior.choice_nats
    scale = _best_scale(posterior, prior.law)
    for point in bounds.prior_scale_grid(scale=scale, largest=largest, precision=precision):
        nats = math.nextafter(paid + point.nats, math.inf) if paid else point.nats
        found.append(replace(prior, law=scaled(prior.law, point.scale), choice_nats=nats))
    return min(found, key=lambda one: posterior.kl_nats(one.law) + one.choice_nats)


def scaled(prior: GaussianPosterior, scale: float) -> GaussianPosterior:
    """The same law with all standard deviations times ``scale``."""
    stds = {name: std * scale for name, std in prior.stds.items()}
    return GaussianPosterior(means=prior.means, stds=stds, buffers=prior.buffers)


def _best_scale(posterior: GaussianPosterior, prior: GaussianPosterior) -> float:
    """λ with λ² the mean over all random weights of [σ² + (μ - m)²]/s², where the divergence is least."""
    total, count = 0.0, 0
    for name, mean in posterior.means.items():
        std = prior.stds[name].double()
        if not bool((std > 0).any()):
            continue
        away = (mean.double() - prior.means[name].double()) / std
        ratio = (posterior.stds[name].double() / std).expand(mean.shape)
        total += float((away.square() + ratio.square()).sum())
        count += mean.numel()
    if not (count and math.isfinite(total) and total > 0):
        raise ValueError(
            "expected a posterior with random weights near the prior, got one infinitely far from it"
        )
    return math.sqrt(total / count)
