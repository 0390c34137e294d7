"""Features that are whitened by rows which no bound counts, and the split that keeps those rows apart."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from bounds import declared
from pacdp import BoundSet, Settings
from pacdp.backprop import hold_out
from pacdp.data import Dataset, load
from pacdp.data.row_checks import require_apart
from pacdp.features import OrientedGradients, RandomWaves, transform, unit

_SPLIT_SEED = 0
"""Of the split, for all studies and seeds: rows that choices were made on stay those."""
_RIDGE = 1e-3
"""Added to the shares of variance, so that directions of little variance are not blown up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """How images are seen: oriented gradients, whitened, random waves of these, whitened again."""

    orientations: int = 16
    cells: int = 9
    scale: float = 0.7
    first: int = 150
    """Directions of most variance of the gradients that are kept, divided by their standard deviation's root."""
    waves: int = 1500
    gain: float = 1.0
    dim: int = 200
    """Directions of most variance of the waves that are kept, divided by their standard deviation."""


class Seen(NamedTuple):
    """The rows, as features of length 1."""

    choosing: BoundSet
    bound: BoundSet
    test: BoundSet
    dataset: Dataset
    """The bound's rows once more, in the form that chains are trained on."""
    settings: Settings

    @property
    def dim(self) -> int:
        """Length of a row."""
        return self.bound.inputs.shape[1]

    @property
    def classes(self) -> int:
        """How many there are."""
        return self.dataset.classes


def split_and_seen(name: str, sight: Sight, *, chosen: int, compared: int, root: str | None = None) -> Seen:
    """A data set, split, as features; all that features know of data is what the choosing rows say.

    Args:
        chosen: rows that are kept for choices.
        compared: kinds of settings that were known before the split, one of which was taken.

    Raises:
        DataError: the data cannot be had, or a choosing row is the image of one of the bound's rows.
    """
    data, held_out = load(name, root=root)
    parts = hold_out(data.n, prior_share=chosen / data.n, seed=_SPLIT_SEED, people=data.people)
    images = [BoundSet.part(data, part) for part in (parts.prior, parts.bound)]
    require_apart(images[0].rows, images[1].rows, ("the choosing rows", "the bound's rows"))
    gradients = OrientedGradients(
        size=data.inputs.shape[-1], orientations=sight.orientations, cells=sight.cells, scale=sight.scale
    )
    sets = [*images, BoundSet.part(held_out)]
    rows = [transform(gradients, one.inputs.numpy()) for one in sets]
    rows = whitened(rows, dim=sight.first, power=0.25)
    waves = RandomWaves(inputs=sight.first, dim=sight.waves, gain=sight.gain, seed=0)
    rows = whitened([transform(waves, one.numpy()) for one in rows], dim=sight.dim, power=0.5)
    choosing, bound, test = (
        BoundSet(inputs=one, labels=own.labels, people=own.people) for one, own in zip(rows, sets, strict=True)
    )
    by = (
        f"chosen on {choosing.n} rows that the bound does not use, but for the kinds of features and chains, which "
        f"earlier studies had tried: among {compared}, all paid for"
    )
    settings = Settings(count=compared, hypothesis=declared("settings fixed beforehand", by), elsewhere=choosing.rows)
    dataset = replace(data.subset(parts.bound), inputs=bound.inputs.numpy())
    return Seen(choosing, bound, test, dataset, settings)


def whitened(rows: list[Float[Tensor, "_ inputs"]], *, dim: int, power: float) -> list[Float[Tensor, "_ dim"]]:
    """Each less the mean of the first, along the first's ``dim`` directions of most variance, over variance^power.

    Variances are shares of the whole, and _RIDGE is added to them; rows are scaled to length 1.
    """
    first = rows[0].double()
    mean = first.mean(dim=0)
    variances, directions = torch.linalg.eigh((first - mean).T @ (first - mean) / len(first))
    shares = variances.flip(0).clamp_min(0.0) / variances.clamp_min(0.0).sum()
    turn = directions.flip(1)[:, :dim] * (shares[:dim] + _RIDGE) ** -power
    return [unit(one @ turn.float() - (mean @ turn).float()) for one in rows]
