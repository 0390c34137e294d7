"""Which rows somebody saw: sorted hashes of examples, so that overlaps are facts and not declarations.

What a prior learnt from, what a privacy claim protects, what a bound and a test rest on each carry their `Rows`. Equal
rows are found wherever they stand, in O(n log n), with inputs under another label and, where people are known, the
people themselves. What is not found: a row of which any number was changed, say by a channel appended, by noise, by
standardising. Rows are made of the data: whoever has a record can look whether its hash is here. They stay out of
whatever a private run publishes (`pacdp.data.hashing` has the hash and what it promises).

Certificates ask of rows that they are apart from those of a prior or a test, covered by a privacy claim, and no copies.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from jaxtyping import Int64

from pacdp.data.errors import DataError
from pacdp.data.hashing import (
    BRAIN,
    DOUBLE,
    HALF,
    SINGLE,
    WHOLE,
    Hashes,
    array_of,
    pair_hashes,
    precision_of,
    row_hashes,
)
from pacdp.data.places import require_other_places
from pacdp.store.record import record

SEVERAL = -1
"""The width of inputs of several widths or types: padded beside longer ones, or rounded, an example is another row."""
READ_ONCE = -2
"""The width of inputs from a stream or generator whose next reading gives other rows, or none."""
_OF_SEVERAL = 8
"""From which on precisions are those of several inputs."""
FORMAT = "pacdp-rows/2"
"""Names the hash; those of version 1 were others."""
FEW = 0.01
"""The largest share of rows that may repeat an input, or recur among others, before copies are suspected."""


@record(eq=False)
class Rows:
    """The hashes of n examples, aligned and sorted by example and then by person.

    Attributes:
        examples: of input and label together.
        inputs: of the input alone.
        owners: of each example's person, or None where nobody is known.
        key_mark: says of which inputs they are where examples have several by keyword; 0 of one input.
        width: how many numbers an input has; ``SEVERAL`` if they differ, ``READ_ONCE`` of some streams, and 0 where
            that is not known, as of rows that an earlier version kept in a file.
        precision: of the inputs, as `pacdp.data.hashing.precision_of` says, of several by keyword in digits to the base
            8; 0 where that is not known.
        shape: the axes of an input but those of one, of several by keyword one after the other; empty where that is not
            known. Hashes do not tell axes, and with channels first an image is another row than with channels last.
        source: the data set or loader of this process that they were read from, whose places tell of an example that
            another transform hides from a hash; or None. It is written nowhere.
    """

    examples: Hashes
    inputs: Hashes
    owners: Hashes | None = None
    key_mark: int = 0
    width: int = 0
    precision: int = 0
    shape: tuple[int, ...] = ()
    source: Any = None

    def __post_init__(self) -> None:
        """Check that the hashes belong together; raises DataError naming the field."""
        for name, array in self._arrays().items():
            if array.dtype != np.uint64 or array.ndim != 1 or len(array) != len(self.examples):
                raise DataError(
                    f"{name} of Rows must be uint64, one for each example; make them with Rows.of."
                )
            view = array.view()
            view.setflags(write=False)
            object.__setattr__(self, name, view)
        if not len(self.examples) or not np.array_equal(
            _order(self.examples, self.inputs, self.owners), np.arange(self.n)
        ):
            raise DataError(
                "examples of Rows must be sorted, and at least one; make them with Rows.of."
            )

    def __getstate__(self) -> list[Any]:
        """All but the data set, which does not go along into a pickle that somebody hands on."""
        return [None if one.name == "source" else getattr(self, one.name) for one in fields(self)]

    @classmethod
    def of(cls, inputs: Any, labels: Any, people: Any = None) -> "Rows":
        """The rows of some examples.

        Args:
            inputs: array or tensor [n, ...] of numbers, on any device.
            labels: array or tensor [n, ...] of numbers.
            people: integers [n], the number of each example's person, in one numbering for all rows that are compared.

        Raises:
            DataError: not as many labels or people as inputs, no examples, or things that are no numbers.
        """
        hashed = row_hashes(inputs, name="inputs")
        examples = pair_hashes(hashed, _each(labels, "labels", len(hashed)))
        owners = None
        if people is not None:
            people = array_of(people, "people")
            if people.ndim != 1 or people.dtype.kind not in "iu":
                raise DataError(
                    f"people must be a whole number for each example, got {people.dtype} {people.shape}."
                )
            owners = _each(people.astype(np.int64), "people", len(hashed))
        axes = np.shape(inputs)[1:]
        precision = precision_of(inputs, name="inputs")
        return cls.sorted(
            examples, hashed, owners, width=math.prod(axes), precision=precision, axes=axes
        )

    @classmethod
    def sorted(
        cls, examples: np.ndarray, inputs: np.ndarray, owners: np.ndarray | None, mark: int = 0, *,
        width: int = 0, precision: int = 0, axes: Iterable[int] = ()
    ) -> "Rows":  # fmt: skip
        """The rows of hashes in any order; raises DataError as the constructor does."""
        order = _order(examples, inputs, owners)
        return cls(
            examples=examples[order],
            inputs=inputs[order],
            owners=None if owners is None else owners[order],
            key_mark=mark,
            width=width,
            precision=precision,
            shape=tuple(k for k in axes if k > 1),
        )

    @property
    def n(self) -> int:
        """How many examples, repeats included."""
        return len(self.examples)

    @property
    def people(self) -> int | None:
        """How many people, if they are known."""
        return None if self.owners is None else len(np.unique(self.owners))

    @property
    def digest(self) -> str:
        """sha256 (hex) of the sorted hashes, people included, after the name of their format: what a certificate names.

        The order does not enter.
        """
        summed = hashlib.sha256(FORMAT.encode())
        for name, array in self._arrays().items():
            summed.update(name.encode() + array.astype("<u8").tobytes())
        return f"{FORMAT}:{summed.hexdigest()}"

    @property
    def repeats(self) -> int:
        """How many inputs, whatever their labels, are repeats; with people, repeats under one more person."""
        return self.pairs - len(np.unique(self.inputs))

    @property
    def pairs(self) -> int:
        """How many examples; with people, how many distinct pairs of input and person."""
        return (
            self.n if self.owners is None else len(np.unique(pair_hashes(self.inputs, self.owners)))
        )

    def shared(self, other: "Rows", what: str = "examples") -> int:
        """How many distinct examples, ``inputs`` whatever their labels, or ``owners`` both have.

        It is 0 of owners where either knows of none.
        """
        self._require_comparable(other)
        own, others = getattr(self, what), getattr(other, what)
        return 0 if own is None or others is None else len(np.intersect1d(own, others))

    def silent(self, other: "Rows") -> str:
        """Why it shows nothing that these share no row with ``other``: a clause, or nothing where it shows that."""
        if 0 in (self.width, other.width):
            return "the rows were kept in a file that does not say in which form inputs were: make them again"
        if READ_ONCE in (self.width, other.width):
            return (
                "rows of a stream are others at another reading, or none, as of a generator: give a list of batches, "
                "or a data set with places, without random transforms"
            )
        if SEVERAL in (self.width, other.width):
            return (
                "inputs have several widths or types, and one that was padded or rounded otherwise is another row to a "
                "hash"
            )
        if self.shape != other.shape and sorted(self.shape) == sorted(other.shape):
            return (
                f"inputs have the axes {list(self.shape)} and {list(other.shape)}, and with channels first an image is "
                "another row than with channels last: give both as the network reads them"
            )
        if (self.precision == WHOLE) != (other.precision == WHOLE):
            return (
                "some inputs are whole numbers and others are fractions, as the same images are once they are scaled: "
                "give both as the network reads them"
            )
        kinds = {self.precision, other.precision}
        if len(kinds) > 1 and max(kinds) >= _OF_SEVERAL:
            return (
                "one of several inputs holds other numbers (whole ones, or of another precision), as the same images "
                "are once they are scaled: give both as the network reads them"
            )
        if len(kinds) > 1 and kinds & {HALF, BRAIN}:
            return (
                "some inputs are of half precision and others are not, or of its other kind, as the same images are "
                "once they are rounded: give both as the network reads them"
            )
        return ""

    def summary(self) -> dict[str, Any]:
        """JSON values: digest, n and people. The digest identifies a data set to whoever has it."""
        return {"digest": self.digest, "n": self.n, "people": self.people}

    def to_arrays(self) -> dict[str, Int64[np.ndarray, " k"]]:
        """The hashes, the key's mark, the inputs' form and the format, as int64 bit for bit, which all formats know."""
        marks = {
            "key_mark": np.array([self.key_mark], dtype=np.uint64),
            "rows_form": np.array([self.width, self.precision]).view(np.uint64),
            "rows_shape": np.array(self.shape, dtype=np.uint64),
            "format": np.array([2], dtype=np.uint64),
        }
        return {name: array.view(np.int64) for name, array in (self._arrays() | marks).items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> "Rows":
        """Rows from what `to_arrays` gave, as arrays or tensors.

        Raises:
            DataError: an array is missing, they do not belong together, or an earlier version made them, whose hashes
                are other ones.
        """
        found: dict[str, np.ndarray] = {}
        beside = ("owners", "rows_form", "rows_shape")
        for name in ("examples", "inputs", "key_mark", *beside):
            if name not in arrays and name not in beside:
                raise DataError(f"Rows lack the array {name}; give what to_arrays() wrote.")
            if name in arrays:
                found[name] = array_of(arrays[name], name)
                if found[name].dtype != np.int64:
                    raise DataError(
                        f"{name} of Rows must be int64 as to_arrays() wrote them, got {found[name].dtype}."
                    )
                found[name] = found[name].view(np.uint64)
        if "format" not in arrays or array_of(arrays["format"], "format").tolist() != [2]:
            raise DataError(
                f"Rows were not hashed as {FORMAT}, and so cannot be compared; make them again by Rows.of."
            )
        mark = found.pop("key_mark")
        if mark.shape != (1,):
            raise DataError(f"key_mark of Rows must hold one number, got shape {mark.shape}.")
        form = found.pop("rows_form", np.zeros(2, dtype=np.uint64)).view(np.int64)
        if form.shape != (2,):
            raise DataError(f"form of Rows must hold two numbers, got shape {form.shape}.")
        shape = tuple(map(int, found.pop("rows_shape", np.zeros(0, dtype=np.uint64)).ravel()))
        return cls(
            key_mark=int(mark[0]), width=int(form[0]), precision=int(form[1]), shape=shape, **found
        )

    def _arrays(self) -> dict[str, Hashes]:
        named = {"examples": self.examples, "inputs": self.inputs}
        return named if self.owners is None else named | {"owners": self.owners}

    def _require_comparable(self, other: "Rows") -> None:
        if self.key_mark != other.key_mark:
            raise DataError(
                "the two Rows are of inputs by other keywords, and cannot be compared; make both alike."
            )
        if self.width > 0 and other.width > 0 and self.width != other.width:
            raise DataError(
                f"the two Rows are of inputs of {self.width} and of {other.width} numbers, of which none can be equal: "
                "give both in the form that the network reads, or leave the ones it saw to be declared."
            )
        if {self.precision, other.precision} == {SINGLE, DOUBLE}:
            raise DataError(
                "the two Rows are of inputs of double and of single precision, of which none can be equal: convert "
                "both to one, as by inputs.astype(numpy.float32)."
            )


def _each(values: Any, name: str, n: int) -> Hashes:
    hashes = row_hashes(values, name=name)
    if len(hashes) != n:
        raise DataError(f"{name} must be one for each of the {n} inputs, got {len(hashes)}.")
    return hashes


def _order(
    examples: Hashes,
    inputs: Hashes,
    owners: Hashes | None,
) -> Int64[np.ndarray, " n"]:
    return np.lexsort((inputs, examples) if owners is None else (inputs, owners, examples))


def require_apart(a: Rows, b: Rows, names: tuple[str, str] = ("a's rows", "b's rows")) -> None:
    """Refuse two sets of rows that share an example, an input under another label, or a person.

    Of data sets it is an example that both give, too, whatever transform each has.

    Raises:
        DataError: they do; the sentence counts all three.
    """
    common = np.intersect1d(a.examples, b.examples)
    shared, people = a.shared(b), a.shared(b, "owners")
    relabelled = a.shared(b, "inputs") - len(np.unique(a.inputs[np.isin(a.examples, common)]))
    if not (shared or relabelled or people):
        if a.source is not None and b.source is not None:
            require_other_places(a.source, b.source, names)
        return
    found = [_count(shared, "example")] if shared else []
    if relabelled:
        found.append(
            f"{_count(relabelled, 'more input' if shared else 'input')} under another label"
        )
    if people:
        alone = "" if found else " (by number: number people over both)"
        found.append(_count(people, "person", "people") + alone)
    raise DataError(
        f"{names[0]} and {names[1]} share {_listed(found)}: set rows aside by their place before anything is fitted, "
        "because what was fitted to a row says nothing of new ones, and rows left out for recurring leave another law."
    )


def require_covers(claim: Rows, bound: Rows) -> None:
    """Refuse a bound on rows of which a privacy claim says nothing.

    A claim by people covers them only with all the examples that the bound counts as theirs.

    Raises:
        DataError: the claim lacks an example, or the bound counts people and the claim does not, or counts others.
    """
    missing = len(np.unique(bound.examples)) - bound.shared(claim)
    if missing:
        raise DataError(
            f"the privacy claim covers {_count(claim.n, 'example')}, and {missing} of the bound's "
            f"{bound.n} are not among them: certify the rows that the private run had."
        )
    if bound.owners is None:
        return
    if claim.owners is None:
        raise DataError(
            "the privacy claim covers one example at a time and the bound counts people, who have several: train with "
            "privacy by person."
        )
    others = np.setdiff1d(
        pair_hashes(bound.examples, bound.owners), pair_hashes(claim.examples, claim.owners)
    )
    if len(others):
        raise DataError(
            f"{_count(len(others), 'example')} of the bound belong to other people than in the privacy claim: give "
            "both the same people."
        )


def require_plain(rows: Rows, *, most: float = FEW, name: str = "the bound's rows") -> None:
    """Refuse rows that repeat each other more often than real data do, because then n counts copies.

    The rule is that at most one row in a hundred has an input that an earlier row had, whatever the labels. Data as
    people collect them have some: 26 of 5,216 and 6 of 624 X-rays of `pacdp.data.load("xrays")` are repeats, byte for
    byte, none of MNIST, the digits and the malaria cells. An independent sample of a continuous law has none; of a law
    on few points (a small table of categories) it has many, rightly, and then ``most`` is the caller's to raise. With
    people a repeat under the same person is harmless, because n counts people, and only repeats under one more person
    count. The rule finds copies that blow n up; it proves no independence. Leaving repeats out is no way around it:
    what is left is a sample of another law, in which whatever recurs weighs less.

    Args:
        most: the largest share of repeats.

    Raises:
        DataError: there are more; the sentence counts them.
    """
    if rows.repeats > most * rows.pairs:
        whose = "" if rows.owners is None else " of different people"
        raise DataError(
            f"{name} hold {_count(rows.repeats, 'repeat')} among {_count(rows.pairs, 'input')}{whose}, more than "
            f"{most:.3g} of them: where they are copies, say with people= (pacdp.certify: data of inputs, labels, "
            "people) which examples are one person's, because n must not count copies; where each is a draw of its "
            "own, let pacdp.certify_predictions count the answers."
        )


def _count(number: int, thing: str, several: str = "") -> str:
    return f"{number} {thing if number == 1 else several or f'{thing}s'}"


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
