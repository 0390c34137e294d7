"""What a report says of its prior, and whether its certificates are at the price of it, and of all networks.

Of a private prior alone the bound's rows were seen; what was made out of it with these rows has another price.
"""

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import ZERO, total
from pacdp.verify.certificate import read_claim
from pacdp.verify.claim import (
    Claim,
    Fields,
    about,
    exactly,
    hold,
    number,
    require,
    same,
)
from pacdp.verify.formulas import NEEDED
from pacdp.verify.needs import (
    BY_SUMS,
    COVERED,
    OF_A_LAW,
    PRIOR,
    PURE,
    require_named,
    standings,
)

_OF_A_PRIVATE_PRIOR = """
report.prior.privacy.notion = report.privacy.record.notion
report.prior.privacy.adjacency = report.privacy.record.adjacency
report.prior.privacy.status = report.privacy.record.status
report.privacy.adjacency = report.privacy.record.adjacency
report.privacy.status = report.privacy.record.status
"""
_OF_SOURCES = {
    None: "",
    "DataFree": "source choice_nats description",
    "HeldOut": "source choice_nats n hash",
    "Private": "source choice_nats privacy unit",
    "NoisySum": "source choice_nats unit",
}
"""What is said of a prior, by where it is from."""
_MADE_WITH_ROWS = (
    "one draw",
    "mean weights",
    "vote",
    "best network",
)
"""What is made with the bound's rows out of a law or of networks: the privacy of these is not its own."""
_LEARNT = ("released", "gibbs")
"""Ways to certificates of what learnt from the bound's rows."""
PRICES = ("private_", "poisson_sum_", "realised_sum_", *PURE)
"""What is paid for that; what another price is made of is in none of a run's files."""
_OWN = {"compression", "disagreement"}
"""Ways to a certificate that are called as the bound is."""
_OF_OTHERS = {"best_of", "overall_certificate"}
"""Names that leave it to the inputs which theorem it is, of which rows."""
OF_A_RUN = (*_LEARNT, "compression")
"""The ways that the report in a run's folder may be on."""
_ALL = (
    *OF_A_RUN,
    "gaussian",
    "drawn",
    "undrawn",
    "finite",
    "disagreement",
    "new examples",
)
"""The ways to a certificate of a run or a network, by their names in a report."""


def the_prior(report: Fields) -> None:
    """What is said of it is what its source asks for, and its choice is paid within the divergence."""
    prior = report.part("prior")
    source = prior["source"]
    require(
        report.route in _ALL,
        f"{report.route!r} is no way to a certificate",
    )
    require(
        bool(source) == bool(prior)
        and {*_OF_SOURCES[source].split()} <= prior.keys(),
        f"of a prior that is {source} it says {[*prior]}",
    )
    hold("report.prior.unit? = report.unit", report=report)
    others = {
        made.name for made in report.certificates
    } & _OF_OTHERS
    require(
        not others,
        f"{', '.join(sorted(others))} is made of others, which a report lists each by itself",
    )
    chosen = number(dict.get(prior, "choice_nats") or 0.0)
    kl = (
        number(one.nats)
        for made in report.certificates
        for one in made.costs
        if one.name in ("kl", "draw")
    )
    require(
        0 <= chosen <= max(kl, default=0.0),
        "choosing the prior is paid within the divergence",
    )
    if source == "Private":
        hold(_OF_A_PRIVATE_PRIOR, report=report)


def price_of_the_prior(report: Fields) -> None:
    """Certificates are at the price of a prior from its source, and say so where its maker saw some rows freely."""
    prior = report.part("prior")
    source = prior["source"]
    fixed = source in ("DataFree", "HeldOut")
    private = source in ("Private", "NoisySum")
    chain = report.part("subject")["sampler"]
    learnt = chain or report.route in _LEARNT
    if law := report["gibbs"]:
        kl = -exactly(law.tau) * exactly(law.loss)
        kl = (kl - exactly(law.log_partition_nats)).max(ZERO)
        about("its divergence", law.kl_nats, kl, floor=1e-6)
    for made in report.certificates:
        standing = standings(made)
        c = read_claim(made)
        if not chain:
            _without_a_chain(c, report)
        due = learnt and NEEDED[c.formula] != "private"
        require(
            not due or c.head == "test_set" or c.prefix in PRICES,
            f"{c.name} is at a price that no run pays, and {made.of} learnt from these rows",
        )
        if c.head != "test_set":
            _learnt_rows(c, report)
        if "privacy_notion" in made.inputs:
            same("the prior's source", source, "Private")
        drawn = source == "HeldOut" and c.prefix
        if "n" in prior and (drawn or COVERED in standing):
            require_named([PRIOR], standing)
        paid = {COVERED, BY_SUMS[0]} & standing.keys()
        own = PRIOR in standing and not ("n" in prior and paid)
        require(
            not (fixed and paid) and not (private and own),
            f"{made.name} is at another price than for a prior that is {source}",
        )


def _without_a_chain(c: Claim, report: Fields) -> None:
    """There is no law of a chain to pay for, and no prior where none is named, but for that over finitely many."""
    drawn = "log_partition_lower_nats" in c.inputs
    require(
        not (drawn or c.prefix in PURE),
        f"{c.name} is at a bare epsilon, which is that of a chain's law, and there is no chain",
    )
    free = c.prefix or NEEDED[c.formula] not in ("prior", "drawn")
    require(
        report.part("prior")["source"]
        or free
        or report.route == "finite",
        f"{c.name} is at the price of a prior, and there is none",
    )


def _learnt_rows(c: Claim, report: Fields) -> None:
    """It is on the report's way, within its estimates, and counts no rows that a network learnt from as new to it."""
    require(
        c.name == report.route
        or not {c.formula, report.route} & _OWN,
        f"{c.name} is on no way that is called {report.route!r}",
    )
    if law := report["gibbs"]:
        most = law.log_partition_nats
        least = c.inputs.get("log_partition_lower_nats", most)
        why = f"{c.name} has a log partition of at least {least}, and the estimate is {most}"
        require(least <= most, why)
    needs = NEEDED[c.formula]
    of = c.record.of
    drawn = needs == "prior" and c.head in ("one_draw", "vote")
    if needs != "new_rows" and (
        needs != "prior" or drawn or of in OF_A_LAW
    ):
        return
    prior = report.part("prior")
    fixed = prior["source"] in ("DataFree", "HeldOut")
    chosen = dict.get(prior, "choice_nats")
    untouched = c.head == "prior_mean" and fixed and not chosen
    new = report.route == "new examples" and not report["subject"]
    # of a law that moved, the mean over draws alone is bounded
    moved = "kl_nats" in c.inputs and c.kl_nats > 0
    paid = c.prefix and of not in _MADE_WITH_ROWS and not moved
    require(
        untouched
        or paid
        or c.formula == "one_of_finitely_many"
        or new,
        f"{c.name} counts rows that {of} was made from",
    )


def of_finitely_many(report: Fields) -> None:
    """All networks are paid for: KL(q‖π) = ln K + Σ q_j ln q_j, and K tails ("Finitely many networks")."""
    weights = [exactly(one) for one in report.details.weights]
    about("the sum of weights", 1.0, total(weights), floor=1e-9)
    require(all(one >= 0 for one in weights), "a weight is below 0")
    parts = [one * one.log() for one in weights if one > 0]
    kl = arb(len(weights)).log() + total(parts)
    for made in report.certificates:
        if "networks" in made.inputs:
            what = f"the networks of {made.name}"
            same(what, made.inputs.networks, len(weights))
        elif "kl_nats" in made.inputs:
            what = f"the divergence of {made.name}"
            about(what, made.inputs.kl_nats, kl, floor=1e-9)
