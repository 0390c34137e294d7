"""What a certificate says, and how one of its numbers is judged.

A check is a function that returns nothing, raises ``Wrong`` where something does not follow, or ``Unchecked`` where the
files do not tell. ``judged`` makes a ``Statement`` of it.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import Real, ball, total

FOLLOWS, DOES_NOT, CANNOT = "follows", "does not follow", "cannot be checked"

GROUPED = ("person", "document")
"""Records that may have several examples each."""
LOST = "routes that came to nothing"
OTHERS = "other certificates compared"
"""Entries of a budget beside those of the certificate itself."""
_BOUGHT = (
    "bound",
    "PAC step",
    "test set",
    "groups",
    "union over networks",
    "transfer",
    "privacy tail",
    "unbounded privacy loss",
)
"""Entries of a budget that pay for the bound itself; others pay for what it was given."""


class Unchecked(Exception):
    """Why a statement can be neither confirmed nor refuted."""


class Wrong(Exception):
    """Why a statement does not follow."""


# What reading a record may raise that is not as it was written.
DAMAGED = (
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    ZeroDivisionError,
)


class Fields(dict[str, Any]):
    """An object of a JSON file, whose entries can be read as attributes."""

    def __getattr__(self, name: str) -> Any:
        """The entry."""
        if name not in self:
            raise AttributeError(f"there is no {name!r}")
        return self[name]

    def part(self, name: str) -> "Fields":
        """The object under this name; an empty one where there is none."""
        return self.get(name) or Fields()


def fields(value: Any) -> Any:
    """A JSON value in which every object is ``Fields``."""
    if isinstance(value, Fields):
        return value
    if isinstance(value, Mapping):
        return Fields({name: fields(part) for name, part in value.items()})
    if isinstance(value, list | tuple):
        return [fields(part) for part in value]
    return value


def parsed(text: str | bytes) -> Any:
    """The value of a JSON text; a name that stands twice is refused, since readers differ in which one they take."""

    def once(pairs: list[tuple[str, Any]]) -> Fields:
        found = Fields()
        for name, value in pairs:
            if name in found:
                raise ValueError(f"the name {name!r} stands twice in it")
            found[name] = value
        return found

    return json.loads(text, object_pairs_hook=once)


class Statement(NamedTuple):
    """A verdict on one thing that a file says."""

    subject: str
    claim: str
    verdict: str
    why: str = ""


def judged(
    subject: str, claim: str, check: Callable[..., None], *given: Any
) -> Statement:
    """The verdict of a check that raises Wrong or Unchecked."""
    try:
        check(*given)
    except Wrong as reason:
        return Statement(subject, claim, DOES_NOT, str(reason))
    except Unchecked as reason:
        return Statement(subject, claim, CANNOT, str(reason))
    except DAMAGED as reason:
        why = f"the record is damaged: {type(reason).__name__} {reason}"
        return Statement(subject, claim, DOES_NOT, why)
    return Statement(subject, claim, FOLLOWS)


def other_format(
    found: Any,
    known: str,
    maker: str = "",
) -> str:
    """Why a file of another format is not judged, and what can judge it, if anything can."""
    if f"{str(found).partition('/')[0]}/" not in known:
        return f"it is of format {found!r}, of which this checker knows no version: it checks {known}"
    who = maker or "the version of pacdp that wrote it"
    return f"it is of format {found!r}, and this version checks {known!r}: check it with {who}"


def without_unit(measures: str) -> tuple[str, str | None]:
    """A risk's name, and the kind of record that has several examples, where it is the risk of a new one."""
    for unit in GROUPED:
        ending = f" of a new {unit}"
        if measures.endswith(ending):
            return measures.removesuffix(ending), unit
    return measures, None


def number(value: Any) -> Real:
    """A number of a record, "inf" among them."""
    if value == "inf":
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Wrong(f"{value!r} is no number")
    if math.isnan(value):
        raise Wrong(f"{value!r} is no number")
    return value


def exactly(value: Any) -> arb:
    """A number of a record as a ball."""
    return ball(number(value))


def agree(
    what: str,
    claimed: Any,
    exact: arb,
    *,
    relative: float = 1e-9,
) -> None:
    """Raise Wrong unless the claim is the exact number, or above it by no more than rounding up explains."""
    said = exactly(claimed)
    if said.is_finite() and exact.is_finite():
        room = abs(exact) * relative + 1e-12
        holds = not said < exact and not said > exact + room
    else:
        holds = number(claimed) == math.inf and not exact.is_finite()
    if not holds:
        raise Wrong(
            f"{what} is {claimed!r} where the inputs give {exact.str(12, radius=False)}"
        )


def about(
    what: str,
    claimed: Any,
    exact: arb,
) -> None:
    """Raise Wrong unless the claim is the exact number but for rounding, up or down."""
    room = abs(exact) * 1e-9 + 1e-12
    if not abs(exactly(claimed) - exact) <= room:
        raise Wrong(
            f"{what} is {claimed!r} where the inputs give {exact.str(12, radius=False)}"
        )


class Asked(dict[str, Any]):
    """Entries of a record, and the names of those that a check asked for."""

    def __init__(self, entries: Mapping[str, Any]) -> None:
        super().__init__(entries)
        self.names = set[object]()

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.names.add(name)
        return super().__contains__(name)

    def get(
        self,
        name: str,
        default: Any = None,
    ) -> Any:
        """The entry, or the default."""
        return self[name] if name in self else default


class Kind(NamedTuple):
    """What the name of a certificate says.

    Attributes:
        head: what stands before the theorem's name: the predictor, the loss, or the examples that it is about.
        prefix: of the price.
        formula: the name in the tables of formulas.
    """

    head: str
    prefix: str
    formula: str


class Claim:
    """One certificate's record, its numbers as they are written; ``c["x"]`` is the input x.

    Attributes:
        inputs, terms, budget, costs: those of the record, the costs in nats by name.
        event: the mechanisms behind its price, from its inputs or from its report.
        kind: what its name says.
    """

    def __init__(
        self,
        record: Fields,
        privacy: Mapping[str, Any] | None = None,
    ) -> None:
        self.record = record
        self.name = str(record.name)
        self.inputs = Asked(record.inputs)
        self.terms = Asked(record.terms)
        self.budget = record.budget
        self.costs = {one.name: number(one.nats) for one in record.costs}
        self.event = (privacy or {}).get("event")
        if said := self.inputs.get("privacy_event"):
            self.event = parsed(said)
        self.kind = Kind("", "", "")

    def __getitem__(self, name: str) -> arb:
        return ball(self.raw(name))

    def raw(self, name: str) -> Any:
        """An input as it is written."""
        if name not in self.inputs:
            raise Wrong(f"the input {name} is not in the file")
        value = self.inputs[name]
        if isinstance(value, str) and value != "inf":
            return value
        return number(value)

    def listed(self, name: str) -> list[arb]:
        """An input that is a list of numbers."""
        words = str(self.raw(name)).split(",")
        return [ball(float(word)) for word in words]

    def numbered(
        self,
        stem: str,
        first: int,
    ) -> list[arb]:
        """Inputs of one name and a number, from this number on."""
        count = 0
        for name in self.inputs:
            if name.startswith(stem) and name.removeprefix(stem).isdigit():
                count += 1
        return [self[f"{stem}{place}"] for place in range(first, first + count)]

    def term(self, name: str) -> arb:
        """An ingredient that is not among the inputs."""
        return exactly(self.terms[name])

    def term_agrees(
        self,
        name: str,
        exact: arb,
    ) -> None:
        """Raise Wrong unless the term is the exact number, or it rounded up."""
        agree(f"terms.{name}", self.terms[name], exact)

    def term_is_about(
        self,
        name: str,
        exact: arb,
    ) -> None:
        """Raise Wrong unless the term is the exact number but for rounding."""
        about(f"terms.{name}", self.terms[name], exact)

    def paid(self, *names: str) -> arb:
        """What the budget holds under these names."""
        return total(
            exactly(self.budget[name]) for name in names if name in self.budget
        )

    @property
    def price_prob(self) -> arb:
        """The failure probability at which each price is paid: of the bound's, one share for each recursive step."""
        steps = 1 + len(self.numbered("n_", 2))
        return self.paid(*_BOUGHT) / steps

    def bound_prob(self, *more: str) -> arb:
        """What the budget holds for the bound itself, and under these names."""
        return self.paid(*_BOUGHT, *more)

    @property
    def n(self) -> int:
        """How many independent records."""
        n = self.raw("n")
        if not isinstance(n, int) or n < 1:
            raise Wrong(f"n is {n!r}")
        return n

    @property
    def size(self) -> arb:
        """What costs are divided by: n, or the effective number of people in a bound for a new example."""
        if self.kind.formula == "new_example_pac_bayes":
            return self["examples"] / self["most_examples"]
        return arb(self.n)

    @property
    def nats(self) -> arb:
        """All costs together, each what it is said to be."""
        return total(ball(cost) for cost in self.costs.values()).max(arb(0))

    @property
    def share(self) -> arb:
        """The costs per record."""
        return self.nats / self.n
