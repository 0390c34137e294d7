"""What a certificate takes for true: each hypothesis is a value that says who proved it, or that nobody did.

One table says it by formula and price, and a caller puts a standing into it. The table is that of docs/guarantees.md,
"Rigorous and optimistic". A formula needs what its theorem says of the records and, at an independent prior, that prior
or predictor saw none of them; at another price the hypotheses of the price take their place. What nobody vouches for is
unproved, so that no certificate is rigorous by silence.
"""

import itertools
import re
from collections.abc import Iterable
from dataclasses import asdict
from functools import lru_cache
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


def settings_tried(statement: Iterable[Hypothesis]) -> int:
    """Among how many settings that of a statement was chosen, which has its share of a failure probability alone."""
    said = " ".join(one.by for one in statement if one.name == "settings fixed beforehand")
    return max(map(int, re.findall(r"a list of (\d+) settings", said)), default=1)


Names = tuple[Name, ...]
_EVERY: Names = ("records independent", "new data follow the same law", "settings fixed beforehand")
_PRIOR: Names = ("prior saw none of these rows",)
_PREDICTOR: Names = ("predictor saw none of these rows",)
_DRAWS: Names = ("draws independent",)

_PRIVACY: Names = ("privacy covers these rows", "noise secret or independent")
_SUMS: Names = (
    "records enter by noisy sums",
    "noise secret or independent",
    "schedule blind to the records",
    "first weights independent",
)
_DRAW: Names = (
    "drawn from the law that is paid for",
    "potentials one a record",
    "noise secret or independent",
    "schedule blind to the records",
)
_PUBLIC: Names = (*_SUMS, "batches drawn without the records")
_SECRET: Names = (*_SUMS, "batches secret and Poisson")

OF_PRICE: dict[str, Names] = {
    "dp_": _PRIVACY,
    "max_information_": _PRIVACY,
    "printed_2018_": _PRIVACY,
    "private_": _PRIVACY,
    "noisy_sum_": (*_PUBLIC, "contributions bounded"),
    "realised_sum_": (*_PUBLIC, "norms of all records kept"),
    "poisson_sum_": (*_SECRET, "contributions bounded"),
    "once_sum_": (*_SUMS, "batches secret, each record in one an epoch", "contributions bounded"),
    "realised_poisson_": (*_SECRET, "norms of all records kept"),
    "gibbs_range_": (*_DRAW, "losses within their range"),
    "gibbs_losses_": (*_DRAW, "losses within their range", "losses of all records kept"),
    "gibbs_gradients_": (*_DRAW, "losses convex", "norms of all records kept"),
    "gibbs_around_": (
        "potentials one a record",
        "schedule blind to the records",
        "losses convex",
        "norms of all records kept",
    ),
}
"""Instead of an innocent prior or predictor, by the price's prefix."""

_PRICED: dict[str, tuple[Names, Names]] = {
    **dict.fromkeys(
        ("maurer", "langford_seeger", "mcallester", "quadratic", "tolstikhin_seldin", "thiemann", "catoni",
         "catoni_grid", "linear", "unexpected_bernstein", "split_kl", "recursive", "ece_pac_bayes", "gibbs_pac_bayes",
         "gibbs_catoni", "new_example_pac_bayes"),
        (_PRIOR, ()),
    ),
    **dict.fromkeys(("disintegrated", "disintegrated_renyi"), (_PRIOR, _DRAWS)),
    **dict.fromkeys(("kl_chernoff", "chernoff", "hoeffding", "new_example_kl"), (_PREDICTOR, ())),
}  # fmt: skip
"""Formulas that take a price: what an independent prior stands for, and what is needed at every price."""

_FRESH: tuple[str, ...] = (
    "ece_hoeffding", "ece_second_moment", "mce_hoeffding", "mce_clopper_pearson", "new_example_betting",
    "new_person_kl", "new_person_hoeffding", "new_person_second_moment", "new_person_bernstein", "new_person_betting",
    "new_person_clopper_pearson", "clopper_pearson", "betting", "weighted_betting", "paired", "auc", "largest_gap",
)  # fmt: skip
"""Formulas about a predictor on records that are new to it."""

_CONTROL: tuple[str, ...] = (
    "control_risk", "control_selective_risk", "control_set_size", "control_groups", "control_false_negatives",
    "control_miscoverage",
)  # fmt: skip

NEEDS: dict[tuple[str, str], Names] = {
    **{(formula, ""): (*_EVERY, *prior, *more) for formula, (prior, more) in _PRICED.items()},
    **{
        (formula, prefix): (*_EVERY, *names, *more)
        for formula, (_, more) in _PRICED.items()
        for prefix, names in OF_PRICE.items()
        if prefix != "gibbs_around_" or formula == "maurer"  # of which the others say nothing
    },
    **{(formula, ""): (*_EVERY, *_PREDICTOR) for formula in _FRESH},
    **{(formula, ""): (*_EVERY, *_PREDICTOR, "thresholds fixed beforehand") for formula in _CONTROL},
    ("dp_hoeffding_2018", ""): (*_EVERY, *_PRIVACY),
    ("dp_chernoff_2018", ""): (*_EVERY, *_PRIVACY),
    ("hybrid_pac_bayes", "private_"): (*_EVERY, *_PRIVACY, *_PRIOR),
    ("compression", ""): (*_EVERY, "learner saw picked records alone"),
    ("disagreement", ""): (*_EVERY, "neither network saw the unlabelled rows"),
    ("gibbs_risk_upper", ""): _DRAWS,
    ("weighted_risk_upper", ""): _DRAWS,
    ("correlated_risk_upper", ""): (*_DRAWS, "chain stationary"),
    ("Monitor", ""): ("settings fixed beforehand", "order blind to the losses"),
}
"""The hypotheses of each formula at each price, by its name and the price's prefix."""

OF_THE_INPUTS: Names = (
    *_PRIOR,
    *_DRAWS,
    "steps fixed beforehand",
    "accountant sound",
    "chain stationary",
    "averages exact",
    "clipping inactive",
    "losses one an example",
    "losses within their range",
    "equal inputs are separate draws",
)
"""Hypotheses about how the numbers were made that a formula is given: whoever made them may add these to any."""


NOBODY = "nobody vouches for it"
"""What is said of a hypothesis that is needed and was not spoken of."""


def standing(formula: str, prefix: str = "", given: Iterable[Hypothesis] = ()) -> tuple[Hypothesis, ...]:
    """All that a formula needs at a price, each as it stands; what is not among ``given`` is unproved.

    Args:
        formula: its name in ``NEEDS``.
        prefix: of the price; empty for an independent prior.
        given: what is proved, declared or known to be unproved, each name once.

    Raises ValueError for a formula and price that the table does not have, and for a standing that is not needed.
    """
    if (formula, prefix) not in NEEDS:
        raise ValueError(
            f"formula must be in bounds.hypotheses.NEEDS with the price {prefix!r}, got {formula!r}; add it there."
        )
    names, known = NEEDS[formula, prefix], {one.name: one for one in given}
    if strange := [name for name in known if name not in names]:
        raise ValueError(
            f"given must be among the hypotheses that {prefix}{formula} needs, got {strange[0]!r}; leave it out."
        )
    return tuple(known.get(name) or unproved(name, NOBODY) for name in names)


@lru_cache(maxsize=1024)
def declared_by(caller: str, formula: str, prefix: str = "") -> tuple[Hypothesis, ...]:
    """All that a formula needs at a price, declared by one who gives bare numbers; its records are examples."""
    return standing(
        formula,
        prefix,
        (
            declared(name, caller, "example" if name == "records independent" else "")
            for name in NEEDS.get((formula, prefix), ())
        ),
    )
