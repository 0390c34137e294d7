"""One certificate: what its name says, and a verdict on each of its numbers.

``_CHECKS`` lists what is asked of every certificate, in its order.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from pacdp.verify import needs
from pacdp.verify.arithmetic import ONE, ball, total
from pacdp.verify.claim import (
    BOUGHT,
    CANNOT,
    DOES_NOT,
    GROUPED,
    Claim,
    Fields,
    Price,
    Statement,
    Unchecked,
    Wrong,
    about,
    agree,
    all_judged,
    exactly,
    fields,
    judged,
    number,
    parsed,
    require,
    same,
)
from pacdp.verify.files import other_format
from pacdp.verify.formulas import COSTS, FORMULAS, PRICED, counts
from pacdp.verify.formulas.prices import (
    MOMENTS,
    PREFIXES,
    check_price,
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
_PREDICTORS = ("randomised", "one_draw", "prior_mean", "vote")
_HEAD = re.compile(
    f"({'|'.join(_PREDICTORS)}|half_brier|rescaled_.+|test_set|new_examples|)"
)
"""What may stand before a name: the predictor, the loss, or the examples that it is about."""
_RISKS = {
    "ECE": "ece_pac_bayes ece_hoeffding ece_second_moment",
    "MCE": "mce_hoeffding mce_clopper_pearson",
    "empirical risk": "gibbs_risk_upper weighted_risk_upper correlated_risk_upper",
    "surrogate risk, rescaled to [0, 1]": "gibbs_catoni",
    "largest gap between ": "largest_gap",
}
"""How the name of the risk begins that these formulas bound; others bound whatever lies in [0, 1]."""
_BY_INPUT = {
    "sum_contributions": "realised_sum_",
    **{name: prefix for prefix, name in MOMENTS.items()},
    "draw_spread": "gibbs_range_",
    "sum_mu": "noisy_sum_",
    "sum_event": "poisson_sum_",
    "privacy_notion": "private_",
}
"""Prices by an input that they alone have; a worst case may name its event as well."""


def read_claim(
    record: Fields,
    privacy: Mapping[str, Any] | None = None,
    losses_known: bool = False,
) -> Claim:
    """A certificate's record as a claim of the kind that its name says."""
    c = Claim(record, privacy)
    c.losses_known = losses_known
    c.head, c.prefix, c.formula = _named(c.name, c)
    return c


def _named(name: str, c: Claim) -> tuple[str, str, str]:
    """Head, prefix and formula of a certificate of this name; the best of several has those of the chosen one."""
    if name == "best_of":
        if "among" not in c.inputs:
            raise Unchecked(
                "the certificates that were compared are not in the file"
            )
        name = str(c.inputs.get("chosen"))
    if name == "overall_certificate":
        name = str(c.inputs.get("bound"))
    words = name.split("_")
    for count in range(len(words)):
        head = "_".join(words[:count])
        rest = "_".join(words[count:])
        if not _HEAD.fullmatch(head):
            continue
        if rest == "ece":
            return _calibrated(head, c)
        full = _ALIASES.get(rest, rest)
        for prefix in PREFIXES:
            formula = full.removeprefix(prefix)
            known = formula in (PRICED if prefix else FORMULAS)
            if known and full.startswith(prefix):
                return head, prefix, formula
    raise Unchecked(f"this checker knows no certificate {name!r}")


def _calibrated(head: str, c: Claim) -> tuple[str, str, str]:
    """The calibration error of one draw by PAC-Bayes, of other predictors from fresh examples."""
    if head != "one_draw":
        return head, "", "ece_second_moment"
    prefix = "dp_" if "transfer" in c.costs else ""
    for name, other in reversed(_BY_INPUT.items()):
        if name in c.inputs:
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

    unread = judged(subject, "value", read)
    if not claims:
        return [unread]
    checks = dict(_CHECKS)
    if made.name == "best_of":
        checks["choice"] = _choice
    if made.name == "disagreement":
        checks["surrogate"] = _surrogate
    found = all_judged(subject, checks, *claims)
    if any(one.get("standing") == "proved" for one in made.hypotheses):
        proofs = "proofs of hypotheses"
        check = needs.require_proofs
        found.append(judged(subject, proofs, check, made, redone))
    return [*found, *_told_beside(subject, made)]


def _told_beside(subject: str, made: Fields) -> list[Statement]:
    """What a certificate holds that no check asked for, beside what is only told."""
    repeated = f"{_TOLD} {' '.join(made.inputs)}"
    unknown = [
        *made.unasked("format reference"),
        *needs.unknown(made),
        *(f"inputs.{name}" for name in made.inputs.unasked(_TOLD)),
        *(f"terms.{name}" for name in made.terms.unasked(repeated)),
    ]
    if not unknown:
        return []
    why = f"this checker does not know what {', '.join(unknown)} is"
    return [Statement(subject, "what is told beside", CANNOT, why)]


def _failure(c: Claim) -> None:
    """The budget adds up to the failure probability, and its parts are those that the inputs name."""
    whole = number(c.record.failure_prob)
    parts = [number(part) for part in c.budget.values()]
    require(
        0 < whole < 1 and all(0 <= part < 1 for part in parts),
        f"failure_prob is {whole!r} and the budget {c.budget}",
    )
    about("failure_prob", whole, c.paid(*c.budget))
    bought = list[str](BOUGHT)
    if c.formula.startswith("disintegrated"):
        bought.append("draw")
    if "mean" in c.inputs:
        bought.append("Monte Carlo")
    paid = {
        "failure_prob": c.paid(*bought),
        "monte_carlo_failure_prob": c.paid("Monte Carlo"),
        "log_partition_failure_prob": c.paid("log partition"),
    }
    for name, exact in paid.items():
        if name in c.inputs:
            about(f"inputs.{name}", c.raw(name), exact)


def _hypotheses(c: Claim) -> None:
    """All that the theorem needs is there, and what nothing shows is called unproved."""
    standing = needs.standings(c.record)
    require(
        set(standing.values()) <= set(needs.STANDINGS),
        f"hypotheses stand as {standing}",
    )
    unproved = "unproved" in standing.values()
    status = "optimistic" if unproved else "rigorous"
    same("the status", c.record.status, status)
    best = c.name == "best_of"
    for name, *_ in parsed(c.inputs.among) if best else [[c.name]]:
        _, prefix, formula = _named(name, c)
        needed = needs.needed(prefix, formula, name, c.inputs)
        needs.require_named(needed, standing)
    needs.require_unproved(
        needs.never_shown(c.formula, c.inputs), standing
    )
    require(
        standing.keys() & {needs.RECORDS, "draws independent"},
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
    require(measures.startswith(begins), why)
    require("new_person" not in c.name or _people_in(measures), why)
    units = {
        one.unit
        for one in c.record.hypotheses
        if one.name == needs.RECORDS
    }
    people = units.intersection(GROUPED)
    calibration = ("ECE", "MCE")
    odd = measures.startswith(calibration) and begins not in calibration
    if units and not measures.endswith(" of a new example"):
        require(not people or people == _people_in(measures), why)
        odd = odd or people != _people_in(measures)
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
        one for one in GROUPED if measures.endswith(f" of a new {one}")
    }


def _costs(c: Claim) -> None:
    """They are those of formula and price, each is what the inputs give, and its share is that over n."""
    expected = set[str]()
    price = "transfer" if c.prefix else "confidence"
    if c.formula in PRICED:
        expected = {price, *PRICED[c.formula]}
    same("the list of costs", c.costs.keys() - {"draw"}, expected)
    for one in c.record.costs:
        what = f"the cost {one.name}"
        each = exactly(one.nats) / c.size
        agree(f"{what} per example", one.per_example, each)
        if one.name == price:
            check_price(Price(c, what, number(one.nats), c.n))
        else:
            agree(what, one.nats, COSTS[one.name](c))


def _terms(c: Claim) -> None:
    """Those that repeat an input; the others belong to a formula or a price."""
    for name, value in c.terms.items():
        said = dict.get(c.inputs, name)
        if name == "empirical_risk":
            said = c.inputs.get("risk")
        if said is not None:
            same(f"terms.{name}", number(value), number(said))
    if "empirical_risk" in c.terms and "k" in c.inputs:
        c.terms_are(empirical_risk=c["k"] / c.n)
    if "draw_prob" in c.terms:
        c.terms_are(draw_prob=c.paid("draw"))
    if "effective_people" in c.terms:
        c.terms_are(effective_people=c["examples"] / c["most_examples"])


def _value(c: Claim) -> None:
    """It is the formula's value at the summed costs, twice that for a vote, and at most 1."""
    if "released_errors" in c.inputs:
        counts.check_noisy_counts(c)
    if "monte_carlo_mean" in c.inputs:
        agree(
            "inputs.risk",
            c.raw("risk"),
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
    values = [number(value) for _, _, value, _ in among]
    same("the smallest of those compared", c.record.value, min(values))
    same("their number", c.terms.compared, len(among))
    others = total(exactly(one[3]) for one in among) - exactly(prob)
    about("what the others fail with", c.budget.get(_OTHERS, 0), others)
    own = c.paid(*c.budget) - c.paid(LOST) - others
    about("failure_prob of the one chosen", prob, own)


def _surrogate(c: Claim) -> None:
    """The other network's certificate follows, is of the same risk, and rests on nothing that this one keeps silent."""
    other = parsed(c.raw("surrogate"))
    same("the other network's risk", other.measures, c.record.measures)
    paid = exactly(c.budget.surrogate)
    require(
        ball(other.failure_prob) == paid,
        f"the other network's certificate fails with {other.failure_prob!r}",
    )
    own = needs.standings(c.record)
    order = (None, *needs.STANDINGS)
    for name, standing in needs.standings(other).items():
        require(
            order.index(own.get(name)) >= order.index(standing),
            f"the hypothesis {name!r} of the other network is said to stand better, or not at all",
        )
    found = check_certificate(other)
    for verdict, error in ((DOES_NOT, Wrong), (CANNOT, Unchecked)):
        for one in found:
            if one.verdict == verdict:
                raise error(
                    f"{one.claim} of the other network's certificate: {one.why}"
                )


_CHECKS = {
    "failure probability": _failure,
    "hypotheses": _hypotheses,
    "labels": _labels,
    "costs": _costs,
    "terms": _terms,
    "value": _value,
}
"""What is asked of every certificate, in this order."""
