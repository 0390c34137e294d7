"""The failure probability as a ledger that refuses overdraft.

>>> budget = FailureBudget(0.05).spend("posterior sampling", 0.01).spend("transfer", 0.038)
>>> budget.spend("one more look", 0.01)
Traceback (most recent call last):
ValueError: one more look wants 0.01, 0.002 is left of the failure probability 0.05; ...
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import nextafter
from types import MappingProxyType
from typing import Any

from bounds import _check
from bounds._check import count, nonnegative, open_probability, positive, text

FORMAT = "pacdp-failure-budget/1"

# Room for the rounding of decimal amounts to doubles, and no more.
_ROUNDING = 1 + Fraction(1, 2**50)


@dataclass(frozen=True, slots=True)
class FailureBudget:
    """A failure probability ``total`` in (0, 1), and the named parts of it that are spent; immutable.

    Formal guarantee: if each named statement fails with at most the probability spent on it, then all of them hold
    together with probability at least 1 - total (union bound; sums are exact, and may pass ``total`` by a relative
    2⁻⁵⁰ for the rounding of decimal amounts).

    Raises ValueError when the total is not in (0, 1).
    """

    total: float
    entries: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        _check.fields(self, total=open_probability)
        pairs = _check.pairs("entries", self.entries)
        entries = tuple((_check.text(entries=name), nonnegative(entries=amount)) for name, amount in pairs)
        object.__setattr__(self, "entries", entries)
        if self._sum() > Fraction(self.total) * _ROUNDING or len(self.spent) < len(entries):
            raise ValueError(
                f"entries must have distinct names and fit the total {self.total!r}, got {self.entries!r}."
            )

    @classmethod
    def split(cls, total: float, **weights: float) -> "FailureBudget":
        """A ledger whose whole ``total`` is spent in proportion to the positive ``weights``.

        Raises ValueError when there is no weight or one is not positive.
        """
        if not weights:
            raise ValueError("weights must name at least one statement, got none.")
        positive(**weights)
        budget, parts = cls(total), {name: Fraction(float(weight)) for name, weight in weights.items()}
        for name, part in parts.items():
            share = float(Fraction(budget.total) * part / sum(parts.values()))
            if not share:
                raise ValueError(f"total must be large enough for {len(parts)} shares of it, got {total!r}; pass more.")
            budget = budget.spend(name, share)
        return budget

    @property
    def spent(self) -> Mapping[str, float]:
        """Amount by name, in the order of spending."""
        return MappingProxyType(dict(self.entries))

    @property
    def left(self) -> float:
        """What may still be spent; zero when rounding alone is left."""
        rest = Fraction(self.total) - self._sum()
        return float(rest) if rest > Fraction(self.total) * (_ROUNDING - 1) else 0.0

    def spend(self, name: str, amount: float) -> "FailureBudget":
        """The ledger after ``amount`` went to ``name``.

        Raises ValueError when the amount is not positive, more than is left, or the name is already there.
        """
        amount = positive(amount=amount)
        if text(name=name) in self.spent:
            raise ValueError(f"name must be new to the ledger, {name!r} is in it already; choose another.")
        if self._sum() + Fraction(amount) > Fraction(self.total) * _ROUNDING:
            raise ValueError(
                f"{name} wants {amount:.12g}, {self.left:.12g} is left of the failure probability {self.total:.12g}; "
                f"spend less, or start with a larger total."
            )
        return FailureBudget(self.total, (*self.entries, (name, amount)))

    def share(self, name: str, ways: int) -> float:
        """What each of ``ways`` statements may fail with when ``name`` pays for all of them, rounded down.

        For priors, grid points, checkpoints or hyper-parameters that are compared: compute each certificate at
        this failure_prob, then take ``best_of`` them.

        Raises ValueError when nothing was spent on the name, or ways is not a whole number of at least 1.
        """
        ways = count(ways=ways)
        if name not in self.spent:
            raise ValueError(f"name must be in the ledger, got {name!r}; spend on it first.")
        part = self.spent[name] / ways
        return part if Fraction(part) * ways <= Fraction(self.spent[name]) else nextafter(part, 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Plain types for JSON: format, total, and name and amount of every entry in order."""
        return {"format": FORMAT, "total": self.total, "entries": [list(entry) for entry in self.entries]}

    def _sum(self) -> Fraction:
        return sum((Fraction(amount) for _, amount in self.entries), Fraction(0))
