"""The first page: ten sentences, and one table of the numbers that a reader may use."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from experiments.claims import Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """A sentence with numbers of committed tables in it, beside what a paper prints."""

    said: str
    """Names of ``evidence`` stand in braces, as in :class:`experiments.claims.Sentence`."""
    evidence: Mapping[str, tuple[str, Number]] = field(default_factory=dict)
    """By name: the study, and the number of its table."""
    what: str = ""
    printed: str = ""
    """The paper's number with the paper's name."""
    why: str = ""


TEN: tuple[Headline, ...] = ()
HEADLINES: tuple[Headline, ...] = ()
