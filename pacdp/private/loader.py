"""Poisson batches at a public rate, as an Opacus loader.

Opacus derives rate and divisor from the number of examples, which add-remove privacy hides: 99, 100 and 101 examples
at batch size 10 give it divisors 9, 10 and 9. Here the rate is an argument. Opacus also learns the form of an empty
batch from the first batch that is not; here it is known from the start, for dictionaries and strings too.
"""

from collections.abc import Callable, Generator
from typing import Any

import torch
from opacus.data_loader import DPDataLoader
from opacus.utils.uniform_sampler import UniformWithReplacementSampler
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset, default_collate

from pacdp.step.noise import Randomness

Collate = Callable[[list[Any]], Any]


class PoissonSampler(UniformWithReplacementSampler):
    """``steps`` batches; every example is in each independently with probability ``sample_rate``."""

    def __init__(self, *, n: int, sample_rate: float, steps: int, randomness: Randomness) -> None:
        super().__init__(num_samples=n, sample_rate=sample_rate, steps=steps)
        self.randomness = randomness

    def __iter__(self) -> Generator[list[int], Any, None]:
        for _ in range(self.steps):
            yield self.randomness.batch(self.num_samples, self.sample_rate).tolist()


class PoissonLoader(DPDataLoader):
    """Batches of ``dataset``, empty ones included, in the form that its collate function gives.

    Batches are drawn in this process; worker processes only load them.
    """

    def __init__(self, dataset: Dataset[Any], *, sample_rate: float, steps: int, randomness: Randomness,
                 collate_fn: Collate | None = None, **options: Any) -> None:  # fmt: skip
        collate = collate_fn or default_collate
        super().__init__(dataset, sample_rate=sample_rate, collate_fn=collate, **options)
        sampler = PoissonSampler(n=size(dataset), sample_rate=sample_rate, steps=steps, randomness=randomness)
        object.__setattr__(self, "batch_sampler", sampler)
        self.collate_fn = _CollateEmpty(collate, emptied(collate([dataset[0]])))


def size(dataset: Dataset[Any]) -> int:
    """Number of examples.

    Raises:
        ValueError: none, or a dataset that cannot say.
    """
    n = len(dataset) if hasattr(dataset, "__len__") else 0  # pyright: ignore[reportArgumentType]
    if n == 0:
        raise ValueError("dataset must have a length of at least 1: Poisson sampling picks examples by index")
    return n


def take(dataset: Dataset[Any], indices: Tensor) -> Any:
    """The examples at ``indices`` (at least one) as one batch; a tensor dataset is indexed at once."""
    if isinstance(dataset, TensorDataset):
        return [tensor[indices.to(tensor.device)] for tensor in dataset.tensors]
    return default_collate([dataset[i] for i in indices.tolist()])


def emptied(batch: Any) -> Any:
    """``batch`` without its examples: the same form, no content.

    Raises:
        TypeError: a field that is neither tensor, string, number, list, tuple nor dictionary.
    """
    match batch:
        case Tensor():
            return torch.empty((0, *batch.shape[1:]), dtype=batch.dtype, device=batch.device)
        case dict():
            return {key: emptied(value) for key, value in batch.items()}
        case tuple() if hasattr(batch, "_fields"):
            return type(batch)(*map(emptied, batch))
        case list() | tuple():
            plain = all(isinstance(value, str | bytes | int | float) for value in batch)
            return type(batch)(() if plain else map(emptied, batch))
    raise TypeError(f"cannot make an empty batch of a {type(batch).__name__}: give a collate_fn that returns tensors")


class _CollateEmpty:
    def __init__(self, collate: Collate, empty: Any) -> None:
        self.collate, self.empty = collate, empty

    def __call__(self, examples: list[Any]) -> Any:
        return self.collate(examples) if examples else self.empty
