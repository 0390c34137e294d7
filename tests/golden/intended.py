"""Differences from golden.json that are meant: every mended fault that moves a public result is named here.

An entry stands for the keys of a section that match ``pattern`` (as file names do); each of them may differ in the
ways of ``may`` and in no other. An entry with a way in which nothing differs any more fails the test.
"""

from dataclasses import dataclass
from typing import Literal

Way = Literal["grows", "falls", "refused", "accepted", "optimistic", "rigorous", "gone", "new", "moves"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intended:
    """One meant difference."""

    section: str
    pattern: str
    finding: str
    """Label of the finding that it mends."""
    why: str
    """One sentence."""
    may: tuple[Way, ...]
    """A number grows or falls; a call is refused or accepted now; a certificate is optimistic or rigorous now; a key
    is gone or new; anything else (a name, an interval, another kind of value) moves."""


INTENDED: tuple[Intended, ...] = ()
