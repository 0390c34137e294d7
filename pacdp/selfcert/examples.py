"""The examples that a predictor is trained and certified on: split by places, without a look at any label."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64, UInt64
from torch.utils.data import DataLoader

from pacdp.certify.loaders import require_steady
from pacdp.data import DataError, Dataset
from pacdp.data.hashing import array_of, table_hashes
from pacdp.data.places import require_each_once
from pacdp.predictions import columns, order
from pacdp.predictions.described import alike
from pacdp.predictions.examples import Counted
from pacdp.store.record import record
from pacdp.trials import own_rows, require_arithmetic


@record(eq=False)
class Given(Counted):
    """Examples, repeats among them.

    Attributes:
        inputs: whatever can be indexed by an array of places: an array, a tensor, a data frame, a sparse matrix.
        labels: as they were given, [n], whole numbers, texts or truth values.
        classes: of all examples that the caller has, in order.
        people: the number of each example's person, or None: then examples are the independent records.
        hashes: of each input.
        places: where each example stands in the caller's data.
        remarks: names of classes or people that may be one, and what the order of the labels tells.
        source: the data set that they were collected from, or None.
    """

    inputs: Any
    labels: np.ndarray
    classes: np.ndarray
    people: Int64[np.ndarray, " n"] | None
    hashes: UInt64[np.ndarray, " n"]
    places: Int64[np.ndarray, " n"]
    remarks: tuple[str, ...] = ()
    source: Any = None

    @property
    def n(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How many examples."""
        return len(self.labels)

    def at(self, places: Int64[np.ndarray, " k"]) -> "Given":
        """Some of the examples."""
        people = None if self.people is None else self.people[places]
        return replace(self, inputs=taken(self.inputs, places), labels=self.labels[places], people=people,
                       hashes=self.hashes[places], places=self.places[places])  # fmt: skip


def given(data: Any, *, people: Any = None) -> Given:
    """The examples of ``data``, and whose they are.

    Raises:
        ValueError: data of another form, columns of different lengths, gaps, or one class only.
    """
    source = None if isinstance(data, tuple | list) else data
    if isinstance(data, Dataset):
        people = data.people if people is None else people
        data = (data.inputs, data.labels)
    inputs, answers = _pair(data)
    require_arithmetic(inputs)
    columns.require_one_order(inputs=inputs, labels=answers, people=people)
    inputs = inputs.tocsr() if hasattr(inputs, "tocsr") else inputs  # of which rows can be taken
    named = columns.coded("labels", _array(answers))
    try:
        n = int(inputs.shape[0]) if hasattr(inputs, "shape") else len(inputs)
    except (TypeError, IndexError) as error:
        said = f"inputs must have one row for each example, got {type(inputs).__name__}"
        raise ValueError(said) from error
    if named.n != n:
        raise ValueError(
            f"data must have one label for each input, got {n} inputs and {named.n} labels: pass (X, y)"
        )
    owners = None if people is None else columns.coded("people", _array(people))
    if owners is not None:
        columns.require_rows(n, people=owners.n)
    units = n if owners is None else len(owners.names)
    if units < 4:
        what, mend = "data must have at least 4 examples", "gather more"
        if owners is not None:
            what = "people must be at least 4"
            mend += ", or leave people out only if the examples are independent"
        raise ValueError(f"{what}, two on each side of the split, got {units}: {mend}")
    if len(named.names) < 2:
        raise ValueError(
            f"labels must have at least two classes, got {next(iter(named.names))!r} alone: nothing can be learnt"
        )
    labels = np.asarray(named.names)[named.codes]
    told = {"classes": named.names, "people": () if owners is None else owners.names}
    remarks = [one for what, names in told.items() for one in alike(what, names)]
    if owners is None:
        remarks += order.told_by_order([], {"labels": named.codes}, [])
    return Given(
        inputs=inputs.detach() if isinstance(inputs, torch.Tensor) else inputs,
        labels=labels,
        classes=np.unique(labels),
        people=None if owners is None else owners.codes,
        hashes=table_hashes(inputs, name="inputs"),
        places=np.arange(n),
        remarks=tuple(remarks),
        source=source,
    )


def split(examples: Given, *, train: int, seed: int) -> tuple[Given, Given]:
    """A random part with so many records, and all others: examples, or people with all of theirs.

    The parts are a function of the number of records, of whose each example is and of ``seed``, and of no label.
    """
    whose = np.arange(examples.n) if examples.people is None else examples.people
    owner = np.unique(whose, return_inverse=True)[1]
    order = np.random.default_rng([seed, 0x73706C]).permutation(examples.units)
    chosen = np.isin(owner, order[:train])
    parts = (examples.at(np.flatnonzero(chosen)), examples.at(np.flatnonzero(~chosen)))
    require_apart(*parts)
    return parts


def require_apart(learning: Given, bound: Given) -> None:
    """Refuse parts that share a place of the data or a person; raises DataError."""
    if shared := len(np.intersect1d(learning.places, bound.places)):
        raise DataError(
            f"{shared} examples stand on both sides of the split: give each example one side"
        )
    mine, theirs = learning.people, bound.people
    if mine is not None and theirs is not None and np.isin(mine, theirs).any():
        raise DataError("people stand on both sides of the split: give each person one name")


def taken(inputs: Any, places: np.ndarray) -> Any:
    """The rows at these places of an array, tensor, data frame, sparse matrix or list, as copies to write on.

    Raises:
        ValueError: no rows can be taken by an array of places.
    """
    if isinstance(inputs, list | tuple):
        return own_rows([inputs[place] for place in places])
    try:
        return own_rows(getattr(inputs, "iloc", inputs)[places])
    except TypeError as error:
        raise ValueError(
            f"inputs must be an array, a tensor, a data frame, a sparse matrix or a list, got {type(inputs).__name__}, "
            f"of which no rows can be taken: convert it first ({error})"
        ) from error


def _pair(data: Any) -> tuple[Any, Any]:
    """Inputs and labels, as they are or collected from a torch Dataset of pairs."""
    if isinstance(data, tuple | list) and len(data) == 2:
        return data[0], data[1]
    if isinstance(data, tuple | list) and len(data) == 3 and hasattr(data[1], "__len__"):
        raise ValueError(
            "data must be a pair (inputs, labels), got three: give whose they are as people="
        )
    require_each_once(data)
    try:
        if hasattr(data, "dtype") or hasattr(data, "columns"):
            raise TypeError("inputs alone")
        pairs = [data[place] for place in range(len(data))]
        inputs, _ = _stacked(pairs)
        labels = [np.asarray(label).item() for _, label in pairs]
    except (TypeError, ValueError, LookupError, RuntimeError) as error:
        raise ValueError(
            f"data must be a pair (inputs, labels) or a Dataset of such pairs, got {type(data).__name__}: pass (X, y), "
            f"and collect the batches of a loader first ({error})"
        ) from error
    read: Any = data
    require_steady(DataLoader(read, collate_fn=_stacked), "data")  # else no hash says which recur
    return inputs, labels


def _stacked(pairs: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """The inputs of pairs in one tensor, and a label for each, whatever it is."""
    inputs = [torch.as_tensor(np.asarray(one)) for one, _ in pairs]
    return torch.stack(inputs), torch.zeros(len(pairs), dtype=torch.int64)


def _array(values: Any) -> Any:
    """A column as an array, where it is a tensor, of a data frame, or has a last axis of one."""
    if hasattr(values, "detach"):
        values = array_of(values, "labels")
    values = values.to_numpy() if hasattr(values, "to_numpy") else values
    one = isinstance(values, np.ndarray) and values.shape[1:] == (1,)
    return values.ravel() if one else values
