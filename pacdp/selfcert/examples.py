"""The examples that a predictor is trained and certified on: distinct, and split without a look at any label."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int64, UInt64

from pacdp.data import DataError, Dataset
from pacdp.data.hashing import pair_hashes, row_hashes
from pacdp.predictions import columns

_MOST_REPEATS = 0.01
_CHUNK = 4096


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Given:
    """Distinct examples.

    Attributes:
        inputs: whatever can be indexed by an array of places: an array, a tensor, a data frame, a sparse matrix.
        labels: as they were given, [n], whole numbers, texts or truth values.
        people: the number of each example's person, or None: then examples are the independent records.
        hashes: of each input.
        dropped: how many repeats of an input were left out.
    """

    inputs: Any
    labels: np.ndarray
    people: Int64[np.ndarray, " n"] | None
    hashes: UInt64[np.ndarray, " n"]
    dropped: int

    @property
    def n(self) -> int:
        """How many examples."""
        return len(self.labels)

    @property
    def unit(self) -> str:
        """What is counted as one independent record, "example" or "person"."""
        return "example" if self.people is None else "person"

    @property
    def units(self) -> int:
        """How many independent records there are."""
        return self.n if self.people is None else len(np.unique(self.people))

    def at(self, places: Int64[np.ndarray, " k"]) -> "Given":
        """Some of the examples."""
        people = None if self.people is None else self.people[places]
        return Given(inputs=taken(self.inputs, places), labels=self.labels[places], people=people,
                     hashes=self.hashes[places], dropped=0)  # fmt: skip


def given(data: Any, *, people: Any = None, seed: int) -> Given:
    """The examples of ``data``, each input once.

    Which of several equal inputs stays is drawn from ``seed``. With ``people`` a person's own repeats stay.

    Raises:
        ValueError: data of another form, columns of different lengths, gaps, or one class only.
        DataError: more repeats than one in a hundred.
    """
    if isinstance(data, Dataset):
        people = data.people if people is None else people
        data = (data.inputs, data.labels)
    inputs, answers = _pair(data)
    named = columns.coded("labels", _array(answers))
    n = _length(inputs)
    if named.n != n:
        raise ValueError(f"data must have one label for each input, got {n} inputs and {named.n} labels: pass (X, y)")
    owners = None if people is None else columns.coded("people", _array(people))
    if owners is not None and owners.n != n:
        raise ValueError(f"people must have one entry for each of the {n} examples, got {owners.n}: pass them in full")
    if owners is not None and len(owners.names) < 4:
        raise ValueError(f"people must be at least 4, two on each side of the split, got {len(owners.names)}: gather "
                         "more, or leave people out only if the examples are independent")  # fmt: skip
    if owners is None and n < 4:
        raise ValueError(f"data must have at least 4 examples, two on each side of the split, got {n}: gather more")
    if len(set(named.names)) < 2:
        only = labels_said(named.names)
        raise ValueError(f"labels must have at least two classes, got {only} alone: nothing can be learnt")
    hashes = _hashes(inputs)
    codes = None if owners is None else owners.codes
    kept = _distinct(hashes, codes, seed=seed)
    labels = np.asarray(named.names)[named.codes]
    whole = Given(inputs=inputs, labels=labels, people=codes, hashes=hashes, dropped=0)
    if len(kept) == n:
        return whole
    part = whole.at(kept)
    return Given(inputs=part.inputs, labels=part.labels, people=part.people, hashes=part.hashes, dropped=n - len(kept))


def labels_said(names: tuple[object, ...]) -> str:
    """Some names, as a sentence shows them."""
    return ", ".join(map(repr, names[:5]))


def split(examples: Given, *, train: int, seed: int) -> tuple[Given, Given]:
    """A random part with so many records, and all others: examples, or people with all of theirs.

    The parts are a function of the number of records, of whose each example is and of ``seed``, and of no label.
    """
    owner = np.arange(examples.n) if examples.people is None else np.unique(examples.people, return_inverse=True)[1]
    order = np.random.default_rng([seed, 0x73706C]).permutation(examples.units)
    learning = np.zeros(examples.units, dtype=bool)
    learning[order[:train]] = True
    parts = examples.at(np.flatnonzero(learning[owner])), examples.at(np.flatnonzero(~learning[owner]))
    require_apart(*parts)
    return parts


def require_apart(learning: Given, bound: Given) -> None:
    """Refuse parts that share an input or a person; raises DataError."""
    shared = len(np.intersect1d(learning.hashes, bound.hashes))
    if shared:
        raise DataError(f"{shared} inputs stand on both sides of the split: drop the repeats, or name the people whose "
                        "they are")  # fmt: skip
    if learning.people is not None and bound.people is not None and np.isin(learning.people, bound.people).any():
        raise DataError("people stand on both sides of the split: give each person one name")


def taken(inputs: Any, places: np.ndarray) -> Any:
    """The rows at these places of an array, tensor, data frame, sparse matrix or list."""
    if hasattr(inputs, "iloc"):
        return inputs.iloc[places]
    return [inputs[place] for place in places] if isinstance(inputs, list | tuple) else inputs[places]


def _distinct(hashes: np.ndarray, people: np.ndarray | None, *, seed: int) -> np.ndarray:
    """Places of the examples that stay, rising; DataError where more than one in a hundred is a repeat."""
    n = len(hashes)
    order = np.random.default_rng([seed, 0x647570]).permutation(n)
    if people is None:
        first = order[np.unique(hashes[order], return_index=True)[1]]
        kept = np.sort(first)
    else:  # an input belongs to the first person who has it
        _, place, group = np.unique(hashes[order], return_index=True, return_inverse=True)
        kept = np.sort(order[people[order] == people[order][place][group]])
    pairs = n if people is None else len(np.unique(pair_hashes(hashes, people.astype(np.uint64))))
    repeats = pairs - len(np.unique(hashes))
    if repeats > _MOST_REPEATS * pairs:
        whose = "" if people is None else " of different people"
        raise DataError(f"data hold {repeats} repeats among {pairs} inputs{whose}, more than one in a hundred: drop "
                        "the repeats, or say with people= which examples are one person's, because copies on both "
                        "sides of a split count nothing new")  # fmt: skip
    return kept


def _pair(data: Any) -> tuple[Any, Any]:
    if isinstance(data, tuple | list) and len(data) == 2:
        return data[0], data[1]
    if isinstance(data, Mapping) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise ValueError(f"data must be a pair (inputs, labels) or a Dataset of such pairs, got {type(data).__name__}; "
                         "collect the batches of a loader first")  # fmt: skip
    if hasattr(data, "dtype") or hasattr(data, "columns"):
        raise ValueError(f"data must be a pair (inputs, labels), got one {type(data).__name__}: pass (X, y)")
    return _collected(data)


def _collected(data: Any) -> tuple[Any, Any]:
    """The pairs of a torch Dataset as two tensors."""
    import torch

    inputs, labels = list[Any](), list[Any]()
    for place in range(len(data)):
        pair = data[place]
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ValueError(f"data must give pairs (input, label), got {type(pair).__name__} at {place}")
        inputs.append(torch.as_tensor(np.asarray(pair[0])))
        labels.append(np.asarray(pair[1]).item())
    if not inputs:
        raise ValueError("data must have at least 4 examples, got none")
    return torch.stack(inputs), labels


def _array(values: Any) -> Any:
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    values = values.to_numpy() if hasattr(values, "to_numpy") else values
    return values.ravel() if isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] == 1 else values


def _length(inputs: Any) -> int:
    try:
        return int(inputs.shape[0]) if hasattr(inputs, "shape") else len(inputs)
    except (TypeError, IndexError) as error:
        raise ValueError(f"inputs must have one row for each example, got {type(inputs).__name__}") from error


def _hashes(inputs: Any) -> UInt64[np.ndarray, " n"]:
    """A hash of each input: numbers as they are, columns of a data frame by the places of their values."""
    if hasattr(inputs, "tocsr"):
        rows = inputs.tocsr()
        parts = [row_hashes(rows[at : at + _CHUNK].toarray()) for at in range(0, rows.shape[0], _CHUNK)]
        return np.concatenate(parts)
    values = inputs.detach().cpu().numpy() if hasattr(inputs, "detach") else inputs
    values = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    if values.ndim == 1:
        values = values[:, None]
    if values.dtype.kind not in "OUS":
        return row_hashes(values, name="inputs")
    texts = np.array([[repr(each) for each in row] for row in values.reshape(len(values), -1)])
    coded = [np.unique(texts[:, column], return_inverse=True)[1] for column in range(texts.shape[1])]
    return row_hashes(np.stack(coded, axis=1).astype(np.int64), name="inputs")
