"""What a certificate says, and how one of its numbers is judged."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import ball, total

FOLLOWS, DOES_NOT, CANNOT = "follows", "does not follow", "cannot be checked"
BOUGHT = ("bound", "PAC step", "test set", "union over networks", "transfer", "privacy tail", "unbounded privacy loss",
          "draw", "order")  # fmt: skip
"""Entries of a budget that pay for the bound itself, the last two in bounds on one draw alone; others pay for what it
was given."""


class Unchecked(Exception):
    """Why a statement can be neither confirmed nor refuted."""


class Wrong(Exception):
    """Why a statement does not follow."""


class Statement(NamedTuple):
    """A verdict on one thing that a file says."""

    subject: str
    claim: str
    verdict: str
    why: str = ""


def number(value: Any) -> float:
    """A number of a record, "inf" among them."""
    if value == "inf":
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise Wrong(f"{value!r} is no number")
    return value


def agree(what: str, claimed: Any, exact: arb, *, relative: float = 1e-9) -> None:
    """Raise Wrong unless the claim is the exact number, or above it by no more than rounding up explains."""
    claimed = number(claimed)
    if claimed == math.inf or not exact.is_finite():
        if claimed != math.inf and not (claimed == 1.0 and exact > 1):
            raise Wrong(f"{what} is {claimed!r} where the inputs give {exact.str(12, radius=False)}")
        return
    slack = abs(exact) * relative + 1e-12
    if ball(claimed) < exact or ball(claimed) > exact + slack:
        raise Wrong(f"{what} is {claimed!r} where the inputs give {exact.str(12, radius=False)}")


def about(what: str, claimed: Any, exact: arb) -> None:
    """Raise Wrong unless the claim is the exact number but for rounding, up or down."""
    if abs(ball(number(claimed)) - exact) > abs(exact) * 1e-9 + 1e-12:
        raise Wrong(f"{what} is {claimed!r} where the inputs give {exact.str(12, radius=False)}")


def judged(subject: str, claim: str, check: Callable[[], None]) -> Statement:
    """The verdict of a check that raises Wrong or Unchecked."""
    try:
        check()
    except Wrong as reason:
        return Statement(subject, claim, DOES_NOT, str(reason))
    except Unchecked as reason:
        return Statement(subject, claim, CANNOT, str(reason))
    except (KeyError, TypeError, ValueError, AttributeError) as reason:
        return Statement(subject, claim, DOES_NOT, f"the record is damaged: {type(reason).__name__} {reason}")
    return Statement(subject, claim, FOLLOWS)


class Claim:
    """One certificate's record, its numbers as they are written."""

    def __init__(self, record: Mapping[str, Any], privacy: Mapping[str, Any] | None = None) -> None:
        self.record, self.privacy = record, privacy or {}
        self.delta, self.divided = arb(0), False
        self.price: Callable[..., None] = lambda *_: None
        self.name: str = record["name"]
        self.inputs, self.terms, self.budget = record["inputs"], record["terms"], record["budget"]
        self.costs = {one["name"]: number(one["nats"]) for one in record["costs"]}

    def __getitem__(self, name: str) -> arb:
        return ball(self.raw(name))

    def raw(self, name: str) -> Any:
        """An input as it is written."""
        if name not in self.inputs:
            raise Unchecked(f"the input {name} is not in the file")
        return self.inputs[name] if isinstance(self.inputs[name], str) else number(self.inputs[name])

    def listed(self, name: str) -> list[arb]:
        """An input that is a list of numbers."""
        return [ball(float(part)) for part in str(self.raw(name)).split(",")]

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
        return self["examples"] / self["most_examples"] if self.divided else arb(self.n)

    def term(self, name: str) -> arb:
        """An ingredient that is not among the inputs."""
        return ball(number(self.terms[name]))

    @property
    def nats(self) -> arb:
        """All costs together, from what each is said to be."""
        whole = total(cost for cost in self.costs.values() if cost < math.inf)
        return arb("inf") if math.inf in self.costs.values() else whole.max(arb(0))

    @property
    def share(self) -> arb:
        """The costs per record."""
        return self.nats / self.n

    def paid(self, *names: str) -> arb:
        """What the budget holds under these names."""
        return total(number(self.budget[name]) for name in names if name in self.budget)
