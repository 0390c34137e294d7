"""One certificate: what its name says, and a verdict on each of its numbers.

``_CHECKS`` lists what is asked of every certificate, in its order.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from pacdp.verify.arithmetic import ONE, ball, total
from pacdp.verify.claim import (
    BOUGHT,
    CANNOT,
    GROUPED,
    Checks,
    Claim,
    Fields,
    Price,
    Statement,
    Unchecked,
    Wrong,
    about,
    agree,
    exactly,
    judged,
    number,
    parsed,
    require,
    require_asked,
    same,
)
from pacdp.verify.files import other_format, unasked
from pacdp.verify.formulas import (
    COSTS,
    FORMULAS,
    KINDS,
    NEEDED,
    PAID_AS,
    PRICED,
    RANGES,
    RISKS,
    counts,
    prices,
)
from pacdp.verify.formulas.risk import SUMMED, Gibbs
from pacdp.verify.formulas.transfer import SPLIT
from pacdp.verify.needs import (
    KNOWN,
    RECORDS,
    STANDINGS,
    UNPROVED,
    needed,
    never_shown,
    require_named,
    require_no_better,
    require_one_or_a_mean,
    require_proofs,
    standings,
    units,
)

FORMAT = "pacdp-certificate/2"
LOST = "routes that came to nothing"
_OTHERS = "other certificates compared"
"""Entries of a budget beside those of the certificate itself."""
_OFTEN = """
    n empirical_risk empirical_gap effective_people second_moment examples most_examples privacy_event privacy_digest
    privacy_infinity_mass privacy_lowest privacy_spacing privacy_zero_mass
""".split()
TOLD = {
    "reference",
    "hypotheses.by",
    *(f"inputs.{name}" for name in _OFTEN),
    *(f"terms.{name}" for name in _OFTEN),
}
"""What is not needed by every formula, or is the accountant's own and made anew from what ran; a report names it."""

_PREDICTORS = ("randomised", "one_draw", "prior_mean", "vote")
_NAME = re.compile(
    f"(?:({'|'.join(_PREDICTORS)}|half_brier|test_set|new_examples)_)?({'|'.join(KINDS)})"
)
"""What may stand before a kind: the predictor, the loss, or the examples that it is about."""
_NEW = f" of a new ({'|'.join(GROUPED)})$"
"""How a risk ends that is that of a new person."""


def read_claim(
    record: Fields,
    privacy: Mapping[str, Any] | None = None,
    losses_known: bool = False,
) -> Claim:
    """A certificate's record as a claim of the kind that its name says."""
    c = Claim(record, privacy, losses_known)
    c.head, c.prefix, c.formula = _named(c.name, c)
    return c


def _named(name: str, c: Claim) -> tuple[str, str, str]:
    """Head, prefix and formula of a certificate of this name; the best of several has those of the chosen one."""
    if name == "best_of":
        if "among" not in c.inputs:
            raise Unchecked(
                "the certificates that were compared are not in the file"
            )
        name = str(c.inputs["chosen"])
    if name == "overall_certificate":
        name = str(c.inputs["bound"])
    said = _NAME.fullmatch(name)
    if not said:
        raise Unchecked(
            f"this checker knows no certificate {name!r}"
        )
    head = said[1] or ""
    prefix, formula = KINDS[said[2]]
    if head == "one_draw" and said[2] == "ece":
        # the calibration error of one draw is by PAC-Bayes
        owns = [
            p
            for p, own in prices.OWN_INPUT.items()
            if own in c.inputs
        ]
        prefix = ["", *owns][-1]
        # sums on secret batches and once an epoch differ by what ran
        event = str(c.inputs["sum_event"])
        if prefix == "once_sum_" and "OnceAnEpoch" not in event:
            prefix = "poisson_sum_"
        formula = "ece_pac_bayes"
    elif head == "one_draw" and NEEDED[formula] != "drawn":
        raise Unchecked(
            f"{formula} bounds the mean over draws, and says nothing of one"
        )
    return head, prefix, formula


def check_certificate(
    record: Mapping[str, Any],
    privacy: Mapping[str, Any] | None = None,
    redone: Collection[str] = (),
    losses_known: bool = False,
) -> list[Statement]:
    """A statement on each of: failure probability, hypotheses and their proofs, labels, costs, terms, value, the rest.

    Args:
        privacy: what its report says of privacy, where there is one.
        redone: the hypotheses whose proofs were done again from the files beside it.
        losses_known: whether no loss of it was given with predictions, and called as anybody likes.
    """
    subject = f"{record.get('name')} of {record.get('of')}"
    made = parsed(record)
    if (form := made["format"]) != FORMAT:
        why = other_format(form, FORMAT)
        return [Statement(subject, "format", CANNOT, why)]
    claims = []
    given = made, privacy, losses_known
    read = {"value": lambda: claims.append(read_claim(*given))}
    unread = judged(subject, read)
    if not claims:
        return unread
    (c,) = claims
    checks = {
        **_CHECKS,
        **_OF_KINDS.get(c.name, {}),
        **_OF_KINDS.get(c.formula, {}),
        "proofs of hypotheses": lambda c: require_proofs(
            c.record, redone
        ),
        "what is told beside": _beside,
    }
    return judged(subject, checks, c)


def _beside(c: Claim) -> None:
    """Nothing is told that no check asked for, and no hypothesis that is in no table here."""
    names = standings(c.record).keys() - KNOWN
    require_asked([*unasked(c.record, TOLD), *sorted(names)])


def _failure(c: Claim) -> None:
    """The budget adds up to the failure probability, and its parts are those that the inputs name."""
    whole = number(c.record.failure_prob)
    require(
        0 < whole < 1
        and all(number(part) >= 0 for part in c.budget.values()),
        f"failure_prob is {whole!r} and the budget {c.budget}",
    )
    about("failure_prob", whole, c.paid(*c.budget), floor=0.0)
    payer = PAID_AS[c.formula]
    if "monte_carlo_mean" in c.inputs:
        payer = "PAC step"
    said = {*BOUGHT} & c.budget.keys()
    if c.prefix == "private_":
        said -= {*SPLIT.values()}
    require(
        said <= {payer}, f"{said} pay for it, and not {payer!r}"
    )
    bought = list[str](BOUGHT)
    if c.formula.startswith("disintegrated"):
        bought.append("draw")
    if "mean" in c.inputs:
        bought.append("Monte Carlo")
    paid = {
        "failure_prob": bought,
        "monte_carlo_failure_prob": ["Monte Carlo"],
        "log_partition_failure_prob": ["log partition"],
    }
    for name, entries in paid.items():
        if name in c.inputs:
            paid_for = c.paid(*entries)
            what = f"inputs.{name}"
            about(what, c.inputs[name], paid_for, floor=0.0)


def _hypotheses(c: Claim) -> None:
    """All that the theorem needs is there, and what nothing shows is called unproved."""
    standing = standings(c.record)
    kinds = set(standing.values())
    require(kinds <= set(STANDINGS), f"hypotheses stand as {kinds}")
    status = "optimistic" if "unproved" in kinds else "rigorous"
    same("the status", c.record.status, status)
    names = [[c.name]]
    if c.name == "best_of":
        names = parsed(c.inputs.among)
    for name, *_ in names:
        _, prefix, formula = _named(name, c)
        needs = needed(prefix, formula, name, c.inputs)
        require_named(needs, standing)
    never = never_shown(c.formula, c.inputs)
    require_named(never, standing, UNPROVED)
    require(
        standing.keys() & {RECORDS, "draws independent"},
        "nothing is said of the independence of records or of draws",
    )


def _predictor(c: Claim) -> None:
    """It is the one that the name says, and so is the bound that is given by its name."""
    of = c.record.of
    if c.head in _PREDICTORS:
        expected = c.head.replace("_", " ")
        require(
            f"{of} of ".startswith(f"{expected} of "),
            f"it is said to be about {of!r}, and its name says {expected!r}",
        )
    require_one_or_a_mean(c)
    if bound := c.inputs["bound"]:
        named = _named(bound, c)[1:]
        same("kind of inputs.bound", named, (c.prefix, c.formula))


def _labels(c: Claim) -> None:
    """The risk is the one that the name says; of one record a person, it is a new person's.

    A loss that was given with predictions is called as whoever gave it does.
    """
    measures = c.record.measures
    begins = RISKS[c.formula]
    if c.head == "half_brier":
        begins = "half the Brier risk"
    people = {*re.findall(_NEW, measures)}
    if measures.startswith("share of people with more than "):
        people = {"person"}
    plain = measures.removeprefix("weighted ")
    holds = plain.startswith(begins)
    holds = holds and ("new_person" not in c.name or people)
    calibrated = measures.startswith(("ECE", "MCE"))
    odd = calibrated and begins not in ("ECE", "MCE")
    if plain != measures:
        by_weight = {"weighted_betting", "largest_gap"}
        holds = holds and c.formula.endswith(("betting", "gap"))
        odd = odd or c.formula not in by_weight
    whose = units(c.record)
    grouped = whose.intersection(GROUPED)
    if grouped and measures.endswith(" of a new example"):
        holds = holds and c.formula.startswith("new_example_")
    elif whose:
        holds = holds and grouped in (set(), people)
        odd = odd or people != grouped
    unknown = holds and odd and not c.losses_known
    if unknown and c.head == "new_examples":
        raise Unchecked(
            f"{measures!r} is right if a loss was called so, and nothing else shows it"
        )
    why = f"it is said to bound {measures!r}, and its name says {begins or 'another risk'!r}"
    require(holds and not odd, why)


def _costs(c: Claim) -> None:
    """They are those of formula and price, each is what the inputs give, and its share is that over n."""
    for name, said in c.inputs.items():
        most = 1 if name[:6] == "share_" else RANGES.get(name)
        within = most is None or all(
            0 <= float(one) <= most + 1e-9
            for one in str(said).split(",")
        )
        why = f"inputs.{name} is {said}, and none is below 0 or above {most}"
        require(within, why)
    price = "transfer" if c.prefix else "confidence"
    priced = c.formula in PRICED
    expected = {*PRICED[c.formula], price} if priced else set()
    drawn = NEEDED[c.formula] == "drawn"
    if drawn and c.prefix in prices.OF_PRIVACY:
        expected.add("draw")
    same("the list of costs", sorted(c.costs), sorted(expected))
    same("the number of costs", len(c.record.costs), len(c.costs))
    for one in c.record.costs:
        what = f"the cost {one.name}"
        share = exactly(one.nats) / c.size
        agree(f"{what} per example", one.per_example, share)
        if one.name == price:
            prices.check_price(Price(c, what, c.costs[price], c.n))
        else:
            summed = {one.name, *c.inputs} >= SUMMED
            room = Gibbs(c).floor if summed else 1e-12
            agree(what, one.nats, COSTS[one.name](c), floor=room)


def _terms(c: Claim) -> None:
    """Those that repeat an input; the others belong to a formula or a price."""
    terms = c.terms
    for name in terms:
        said = dict.get(c.inputs, name)
        if name == "empirical_risk":
            said = c.inputs["risk"]
        if said is not None:
            same(f"terms.{name}", number(terms[name]), number(said))
    if "empirical_risk" in terms and "k" in c.inputs:
        c.terms_are(empirical_risk=c.k / c.n)
    if "draw_prob" in terms:
        c.terms_are(draw_prob=c.paid("draw"))
    if "effective_people" in terms:
        c.terms_are(effective_people=c.people)


def _value(c: Claim) -> None:
    """It is the formula's value at the summed costs, twice that for a vote, and at most 1."""
    if "released_errors" in c.inputs:
        counts.check_noisy_counts(c)
    if "monte_carlo_mean" in c.inputs:
        risk = counts.from_draws(c, "monte_carlo_")
        agree("inputs.risk", c.inputs.risk, risk)
    exact = FORMULAS[c.formula](c) if c.nats.is_finite() else ONE
    if c.head == "vote":
        exact *= 2
    agree("the value", c.record.value, exact.min(ONE))


def _choice(c: Claim) -> None:
    """It is the smallest of all that were compared, each of which may fail."""
    among = parsed(c.inputs.among)
    *chosen, prob = among[c.inputs.chosen_position]
    require(
        all(0 < number(one[3]) < 1 for one in among),
        "each of those compared may fail, and none more often than always",
    )
    value = c.record.value
    said = [c.inputs.chosen, c.record.of, value]
    same("the one chosen", chosen, said)
    least = min(number(one[2]) for one in among)
    same("the smallest of those compared", value, least)
    same("their number", c.terms.compared, len(among))
    own = exactly(prob)
    others = total(exactly(one[3]) for one in among) - own
    told = c.budget.get(_OTHERS, 0)
    about("what the others fail with", told, others)
    left = c.paid(*c.budget) - c.paid(LOST) - others
    about("failure_prob of the one chosen", prob, left)


def _surrogate(c: Claim) -> None:
    """The other network's certificate follows, is of the same risk, and rests on nothing that this one keeps silent."""
    other = parsed(c.inputs.surrogate)
    same("the other's risk", other.measures, c.record.measures)
    paid = exactly(c.budget.surrogate)
    same("the other's failure_prob", ball(other.failure_prob), paid)
    require_no_better(c.record, other)
    for error in (Wrong, Unchecked):
        for one in check_certificate(other):
            if one.verdict == error.verdict:
                raise error(
                    f"{one.claim} of the other network's certificate: {one.why}"
                )


_CHECKS: Checks = {
    "failure probability": _failure,
    "hypotheses": _hypotheses,
    "predictor": _predictor,
    "labels": _labels,
    "costs": _costs,
    "terms": _terms,
    "value": _value,
}
"""What is asked of every certificate, in this order."""
_OF_KINDS = {
    "best_of": {"choice": _choice},
    "disagreement": {"surrogate": _surrogate},
}
"""What is asked of these as well."""
