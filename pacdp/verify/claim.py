"""What a certificate says, and how one of its numbers is judged."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import Real, ball

FOLLOWS, DOES_NOT, CANNOT = "follows", "does not follow", "cannot be checked"


class Unchecked(Exception):
    """Why a statement can be neither confirmed nor refuted."""


class Wrong(Exception):
    """Why a statement does not follow."""


# What reading a record may raise that is not as it was written.
DAMAGED = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, ZeroDivisionError)

GROUPED = ("person", "document")
"""Records that may have several examples each."""


def without_unit(measures: str) -> tuple[str, str | None]:
    """A risk's name, and the kind of record that has several examples, where it is the risk of a new one."""
    for unit in GROUPED:
        if measures.endswith(f" of a new {unit}"):
            return measures.removesuffix(f" of a new {unit}"), unit
    return measures, None


def parsed(text: str | bytes) -> Any:
    """The value of a JSON text; a name that stands twice is refused, since readers differ in which one they take."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            raise ValueError(f"the name {next(one for one in names if names.count(one) > 1)!r} stands twice in it")
        return found

    return json.loads(text, object_pairs_hook=once)


class Statement(NamedTuple):
    """A verdict on one thing that a file says."""

    subject: str
    claim: str
    verdict: str
    why: str = ""


def judged(subject: str, claim: str, check: Callable[[], None]) -> Statement:
    """The verdict of a check that raises Wrong or Unchecked."""
    try:
        check()
    except Wrong as reason:
        return Statement(subject, claim, DOES_NOT, str(reason))
    except Unchecked as reason:
        return Statement(subject, claim, CANNOT, str(reason))
    except DAMAGED as reason:
        return Statement(subject, claim, DOES_NOT, f"the record is damaged: {type(reason).__name__} {reason}")
    return Statement(subject, claim, FOLLOWS)


def other_format(found: Any, known: str, maker: str = "") -> str:
    """Why a file of another format is not judged, and what can judge it, if anything can."""
    if f"{str(found).partition('/')[0]}/" not in known:
        return f"it is of format {found!r}, of which this checker knows no version: it checks {known}"
    who = maker or "the version of pacdp that wrote it"
    return f"it is of format {found!r}, and this version checks {known!r}: check it with {who}"


def number(value: Any) -> Real:
    """A number of a record, "inf" among them."""
    if value == "inf":
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise Wrong(f"{value!r} is no number")
    return value


def agree(what: str, claimed: Any, exact: arb, *, relative: float = 1e-9) -> None:
    """Raise Wrong unless the claim is the exact number, or above it by no more than rounding up explains."""
    claimed = number(claimed)
    infinite = claimed == math.inf, not exact.is_finite()
    above = ball(claimed) > exact + abs(exact) * relative + 1e-12 if not any(infinite) else infinite[0] != infinite[1]
    if above or (not any(infinite) and ball(claimed) < exact):
        raise Wrong(f"{what} is {claimed!r} where the inputs give {exact.str(12, radius=False)}")


def about(what: str, claimed: Any, exact: arb) -> None:
    """Raise Wrong unless the claim is the exact number but for rounding, up or down."""
    if not abs(ball(number(claimed)) - exact) <= abs(exact) * 1e-9 + 1e-12:
        raise Wrong(f"{what} is {claimed!r} where the inputs give {exact.str(12, radius=False)}")


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

    def get(self, name: str, default: Any = None) -> Any:
        """The entry, or the default."""
        return self[name] if name in self else default


class Claim:
    """One certificate's record, its numbers as they are written."""

    def __init__(self, record: Mapping[str, Any], privacy: Mapping[str, Any] | None = None) -> None:
        self.record, self.name = record, str(record["name"])
        self.inputs, self.terms, self.budget = Asked(record["inputs"]), Asked(record["terms"]), record["budget"]
        self.costs = {one["name"]: number(one["nats"]) for one in record["costs"]}
        said = self.inputs.get("privacy_event")
        self.event = parsed(said) if said else (privacy or {}).get("event")
        self.divided = False
        self.price: Callable[..., None] = lambda *_: None

    def __getitem__(self, name: str) -> arb:
        return ball(self.raw(name))

    def raw(self, name: str) -> Any:
        """An input as it is written."""
        if name not in self.inputs:
            raise Wrong(f"the input {name} is not in the file")
        value = self.inputs[name]
        return value if isinstance(value, str) and value != "inf" else number(value)

    def listed(self, name: str) -> list[arb]:
        """An input that is a list of numbers."""
        return [ball(float(part)) for part in str(self.raw(name)).split(",")]

    def numbered(self, stem: str, first: int) -> list[arb]:
        """Inputs of one name and a number."""
        found = [name for name in self.inputs if name.startswith(stem) and name.removeprefix(stem).isdigit()]
        return [self[f"{stem}{j}"] for j in range(first, first + len(found))]

    def term(self, name: str) -> arb:
        """An ingredient that is not among the inputs."""
        return ball(number(self.terms[name]))

    def paid(self, *names: str) -> arb:
        """What the budget holds under these names."""
        return sum((ball(number(self.budget[name])) for name in names if name in self.budget), arb(0))

    @property
    def n(self) -> int:
        """How many independent records."""
        if not isinstance(self.raw("n"), int) or self.raw("n") < 1:
            raise Wrong(f"n is {self.raw('n')!r}")
        return self.raw("n")

    @property
    def size(self) -> arb:
        """What costs are divided by: n, or the effective number of people in a bound for a new example."""
        return self["examples"] / self["most_examples"] if self.divided else arb(self.n)

    @property
    def nats(self) -> arb:
        """All costs together, each what it is said to be."""
        return arb(sum((ball(cost) for cost in self.costs.values()), arb(0))).max(arb(0))

    @property
    def share(self) -> arb:
        """The costs per record."""
        return self.nats / self.n
