"""What an audit found: claims of a mechanism, each held or refuted, at one probability of error for all of them."""

from dataclasses import dataclass
from typing import Any

from pacdp.audit.p_values import Found


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One claim that was put to the test."""

    name: str
    claim: str
    p_value: float | None
    """P[p-value <= a] is at most a if the claim holds; None where the claim was decided otherwise."""
    seen: str
    """The numbers behind it, for readers."""
    broken: bool = False
    """Whether a claim without a p-value does not hold."""
    share: float = 0.0
    """With what probability it seems not to hold though it does, where there is no p-value; mostly 0."""
    unchecked: bool = False
    """Whether nothing could be said of the claim; ``seen`` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismAudit:
    """All checks of one audit.

    Formal guarantee: a mechanism that is what it says, with noise and batches from independent random numbers, is
    refuted with probability at most ``failure_prob``, up to the rounding of sums. What is not refuted is not proved,
    and some claims may be out of the auditor's sight: these say so.
    """

    checks: tuple[Check, ...]
    failure_prob: float

    @property
    def level(self) -> float:
        """The p-value at or below which a claim is refuted: what others leave of ``failure_prob``, in equal shares."""
        left = self.failure_prob - sum(check.share for check in self.checks)
        return left / max(1, sum(check.p_value is not None for check in self.checks))

    @property
    def refuted(self) -> tuple[Check, ...]:
        """The claims that do not hold."""
        return tuple(check for check in self.checks if self.is_refuted(check))

    def is_refuted(self, check: Check) -> bool:
        """Whether this claim does not hold."""
        return check.broken if check.p_value is None else not check.p_value > self.level

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        shown = ("name", "claim", "p_value", "seen")
        rows = [
            {name: getattr(check, name) for name in shown}
            | {"refuted": self.is_refuted(check), "checked": not check.unchecked}
            for check in self.checks
        ]
        return {
            "failure_prob": self.failure_prob,
            "level": self.level,
            "refuted": bool(self.refuted),
            "checks": rows,
        }


def by_chance(name: str, claim: str, found: Found) -> Check:
    """A claim with a p-value."""
    return Check(name=name, claim=claim, p_value=found.p_value, seen=found.seen)


def certain(name: str, claim: str, broken: bool, seen: str, *, share: float = 0.0) -> Check:
    """A claim that holds or does not; ``share`` is the probability of error, where there is one."""
    return Check(name=name, claim=claim, p_value=None, seen=seen, broken=broken, share=share)


def none_of(name: str, claim: str, wrong: int, said: str) -> Check:
    """A claim that holds where nothing is wrong; ``said`` goes on after how many things are."""
    return certain(name, claim, wrong > 0, f"{wrong} {said}")


def cannot_be_checked(name: str, claim: str, why: str) -> Check:
    """A claim of which the auditor can say nothing."""
    return Check(
        name=name, claim=claim, p_value=None, seen=f"cannot be checked: {why}", unchecked=True
    )
