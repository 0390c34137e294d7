"""Whose contributions a step adds up: examples, or people with all of their records.

A unit's contribution is a function of the public weights and of that unit's records alone, whoever else is in the
batch. An example is a person with one record. Under ``torch.func.vmap`` people with fewer records are padded with
copies of their own at weight zero, which add exact zeros unless a record of theirs is not finite, when they count as
zero anyway; batches of copies alone are computed and thrown away.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import grad, vmap
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.data import Dataset, IterableDataset, TensorDataset, default_collate

from pacdp.data.places import require_one_unit
from pacdp.errors import UNKNOWN
from pacdp.layers.plain import call_with
from pacdp.layers.random import forget_draws
from pacdp.losses import PerExampleLoss
from pacdp.step.clip import Weights
from pacdp.store.reservation import Unit

_NONE: Mapping[str, Any] = MappingProxyType({})


class Network(NamedTuple):
    """A module and its loss as a function of the trainable weights."""

    module: nn.Module
    fixed: Weights
    """Buffers and frozen parameters."""
    loss: PerExampleLoss

    @classmethod
    def of(cls, module: nn.Module, loss: PerExampleLoss) -> "Network":
        """``module`` as it stands: what does not require a gradient is fixed."""
        frozen = {name: p.detach() for name, p in module.named_parameters() if not p.requires_grad}
        return cls(module, {**frozen, **dict(module.named_buffers())}, loss)

    def losses(
        self, weights: Weights, inputs: Tensor, targets: Tensor
    ) -> Float[Tensor, " records"]:
        """One loss for each record."""
        return self.loss(call_with(self.module, {**self.fixed, **weights}, inputs), targets)


def trained(module: nn.Module) -> Weights:
    """The weights that are trained, in place."""
    return {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}


class ByPlace(nn.Module):
    """A network of any arguments as one of the places that examples have in them."""

    def __init__(
        self, module: nn.Module, inputs: Sequence[Any], named: Mapping[str, Any] = _NONE
    ) -> None:
        super().__init__()
        self.module, self.inputs, self.named = module, inputs, dict(named)

    def forward(self, places: Tensor) -> Any:
        """The network's outputs for the examples at these places."""
        inputs, named = rows_at(places, (self.inputs, self.named))
        return self.module(*inputs, **named)


def rows_at(places: Tensor, inputs: Any) -> Any:
    """A batch's rows at these places; tensors that have another length than the first are no rows, and stay."""
    n = next(len(leaf) for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor))

    def taken(leaf: Any) -> Any:
        is_batch = isinstance(leaf, Tensor) and leaf.dim() > 0 and len(leaf) == n
        return leaf[places.to(leaf.device)] if is_batch else leaf

    return tree_map(taken, inputs)


UnitBatch = tuple[Tensor, Tensor, Float[Tensor, "units batches width"]]
"""The records of some units, cut into batches of equal width: inputs and targets, (units, batches, width, ...), and 1
for a record, 0 for padding."""
UnitFunction = Callable[[Network, Weights, Tensor, Tensor, Tensor], Any]
"""From a network, weights, and inputs, targets, kept of one unit, without the first dimension."""


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """A data set of (input, target) pairs, and whose records they are."""

    dataset: Dataset[Any]
    records: tuple[Tensor, ...] | None
    """Indices of each person's records; None where each record is a unit of its own."""

    @classmethod
    def group(cls, dataset: Dataset[Any], people: Tensor | None) -> "Units":
        """People in the order of their numbers, records in the order of the data set.

        Args:
            people: the person's number for each record, (records,), integers; None where a record is a unit.

        Raises:
            ValueError: not one whole number a record, or an example that is a record of several units.
        """
        n = size(dataset)
        if people is None:
            require_one_unit(dataset)
            return cls(dataset, None)
        if not isinstance(people, Tensor):
            raise ValueError(
                f"people must be a tensor, got a {type(people).__name__}: pass torch.as_tensor(people), of names, none "
                "of them missing, torch.as_tensor(np.unique(people, return_inverse=True)[1])"
            )
        if (
            people.dim() != 1
            or len(people) != n
            or people.is_floating_point()
            or people.is_complex()
        ):
            raise ValueError(
                f"people must hold a whole number for each of the {n} records, got shape {tuple(people.shape)} of "
                f"{people.dtype}"
            )
        if not {*UNKNOWN}.isdisjoint(people.unique().tolist()):
            raise ValueError(
                f"people must be known, got one of {UNKNOWN}, which stand for missing names: all records of unknown "
                "people would count as one person, of whom epsilon would hide none; leave these records out"
            )
        require_one_unit(dataset, people)
        return cls(dataset, records_of(people.cpu()))

    @property
    def unit(self) -> Unit:
        """Whose presence is hidden."""
        return "example" if self.records is None else "person"

    def __len__(self) -> int:
        return size(self.dataset) if self.records is None else len(self.records)

    def examples(self, chosen: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
        """Inputs and targets of examples that are units of their own."""
        inputs, targets = (x.to(device) for x in take(self.dataset, chosen))
        return inputs, targets

    def batch(self, chosen: Tensor, width: int | None, device: torch.device) -> UnitBatch:
        """All records of these units (at least one), ``width`` at a time; all at once by default."""
        owned = chosen[:, None] if self.records is None else [self.records[i] for i in chosen]
        lengths = torch.tensor([len(own) for own in owned])
        width = width or int(lengths.max())
        places = torch.arange(math.ceil(int(lengths.max()) / width) * width)
        indices = torch.stack([own[places % len(own)] for own in owned])
        kept = (places < lengths[:, None]).view(len(owned), -1, width)
        inputs, targets = (
            x.view(*kept.shape, *x.shape[1:]) for x in self.examples(indices.reshape(-1), device)
        )
        real = inputs.dtype if inputs.is_floating_point() else torch.get_default_dtype()
        return inputs, targets, kept.to(device=device, dtype=real)


def records_of(people: Tensor) -> tuple[Tensor, ...]:
    """The places of each person's records, people in the order of their numbers."""
    _, inverse, counts = torch.unique(people, return_inverse=True, return_counts=True)
    return torch.argsort(inverse, stable=True).split(counts.tolist())


def side_by_side(function: Callable[..., Any], *rows: Any, **how: Any) -> Any:
    """``function`` of every row under ``torch.func.vmap``, which does not warn of slow operators."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        return vmap(function, **how)(*rows)


def each_unit(
    function: UnitFunction,
    network: Network,
    weights: Weights,
    batch: UnitBatch,
    *,
    vectorised: bool,
) -> Any:
    """``function`` of every unit of the batch, stacked; in one pass if ``vectorised``."""

    def one(inputs: Tensor, targets: Tensor, kept: Tensor) -> Any:
        return function(network, weights, inputs, targets, kept)

    if vectorised:
        return side_by_side(one, *batch, randomness="different")
    rows = [one(*own) for own in zip(*batch, strict=True)]
    forget_draws(network.module)
    return tree_map(lambda *leaves: torch.stack(leaves), *rows)


def summed_loss(
    weights: Weights, network: Network, inputs: Tensor, targets: Tensor, kept: Tensor
) -> Tensor:
    """Sum of the losses of one batch of a unit's records."""
    return (kept * network.losses(weights, inputs, targets)).sum()


def mean_loss(network: Network, weights: Weights, *records: Tensor) -> Tensor:
    """Mean loss of one unit's records; a :data:`UnitFunction`."""
    batches = zip(*records, strict=True)
    return sum(summed_loss(weights, network, *own) for own in batches) / records[-1].sum()


def summed_gradient(network: Network, weights: Weights, *records: Tensor) -> Weights:
    """Σ_k ∇ℓ(w; x_k) over one unit's records, in parts of the batches' width; a :data:`UnitFunction`."""
    total = {name: torch.zeros_like(w) for name, w in weights.items()}
    for own in zip(*records, strict=True):
        gradient = grad(summed_loss)(weights, network, *own)
        total = {name: one + gradient[name] for name, one in total.items()}
    return total


def size(dataset: Dataset[Any]) -> int:
    """Number of examples.

    Raises:
        ValueError: none, or a dataset that cannot say.
    """
    indexed = all(hasattr(dataset, one) for one in ("__len__", "__getitem__"))
    indexed = indexed and not isinstance(dataset, IterableDataset)
    n = len(dataset) if indexed else 0  # pyright: ignore[reportArgumentType]
    if n == 0:
        raise ValueError(
            "dataset must have a length of at least 1, and examples by index, as Poisson sampling picks them: of a "
            "loader give loader.dataset, and read a stream (IterableDataset) into a list first"
        )
    return n


def take(dataset: Dataset[Any], indices: Tensor) -> Any:
    """The examples at ``indices`` (at least one) as one batch; a tensor dataset is indexed at once, and no subclass."""
    if type(dataset) is TensorDataset:
        return [tensor[indices.to(tensor.device)] for tensor in dataset.tensors]
    return default_collate([dataset[i] for i in indices.tolist()])
