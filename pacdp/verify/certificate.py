"""One certificate, from its name to a verdict on each of its numbers."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify import needs
from pacdp.verify.arithmetic import ONE, ball, total
from pacdp.verify.claim import (
    CANNOT,
    DOES_NOT,
    LOST,
    OTHERS,
    Claim,
    Fields,
    Statement,
    Unchecked,
    Wrong,
    about,
    agree,
    exactly,
    fields,
    judged,
    number,
    other_format,
    parsed,
)
from pacdp.verify.formulas import COSTS, PLAIN, PRICED
from pacdp.verify.formulas.counts import check_noisy_counts, from_draws
from pacdp.verify.names import check_labels, kind_of, named
from pacdp.verify.needs import require_proofs
from pacdp.verify.prices import check_price
from pacdp.verify.prices.price import Price

FORMAT = "pacdp-certificate/2"
_FIELDS = {
    "format",
    "name",
    "value",
    "failure_prob",
    "status",
    "of",
    "measures",
    "hypotheses",
    "costs",
    "terms",
    "budget",
    "reference",
    "inputs",
}
_TOLD = {
    "n",
    "empirical_risk",
    "empirical_gap",
    "effective_people",
    "second_moment",
    "examples",
    "most_examples",
    "privacy_event",
    "privacy_digest",
    "privacy_infinity_mass",
    "privacy_lowest",
    "privacy_spacing",
    "privacy_zero_mass",
}
"""What repeats others, is not needed by every formula, or is the accountant's own and made anew from what ran."""


def read_claim(
    record: Fields, privacy: Mapping[str, Any] | None = None
) -> Claim:
    """A certificate's record as a claim of the kind that its name says."""
    c = Claim(record, privacy)
    c.kind = kind_of(c)
    return c


def check_certificate(
    record: Mapping[str, Any],
    privacy: Mapping[str, Any] | None = None,
    redone: Collection[str] = (),
) -> list[Statement]:
    """A statement on each of: failure probability, hypotheses and their proofs, labels, costs, terms, value.

    Args:
        record: the certificate as it is written.
        privacy: what its report says of privacy, where there is one.
        redone: the hypotheses whose proofs were done again from the files beside it.
    """
    subject = f"{record.get('name')} of {record.get('of')}"
    if record.get("format") != FORMAT:
        why = other_format(record.get("format"), FORMAT)
        return [Statement(subject, "format", CANNOT, why)]
    made = fields(record)
    readable = judged(subject, "value", _require_readable, made, privacy)
    if readable.why:
        return [readable]
    c = read_claim(made, privacy)
    checks = _checks(c).items()
    found = [judged(subject, claim, check, c) for claim, check in checks]
    if any(one.get("standing") == "proved" for one in made.hypotheses):
        proofs = "proofs of hypotheses"
        found.append(judged(subject, proofs, require_proofs, made, redone))
    if unknown := _unknown(c):
        why = f"this checker does not know what {', '.join(unknown)} is"
        found.append(Statement(subject, "what is told beside", CANNOT, why))
    return found


def _require_readable(
    record: Fields, privacy: Mapping[str, Any] | None
) -> None:
    c = read_claim(record, privacy)
    _ = c.price_prob


def _checks(c: Claim) -> dict[str, Callable[[Claim], None]]:
    """What is asked of a certificate, in this order."""
    checks = {
        "failure probability": _failure,
        "hypotheses": _hypotheses,
        "labels": check_labels,
        "costs": _costs,
        "terms": _terms,
        "value": _value,
    }
    if c.name == "best_of":
        checks["choice"] = _choice
    if c.name == "disagreement":
        checks["surrogate"] = _surrogate
    return checks


def _unknown(c: Claim) -> list[str]:
    """What a certificate holds that no check asked for, beside what is only told."""
    told = _TOLD.union(c.inputs)
    return [
        *sorted(c.record.keys() - _FIELDS),
        *(
            f"inputs.{name}"
            for name in sorted(c.inputs.keys() - c.inputs.names - _TOLD)
        ),
        *(
            f"terms.{name}"
            for name in sorted(c.terms.keys() - c.terms.names - told)
        ),
    ]


def _failure(c: Claim) -> None:
    """The budget adds up to the failure probability, and its parts are those that the inputs name."""
    whole = number(c.record.failure_prob)
    parts = [number(part) for part in c.budget.values()]
    if not 0 < whole < 1 or any(not 0 <= part < 1 for part in parts):
        raise Wrong(f"failure_prob is {whole!r} and the budget {c.budget}")
    about("failure_prob", whole, c.paid(*c.budget))
    more = list[str]()
    if c.kind.formula.startswith("disintegrated"):
        more.append("draw")
    if "mean" in c.inputs:
        more.append("Monte Carlo")
    paid = {
        "failure_prob": c.bound_prob(*more),
        "monte_carlo_failure_prob": c.paid("Monte Carlo"),
        "log_partition_failure_prob": c.paid("log partition"),
    }
    for name, exact in paid.items():
        if name in c.inputs:
            about(f"inputs.{name}", c.raw(name), exact)


def _hypotheses(c: Claim) -> None:
    """All that the theorem needs is there, and what nothing shows is called unproved."""
    standing = needs.standings(c.record)
    strange = set(standing.values()) - set(needs.STANDINGS)
    if strange:
        raise Wrong(f"a hypothesis is {min(strange)!r}")
    status = "optimistic" if "unproved" in standing.values() else "rigorous"
    if c.record.status != status:
        raise Wrong(
            f"the status is {c.record.status!r}, and by the hypotheses {status!r}"
        )
    for name in _rests_on(c):
        kind = c.kind if name == "best_of" else named(name, c)
        needs.require(
            needs.needed(kind.prefix, kind.formula, name, c.inputs), standing
        )
    needs.require_unproved(
        needs.never_shown(c.kind.formula, c.inputs), standing
    )
    if not standing.keys() & {"records independent", "draws independent"}:
        raise Wrong(
            "nothing is said of the independence of records or of draws"
        )


def _rests_on(c: Claim) -> list[str]:
    """The names of the certificates that it is the best of, or its own."""
    if c.name != "best_of":
        return [c.name]
    return [one[0] for one in parsed(c.inputs["among"])]


def require_of_a_chain(
    certificates: Iterable[Fields],
    chain: Fields,
    n: int,
) -> None:
    """Raise Wrong unless epsilon is that of the chain's law, and what rests on its having converged is unproved.

    Args:
        certificates: those of a chain.
        chain: its sampler and loss, under these names.
        n: how many examples it ran on.
    """
    for record in certificates:
        c = read_claim(record)
        names = needs.never_shown_of_a_chain(
            c.kind.prefix, c.kind.formula, c.inputs, chain.sampler
        )
        needs.require_unproved(names, needs.standings(record))
        if "epsilon" in c.inputs:
            agree("inputs.epsilon", c.raw("epsilon"), _of_the_law(chain, n))


def _of_the_law(chain: Fields, n: int) -> arb:
    """ε = 2βτΔ/n, Δ the loss's largest value minus its smallest ("Private weights")."""
    sampler, loss = chain.sampler, chain.loss
    if sampler.get("cooling", 0):
        raise Wrong("a chain that cools has no stationary law")
    spread = exactly(loss.high) - exactly(loss.low)
    return (
        2 * exactly(sampler.get("beta", 1)) * exactly(sampler.tau) * spread / n
    )


def _costs(c: Claim) -> None:
    """They are those of formula and price, each is what the inputs give, and its share is that over n."""
    expected = set[str]()
    price = "transfer" if c.kind.prefix else "confidence"
    if c.kind.formula in PRICED:
        expected = {price, *PRICED[c.kind.formula][0]}
    if c.costs.keys() - {"draw"} != expected:
        raise Wrong(
            f"the costs are {', '.join(c.costs) or 'none'}, and of {', '.join(expected) or 'nothing'}"
        )
    for one in c.record.costs:
        what = f"the cost {one.name}"
        agree(
            f"{what} per example", one.per_example, exactly(one.nats) / c.size
        )
        if one.name == price:
            check_price(Price(c, what, one.nats, c.n, ""))
        else:
            agree(what, one.nats, COSTS[one.name](c))


def _terms(c: Claim) -> None:
    """Those that repeat an input; the others belong to a formula or a price."""
    for name, value in c.terms.items():
        source = "risk" if name == "empirical_risk" else name
        if source in c.inputs and number(value) != c.raw(source):
            raise Wrong(
                f"terms.{name} is {value!r} and inputs.{source} {c.raw(source)!r}"
            )
    if "empirical_risk" in c.terms and "k" in c.inputs:
        c.term_is_about("empirical_risk", c["k"] / c.n)
    if "draw_prob" in c.terms:
        c.term_is_about("draw_prob", c.paid("draw"))
    if "effective_people" in c.terms:
        c.term_is_about("effective_people", c["examples"] / c["most_examples"])


def _value(c: Claim) -> None:
    """It is the formula's value at the summed costs, twice that for a vote, and at most 1."""
    if "released_errors" in c.inputs:
        check_noisy_counts(c)
    if "monte_carlo_mean" in c.inputs:
        agree("inputs.risk", c.raw("risk"), from_draws(c, "monte_carlo_"))
    exact = _by_formula(c)
    if c.kind.head == "vote":
        exact *= 2
    agree("the value", c.record.value, exact.min(ONE))


def _by_formula(c: Claim) -> arb:
    if not c.nats.is_finite():
        return ONE
    if c.kind.formula in PRICED:
        return PRICED[c.kind.formula][1](c)
    return PLAIN[c.kind.formula](c)


def _choice(c: Claim) -> None:
    """It is the smallest of all that were compared, each of which may fail."""
    among = parsed(c.inputs["among"])
    chosen = among[c.inputs["chosen_position"]]
    least = min(number(value) for _, _, value, _ in among)
    if (
        chosen[:3] != [c.inputs["chosen"], c.record.of, c.record.value]
        or chosen[2] != least
    ):
        raise Wrong(
            f"the one chosen is {chosen}, and not the smallest of those compared"
        )
    if c.terms["compared"] != len(among):
        raise Wrong(
            f"{c.terms['compared']} are said to have been compared, and {len(among)} are listed"
        )
    others = total(exactly(prob) for _, _, _, prob in among) - exactly(
        chosen[3]
    )
    about("what the others may fail with", c.budget.get(OTHERS, 0), others)
    own = c.paid(*c.budget) - c.paid(LOST) - others
    about("failure_prob of the one chosen", chosen[3], own)


def _surrogate(c: Claim) -> None:
    """The other network's certificate follows, is of the same risk, and rests on nothing that this one keeps silent."""
    other = parsed(c.raw("surrogate"))
    if other.measures != c.record.measures or ball(
        other.failure_prob
    ) != exactly(c.budget["surrogate"]):
        raise Wrong(
            f"the other network's certificate is of {other.measures!r} at {other.failure_prob!r}"
        )
    _require_silent_of_nothing(
        needs.standings(c.record), needs.standings(other)
    )
    found = check_certificate(other)
    for one in found:
        if one.verdict == DOES_NOT:
            raise Wrong(
                f"{one.claim} of the other network's certificate does not follow: {one.why}"
            )
    for one in found:
        if one.verdict == CANNOT:
            raise Unchecked(
                f"{one.claim} of the other network's certificate: {one.why}"
            )


def _require_silent_of_nothing(
    own: Mapping[str, str], theirs: Mapping[str, str]
) -> None:
    order = (
        None,
        *needs.STANDINGS,
    )  # from what is not there to what is unproved
    for name, standing in theirs.items():
        if order.index(own.get(name)) < order.index(standing):
            raise Wrong(
                f"the hypothesis {name!r} of the other network is said to stand better, or not at all"
            )
