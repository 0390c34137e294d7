"""Priors with their provenance: which examples they have seen, and so which examples a bound may use.

A Gaussian prior is any function of the examples that it was learnt from, standard deviations and all, and of nothing
else; or of no example, when its means are a network's first weights. A grid of scales is a countable family of priors,
one of which may be chosen on the bound's own examples for 2 ln j + ln(π²/6) nats (:func:`bounds.prior_scale_grid`).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

import bounds
from pacdp.backprop.fit import Examples, FitSettings, Progress, fit
from pacdp.data import Dataset, Split, index_hash, make_splits, require_disjoint
from pacdp.posterior import GaussianPosterior

_NOTHING = Split(np.empty(0, dtype=np.int64), index_hash(np.empty(0, dtype=np.int64)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """A Gaussian law over weights, and all that it has seen.

    Raises:
        ValueError: see :class:`pacdp.posterior.GaussianPosterior`.
    """

    law: GaussianPosterior
    seen: Split = _NOTHING
    """Indices of the examples, in the data set of ``data_hash``."""
    data_hash: str = ""
    """Of the data set that the indices count in; empty for a prior that saw none."""

    def require_unseen(self, data: Dataset, bound: Split) -> None:
        """Refuse a bound on examples that the prior has seen, or in another data set than its indices count in.

        Raises:
            DataError: the two share an example.
            ValueError: the prior was learnt from another data set, or ``bound`` has an index beyond the data.
        """
        require_disjoint(self.seen, bound, names=("the prior's examples", "the bound's examples"))
        if self.seen.n and data.hash != self.data_hash:
            raise ValueError(
                f"data {data.name} are not the data that the prior was learnt from ({data.hash[:12]}, not "
                f"{self.data_hash[:12]}), and indices mean nothing there: certify on the data that it was split from"
            )
        if not bound.n or bound.indices[-1] >= data.n:
            raise ValueError(f"expected a bound on some of the {data.n} examples of {data.name}, got {bound.n} indices")


class HeldOut(NamedTuple):
    """The examples of the prior and those of the bound: disjoint."""

    prior: Split
    bound: Split


def hold_out(n: int, *, prior_share: float = 0.5, seed: int) -> HeldOut:
    """A random share of n examples for the prior, all others for the bound.

    Raises:
        DataError: a part would be empty, or the share lies outside (0, 1).
    """
    parts = make_splits(n, sizes={"prior": prior_share, "bound": 1.0 - prior_share}, seed=seed)
    require_disjoint(parts["prior"], parts["bound"], names=("prior", "bound"))
    return HeldOut(parts["prior"], parts["bound"])


def examples(data: Dataset, split: Split) -> Examples:
    """The examples of a split as tensors."""
    part = data.subset(split)
    return Examples(torch.tensor(part.inputs), torch.tensor(part.labels))


def fit_prior(
    module: nn.Module, data: Dataset, split: Split, *, std: float, settings: FitSettings, generator: torch.Generator,
    device: torch.device | str = "cpu", progress: Progress | None = None,
) -> Prior:  # fmt: skip
    """A prior around the weights that training ``module`` on the examples of ``split`` arrives at.

    Args:
        std: of every weight; fixed beforehand, or chosen on the same examples.
        generator: see :func:`pacdp.backprop.fit`; the module's own weights are where training starts.

    Raises:
        ValueError, Diverged: see :func:`pacdp.backprop.fit`.
    """
    trained = fit(
        module, examples(data, split), settings=settings, generator=generator, device=device, progress=progress
    )
    return Prior(law=GaussianPosterior.around(trained.cpu(), std=std), seen=split, data_hash=data.hash)


def data_free_prior(module: nn.Module, *, std: float) -> Prior:
    """A prior around the module's weights as they are: first weights from a seed, which have seen no example."""
    return Prior(law=GaussianPosterior.around(module, std=std))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleGrid:
    """Priors whose standard deviations are those of one prior times largest · e^(-j/precision), j = 1, 2, ...

    Both numbers must be fixed before the bound's examples are seen.
    """

    largest: float
    precision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The prior of a grid that was chosen for a posterior, and what the certificate pays in all."""

    law: GaussianPosterior
    index: int
    """j, or 0 where there was no grid."""
    scale: float
    kl_nats: float
    """KL of the posterior from this very prior."""
    grid_nats: float
    """Of the choice."""


def unchosen(posterior: GaussianPosterior, prior: GaussianPosterior) -> Chosen:
    """The one prior there is, which costs no choice."""
    return Chosen(law=prior, index=0, scale=1.0, kl_nats=posterior.kl_nats(prior), grid_nats=0.0)


def choose_scale(posterior: GaussianPosterior, prior: GaussianPosterior, grid: ScaleGrid) -> Chosen:
    """The prior of the grid with the least divergence and cost together.

    Formal guarantee: a certificate with KL = kl_nats + grid_nats holds for all posteriors and all j at once, however
    the two were chosen (the mixture of the priors with weights 6/(π² j²) is one prior). The scale is rounded to the
    grid first, and the divergence is that from the rounded prior.

    Raises:
        ValueError: largest or precision is not positive, or the posterior is infinitely far from the prior at every
        scale.
    """
    found = []
    for point in bounds.prior_scale_grid(
        scale=_best_scale(posterior, prior), largest=grid.largest, precision=grid.precision
    ):
        law = scaled(prior, point.scale)
        found.append(
            Chosen(law=law, index=point.index, scale=point.scale, kl_nats=posterior.kl_nats(law), grid_nats=point.nats)
        )
    return min(found, key=lambda chosen: chosen.kl_nats + chosen.grid_nats)


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
        raise ValueError("expected a posterior with random weights near the prior, got one infinitely far from it")
    return math.sqrt(total / count)
