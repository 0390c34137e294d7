"""Poisson batches at a public rate, as an Opacus loader.

Opacus derives rate and divisor from the number of examples, which add-remove privacy hides: 99, 100 and 101 examples
at batch size 10 give it divisors 9, 10 and 9. Here the rate is an argument. Opacus also learns the form of an empty
batch from the first batch that is not; here it is known from the start, for dictionaries and strings too.
"""

import copy
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

import numpy as np
import torch
from opacus.data_loader import DPDataLoader
from opacus.utils import batch_memory_manager
from opacus.utils.uniform_sampler import UniformWithReplacementSampler
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info

from bounds import _check
from pacdp.data.hashing import row_hashes
from pacdp.data.places import require_one_unit
from pacdp.errors import naming
from pacdp.step.noise import Randomness
from pacdp.step.sampling import require_each_once
from pacdp.step.units import size

Collate = Callable[[list[Any]], Any]
_TRIED = 8
"""Examples on which a collate function is tried at set-up."""
_REMEMBERED = 256
"""Batches that were handed out and not yet used."""
_KEPT = 1 << 17
"""Examples whose targets are remembered."""
_ALIKE = 8
"""Examples of one label whose weights are alike, so that the label is taken to determine them."""
_PLAIN = str | bytes | int | float


@dataclass
class Epoch:
    """A pass of which each example is in one batch."""

    places: Tensor
    """The batch of each example: private."""
    used: int = 0
    """Batches that a step was given."""
    first: int | None = None
    """The step of the first batch; None until the epoch is counted."""
    noise: float = 0.0
    """The noise multiplier that it is counted at."""

    @property
    def begins(self) -> bool:
        """Whether the account does not have it yet."""
        return self.first is None


class PoissonSampler(UniformWithReplacementSampler):
    """``steps`` batches; every example is in each independently with probability ``sample_rate``.

    It remembers how many examples each batch has, and the batches that were handed out, in order, so that a step can
    tell whether it is given one of them.
    """

    workers, unseen = 0, False
    """How many processes load batches, and whether batches of this pass are not seen here: where a loader of someone
    else's loads them in other processes."""
    epoch: Epoch | None = None
    """Where a pass is an epoch, the one that began last."""
    mixed = False
    """Whether a step of this pass had another number of examples than its batch, so that later parts are another's."""

    def __init__(self, *, n: int, sample_rate: float, steps: int, randomness: Randomness) -> None:
        super().__init__(num_samples=n, sample_rate=sample_rate, steps=steps)
        self.randomness = randomness
        self.at_hand: Callable[[], None] | None = None
        """Called when a batch is handed out."""
        self.begins: Callable[[], None] | None = None
        """Called when a pass begins."""
        self._waiting = list[int]()
        self._handed = deque[list[Tensor]](maxlen=_REMEMBERED)
        self._made = dict[tuple[int, ...], Tensor]()

    def __iter__(self) -> Generator[list[int], Any, None]:
        self._waiting.clear()  # what an earlier pass drew and nobody used
        self._handed.clear()
        if self.begins is not None:
            self.begins()
        self.unseen, self.mixed = self.workers > 0, False
        for drawn in self.draws():
            self._waiting.append(len(drawn))
            yield drawn.tolist()

    def draws(self) -> Iterator[Tensor]:
        """The batches of one pass."""
        for _ in range(self.steps):
            drawn = self.randomness.batch(self.num_samples, self.sample_rate)
            require_each_once(drawn, self.num_samples)
            yield drawn

    def hand_out(self, batch: Any) -> Any:
        """Remember a copy of a batch, or of a part of one, that the caller is given, and return it."""
        self._handed.append([x.clone() for x in _tensors(batch)])
        if self.at_hand is not None:
            self.at_hand()
        return batch

    def require_newest(self, epoch: Epoch | None) -> None:
        """Refuse, by raising ValueError, a batch of an epoch after which another one began."""
        if self.epoch is not epoch:
            raise ValueError(
                "another pass of the loader began before this one ended, and an example may be in a batch of each: "
                "make one pass after the other"
            )

    def take_back(self) -> None:
        """Forget the batch that was used."""
        if self._handed:
            self._handed.popleft()

    @property
    def fields(self) -> list[Tensor]:
        """Of the batch handed out for this step."""
        return self._handed[0] if self._handed else []

    def require_rows(self, inputs: Sequence[Tensor]) -> None:
        """Refuse inputs of the network, each (n, ...), that are not fields of the batch handed out for this step.

        They may lie on another device, be of another type or have another shape. Where no batch was seen, their numbers
        of examples are compared in the step.

        Raises:
            ValueError: no batch was drawn, other rows, or rows into which something was written.
        """
        if self.unseen and self._waiting and not self._handed:
            return
        if not all(any(_same_rows(x, field) for field in self.fields) for x in inputs):
            raise ValueError(
                "the network is given other rows than the batch drawn for this step: look at its outputs elsewhere "
                "(accuracy, validation) under eval() or torch.no_grad(), take each batch from the loader "
                "that make_private returned, whole, one after the other, one step each, none left out or kept for "
                f"later (at most {_REMEMBERED}); gradients add up by BatchMemoryManager alone; put what transforms it "
                "(augmentation, scaling) into the dataset or the network, and inputs that all examples share (a mask, "
                "positions) into buffers; where a step of one batch needs too much memory, BatchMemoryManager cuts it; "
                "rows that mix examples (mixup) have no privacy of single examples; say batches='own' if yours are "
                "Poisson samples at sample_rate, each row made of one example"
            )

    def require_own(self, others: Mapping[int, Tensor]) -> None:
        """Refuse tensors in the loss that are a field of the batch in another order, or are made of the whole batch.

        What is no field must be the same whenever the same example comes again, and where it is alike for the examples
        of one label, whenever that label does: targets that were standardised over the
        batch, or weights by how often a class occurs in it, are not.

        Args:
            others: each (n, ...), by their places in the loss.

        Raises:
            ValueError: one of them is.
        """
        rows = {k: x.detach().cpu() for k, x in others.items()}
        if any(_is_reordered(x, field.cpu()) for x, field in product(rows.values(), self.fields)):
            raise ValueError(
                "the loss is given a field of the batch in another order, so that one example's loss is computed "
                "with another's label: give each example its own, and mix none"
            )
        hashes = [row_hashes(field) for field in self.fields]
        names = [*zip(*(own.tolist() for own in hashes), strict=True)]
        for k, x in rows.items() if names else ():
            if any(_same_rows(x, field.cpu()) for field in self.fields):
                continue
            flat = x.reshape(len(names), -1)
            for name, row in zip(names, flat, strict=True):
                self._require_known((k, *name), row)
            # inputs that are drawn anew never come again, and labels do
            for place, own in enumerate(hashes):
                values, counts = np.unique(own, return_counts=True)
                for value in values[counts >= _ALIKE].tolist():
                    alike = flat[torch.from_numpy(own == value)]
                    if alike.allclose(alike[:1], 1e-3, 1e-5, equal_nan=True):
                        self._require_known((k, -1 - place, value), alike[0])

    def _require_known(self, name: tuple[int, ...], row: Tensor) -> None:
        """Refuse, by raising ValueError, another row than the first one of this name."""
        full = len(self._made) >= _KEPT
        known = self._made.get(name, row) if full else self._made.setdefault(name, row)
        if known.shape != row.shape or not known.allclose(row, 1e-3, 1e-5, equal_nan=True):
            raise ValueError(
                "the loss is given numbers of an example that are others than when it came before, or of all examples "
                "of one label, and may depend on the other examples of the batch, as standardised targets and weights "
                "by the classes of a batch do: compute them in the dataset, from one example alone"
            )

    def require(self, examples: int) -> None:
        """Refuse a step on something else than the batch that was drawn for it.

        Raises:
            ValueError: no batch was drawn, or one of another size.
        """
        expected = self._waiting.pop(0) if self._waiting else None
        if self.epoch is not None:
            self.epoch.used += 1
        self.mixed |= expected != examples
        if self.mixed:
            raise ValueError(
                f"this step has gradients of {examples} examples, and the batch drawn for it has {expected}, or an "
                "earlier step of this pass had others than its batch: take each batch from the loader that "
                "make_private returned, with all of its parts under BatchMemoryManager, and begin another pass after "
                "this error, or say "
                "batches='own' if yours are Poisson samples at sample_rate"
            )


class PoissonLoader(DPDataLoader):
    """Batches of ``dataset``, empty ones included, in the form that its collate function gives.

    Batches are drawn in this process, by ``drawn_by``; worker processes only load them.
    """

    def __init__(self, dataset: Dataset[Any], *, sample_rate: float, steps: int, randomness: Randomness,
                 collate_fn: Collate | None = None, sampler: type[PoissonSampler] = PoissonSampler,
                 **options: Any) -> None:  # fmt: skip
        collate, n = collate_fn or default_collate, size(dataset)
        require_one_unit(dataset)
        self.sample_rate, self.distributed = sample_rate, False
        self.drawn_by = sampler(n=n, sample_rate=sample_rate, steps=steps, randomness=randomness)
        places = [*dict.fromkeys((*range(0, n, max(1, n // _TRIED))[:_TRIED], n - 1))]
        with naming("dataset, some of whose examples are read beforehand,"):
            few = [dataset[i] for i in places]
        # torch's own beginning: Opacus's wants each example to be a list of fields
        DataLoader.__init__(self, dataset, batch_sampler=self.drawn_by, **options)
        self.collate_fn = _Collate(collate, emptied(collate(few[:1])), self.drawn_by)
        with naming("collate_fn, tried on some examples of dataset,"):
            self.collate_fn.require_own_rows(few)
        if fetch := getattr(dataset, "__getitems__", None):
            self.collate_fn.require_own_items(fetch, places)
        self.drawn_by.workers = self.num_workers

    def __iter__(self) -> Any:
        """One pass: ``steps`` batches."""
        return _handed_out(super().__iter__(), self.drawn_by)


class _Parts(DataLoader[Any]):
    """Parts of batches, handed out as whole batches are."""

    batch_sampler: batch_memory_manager.BatchSplittingSampler  # pyright: ignore

    def __iter__(self) -> Any:
        """One pass."""
        return _handed_out(super().__iter__(), self.batch_sampler.sampler)  # pyright: ignore


def _handed_out(batches: Iterator[Any], drawn_by: PoissonSampler) -> Iterator[Any]:
    """Remember the batches of a pass here too, where other processes load them."""
    if not drawn_by.workers:
        return batches
    drawn_by.unseen, epoch = False, drawn_by.epoch

    def handed_out(batch: Any) -> Any:
        drawn_by.require_newest(epoch)
        return drawn_by.hand_out(batch)

    return map(handed_out, batches)


class BatchMemoryManager(batch_memory_manager.BatchMemoryManager):
    """Opacus's: the loader within it cuts batches into parts of at most ``max_physical_batch_size`` examples.

    Each example must draw its own masks. Of a network that draws a number for a whole part, as a coin of a batch,
    epsilon does not hold: one example more pushes others into the next part, with another coin. Bayesian layers of
    pacdp draw once a batch, or once an example.

    Raises:
        ValueError: no whole number of at least 1, or an optimizer or a loader that make_private did not return.
    """

    def __init__(
        self, *, data_loader: PoissonLoader, max_physical_batch_size: int, optimizer: Any
    ) -> None:
        if not (isinstance(data_loader, PoissonLoader) and hasattr(optimizer, "signal_skip_step")):
            raise ValueError(
                "BatchMemoryManager takes the data_loader and the optimizer that make_private returned, got "
                f"{type(data_loader).__name__} and {type(optimizer).__name__}"
            )
        super().__init__(
            data_loader=data_loader,
            max_physical_batch_size=_check.count(max_physical_batch_size=max_physical_batch_size),
            optimizer=optimizer,
        )

    def __enter__(self) -> _Parts:
        parts = super().__enter__()
        parts.__class__ = _Parts
        return parts  # pyright: ignore[reportReturnType]


def emptied(batch: Any) -> Any:
    """``batch`` without its examples: the same form, no content.

    Raises:
        TypeError: a field that is neither tensor, string, number, list, tuple nor dictionary.
    """

    def without(part: Any) -> Any:
        if isinstance(part, Tensor):
            return part.new_empty((0, *part.shape[1:]))
        if is_column(part):
            return type(part)()
        raise TypeError(
            f"cannot make an empty batch of a {type(part).__name__}: give a collate_fn that returns tensors, "
            "in a tuple, a list or a dict"
        )

    return tree_map(without, batch, is_leaf=is_column)


def is_column(part: Any) -> bool:
    """Whether it is a list or a tuple of strings or numbers."""
    return isinstance(part, list | tuple) and all(isinstance(value, _PLAIN) for value in part)


class _Collate:
    """A collate function that takes empty batches, and gives each example the row that it has alone."""

    def __init__(self, collate: Collate, empty: Any, sampler: PoissonSampler) -> None:
        self.collate, self.empty, self.sampler = collate, empty, sampler

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"sampler": None}  # which loading processes have no use for

    def __call__(self, examples: list[Any]) -> Any:
        batch = self.require_own_rows(examples) if examples else self.empty
        return self.sampler.hand_out(batch) if get_worker_info() is None else batch

    def require_own_rows(self, examples: list[Any]) -> Any:
        """Return the batch of these examples.

        Raises:
            ValueError: an example's row depends on the others.
        """
        if self.collate is default_collate:
            return self.collate(examples)
        # of copies, since padding may be written into the examples themselves
        alone = [_tensors(self.collate([tree_map(_copied, example)])) for example in examples]
        batch = self.collate(examples)
        _require_stack(_tensors(batch), alone, "the collate function")
        return batch

    def require_own_items(self, fetch: Callable[[list[int]], list[Any]], places: list[int]) -> None:
        """Refuse, by raising ValueError, a data set that gives an example of several other numbers than of one alone.

        Numbers that are drawn anew at each look tell nothing.
        """
        alone, again = ([_tensors(self.collate(fetch([i]))) for i in places] for _ in range(2))
        if all(map(_same, chain(*alone), chain(*again))):
            whole = _tensors(self.collate(fetch(places)))
            _require_stack(whole, alone, "__getitems__ of the dataset")


def _tensors(batch: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(batch) if isinstance(leaf, Tensor)]


def _copied(leaf: Any) -> Any:
    return leaf.clone() if isinstance(leaf, Tensor) else copy.deepcopy(leaf)


def _require_stack(whole: list[Tensor], alone: list[list[Tensor]], what: str) -> None:
    """Refuse a batch that is not made of the rows that its examples have alone, by raising ValueError."""
    if any(len(own) != len(whole) for own in alone) or not all(
        map(_is_stack, whole, zip(*alone, strict=True))
    ):
        raise ValueError(
            f"{what} gives an example another row beside other examples than alone, as padding to the longest, "
            "standardising, averaging or random draws do: pad to one fixed length, and transform one by one, in the "
            "dataset, as torch.nn.functional.pad(tokens, (0, 128 - len(tokens))) does"
        )


def _is_stack(whole: Tensor, rows: Sequence[Tensor]) -> bool:
    form = (1, *whole.shape[1:]), whole.dtype
    return all((row.shape, row.dtype) == form for row in rows) and _same(torch.cat([*rows]), whole)


def _same_rows(given: Tensor, field: Tensor) -> bool:
    if len(given) != len(field) or given.numel() != field.numel():
        return False
    return _same(field.to(given.device, given.dtype).reshape(given.shape), given)


def _same(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one, other) or torch.equal(one.nan_to_num(), other.nan_to_num())


def _is_reordered(given: Tensor, field: Tensor) -> bool:
    """Whether examples have each other's values of ``field`` in ``given``, which is no function of it as 1 - field is.

    One that has its own in another order is left alone, as targets are that reverse, sort or shift a row of tokens.
    """
    n = given.numel()
    if n != field.numel() or n == 0 or given.is_complex() or field.is_complex():
        return False
    given, own = (x.double().reshape(len(field), -1) for x in (given, field))
    if torch.equal(given, own) or given.aminmax() != own.aminmax():
        return False
    if torch.equal(given.sort().values, own.sort().values):
        return False
    given, own = given.flatten(), own.flatten()
    if not torch.equal(given.sort().values, own.sort().values):
        return False
    values, pairs = len(own.unique()), torch.stack([own, given]).unique(dim=1).shape[1]
    return pairs > values or (field.is_floating_point() and values == len(own))
