"""One certificate: what its name says, and a verdict on each of its numbers.

``_CHECKS`` lists what is asked of every certificate, in its order.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pacdp.verify.arithmetic import ONE, ball, total
from pacdp.verify.claim import (
    BOUGHT,
    CANNOT,
    GROUPED,
    Claim,
    Fields,
    Price,
    Statement,
    Unchecked,
    Wrong,
    about,
    agree,
    exactly,
    fields,
    judged,
    number,
    parsed,
    require,
    same,
    told_beside,
)
from pacdp.verify.files import other_format
from pacdp.verify.formulas import (
    COSTS,
    FORMULAS,
    NEEDED,
    PRICED,
    counts,
)
from pacdp.verify.formulas.prices import (
    OWN_INPUT,
    PRICES,
    check_price,
    serves,
)
from pacdp.verify.needs import (
    RECORDS,
    STANDINGS,
    needed,
    never_shown,
    require_named,
    require_proofs,
    require_unproved,
    standings,
    units,
    unknown,
)

FORMAT = "pacdp-certificate/2"
LOST = "routes that came to nothing"
_OTHERS = "other certificates compared"
"""Entries of a budget beside those of the certificate itself."""
_TOLD = """
    n empirical_risk empirical_gap effective_people second_moment examples most_examples privacy_event privacy_digest
    privacy_infinity_mass privacy_lowest privacy_spacing privacy_zero_mass
"""
"""What repeats others, is not needed by every formula, or is the accountant's own and made anew from what ran."""

_AMOUNTS = """
    kl_nats renyi_nats epsilon privacy_epsilon privacy_mu privacy_rho privacy_delta
    sum_mu sum_contributions draw_spread around_divergence
    sum_log_moments losses_log_moments gradients_log_moments around_log_moments
"""
"""Inputs that are never below 0."""

_ALIASES = {
    "dp_pac_bayes": "dp_maurer",
    "private_pac_bayes": "private_maurer",
    "hybrid_pac_bayes": "private_maurer",
    "max_information_pac_bayes": "max_information_maurer",
    "printed_2018_pac_bayes": "printed_2018_maurer",
    "dp_pac_bayes_max_information": "max_information_langford_seeger",
    "finite_ensemble": "maurer",
    "dp_pac_bayes_2018": "printed_2018_langford_seeger",
    "new_person": "new_person_kl",
}
_KINDS = {
    **{
        prefix + formula: (prefix, formula)
        for prefix in PRICES
        for formula in PRICED
        if serves(prefix, formula, NEEDED[formula])
    },
    **{formula: ("", formula) for formula in FORMULAS},
}
_KINDS.update({one: _KINDS[other] for one, other in _ALIASES.items()})
"""The prefix of the price, and the formula, by what a name says of both."""
_PREDICTORS = ("randomised", "one_draw", "prior_mean", "vote")
_NAME = re.compile(
    f"(?:({'|'.join(_PREDICTORS)}|half_brier|rescaled_.+?|test_set|new_examples)_)?({'|'.join(_KINDS)}|ece)"
)
"""What may stand before a kind: the predictor, the loss, or the examples that it is about."""
_RISKS = {
    "ECE": "ece_pac_bayes ece_hoeffding ece_second_moment",
    "MCE": "mce_hoeffding mce_clopper_pearson",
    "empirical risk": "gibbs_risk_upper weighted_risk_upper correlated_risk_upper",
    "surrogate risk, rescaled to [0, 1]": "gibbs_catoni",
    "largest gap between ": "largest_gap",
}
"""How the name of the risk begins that these formulas bound; others bound whatever lies in [0, 1]."""


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
        raise Unchecked(f"this checker knows no certificate {name!r}")
    head = said[1] or ""
    if said[2] != "ece":
        prefix, formula = _KINDS[said[2]]
        if head == "one_draw" and NEEDED[formula] != "drawn":
            raise Unchecked(
                f"{formula} bounds the mean over draws, and says nothing of one"
            )
        return head, prefix, formula
    if head != "one_draw":
        return head, "", "ece_second_moment"
    # the calibration error of one draw is by PAC-Bayes
    prefix = "dp_" if "transfer" in c.costs else ""
    for other, own in OWN_INPUT.items():
        if own in c.inputs:
            prefix = other
    return head, prefix, "ece_pac_bayes"


def check_certificate(
    record: Mapping[str, Any],
    privacy: Mapping[str, Any] | None = None,
    redone: Collection[str] = (),
    losses_known: bool = False,
) -> list[Statement]:
    """A statement on each of: failure probability, hypotheses and their proofs, labels, costs, terms, value.

    Args:
        record: the certificate as it is written.
        privacy: what its report says of privacy, where there is one.
        redone: the hypotheses whose proofs were done again from the files beside it.
        losses_known: whether no loss of it was given with predictions, and called as anybody likes.
    """
    subject = f"{record.get('name')} of {record.get('of')}"
    if record.get("format") != FORMAT:
        why = other_format(record.get("format"), FORMAT)
        return [Statement(subject, "format", CANNOT, why)]
    made = fields(record)
    claims = list[Claim]()

    def read() -> None:
        claims.append(read_claim(made, privacy, losses_known))

    unread = judged(subject, {"value": read})
    if not claims:
        return unread
    checks = {**_CHECKS, **_OF_KINDS.get(made.name, {})}
    if any(one["standing"] == "proved" for one in made.hypotheses):
        checks["proofs of hypotheses"] = lambda c: require_proofs(
            c.record, redone
        )
    return [
        *judged(subject, checks, *claims),
        *told_beside(subject, _told(made)),
    ]


def _told(made: Fields) -> list[str]:
    """What a certificate holds that no check asked for, beside what is only told."""
    return [
        *made.unasked("format reference"),
        *unknown(made),
        *(f"inputs.{name}" for name in made.inputs.unasked(_TOLD)),
        *(
            f"terms.{name}"
            for name in made.terms.unasked(
                f"{_TOLD} {' '.join(made.inputs)}"
            )
        ),
    ]


def _failure(c: Claim) -> None:
    """The budget adds up to the failure probability, and its parts are those that the inputs name."""
    whole = number(c.record.failure_prob)
    require(
        0 < whole < 1
        and all(number(part) >= 0 for part in c.budget.values()),
        f"failure_prob is {whole!r} and the budget {c.budget}",
    )
    about("failure_prob", whole, c.paid(*c.budget))
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
            about(f"inputs.{name}", c.inputs[name], c.paid(*entries))


def _hypotheses(c: Claim) -> None:
    """All that the theorem needs is there, and what nothing shows is called unproved."""
    standing = standings(c.record)
    require(
        set(standing.values()) <= set(STANDINGS),
        f"hypotheses stand as {standing}",
    )
    unproved = "unproved" in standing.values()
    same(
        "the status",
        c.record.status,
        "optimistic" if unproved else "rigorous",
    )
    best = c.name == "best_of"
    for name, *_ in parsed(c.inputs.among) if best else [[c.name]]:
        _, prefix, formula = _named(name, c)
        require_named(
            needed(prefix, formula, name, c.inputs), standing
        )
    require_unproved(never_shown(c.formula, c.inputs), standing)
    require(
        standing.keys() & {RECORDS, "draws independent"},
        "nothing is said of the independence of records or of draws",
    )


def _labels(c: Claim) -> None:
    """Predictor and risk are those that the name says; of one record a person, the risk is a new person's.

    A loss that was given with predictions is called as whoever gave it does.
    """
    head = c.head
    of = c.record.of
    measures = c.record.measures
    expected = head.replace("_", " ") if head in _PREDICTORS else of
    require(
        of == expected or of.startswith(f"{expected} of "),
        f"it is said to be about {of!r}, and its name says {expected!r}",
    )
    begins = _begins(head, c.formula)
    why = f"it is said to bound {measures!r}, and its name says {begins or 'another risk'!r}"
    people = _people_in(measures)
    require(measures.startswith(begins), why)
    require("new_person" not in c.name or people, why)
    whose = units(c.record)
    calibration = ("ECE", "MCE")
    odd = (
        measures.startswith(calibration) and begins not in calibration
    )
    if whose and not measures.endswith(" of a new example"):
        grouped = whose.intersection(GROUPED)
        require(grouped in (set(), people), why)
        odd = odd or people != grouped
    if odd and head == "new_examples" and not c.losses_known:
        raise Unchecked(
            f"{measures!r} is right if a loss was called so, and nothing else shows it"
        )
    require(not odd, why)


def _begins(head: str, formula: str) -> str:
    """How the name of the risk begins that a certificate of this name bounds."""
    if head == "half_brier":
        return "half the Brier risk"
    if head.startswith("rescaled_"):
        loss = head.removeprefix("rescaled_")
        return f"{loss} risk, rescaled to [0, 1]"
    for begins, names in _RISKS.items():
        if formula in names.split():
            return begins
    return ""


def _people_in(measures: str) -> set[str]:
    """Whose risk it is by its name: a new person's, or a new document's."""
    if measures.startswith("share of people with more than "):
        return {"person"}
    return {
        one
        for one in GROUPED
        if measures.endswith(f" of a new {one}")
    }


def _costs(c: Claim) -> None:
    """They are those of formula and price, each is what the inputs give, and its share is that over n."""
    for name in _AMOUNTS.split():
        said = str(dict.get(c.inputs, name, 0)).split(",")
        require(
            all(float(one) >= 0 for one in said),
            f"inputs.{name} is {','.join(said)}, and none is below 0",
        )
    price = "transfer" if c.prefix else "confidence"
    expected = set[str]()
    if c.formula in PRICED:
        expected = {price, *PRICED[c.formula]}
    same("the list of costs", c.costs.keys() - {"draw"}, expected)
    for one in c.record.costs:
        what = f"the cost {one.name}"
        agree(
            f"{what} per example",
            one.per_example,
            exactly(one.nats) / c.size,
        )
        if one.name == price:
            check_price(Price(c, what, c.costs[price], c.n))
        else:
            agree(what, one.nats, COSTS[one.name](c))


def _terms(c: Claim) -> None:
    """Those that repeat an input; the others belong to a formula or a price."""
    inputs = c.inputs
    for name, value in c.terms.items():
        said = dict.get(inputs, name)
        if name == "empirical_risk":
            said = inputs["risk"]
        if said is not None:
            same(f"terms.{name}", number(value), number(said))
    if "empirical_risk" in c.terms and "k" in inputs:
        c.terms_are(empirical_risk=c.k / c.n)
    if "draw_prob" in c.terms:
        c.terms_are(draw_prob=c.paid("draw"))
    if "effective_people" in c.terms:
        c.terms_are(effective_people=c.examples / c.most_examples)


def _value(c: Claim) -> None:
    """It is the formula's value at the summed costs, twice that for a vote, and at most 1."""
    if "released_errors" in c.inputs:
        counts.check_noisy_counts(c)
    if "monte_carlo_mean" in c.inputs:
        agree(
            "inputs.risk",
            c.inputs.risk,
            counts.from_draws(c, "monte_carlo_"),
        )
    exact = ONE
    if c.nats.is_finite():
        exact = FORMULAS[c.formula](c)
    if c.head == "vote":
        exact *= 2
    agree("the value", c.record.value, exact.min(ONE))


def _choice(c: Claim) -> None:
    """It is the smallest of all that were compared, each of which may fail."""
    among = parsed(c.inputs.among)
    *chosen, prob = among[c.inputs.chosen_position]
    same(
        "the one chosen",
        chosen,
        [c.inputs.chosen, c.record.of, c.record.value],
    )
    same(
        "the smallest of those compared",
        c.record.value,
        min(number(one[2]) for one in among),
    )
    same("their number", c.terms.compared, len(among))
    others = total(exactly(one[3]) for one in among) - exactly(prob)
    about(
        "what the others fail with", c.budget.get(_OTHERS, 0), others
    )
    about(
        "failure_prob of the one chosen",
        prob,
        c.paid(*c.budget) - c.paid(LOST) - others,
    )


def _surrogate(c: Claim) -> None:
    """The other network's certificate follows, is of the same risk, and rests on nothing that this one keeps silent."""
    other = parsed(c.inputs.surrogate)
    same(
        "the other network's risk", other.measures, c.record.measures
    )
    require(
        ball(other.failure_prob) == exactly(c.budget.surrogate),
        f"the other network's certificate fails with {other.failure_prob!r}",
    )
    own = standings(c.record)
    order = (None, *STANDINGS)
    for name, standing in standings(other).items():
        require(
            order.index(own.get(name)) >= order.index(standing),
            f"the hypothesis {name!r} of the other network is said to stand better, or not at all",
        )
    found = check_certificate(other)
    for error in (Wrong, Unchecked):
        for one in found:
            if one.verdict == error.verdict:
                raise error(
                    f"{one.claim} of the other network's certificate: {one.why}"
                )


_CHECKS: dict[str, Callable[[Claim], None]] = {
    "failure probability": _failure,
    "hypotheses": _hypotheses,
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
