"""What a report says of its prior, and whether its certificates are at the price of it, and of all networks.

Of a private prior alone the bound's rows were seen; what was made out of it with these rows has another price.
"""

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import total
from pacdp.verify.certificate import read_claim
from pacdp.verify.claim import (
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
_RUNS = (
    "gaussian",
    "gibbs",
    "drawn",
    "undrawn",
    "released",
    "finite",
    "compression",
    "disagreement",
    "new examples",
)
"""The ways to a certificate of a run or a network, by their names in a report."""


def the_prior(report: Fields) -> None:
    """What is said of it is what its source asks for, and its choice is paid within the divergence."""
    prior = report.part("prior")
    source = prior["source"]
    require(
        report.route in _RUNS,
        f"{report.route!r} is no way to a certificate",
    )
    require(
        bool(source) == bool(prior)
        and {*_OF_SOURCES[source].split()} <= prior.keys(),
        f"of a prior that is {source} it says {[*prior]}",
    )
    hold("report.prior.unit? = report.unit", report=report)
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
    chosen = dict.get(prior, "choice_nats")
    subject = report.part("subject")
    chain = subject["sampler"]
    for made in report.certificates:
        standing = standings(made)
        c = read_claim(made)
        require(
            c.prefix not in PURE or chain,
            f"{made.name} is at a bare epsilon, which is that of a chain's law, and there is no chain",
        )
        if NEEDED[c.formula] == "new_rows":
            untouched = (
                c.head == "prior_mean" and fixed and not chosen
            )
            released = c.prefix and made.of not in _MADE_WITH_ROWS
            require(
                untouched
                or released
                or c.head == "test_set"
                or c.formula == "one_of_finitely_many"
                or (report.route == "new examples" and not subject),
                f"{made.name} counts rows that {made.of} was made from",
            )
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


def of_finitely_many(report: Fields) -> None:
    """All networks are paid for: KL(q‖π) = ln K + Σ q_j ln q_j, and K tails ("Finitely many networks")."""
    if report.route != "finite":
        return
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
