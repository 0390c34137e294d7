"""What a certificate takes for true: each hypothesis is a value that says who proved it, or that nobody did."""

import itertools
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Literal, get_args

from bounds.record import record

Standing = Literal["proved", "declared", "unproved"]

Name = Literal[
    "records independent",
    "new data follow the same law",
    "settings fixed beforehand",
    "steps fixed beforehand",
    "prior saw none of these rows",
    "predictor saw none of these rows",
    "equal inputs are separate draws",
    "privacy covers these rows",
    "noise secret or independent",
    "accountant sound",
    "chain stationary",
    "averages exact",
    "clipping inactive",
    "draws independent",
    "losses one an example",
    "records enter by noisy sums",
    "batches drawn without the records",
    "batches secret and Poisson",
    "batches secret, each record in one an epoch",
    "contributions bounded",
    "norms of all records kept",
    "schedule blind to the records",
    "first weights independent",
    "learner saw picked records alone",
    "neither network saw the unlabelled rows",
    "thresholds fixed beforehand",
    "order blind to the losses",
    "losses within their range",
    "losses convex",
    "losses of all records kept",
    "drawn from the law that is paid for",
    "potentials one a record",
]
NAMES: tuple[Name, ...] = get_args(Name)
UNITS = {"example": "examples", "person": "people", "document": "documents"}
"""What may be counted as one independent record, and the word for several."""


@record
class Hypothesis:
    """One thing that must be true for a certificate to hold.

    Attributes:
        name: which one, of the list above.
        standing: "proved" (``by`` says by what), "declared" (``by`` says who vouches for it), or "unproved" (``by``
            says what is missing). A certificate with an unproved hypothesis is optimistic.
        by: one plain sentence or phrase.
        unit: "example", "person" or "document", for the independence of records; otherwise empty.

    Raises ValueError when the name or the standing is none of these, or ``by`` is empty.
    """

    name: Name
    standing: Standing
    by: str
    unit: str = ""

    def __post_init__(self) -> None:
        for name, known in (("name", NAMES), ("standing", get_args(Standing))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}.")
        if not isinstance(self.by, str) or not self.by.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"by must say who or what vouches for {self.name!r}, got {self.by!r}.")
        if self.unit not in ("", *UNITS):
            raise ValueError(f"unit must be one of {', '.join(UNITS)} or empty, got {self.unit!r}.")

    def __str__(self) -> str:
        unit = f" ({UNITS[self.unit]})" if self.unit else ""
        return f"{self.name}{unit}: {self.standing}, {self.by}"

    def to_dict(self) -> dict[str, Any]:
        """Plain types for JSON."""
        return asdict(self)


def proved(name: Name, by: str, unit: str = "") -> Hypothesis:
    """A hypothesis that was checked; ``by`` says how."""
    return Hypothesis(name=name, standing="proved", by=by, unit=unit)


def declared(name: Name, by: str, unit: str = "") -> Hypothesis:
    """A hypothesis that somebody vouches for; ``by`` says who."""
    return Hypothesis(name=name, standing="declared", by=by, unit=unit)


def unproved(name: Name, by: str, unit: str = "") -> Hypothesis:
    """A hypothesis that nothing shows; ``by`` says what is missing."""
    return Hypothesis(name=name, standing="unproved", by=by, unit=unit)


def merged(old: Iterable[Hypothesis], new: Iterable[Hypothesis]) -> tuple[Hypothesis, ...]:
    """What one statement rests on when ``new`` is known of it: a later hypothesis in place of one of the same name.

    Formal guarantee: an unproved hypothesis is replaced by nothing but a proved one, or by another unproved one.
    """
    found = {one.name: one for one in old}
    for one in new:
        if found.get(one.name, one).standing != "unproved" or one.standing != "declared":
            found[one.name] = one
    return tuple(found.values())


def together(*statements: Iterable[Hypothesis]) -> tuple[Hypothesis, ...]:
    """What several statements rest on when all of them must hold.

    Formal guarantee: of the same name, the weakest standing is kept: what was proved for one statement says nothing of
    another's prior, chain or draws.
    """
    strength = {standing: -place for place, standing in enumerate(get_args(Standing))}
    found: dict[str, Hypothesis] = {}
    for one in itertools.chain(*statements):
        found[one.name] = min(found.get(one.name, one), one, key=lambda stated: strength[stated.standing])
    return tuple(found.values())
