"""What every certificate takes for true: one table, by formula and price, into which a caller puts a standing.

The table is that of docs/guarantees.md, "Rigorous and optimistic". A formula needs what its theorem says of the
records and, at an independent prior, that prior or predictor saw none of them; at another price the hypotheses of the
price take their place. What nobody vouches for is unproved, so that no certificate is rigorous by silence.
"""

from collections.abc import Iterable
from functools import lru_cache

from bounds.hypotheses import Hypothesis, Name, declared, unproved

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
            f"formula must be in bounds.needs.NEEDS with the price {prefix!r}, got {formula!r}; add it there."
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
