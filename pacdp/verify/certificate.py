"""One certificate, from its name to a verdict on each of its numbers."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify import needs
from pacdp.verify.arithmetic import ball
from pacdp.verify.claim import (
    CANNOT,
    DOES_NOT,
    GROUPED,
    Claim,
    Statement,
    Unchecked,
    Wrong,
    about,
    agree,
    judged,
    number,
    other_format,
    parsed,
    without_unit,
)
from pacdp.verify.formulas import COSTS, PLAIN, PRICED, sampled
from pacdp.verify.prices import PREFIXES, check_price
from pacdp.verify.release import check_counts

FORMAT = "pacdp-certificate/2"
_BOUGHT = ("bound", "PAC step", "test set", "groups", "union over networks", "transfer", "privacy tail",
           "unbounded privacy loss")  # fmt: skip
"""Entries of a budget that pay for the bound itself; others pay for what it was given."""
_OTHERS, LOST = "other certificates compared", "routes that came to nothing"
_ALIASES = {
    "dp_pac_bayes": "dp_maurer", "private_pac_bayes": "private_maurer", "hybrid_pac_bayes": "private_maurer",
    "max_information_pac_bayes": "max_information_maurer", "printed_2018_pac_bayes": "printed_2018_maurer",
    "dp_pac_bayes_max_information": "max_information_langford_seeger", "finite_ensemble": "maurer",
    "dp_pac_bayes_2018": "printed_2018_langford_seeger", "new_person": "new_person_kl",
}  # fmt: skip
_FIELDS = {"format", "name", "value", "failure_prob", "status", "of", "measures", "hypotheses", "costs", "terms",
           "budget", "reference", "inputs"}  # fmt: skip
_TOLD = {"n", "empirical_risk", "empirical_gap", "effective_people", "second_moment", "examples", "most_examples",
         "privacy_event", "privacy_digest", "privacy_infinity_mass", "privacy_lowest", "privacy_spacing",
         "privacy_zero_mass"}  # fmt: skip
"""What repeats others, is not needed by every formula, or is the accountant's own and made anew from what ran."""
_WRAPPED = re.compile(r"(randomised|half_brier|rescaled_.+|one_draw|test_set|new_examples|prior_mean|vote|)")
"""What may stand before a name: the predictor, the loss, or the examples that it is about."""

_NEW_EXAMPLE = " of a new example"
_PREDICTORS = {"randomised": "randomised", "one_draw": "one draw", "vote": "vote", "prior_mean": "prior mean"}
"""Predictors by what stands before a name."""
_RISKS_BY_FORMULA = {
    **dict.fromkeys(("ece_pac_bayes", "ece_hoeffding", "ece_second_moment"), "ECE"),
    **dict.fromkeys(("mce_hoeffding", "mce_clopper_pearson"), "MCE"),
    **dict.fromkeys(("gibbs_risk_upper", "weighted_risk_upper", "correlated_risk_upper"), "empirical risk"),
    "gibbs_catoni": "surrogate risk, rescaled to [0, 1]",
    "largest_gap": "largest gap between ",
}
"""How the name of the risk begins that these formulas bound; others bound whatever lies in [0, 1]."""

_BY_SUMS = {"sum_contributions": "realised_sum_", "sum_log_moments": "realised_poisson_", "sum_mu": "noisy_sum_",
            "sum_event": "poisson_sum_"}  # fmt: skip
"""Prices of noisy sums by an input that they alone have; a worst case may name its event as well."""


class Kind(NamedTuple):
    """What the name of a certificate says.

    Attributes:
        head: what stands before the theorem's name: the predictor, the loss, or the examples that it is about.
        prefix: of the price.
        formula: the name in the tables of formulas.
    """

    head: str
    prefix: str
    formula: str


def kind_of(c: Claim) -> Kind:
    """What the certificate's name says; of the best of several and of an overall one, that of what it rests on."""
    if c.name == "best_of":
        if "among" not in c.inputs:
            raise Unchecked("the certificates that were compared are not in the file")
        return named(str(c.inputs.get("chosen")), c)
    return named(str(c.inputs.get("bound")) if c.name == "overall_certificate" else c.name, c)


def named(name: str, c: Claim) -> Kind:
    """The kind of a certificate of this name."""
    name = str(c.inputs.get("bound")) if name == "overall_certificate" else name
    for cut in (0, *(found.end() for found in re.finditer("_", name))):
        head, rest = name[: max(0, cut - 1)], name[cut:]
        if not _WRAPPED.fullmatch(head):
            continue
        if rest == "ece":  # of one draw by PAC-Bayes, of others from fresh examples
            price = "" if "transfer" not in c.costs else "private_" if "privacy_notion" in c.inputs else "dp_"
            price = next((one for name, one in _BY_SUMS.items() if name in c.inputs), price)
            return Kind(head, price, "ece_pac_bayes") if head == "one_draw" else Kind(head, "", "ece_second_moment")
        full = _ALIASES.get(rest, rest)
        for prefix in PREFIXES:
            formula = full.removeprefix(prefix)
            if full.startswith(prefix) and (formula in PRICED or (not prefix and formula in PLAIN)):
                return Kind(head, prefix, formula)
    raise Unchecked(f"this checker knows no certificate {name!r}")


def check_certificate(
    record: Mapping[str, Any], privacy: Mapping[str, Any] | None = None, redone: Collection[str] = ()
) -> list[Statement]:
    """A statement on each of: failure probability, hypotheses and their proofs, labels, costs, terms, value.

    Args:
        record: the certificate as it is written.
        privacy: what its report says of privacy, where there is one.
        redone: the hypotheses whose proofs were done again from the files beside it.
    """
    subject = f"{record.get('name')} of {record.get('of')}"
    if record.get("format") != FORMAT:
        return [Statement(subject, "format", CANNOT, other_format(record.get("format"), FORMAT))]
    found = list[Any]()

    def read() -> None:
        c = Claim(record, privacy)
        found.extend((c, kind_of(c), c.paid(*_BOUGHT) / (1 + len(c.numbered("n_", 2)))))  # of each recursive step

    if (readable := judged(subject, "value", read)).why:
        return [readable]
    c, kind, delta = found
    c.divided = kind.formula == "new_example_pac_bayes"
    c.price = lambda what, claimed, n, suffix="": check_price(c, kind.prefix, what, claimed, n, delta, suffix)
    checks: dict[str, Callable[[], None]] = {
        "failure probability": lambda: _failure(c, kind.formula),
        "hypotheses": lambda: _hypotheses(c, kind),
        "labels": lambda: _labels(c, kind),
        "costs": lambda: _costs(c, kind.prefix, kind.formula),
        "terms": lambda: _terms(c),
        "value": lambda: _value(c, kind),
    }
    if any(one.get("standing") == "proved" for one in record["hypotheses"]):
        checks["proofs of hypotheses"] = lambda: needs.require_proofs(record["hypotheses"], redone)
    if c.name == "best_of":
        checks["choice"] = lambda: _choice(c)
    if c.name == "disagreement":
        checks["surrogate"] = lambda: _surrogate(c)
    verdicts = [judged(subject, claim, check) for claim, check in checks.items()]
    if odd := _unknown(c):
        why = f"this checker does not know what {', '.join(odd)} is"
        verdicts.append(Statement(subject, "what is told beside", CANNOT, why))
    return verdicts


def _unknown(c: Claim) -> list[str]:
    """What a certificate holds that no check asked for, beside what is only told."""
    inputs, terms = set(c.inputs) - c.inputs.names - _TOLD, set(c.terms) - c.terms.names - set(c.inputs) - _TOLD
    return sorted(
        {*(set(c.record) - _FIELDS), *(f"inputs.{one}" for one in inputs), *(f"terms.{one}" for one in terms)}
    )


def _choice(c: Claim) -> None:
    """The smallest of all that were compared, each of which may fail."""
    among, place = parsed(c.inputs["among"]), c.inputs["chosen_position"]
    values, probs = ([number(one[k]) for one in among] for k in (2, 3))
    if among[place][:3] != [c.inputs["chosen"], c.record["of"], c.record["value"]] or values[place] != min(values):
        raise Wrong(f"the one chosen is {among[place]}, and not the smallest of those compared")
    if c.terms["compared"] != len(among):
        raise Wrong(f"{c.terms['compared']} are said to have been compared, and {len(among)} are listed")
    others = sum((ball(one) for one in probs), arb(0)) - ball(probs[place])
    about("what the others may fail with", number(c.budget.get(_OTHERS, 0)), others)
    about("failure_prob of the one chosen", probs[place], c.paid(*c.budget) - c.paid(LOST) - others)


def _surrogate(c: Claim) -> None:
    """The other network's certificate follows, is of the same risk, and rests on nothing that this one keeps silent."""
    other = parsed(c.raw("surrogate"))
    found = check_certificate(other)
    if other["measures"] != c.record["measures"] or number(other["failure_prob"]) != number(c.budget["surrogate"]):
        raise Wrong(f"the other network's certificate is of {other['measures']!r} at {other['failure_prob']!r}")
    if bad := [one for one in found if one.verdict == DOES_NOT]:
        raise Wrong(f"{bad[0].claim} of the other network's certificate does not follow: {bad[0].why}")
    own, theirs = standings(c.record), standings(other)
    order = (None, *needs.STANDINGS)  # from what is not there to what is unproved
    if odd := [name for name, said in theirs.items() if order.index(own.get(name)) < order.index(said)]:
        raise Wrong(f"the hypothesis {odd[0]!r} of the other network is said to stand better, or not at all")
    if open_ := [one for one in found if one.verdict == CANNOT]:
        raise Unchecked(f"{open_[0].claim} of the other network's certificate: {open_[0].why}")


def _failure(c: Claim, formula: str) -> None:
    whole = number(c.record["failure_prob"])
    if not 0 < whole < 1 or any(not 0 <= number(part) < 1 for part in c.budget.values()):
        raise Wrong(f"failure_prob is {whole!r} and the budget {c.budget}")
    about("failure_prob", whole, c.paid(*c.budget))
    drawn = ("draw",) if formula.startswith("disintegrated") else ()
    own = (*_BOUGHT, *drawn, *(("Monte Carlo",) if "mean" in c.inputs else ()))
    entries = {"": own, "monte_carlo_": ("Monte Carlo",), "log_partition_": ("log partition",)}
    for name, paid in entries.items():
        if f"{name}failure_prob" in c.inputs:
            about(f"inputs.{name}failure_prob", c.raw(f"{name}failure_prob"), c.paid(*paid))


def standings(record: Mapping[str, Any]) -> dict[str, str]:
    """How each hypothesis of a certificate stands, by its name."""
    found = {one["name"]: one["standing"] for one in record["hypotheses"]}
    if len(found) < len(record["hypotheses"]):
        raise Wrong("a hypothesis stands there twice")
    return found


def require_of_a_chain(certificates: Iterable[Mapping[str, Any]], sampler: Mapping[str, Any]) -> None:
    """Raise Wrong unless what rests on a chain's having converged is called unproved."""
    for record in certificates:
        c = Claim(record)
        kind = kind_of(c)
        names = needs.never_shown_of_a_chain(kind.prefix, kind.formula, c.inputs, sampler)
        needs.require_unproved(names, standings(record))


def _hypotheses(c: Claim, kind: Kind) -> None:
    """All that the theorem needs is there, and what nothing shows is called unproved."""
    standing = standings(c.record)
    if odd := sorted(set(standing.values()) - set(needs.STANDINGS)):
        raise Wrong(f"a hypothesis is {odd[0]!r}")
    status = "optimistic" if "unproved" in standing.values() else "rigorous"
    if c.record["status"] != status:
        raise Wrong(f"the status is {c.record['status']!r}, and by the hypotheses {status!r}")
    names = [one[0] for one in parsed(c.inputs["among"])] if c.name == "best_of" else [c.name]
    for name in names:
        own = named(name, c) if name != "best_of" else kind
        needs.require(needs.needed(own.prefix, own.formula, name, c.inputs), standing)
    needs.require_unproved(needs.never_shown(kind.formula, c.inputs), standing)
    if not standing.keys() & {"records independent", "draws independent"}:
        raise Wrong("nothing is said of the independence of records or of draws")


def _labels(c: Claim, kind: Kind) -> None:
    """Predictor and risk are those that the name says; of one record a person, the risk is a new person's."""
    of, measures = c.record["of"], c.record["measures"]
    expected = _PREDICTORS.get(kind.head, of)
    if of != expected and not of.startswith(f"{expected} of "):
        raise Wrong(f"it is said to be about {of!r}, and its name says {expected!r}")
    begins = _RISKS_BY_FORMULA.get(kind.formula, "")
    if kind.head == "half_brier":
        begins = "half the Brier risk"
    if kind.head.startswith("rescaled_"):
        begins = f"{kind.head.removeprefix('rescaled_')} risk, rescaled to [0, 1]"
    if not measures.startswith(begins) or (measures.startswith(("ECE", "MCE")) and begins not in ("ECE", "MCE")):
        raise Wrong(f"it is said to bound {measures!r}, and its name says {begins or 'another risk'!r}")
    units = {one["unit"] for one in c.record["hypotheses"] if one["name"] == "records independent"}
    unit = without_unit(measures)[1]
    if units and {unit} != ((units & set(GROUPED)) or {None}) and not measures.endswith(_NEW_EXAMPLE):
        raise Wrong(f"the records are of unit {', '.join(units)!r}, and what is bounded is {measures!r}")
    if "new_person" in c.name and unit is None:
        raise Wrong(f"it is said to bound {measures!r}, and its name says that of a new person")


def _costs(c: Claim, prefix: str, formula: str) -> None:
    price = "transfer" if prefix else "confidence"
    expected = {*PRICED[formula][0], price} if formula in PRICED else set[str]()
    if set(c.costs) - {"draw"} != expected:
        raise Wrong(f"the costs are {', '.join(c.costs) or 'none'}, and of {', '.join(expected) or 'nothing'}")
    for one in c.record["costs"]:
        agree(f"the cost {one['name']} per example", one["per_example"], ball(number(one["nats"])) / c.size)
        if one["name"] == price:
            c.price(f"the cost {price}", one["nats"], c.n)
        else:
            agree(f"the cost {one['name']}", one["nats"], COSTS[one["name"]](c))


def _terms(c: Claim) -> None:
    """Those that repeat an input; the others belong to a formula or a price."""
    for name, value in c.terms.items():
        source = "risk" if name == "empirical_risk" else name
        if source in c.inputs and number(value) != c.raw(source):
            raise Wrong(f"terms.{name} is {value!r} and inputs.{source} {c.raw(source)!r}")
        if name == "empirical_risk" and "k" in c.inputs:
            about("terms.empirical_risk", value, c["k"] / c.n)
        if name == "draw_prob":
            about("terms.draw_prob", value, c.paid("draw"))
        if name == "effective_people":
            about("terms.effective_people", value, c["examples"] / c["most_examples"])


def _value(c: Claim, kind: Kind) -> None:
    formula, factor = kind.formula, 2.0 if kind.head == "vote" else 1.0
    if "released_errors" in c.inputs:
        check_counts(c)
    if "monte_carlo_mean" in c.inputs:
        agree("inputs.risk", c.raw("risk"), sampled(c, "monte_carlo_"))
    exact = ball(1.0) if not c.nats.is_finite() else PRICED[formula][1](c) if formula in PRICED else PLAIN[formula](c)
    agree("the value", c.record["value"], (exact * factor).min(ball(1.0)))
