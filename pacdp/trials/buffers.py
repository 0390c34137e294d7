"""Whether a network carries rows of the data that a bound rests on, beside the weights that the bound pays for.

Every theorem here takes a network that is a function of its weights and of nothing else that depends on the bound's
rows. A memory of the training set in a buffer, an attribute or a closure is such a dependence, and costs nothing in
KL: a nearest-neighbour network has no training error and any test error.
"""

import functools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32, Int64, Shaped, UInt64
from torch import Tensor, nn

from pacdp.data import DataError
from pacdp.data.hashing import array_of, row_hashes
from pacdp.trials.reachable import reachable

_FEW = 10
_TRIED, _LEAST_WIDTH, _ALIKE, _LARGEST, _AMONG = 16, 16, 0.9999, 2**26, 2**20
"""Inputs that are looked for changed, the fewest numbers of one, what correlation tells, the largest tensor, numbers of
the inputs among which each must be told from all others."""
_BESIDE = 3
"""The most columns of a table beside those of the inputs, such as a label and an id."""


class Held(NamedTuple):
    """A tensor that holds rows: where in the network it is, and how many distinct ones."""

    where: str
    rows: int


class Holdings:
    """The tensors and arrays in a network that hold some inputs, which may come batch by batch.

    Looked at are parameters, buffers (saved or not) and attributes of the network and of whatever objects, classes,
    lists, dictionaries, methods, partial functions, closures, caches and generators it refers to, as rows in their
    own order and, with two dimensions, as columns; bytes and lists of numbers or rows count as arrays. A row counts
    if its numbers are exactly an input's, in any shape and number format, or an input's times 255 as bytes; data
    frames are read row by row, and tables with up to three columns before or after those of the inputs. Of whole
    numbers there must be more than of inputs made up of the same numbers, or half. Rows of one number over and over
    do not count, because zeros and ones are everywhere, and where an input is a single number a tensor must hold half
    as many as there are inputs, and ten, as no list of all ages does. Of 16 inputs of each batch with sixteen numbers
    or more it is also looked whether the tensor holds a tenth of them rounded, scaled or shifted, or either half of
    them: rows of which a correlation is at least 0.9999, where no two inputs of the batch have that. Not found: rows
    that were changed otherwise, sparse or compressed ones, and what a file or a global variable holds.

    Args:
        network: a module, or any function.
        paid: names of parameters as in ``module.named_parameters()`` whose law the bound pays for by its KL: these may
            depend on the data.
        around: whether the global variables are looked at too that its functions read, and what they name of modules,
            but for those of libraries.
        without: identities of things that are not looked into.
    """

    def __init__(
        self,
        network: Any,
        *,
        paid: Collection[str] = (),
        around: bool = False,
        without: Collection[int] = (),
    ) -> None:
        named = network.named_parameters() if isinstance(network, nn.Module) else ()
        self._network, self._exempt = (
            network,
            {id(tensor) for name, tensor in named if name in paid},
        )
        self._around, self._without = around, without
        self._hashed = functools.cache(lambda width: self._own(width, _hashes_by_width))
        self._cut = functools.cache(lambda width: self._own(width, _rows_of))

    def _own(
        self, width: int, read: Callable[[Tensor | np.ndarray, int], Any]
    ) -> list[tuple[str, Any]]:
        """What is read of each tensor as rows of a width, where there is something."""
        everything = _tensors(self._network, around=self._around, without=self._without)
        own = (one for one in everything if id(one[1]) not in self._exempt)
        found = ((where, read(tensor, width)) for where, tensor in own)
        return [(where, rows) for where, rows in found if len(rows)]

    def of(
        self, inputs: Any, *, hashes: UInt64[np.ndarray, " n"] | None = None
    ) -> tuple[Held, ...]:
        """Those that hold some of these inputs, whose hashes may be known; a tensor's have no rows of one number.

        Raises:
            DataError: inputs are no numbers, or none.
        """
        width = int(np.prod(np.shape(inputs)[1:]))
        hashes = _hashes(inputs, "inputs") if hashes is None else np.unique(hashes)
        many = max(_FEW, (len(hashes) if width > 1 else len(inputs)) / 2)
        counted = (
            (Held(where, len(np.intersect1d(hashes, rows))), rows)
            for where, rows in self._hashed(width)
        )
        exact = tuple(
            one
            for one, rows in counted
            if one.rows >= many or (width > 1 and one.rows > _by_chance(inputs, rows, one.rows))
        )
        return exact or tuple(self._alike(array_of(inputs, "inputs").reshape(-1, width)))

    def _alike(self, rows: Shaped[np.ndarray, "rows width"]) -> Iterator[Held]:
        """Tensors that hold some of the inputs, or of their halves, but for rounding, scale and shift."""
        if rows.dtype.kind not in "biuf":
            return
        rows = rows[: max(_TRIED, _AMONG // rows.shape[1])]
        half, least = rows.shape[1] // 2, max(2, math.ceil(0.1 * min(_TRIED, len(rows))))
        for pieces in ([rows], [rows[:, :half], rows[:, -half:]]):
            width = pieces[0].shape[1]
            if width < _LEAST_WIDTH:
                continue
            wanted = [_standardised(piece[:_TRIED]) for piece in pieces]
            for where, held in self._cut(width):
                if _most_alike(held, wanted) < least:
                    continue
                apart = [_told_apart(_standardised(piece)) for piece in pieces]
                if (most := _most_alike(held, apart)) >= least:
                    yield Held(where, most)

    def require_unread(self, inputs: Any, *, who: str, what: str, mend: str) -> None:
        """Refuse training that has some of these inputs at hand; raises DataError."""
        if found := self.of(inputs):
            raise DataError(
                f"{who} refers to {found[0].rows} of the {len(inputs)} inputs that {what} "
                f"({found[0].where.strip()}): {mend}"
            )

    def require_none(
        self,
        inputs: Any,
        *,
        hashes: UInt64[np.ndarray, " n"] | None = None,
        whose: str = "the bound's",
    ) -> None:
        """Refuse a network that holds inputs of the bound set or of a test set, as far as they are found.

        Raises:
            DataError: it does; the sentence names the first place and counts.
        """
        found = self.of(inputs, hashes=hashes)
        if not found:
            return
        first, *others = found
        more = f" (and {len(others)} more of its tensors hold some)" if others else ""
        raise DataError(
            f"{first.where} of the network holds {first.rows} of {whose} {len(inputs)} inputs{more}, and a bound "
            "pays for random weights alone: remove them, or certify other examples."
        )


def where_whole(
    root: Any,
    labels: Shaped[np.ndarray, " n"],
    sources: Collection[int] = (),
    *,
    without: Collection[int] = (),
) -> str | None:
    """Where all labels of a sample stand in their order, under whatever names, or a data set that gives them.

    Rows may stand there in another form, as bytes that are yet to be scaled or as files, or be named by their places.
    Global variables that functions read are looked at too, and things of the identities ``without`` are not; data sets
    are those of the identities ``sources``.

    Returns:
        The place, or None where neither is found.
    """
    own = _parted(labels)
    for where, one in _tensors(root, around=True, without=without):
        held = np.asarray(array_of(one, "tensor")) if _is_dense(one) else np.empty(0)
        one_hot = held.ndim == 2 and held.size > len(held) and held.dtype.kind in "biuf"
        columns = [held.ravel()]
        if one_hot and len(held) == len(own):  # or in a table of which they are a column
            columns = [held.argmax(axis=1), held[:, 0], held[:, -1]]
        for each in columns:
            if each.size == len(own) >= _FEW and np.array_equal(_parted(each), own):
                return where
    every, others = (
        Counter(where for where, _ in reachable(root, without={*without, *left}, around=True))
        for left in ((), sources)
    )
    return next(iter(every - others), None)


def _is_dense(one: Tensor | np.ndarray) -> bool:
    """Whether a tensor or array has numbers or texts that NumPy can compare."""
    try:
        return array_of(one, "tensor").dtype.kind in "biufUS"
    except DataError:
        return False


def _parted(values: Shaped[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
    """For each of some names the place at which it comes first."""
    _, first, which = np.unique(values, return_index=True, return_inverse=True)
    return first[which]


def _by_chance(inputs: Any, held: UInt64[np.ndarray, " k"], found: int) -> float:
    """How many of inputs that are whole numbers a tensor may hold by chance, where it holds so many of them.

    Inputs of which each number is another's tell: of truth values and small counts many are rows of any mask.
    """
    rows = array_of(inputs, "inputs").reshape(len(inputs), -1)
    if not found or rows.dtype.kind not in "biuf" or not (rows == np.round(rows)).all():
        return 0.0
    mixed = (np.random.default_rng(k).permuted(rows, axis=0) for k in range(_TRIED))
    most = max(len(np.intersect1d(held, _hashes(one, "inputs"))) for one in mixed)
    return most + 3.0 * math.sqrt(most)


def _standardised(rows: Shaped[np.ndarray, "rows width"]) -> Float32[np.ndarray, "kept width"]:
    """Rows less their means, over their norms; those of one number over and over are left out."""
    centred = rows - rows.mean(axis=1, dtype=np.float64, keepdims=True)
    norms = np.sqrt(np.einsum("ij,ij->i", centred, centred))[:, None]
    most = np.maximum(rows.max(axis=1, keepdims=True), -1.0 * rows.min(axis=1, keepdims=True))
    varied = norms > 1e-9 * (1.0 + most)
    kept = (varied & np.isfinite(norms))[:, 0]
    return (centred[kept] / norms[kept]).astype(np.float32)


def _most_alike(held: list[tuple[np.ndarray, np.ndarray]], wanted: list[np.ndarray]) -> int:
    """How many of those wanted any part of a tensor has, of :func:`_rows_of`."""
    return max(_count_alike(rows, few, own) for rows, few in held for own in wanted)


def _told_apart(rows: Float32[np.ndarray, "n width"]) -> Float32[np.ndarray, "k width"]:
    """The first rows, but for those that correlate with another row as with a copy.

    All do where one measurement is far larger than all others, say.
    """
    first, others = rows[:_TRIED], np.unique(rows, axis=0)
    return first[(np.abs(first @ others.T) >= _ALIKE).sum(axis=1) == 1]


def _rows_of(tensor: Tensor | np.ndarray, width: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """What a tensor can be cut into, standardised, with :func:`_some` of it; nothing of one that is very large, or no
    real numbers."""
    cuts = [
        rows for rows in _cuts(tensor, width) if rows.size <= _LARGEST and rows.dtype.kind != "c"
    ]
    return [(rows, _some(rows)) for rows in map(_standardised, cuts) if len(rows)]


def _some(rows: Float32[np.ndarray, "rows width"]) -> Float32[np.ndarray, "rows few"]:
    """Some coordinates of each row, side by side."""
    return np.ascontiguousarray(rows[:, :: max(1, rows.shape[1] // _LEAST_WIDTH)])


def _count_alike(
    rows: Float32[np.ndarray, "rows width"],
    v: Float32[np.ndarray, "rows few"],
    wanted: Float32[np.ndarray, "k width"],
) -> int:
    """How many of those wanted correlate with some row by 0.9999 and more, or less than -0.9999.

    |u·v| >= c of unit vectors means |u ∓ v|² <= 2 - 2c, and so on some of their coordinates, as of few other pairs.
    """
    u = _some(wanted)
    apart = (u * u).sum(1)[:, None] + (v * v).sum(1) - 2.0 * np.abs(u @ v.T)
    left = rows[(apart <= 2.0 - 2.0 * _ALIKE + 1e-5).any(axis=0)]
    return int((np.abs(wanted @ left.T) >= _ALIKE).any(axis=1).sum())


def _hashes_by_width(tensor: Tensor | np.ndarray, width: int) -> UInt64[np.ndarray, " k"]:
    """Hashes of the rows that a tensor can be cut into; none if it is sparse, without values or not numbers."""
    cuts = _cuts(tensor, width)
    cuts += [np.divide(rows, 255, dtype=np.float32) for rows in cuts if rows.dtype == np.uint8]
    return np.concatenate(
        [np.empty(0, dtype=np.uint64), *(_hashes(rows, "tensor") for rows in cuts)]
    )


def _cuts(tensor: Tensor | np.ndarray, width: int) -> list[Shaped[np.ndarray, "rows width"]]:
    """A tensor's numbers as rows of some width, in their own order and, with two dimensions, as columns."""
    try:
        array = array_of(tensor, "tensor")
    except DataError:
        return []
    if not array.size or array.dtype.kind not in "biufc":
        return []
    cuts = [array.reshape(-1, width)] if array.size % width == 0 else []
    if array.ndim == 2 and len(array) == width > 1:
        cuts.append(array.T)
    beside = array.shape[-1] - width if array.ndim in (1, 2) and width > 1 else 0
    if 0 < beside <= _BESIDE:
        table = array.reshape(-1, width + beside)
        cuts += [table[:, first : first + width] for first in range(beside + 1)]
    return cuts


def _hashes(values: Any, name: str) -> UInt64[np.ndarray, " k"]:
    """Hashes of the rows with two different numbers; where a row is one number, of all."""
    hashes = row_hashes(values, name=name)
    rows = array_of(values, name).reshape(len(hashes), -1)
    return np.unique(hashes[(rows != rows[:, :1]).any(axis=1)] if rows.shape[1] > 1 else hashes)


def _tensors(
    network: Any, *, around: bool, without: Collection[int] = ()
) -> Iterator[tuple[str, Tensor | np.ndarray]]:
    """Every tensor and array that can be reached from the network.

    Bytes are read as bytes and as numbers of either precision.
    """
    for where, one in reachable(network, without=without, around=around):
        if isinstance(one, Tensor | np.ndarray):
            yield where, one
        elif isinstance(one, bytes) and one:
            kinds = map(np.dtype, ("u1", "f4", "f8"))
            yield from (
                (where, np.frombuffer(one, kind)) for kind in kinds if len(one) % kind.itemsize == 0
            )
