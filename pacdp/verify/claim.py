"""What a record says, and how one of its numbers is judged.

A check is a function that returns nothing, raises ``Wrong`` where something does not follow, or ``Unchecked`` where the
files do not tell. ``judged`` makes a ``Statement`` of it.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import count, takewhile
from math import inf, isnan
from typing import Any, ClassVar, NamedTuple

from flint import arb  # pyright: ignore[reportMissingImports]
from numpy import errstate

from pacdp.verify.arithmetic import ZERO, Real, ball, total

FOLLOWS = "follows"
DOES_NOT = "does not follow"
CANNOT = "cannot be checked"

GROUPED = ("person", "document")
"""Records that may have several examples each."""
BOUGHT = (
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


Checks = Mapping[str, Callable[..., object]]
"""Functions that judge what is given, by the name of what they judge."""


class Unchecked(Exception):
    """Why a statement can be neither confirmed nor refuted."""

    verdict = CANNOT


class Wrong(Exception):
    """Why a statement does not follow."""

    verdict = DOES_NOT


class Missing(AttributeError):
    """Which entry a record does not have."""


# What reading a record may raise that is not as it was written.
DAMAGED = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
)


class Fields(dict[str, Any]):
    """An object of a JSON file, which knows which of its entries were asked for.

    ``record.name`` has to be there; ``record["name"]`` is None where it is not.

    Attributes:
        asked_last: the entry that was asked for last, in any record.
    """

    asked_last: ClassVar = ""

    def __init__(self, entries: Any = ()) -> None:
        super().__init__(entries)
        self.asked = set()
        if len(self) < len(entries):
            names = Counter(name for name, _ in entries)
            twice = names.most_common(1)[0][0]
            raise ValueError(
                f"the name {twice!r} stands twice in it"
            )

    def __getitem__(self, name: str) -> Any:
        self.asked.add(name)
        Fields.asked_last = name
        return dict.get(self, name)

    def __getattr__(self, name: str) -> Any:
        """The entry."""
        if name not in self.keys():
            raise Missing(f"there is no {name!r}")
        return self[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The entry, or the default."""
        return self[name] if name in self.keys() else default

    def part(self, name: str) -> "Fields":
        """The object under this name; an empty one where there is none."""
        return self[name] or Fields()


def ask_all(said: Any) -> None:
    """Take all of a value for asked, since it is held against another one as a whole."""
    parts = said if isinstance(said, list | tuple) else []
    if isinstance(said, Fields):
        said.asked.update(said)
        parts = said.values()
    for part in parts:
        ask_all(part)


def parsed(value: Any) -> Any:
    """A JSON text, or a value as JSON has it, with ``Fields`` for every object.

    A name that stands twice is refused, since readers differ in which one they take.
    """
    if isinstance(value, Fields):
        return value
    if not isinstance(value, str | bytes):
        value = json.dumps(value)
    return json.loads(value, object_pairs_hook=Fields)


class Statement(NamedTuple):
    """A verdict on one thing that a file says."""

    subject: str
    claim: str
    verdict: str
    why: str = ""


def judged(
    subject: str, checks: Checks, *given: Any
) -> list[Statement]:
    """The verdicts of these checks, in their order; each raises Wrong or Unchecked, or is silent."""
    found = []
    for claim, check in checks.items():
        verdict = FOLLOWS
        why = ""
        try:
            with errstate(all="ignore"):  # whatever a caller set
                check(*given)
        except (Wrong, Unchecked) as reason:
            verdict = reason.verdict
            why = str(reason)
        except DAMAGED as reason:
            verdict = DOES_NOT
            why = damage(reason)
        found.append(Statement(subject, claim, verdict, why))
    return found


def damage(error: Exception) -> str:
    """What is not as it was written, by the name of its entry, and what helps."""
    what = f"what stands under {Fields.asked_last!r} is of another kind than there has to be ({error})"
    if isinstance(error, Missing):
        what = str(error)
    return f"the record is damaged: {what}; check the file as it was written"


def require_asked(names: Iterable[str], of: str = "file") -> None:
    """Raise Unchecked where there are names of what no check asked for."""
    if found := ", ".join(dict.fromkeys(names)):
        raise Unchecked(f"nothing in the {of} determines {found}")


def require(holds: object, why: str) -> None:
    """Raise Wrong, for this reason, unless it holds."""
    if not holds:
        raise Wrong(why)


def same(what: str, said: Any, expected: Any) -> None:
    """Raise Wrong unless what is said is what is expected."""
    require(
        said == expected,
        f"{what} is {said!r}, and it is {expected!r}",
    )
    ask_all((said, expected))


def hold(table: str, **files: Any) -> None:
    """Raise Wrong unless in every line ``file.name = file.part.name`` of a table both are the same.

    A name with ? may be missing, and then its line asks for nothing.
    """
    nothing = ()
    for line in table.strip().splitlines():
        values = []
        for side in line.split(" = "):
            absent = nothing if "?" in side else None
            found: Any = files
            for name in side.strip("?").split("."):
                found = (found or {}).get(name, absent)
            values.append(found)
        if nothing not in values:
            same(line.partition(" = ")[0], *values)


def number(value: Any) -> Real:
    """A number of a record, "inf" among them."""
    if value == "inf":
        return inf
    numeric = type(value) in (int, float) and not isnan(value)
    require(numeric, f"{value!r} is no number")
    return value


def exactly(value: Any) -> arb:
    """A number of a record as a ball."""
    return ball(number(value))


def agree(
    what: str,
    claimed: Any,
    exact: arb,
    relative: float = 1e-9,
    below: int = 0,
    floor: float = 1e-12,
) -> None:
    """Raise Wrong unless the claim is the exact number, or above it by no more than rounding up explains.

    With ``below`` 1 it may lie as far below. A ball that is wider than this room decides nothing, and nothing follows.
    """
    said = exactly(claimed)
    room = abs(exact) * relative + floor
    holds = said == exact  # infinite both
    if exact.is_finite():
        least = exact - room * below
        holds = exact.rad() <= room.mid() and not (
            said < least or said > exact + room
        )
    given = exact.str(12, radius=False)
    require(
        holds,
        f"{what} is {claimed!r} where the inputs give {given}",
    )


def about(
    what: str, claimed: Any, exact: arb, floor: float = 1e-12
) -> None:
    """Raise Wrong unless the claim is the exact number but for rounding, up or down."""
    agree(what, claimed, exact, below=1, floor=floor)


class Claim:
    """One certificate's record; an input is the exact number that is written, ``c.risk`` or ``c["risk"]``.

    Attributes:
        inputs, terms, budget, costs: those of the record, the costs in nats by name.
        nats: all costs together, each what it is said to be.
        event: the mechanisms behind its price, from its inputs or from its report.
        losses_known: whether no loss was given, and called as anybody likes.
        head: what stands before the theorem's name: the predictor, the loss, or the examples that it is about.
        prefix: of the price.
        formula: the name in the tables of formulas.
    """

    head: str
    prefix: str
    formula: str

    def __init__(
        self,
        record: Fields,
        privacy: Mapping[str, Any] | None = None,
        losses_known: bool = False,
    ) -> None:
        self.record = record
        self.losses_known = losses_known
        self.name = str(record.name)
        self.inputs = record.inputs
        self.terms = record.terms
        self.budget = record.budget
        self.costs = {
            one.name: number(one.nats) for one in record.costs
        }
        self.nats = total(map(ball, self.costs.values())).max(ZERO)
        self.event = (privacy or {}).get("event")
        if said := self.inputs.get("privacy_event"):
            self.event = parsed(said)

    def __getitem__(self, name: str) -> arb:
        return exactly(self.inputs[name])

    def __getattr__(self, name: str) -> arb:
        """The input."""
        return exactly(getattr(self.inputs, name))

    def whole(self, name: str, most: Real = inf) -> int:
        """An input that is a whole number from 0 to this."""
        said = self.inputs[name]
        holds = type(said) is int and 0 <= said <= most
        require(holds, f"{name} is {said!r}, of {most}")
        return said

    def listed(self, name: str) -> list[arb]:
        """An input that is a list of numbers."""
        words = str(self.inputs[name]).split(",")
        return [*map(ball, map(float, words))]

    def numbered(self, stem: str, first: int) -> list[arb]:
        """Inputs of one name and a number, from this number on."""
        names = (f"{stem}{place}" for place in count(first))
        there = takewhile(self.inputs.__contains__, names)
        return [self[name] for name in there]

    def term(self, name: str) -> arb:
        """An ingredient that is not among the inputs."""
        return exactly(self.terms[name])

    def terms_are(
        self, floor: float = 1e-12, /, **exact: arb
    ) -> None:
        """Raise Wrong unless these terms are the exact numbers but for rounding."""
        for name, value in exact.items():
            about(f"terms.{name}", self.terms[name], value, floor)

    def paid(self, *names: str) -> arb:
        """What the budget holds under these names."""
        return total(
            exactly(self.budget.get(name, 0)) for name in names
        )

    @property
    def price_prob(self) -> arb:
        """The failure probability at which each price is paid: of the bound's, one share for each recursive step."""
        steps = 1 + len(self.numbered("n_", 2))
        return self.paid(*BOUGHT) / steps

    @property
    def n(self) -> int:
        """How many independent records."""
        n = self.whole("n")
        require(n, "n is 0")
        return n

    @property
    def size(self) -> arb:
        """What costs are divided by: n, or the effective number of people in a bound for a new example."""
        if self.formula == "new_example_pac_bayes":
            return self.people
        return arb(self.n)

    @property
    def people(self) -> arb:
        """The effective number of people: examples over the most of one; there are no more than people."""
        found = self.examples / self.most_examples
        why = f"{float(found)} effective people, of {self.n}"
        require(0 < found <= self.n, why)
        return found

    @property
    def share(self) -> arb:
        """The costs per record."""
        return self.nats / self.n


class Price(NamedTuple):
    """What a certificate claims to take the place of ln(1/δ).

    Attributes:
        c: the claim; its budget says at which failure probability the price is paid.
        what: how the price is called where it is wrong.
        claimed: the price in nats.
        n: how many records.
        suffix: of the terms that belong to this price, in a recursion.
    """

    c: Claim
    what: str
    claimed: Real
    n: int
    suffix: str = ""

    @property
    def log(self) -> arb:
        """ln(1/δ)."""
        return -self.c.price_prob.log()

    def term(self, name: str) -> Any:
        """A term of this price, as it is written."""
        return self.c.terms[name + self.suffix]
