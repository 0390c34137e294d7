"""What all entries of a ledger cost together, by the accountant of ``bounds``, for examples and for people.

*Examples.* Whatever is done to one example of a person is at most what replacing that person does, so an event that
hides people counts for examples too, under "replace-one". One accountant's question has one relation: as soon as a
ledger has such an event, "replace-one" is asked for all of them, which for these events costs at least as much as
"add-remove". The person of an example is taken to be fixed.

*People.* An event that hides examples says nothing that is counted of people, however few examples each has: with one
such entry the cost for people is unbounded.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from bounds.accounting import Composed, Event, SelfComposed, renyi_epsilon
from bounds.numbers import up_digits
from bounds.privacy import Adjacency
from pacdp.step.accountant import privacy_spent
from pacdp.store.ledger_entries import Entry, Limit
from pacdp.store.record import record
from pacdp.store.reservation import Unit

TOLD = (
    "some entries tell how many records there are, as runs without sampling.public_size and all chains do: ask for "
    "replace-one neighbours"
)


@record
class Spent:
    """A total.

    Formal guarantee: everything that the entries count, taken together, is (``epsilon``, ``delta``)-differentially
    private for these neighbours, if each entry's event describes what was released, its noise is independent of all
    others', and noise, rates and numbers of steps were not chosen by looking at earlier releases
    (docs/accounting.md, "Events and the theorems they rest on"); all else may be. For add-remove neighbours nothing may
    tell the number of units, as a rate or divisor that is made of it does: with an entry that says so (``tells_size``)
    nothing is promised for them.
    """

    epsilon: float
    """The accountant's upper end; infinite where nothing is promised."""
    delta: float
    adjacency: Adjacency
    unit: Unit
    because: str = ""
    """Why nothing is promised."""

    def __str__(self) -> str:
        return shown(self.epsilon)


@dataclass(slots=True)
class Tally:
    """What entries count, added up."""

    parts: Counter[Event] = field(default_factory=Counter[Event])
    units: set[Unit] = field(default_factory=set[Unit])
    tells_size: bool = False

    def with_more(self, entries: Iterable[Entry]) -> "Tally":
        """A tally of some more, beside this one."""
        made = Tally(self.parts.copy(), self.units.copy(), self.tells_size)
        for entry in entries:
            made.parts.update(entry.parts)
            made.units.add(entry.stretch.unit)
            made.tells_size |= entry.stretch.tells_size
        return made


def spent(counted: Tally, *, delta: float, adjacency: Adjacency, unit: Unit) -> Spent:
    """The cost of everything together.

    Raises:
        ValueError: delta, adjacency or unit out of range.
    """
    limit = Limit(epsilon=0.0, delta=delta, adjacency=adjacency, unit=unit)  # which checks them
    epsilon, because = _asked(counted, limit, quick=False)
    return Spent(epsilon=epsilon, delta=delta, adjacency=adjacency, unit=unit, because=because)


def keeps_to(counted: Tally, limit: Limit) -> bool:
    """Whether everything together costs no more than the limit."""
    return any(_asked(counted, limit, quick=quick)[0] <= limit.epsilon for quick in (True, False))


def shown(epsilon: float) -> str:
    """Six significant digits, rounded up."""
    if epsilon == math.inf:
        return "unbounded"
    return up_digits(epsilon, 6)


def _asked(counted: Tally, limit: Limit, *, quick: bool) -> tuple[float, str]:
    """Epsilon, and why it is infinite; ``quick`` for a larger one that takes no time: Rényi divergences add up."""
    if not counted.parts:
        return 0.0, ""
    if limit.unit == "person" and "example" in counted.units:
        return math.inf, "some entries hide examples, not people"
    if counted.tells_size and limit.adjacency == "add-remove":
        return math.inf, TOLD
    adjacency: Adjacency = (
        "replace-one" if limit.unit == "example" and "person" in counted.units else limit.adjacency
    )
    event = Composed(
        events=tuple(SelfComposed(event=part, count=count) for part, count in counted.parts.items())
    )
    try:
        found = _epsilon(event, limit.delta, adjacency, quick)
    except ValueError as error:
        return math.inf, str(error)
    return found, "" if found < math.inf else "some entries have no noise, or too little to count"


@lru_cache(maxsize=1024)
def _epsilon(event: Event, delta: float, adjacency: Adjacency, quick: bool) -> float:
    if quick:
        return renyi_epsilon(event=event, delta=delta, adjacency=adjacency).upper
    return privacy_spent(event, delta=delta, adjacency=adjacency).upper
