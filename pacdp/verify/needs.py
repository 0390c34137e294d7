"""Which hypotheses a bound needs: the table "Rigorous and optimistic" of docs/guarantees.md, by formula and price.

A certificate that keeps silent about one of them does not follow. Nobody can prove from files that the world is as a
theorem takes it, and what a proof needs beyond the files at hand cannot be checked.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pacdp.verify.claim import (
    GROUPED,
    Claim,
    Fields,
    Unchecked,
    agree,
    exactly,
    hold,
    parsed,
    require,
    same,
)
from pacdp.verify.formulas import NEEDED, prices

UNPROVED = ("unproved",)
STANDINGS = ("proved", "declared", *UNPROVED)

RECORDS = "records independent"
COVERED = "privacy covers these rows"
FIXED_STEPS = "steps fixed beforehand"
KNOWN_BATCHES = "batches drawn without the records"
KEPT = "norms of all records kept"
BOUNDED = "contributions bounded"
BY_SUMS = (
    "records enter by noisy sums",
    "schedule blind to the records",
)
_LAW = "new data follow the same law"
_NOISE = "noise secret or independent"
PRIOR = "prior saw none of these rows"
_PREDICTOR = "predictor saw none of these rows"
_STATIONARY = "chain stationary"
_DRAWS = "draws independent"

_WORDS = """
every: records independent; new data follow the same law; settings fixed beforehand
prior: every; prior saw none of these rows
drawn: prior; draws independent
new_rows: every; predictor saw none of these rows
learner: every; learner saw picked records alone
surrogate: every; neither network saw the unlabelled rows
draws: draws independent
chain: draws; chain stationary
privacy: privacy covers these rows; noise secret or independent
private: every; privacy
sums: records enter by noisy sums; schedule blind to the records; noise secret or independent; first weights independent
known: batches drawn without the records
secret: batches secret and Poisson
once: batches secret, each record in one an epoch
bounded: contributions bounded
kept: norms of all records kept
undrawn: potentials one a record; schedule blind to the records
exact: undrawn; drawn from the law that is paid for; noise secret or independent
ranged: losses within their range
all_losses: losses of all records kept
convex: losses convex
"""
_KINDS = dict[str, list[str]]()
for line in _WORDS.strip().splitlines():
    kind, names = line.split(": ")
    _KINDS[kind] = []
    for name in names.split("; "):
        _KINDS[kind] += _KINDS.get(name, [name])
"""Hypotheses by the words of the tables of bounds and prices; a word that stands in a line is a line before it."""
OF_FORMULA = {name: _KINDS[kind] for name, kind in NEEDED.items()}
"""What is needed because of the formula, at an independent prior; another price replaces what saw none of the rows."""
OF_PRICE = {
    prefix: [name for kind in kinds for name in _KINDS[kind]]
    for prefix, kinds in prices.NEEDED.items()
}
"""What is needed because of the price, by its prefix."""
PURE = ("dp_", "max_information_", "printed_2018_")
"""Prices of a bare epsilon: for a chain it is that of the law which the chain stands in for."""

_ABOUT_THE_WORLD = {RECORDS, _LAW, _NOISE}
"""What no file and no program shows."""
_OF_STATUSES = {
    None: (),
    "exact mechanism": (),
    "accounted": (),
    "assumes stationarity": (_STATIONARY,),
    "approximate accountant": ("accountant sound",),
}
"""What must be called unproved, by how a promise of privacy was come to."""
_BY_PERSON = ("P3SGD", "UserDPSGD")
"""The private methods that hide people."""
_DECLARING = ("the caller", "whoever", "nobody")
"""How begins by whom a hypothesis is declared, which proves nothing."""


def needed(
    prefix: str, formula: str, name: str, inputs: Mapping[str, Any]
) -> set[str]:
    """The hypotheses of a formula at a price, for a certificate of this name and with these inputs."""
    own = set(OF_FORMULA[formula])
    if prefix:
        own -= {PRIOR, _PREDICTOR}
    drawn = (
        name.startswith("one_draw_") or "monte_carlo_mean" in inputs
    )
    if drawn or inputs.get("log_partition_failure_prob", 0.0) > 0.0:
        own.add(_DRAWS)
    if name.endswith(
        "hybrid_pac_bayes"
    ):  # some rows were seen freely
        own.add(PRIOR)
    return own.union(OF_PRICE[prefix], never_shown(formula, inputs))


def never_shown(
    formula: str, inputs: Mapping[str, Any]
) -> set[str]:
    """The hypotheses that must be called unproved, whatever anybody says."""
    status = inputs.get("privacy_status")
    due = [one for one in _OF_STATUSES if one]
    if "privacy_notion" not in inputs:
        due = [None]
    require(
        status in due,
        f"inputs.privacy_status is {status!r}, and it can be one of {due}",
    )
    names = {*_OF_STATUSES[status]}
    if (
        formula == "correlated_risk_upper"
        or "monte_carlo_kept_steps" in inputs
    ):
        names |= {_STATIONARY, _DRAWS}
    return names


def require_one_or_a_mean(c: Claim) -> None:
    """Raise Wrong where a bound on the mean over draws from a law is said of one network, or the other way round."""
    of = c.record.of
    needs = NEEDED[c.formula]
    what = "the mean over draws"
    wrong = of in _ONE_NETWORK and needs == "prior"
    wrong = wrong and "kl_nats" in c.inputs and c.kl_nats > 0
    if c.head in ("one_draw", "vote"):
        wrong = False
    if of in OF_A_LAW:
        what = "the risk of one network"
        released = needs == "new_rows" and c.prefix
        wrong = released or needs in ("drawn", "private")
    require(
        not wrong,
        f"{c.formula} bounds {what}, and says nothing of {of}",
    )
    other = parsed(c.inputs.get("surrogate", "{}"))["of"]
    require(
        other not in OF_A_LAW,
        f"the other certificate is that of {other!r}, a mean over networks of which none has to be as good",
    )


OF_A_LAW = ("randomised", "Gibbs classifier", "ensemble")
"""Predictors in a report whose weights are drawn anew for every answer."""
_ONE_NETWORK = (
    "weights",
    "mean weights",
    "released weights",
    "your network",
    "predictor",
    "prior mean",
    "drawn head",
    "best network",
    "one draw",
    "vote",
)
"""Predictors in a report that are no draws from a law."""
_OF_THE_INPUTS = {
    FIXED_STEPS,
    "accountant sound",
    "averages exact",
    "clipping inactive",
    "equal inputs are separate draws",
    "losses one an example",
    "losses within their range",
}
"""What may be added to any certificate, about how its numbers were made."""


KNOWN = _OF_THE_INPUTS.union(
    *OF_FORMULA.values(), *OF_PRICE.values()
)
"""All hypotheses that are in a table here."""


def units(record: Fields) -> set[str]:
    """What the records are that a certificate takes to be independent."""
    return {
        one.unit for one in record.hypotheses if one.name == RECORDS
    }


def check_units(report: Fields) -> None:
    """What every certificate takes to be independent are the report's records, which are of a kind that there is.

    Of people with several examples each no mean of their own means is a count of errors.
    """
    unit = report.unit
    require(
        unit in ("example", *GROUPED),
        f"the unit is {unit!r}, of which nothing is counted",
    )
    bound = dict.get(report, "examples"), dict.get(report, "n")
    rows = report.part("rows")["test"] or {}
    test = dict.get(rows, "n"), dict.get(rows, "people")
    for made in report.certificates:
        for one in units(made):
            same(f"the unit of {made.name}", one, report.unit)
        on = test if made.name.startswith("test_set") else bound
        counted = {"k", "more"} & made.inputs.keys()
        several = None not in on and on[0] != on[1]
        require(
            not (counted or made.name.endswith(_ONE_EACH))
            or not several
            or not made.measures.endswith(f" of a new {unit}"),
            f"{made.name} counts errors of {on[1]} records, which have {on[0]} examples",
        )


_ONE_EACH = "new_person_clopper_pearson"
"""What counts people as they err, and is proved for one example of each."""


def check_unit(report: Fields, run: Fields) -> None:
    """A report counts what a private run protects: people by the methods that hide them, and else examples."""
    by_person = run.part("method")["kind"] in _BY_PERSON
    unit = "person" if by_person else "example"
    same("whom the run protects", report.unit, unit)


def standings(record: Fields) -> dict[str, str]:
    """How each hypothesis of a certificate stands, by its name; each says by whom, and for which unit."""
    found = {}
    for one in record.hypotheses:
        by = dict.get(one, "by")  # no file shows that they did
        said = type(by) is str and by
        why = f"nothing is said of who vouches for {one.name!r}, or it stands there twice"
        require(said and one.name not in found, why)
        whose = bool(one.unit) == (one.name == RECORDS)
        require(
            whose and type(one.unit) is str,
            f"{one.name!r} is said of each {one.unit!r}",
        )
        found[one.name] = one.standing
    return found


def require_named(
    names: Iterable[str],
    standing: Mapping[str, str],
    as_what: Collection[str] = STANDINGS,
) -> None:
    """Raise Wrong unless the certificate speaks of each of these, and calls it what it may be called."""
    for name in names:
        said = standing.get(name, "not there")
        why = f"the hypothesis {name!r} is {said}, and it is needed"
        if as_what == UNPROVED:
            why = f"the hypothesis {name!r} is {said}, and nothing shows it"
        require(said in as_what, why)


def require_no_better(record: Fields, other: Fields) -> None:
    """Raise Wrong where a certificate keeps silent about what another one rests on, or says that it stands better."""
    own = standings(record)
    order = (None, *STANDINGS)
    for name, standing in standings(other).items():
        require(
            order.index(own.get(name)) >= order.index(standing),
            f"the hypothesis {name!r} of {other.name} is left out, or is said to stand better",
        )


def require_proofs(record: Fields, redone: Collection[str]) -> None:
    """Raise Wrong for proofs that cannot be, Unchecked for those that were not done again from the files."""
    left = []
    for one in record.hypotheses:
        if one.standing == "proved":
            require(
                one.name not in _ABOUT_THE_WORLD
                and not one.by.startswith(_DECLARING),
                f"{one.name!r} is called proved by {one.by}, which cannot be",
            )
            if one.name not in redone:
                left.append(f"{one.name!r} (by {one.by})")
    if left:
        raise Unchecked(
            f"these files do not show again what is called proved: {'; '.join(sorted(left))}"
        )


_OF_A_CHAIN = """
inputs.tau? = chain.sampler.tau
inputs.loss_low? = chain.loss.low
inputs.loss_high? = chain.loss.high
"""
"""What the law of a chain is, where certificates name it."""


def require_of_a_chain(
    claims: Iterable[Claim], chain: Fields, n: int
) -> None:
    """Raise Wrong unless epsilon is that of the chain's law, and what rests on its having converged is unproved.

    The law is private at ε = 2βτΔ/n, Δ the loss's largest value minus its smallest ("Private weights").

    Args:
        claims: the certificates of a chain.
        chain: its sampler and loss, under these names.
        n: how many examples it ran on.
    """
    sampler = chain.sampler
    loss = chain.loss
    clipped = sampler["clip_norm"] is not None
    for c in claims:
        pure = c.prefix in PURE or NEEDED[c.formula] == "private"
        unproved = [
            *[_STATIONARY]
            * (pure or (c.prefix == "private_" and not clipped)),
            *["clipping inactive"] * (pure and clipped),
            *["averages exact"] * (pure and "kl_nats" in c.inputs),
        ]
        require_named(unproved, standings(c.record), UNPROVED)
        hold(_OF_A_CHAIN, inputs=c.inputs, chain=chain)
        require(
            "log_partition_lower_nats" not in c.inputs
            or c.log_partition_failure_prob > 0,
            f"{c.name} pays for no failure of its log partition, which draws of the prior estimate",
        )
        if "epsilon" in c.inputs:
            require(
                not sampler.get("cooling", 0),
                "a chain that cools has no stationary law",
            )
            spread = exactly(loss.high) - exactly(loss.low)
            heat = sampler.get("beta", 1) * exactly(sampler.tau)
            exact = 2 * heat * spread / n
            agree("inputs.epsilon", c.inputs.epsilon, exact)
