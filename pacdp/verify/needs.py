"""Which hypotheses a bound needs: the table "Rigorous and optimistic" of docs/guarantees.md, by formula and price.

A certificate that keeps silent about one of them does not follow. Nobody can prove from files that the world is as a
theorem takes it, and what a proof needs beyond the files at hand cannot be checked.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pacdp.verify.claim import Fields, Unchecked, Wrong

STANDINGS = ("proved", "declared", "unproved")

_EVERY = (
    "records independent",
    "new data follow the same law",
    "settings fixed beforehand",
)
_PRIVACY = (
    "privacy covers these rows",
    "noise secret or independent",
)
_SUMS = (
    "records enter by noisy sums",
    "noise secret or independent",
    "schedule blind to the records",
    "first weights independent",
)
_KNOWN_BATCHES = "batches drawn without the records"
_SECRET_BATCHES = "batches secret and Poisson"
_BOUNDED = "contributions bounded"
_KEPT = "norms of all records kept"
_STATIONARY = "chain stationary"
_DRAWS = "draws independent"

OF_PRICE: dict[str, tuple[str, ...]] = {
    "": (),
    "dp_": _PRIVACY,
    "max_information_": _PRIVACY,
    "printed_2018_": _PRIVACY,
    "private_": _PRIVACY,
    "noisy_sum_": (*_SUMS, _KNOWN_BATCHES, _BOUNDED),
    "realised_sum_": (*_SUMS, _KNOWN_BATCHES, _KEPT),
    "poisson_sum_": (*_SUMS, _SECRET_BATCHES, _BOUNDED),
    "realised_poisson_": (*_SUMS, _SECRET_BATCHES, _KEPT),
}
"""What is needed because of the price, by its prefix; an independent prior is among the needs of the formula."""
_PURE = ("dp_", "max_information_", "printed_2018_")
"""Prices of a bare epsilon: for a chain it is that of the law which the chain stands in for."""

_PRIOR = "prior saw none of these rows"
_PREDICTOR = "predictor saw none of these rows"
_WITH_PRIOR = (
    "maurer",
    "langford_seeger",
    "mcallester",
    "quadratic",
    "tolstikhin_seldin",
    "thiemann",
    "catoni",
    "catoni_grid",
    "linear",
    "unexpected_bernstein",
    "split_kl",
    "recursive",
    "ece_pac_bayes",
    "new_example_pac_bayes",
    "gibbs_pac_bayes",
    "gibbs_catoni",
)
_WITH_PRIOR_AND_DRAWS = (
    "disintegrated",
    "disintegrated_renyi",
)
_ON_NEW_ROWS = (
    "kl_chernoff",
    "chernoff",
    "hoeffding",
    "ece_hoeffding",
    "ece_second_moment",
    "mce_hoeffding",
    "mce_clopper_pearson",
    "new_example_kl",
    "new_example_betting",
    "new_person_kl",
    "new_person_hoeffding",
    "new_person_second_moment",
    "new_person_bernstein",
    "new_person_betting",
    "new_person_clopper_pearson",
    "clopper_pearson",
    "one_of_finitely_many",
    "betting",
    "weighted_betting",
    "largest_gap",
)

OF_FORMULA: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_WITH_PRIOR, (*_EVERY, _PRIOR)),
    **dict.fromkeys(_WITH_PRIOR_AND_DRAWS, (*_EVERY, _PRIOR, _DRAWS)),
    **dict.fromkeys(_ON_NEW_ROWS, (*_EVERY, _PREDICTOR)),
    "dp_hoeffding_2018": (*_EVERY, *_PRIVACY),
    "dp_chernoff_2018": (*_EVERY, *_PRIVACY),
    "compression": (*_EVERY, "learner saw picked records alone"),
    "disagreement": (*_EVERY, "neither network saw the unlabelled rows"),
    "gibbs_risk_upper": (_DRAWS,),
    "weighted_risk_upper": (_DRAWS,),
    "correlated_risk_upper": (_DRAWS, _STATIONARY),
}
"""What is needed because of the formula, at an independent prior; another price replaces what saw none of the rows."""

_ABOUT_THE_WORLD = (
    "records independent",
    "new data follow the same law",
    "noise secret or independent",
)
"""What no file and no program shows."""


def needed(
    prefix: str,
    formula: str,
    name: str,
    inputs: Mapping[str, Any],
) -> set[str]:
    """The hypotheses of a formula at a price, for a certificate of this name and with these inputs."""
    own = set(OF_FORMULA[formula])
    if prefix:
        own -= {_PRIOR, _PREDICTOR}
    drawn = name.startswith("one_draw_") or "monte_carlo_mean" in inputs
    if drawn or inputs.get("log_partition_failure_prob", 0.0) > 0.0:
        own.add(_DRAWS)
    if name.endswith(
        "hybrid_pac_bayes"
    ):  # some rows were seen freely, and these must be others
        own.add(_PRIOR)
    return own.union(OF_PRICE[prefix], never_shown(formula, inputs))


def never_shown(formula: str, inputs: Mapping[str, Any]) -> Iterable[str]:
    """The hypotheses that must be called unproved, whatever anybody says."""
    status = inputs.get("privacy_status")
    if formula == "correlated_risk_upper" or "monte_carlo_kept_steps" in inputs:
        yield from (_STATIONARY, _DRAWS)
    if status == "assumes stationarity":
        yield _STATIONARY
    if status == "approximate accountant":
        yield "accountant sound"


def never_shown_of_a_chain(
    prefix: str,
    formula: str,
    inputs: Mapping[str, Any],
    sampler: Mapping[str, Any],
) -> Iterable[str]:
    """The hypotheses that must be called unproved where what is certified came from a Langevin chain."""
    clipped = sampler.get("clip_norm") is not None
    pure = prefix in _PURE or formula in (
        "dp_hoeffding_2018",
        "dp_chernoff_2018",
    )
    if pure or (prefix == "private_" and not clipped):
        yield _STATIONARY
    if pure and clipped:
        yield "clipping inactive"
    if pure and "kl_nats" in inputs:
        yield "averages exact"


def of_the_prior(prior: Mapping[str, Any] | None) -> Iterable[str]:
    """What certificates at a price of privacy need because the prior's maker saw other rows freely."""
    if prior and prior.get("source") == "Private" and "n" in prior:
        yield _PRIOR


def standings(record: Fields) -> dict[str, str]:
    """How each hypothesis of a certificate stands, by its name; each says by whom, and for which unit."""
    found = dict[str, str]()
    for one in record.hypotheses:
        if one.name in found:
            raise Wrong("a hypothesis stands there twice")
        if not (isinstance(one.by, str) and isinstance(one.unit, str)):
            raise Wrong(f"nothing is said of who vouches for {one.name!r}")
        found[one.name] = one.standing
    return found


def require(names: Iterable[str], standing: Mapping[str, str]) -> None:
    """Raise Wrong unless the certificate speaks of each of these."""
    missing = set(names) - set(standing)
    if missing:
        raise Wrong(
            f"the hypothesis {min(missing)!r} is needed, and nothing is said of it"
        )


def require_unproved(names: Iterable[str], standing: Mapping[str, str]) -> None:
    """Raise Wrong unless the certificate calls each of these unproved."""
    for name in names:
        if standing.get(name) != "unproved":
            raise Wrong(
                f"the hypothesis {name!r} is {standing.get(name, 'not there')}, and nothing shows it"
            )


def require_proofs(record: Fields, redone: Collection[str]) -> None:
    """Raise Wrong for proofs that cannot be, Unchecked for those that were not done again from the files."""
    called = {
        one.name: one.by
        for one in record.hypotheses
        if one.standing == "proved"
    }
    impossible = called.keys() & set(_ABOUT_THE_WORLD)
    if impossible:
        raise Wrong(
            f"the hypothesis {min(impossible)!r} is called proved, and no file and no program can show it"
        )
    left = sorted(called.keys() - set(redone))
    if left:
        said = "; ".join(f"{name!r} (by {called[name]})" for name in left)
        raise Unchecked(
            f"these files do not show again what is called proved: {said}"
        )
