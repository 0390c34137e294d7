"""One certificate, from its name to a verdict on each of its numbers."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import ball
from pacdp.verify.claim import CANNOT, DOES_NOT, Claim, Statement, Unchecked, Wrong, about, agree, judged, number
from pacdp.verify.formulas import COSTS, PLAIN, PRICED, sampled
from pacdp.verify.prices import PREFIXES, check_price
from pacdp.verify.release import check_counts

FORMAT = "pacdp-certificate/2"
_BOUGHT = ("bound", "PAC step", "test set", "groups", "union over networks", "transfer", "privacy tail",
           "unbounded privacy loss")  # fmt: skip
"""Entries of a budget that pay for the bound itself; others pay for what it was given."""
_STANDINGS = ("proved", "declared", "unproved")
_OTHERS = "other certificates compared"
_ALIASES = {
    "dp_pac_bayes": "dp_maurer", "private_pac_bayes": "private_maurer", "hybrid_pac_bayes": "private_maurer",
    "max_information_pac_bayes": "max_information_maurer", "printed_2018_pac_bayes": "printed_2018_maurer",
    "dp_pac_bayes_max_information": "max_information_langford_seeger", "finite_ensemble": "maurer",
    "dp_pac_bayes_2018": "printed_2018_langford_seeger", "new_person": "new_person_kl",
}  # fmt: skip
_WRAPPED = re.compile(r"(randomised|half_brier|rescaled_.+|one_draw|test_set|new_examples|prior_mean|vote|)")
"""What may stand before a name: the predictor, the loss, or the examples that it is about."""

_BY_SUMS = {"sum_contributions": "realised_sum_", "sum_log_moments": "realised_poisson_", "sum_mu": "noisy_sum_",
            "sum_event": "poisson_sum_"}  # fmt: skip
"""Prices of noisy sums by an input that they alone have; a worst case may name its event as well."""


def resolve(c: Claim) -> tuple[str, str, float]:
    """The price's prefix, the name of the formula, and what multiplies its value."""
    name = str(c.inputs.get("chosen")) if c.name == "best_of" else c.name
    if c.name == "best_of" and "among" not in c.inputs:
        raise Unchecked("the certificates that were compared are not in the file")
    name = str(c.inputs.get("bound")) if name == "overall_certificate" else name
    for cut in (0, *(found.end() for found in re.finditer("_", name))):
        head, rest = name[: max(0, cut - 1)], name[cut:]
        if not _WRAPPED.fullmatch(head):
            continue
        if rest == "ece":  # of one draw by PAC-Bayes, of others from fresh examples
            price = "" if "transfer" not in c.costs else "private_" if "privacy_notion" in c.inputs else "dp_"
            price = next((one for name, one in _BY_SUMS.items() if name in c.inputs), price)
            return (price, "ece_pac_bayes", 1.0) if head == "one_draw" else ("", "ece_second_moment", 1.0)
        full = _ALIASES.get(rest, rest)
        for prefix in PREFIXES:
            formula = full.removeprefix(prefix)
            if full.startswith(prefix) and (formula in PRICED or (not prefix and formula in PLAIN)):
                return prefix, formula, 2.0 if head == "vote" else 1.0
    raise Unchecked(f"this checker knows no certificate {name!r}")


def check_certificate(record: Mapping[str, Any], privacy: Mapping[str, Any] | None = None) -> list[Statement]:
    """A statement on each of: failure probability, hypotheses, costs, terms, value."""
    subject = f"{record.get('name')} of {record.get('of')}"
    if record.get("format") != FORMAT:
        return [Statement(subject, "format", CANNOT, f"it is {record.get('format')!r} and not {FORMAT!r}")]
    found = list[Any]()

    def read() -> None:
        c = Claim(record, privacy)
        found.extend((c, *resolve(c), c.paid(*_BOUGHT) / (1 + len(c.numbered("n_", 2)))))  # of each recursive step

    if (readable := judged(subject, "value", read)).why:
        return [readable]
    c, prefix, formula, factor, delta = found
    c.divided = formula == "new_example_pac_bayes"
    c.price = lambda what, claimed, n, suffix="": check_price(c, prefix, what, claimed, n, delta, suffix)
    checks: dict[str, Callable[[], None]] = {
        "failure probability": lambda: _failure(c, formula), "hypotheses": lambda: _hypotheses(c),
        "costs": lambda: _costs(c, prefix, formula), "terms": lambda: _terms(c),
        "value": lambda: _value(c, formula, factor),
    }  # fmt: skip
    if c.name == "best_of":
        checks["choice"] = lambda: _choice(c)
    if c.name == "disagreement":
        checks["surrogate"] = lambda: _surrogate(c)
    return [judged(subject, claim, check) for claim, check in checks.items()]


def _choice(c: Claim) -> None:
    """The smallest of all that were compared, each of which may fail."""
    among, place = json.loads(c.inputs["among"]), c.inputs["chosen_position"]
    values, probs = ([number(one[k]) for one in among] for k in (2, 3))
    if among[place][:3] != [c.inputs["chosen"], c.record["of"], c.record["value"]] or values[place] != min(values):
        raise Wrong(f"the one chosen is {among[place]}, and not the smallest of those compared")
    if c.terms["compared"] != len(among):
        raise Wrong(f"{c.terms['compared']} are said to have been compared, and {len(among)} are listed")
    others = sum((ball(one) for one in probs), arb(0)) - ball(probs[place])
    about("what the others may fail with", number(c.budget.get(_OTHERS, 0)), others)
    about("failure_prob of the one chosen", probs[place], c.paid(*c.budget) - others)


def _surrogate(c: Claim) -> None:
    """The other network's certificate follows, is of the same risk, and rests on nothing that this one keeps silent."""
    other = json.loads(c.raw("surrogate"))
    found = check_certificate(other)
    if other["measures"] != c.record["measures"] or number(other["failure_prob"]) != number(c.budget["surrogate"]):
        raise Wrong(f"the other network's certificate is of {other['measures']!r} at {other['failure_prob']!r}")
    if bad := [one for one in found if one.verdict == DOES_NOT]:
        raise Wrong(f"{bad[0].claim} of the other network's certificate does not follow: {bad[0].why}")
    standing = {one["name"]: _STANDINGS.index(one["standing"]) for one in c.record["hypotheses"]}
    odd = [one["name"] for one in other["hypotheses"]
           if standing.get(one["name"], -1) < _STANDINGS.index(one["standing"])]  # fmt: skip
    if odd:
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


def _hypotheses(c: Claim) -> None:
    standing = {one["name"]: one["standing"] for one in c.record["hypotheses"]}
    status = "optimistic" if "unproved" in standing.values() else "rigorous"
    if c.record["status"] != status or not set(standing.values()) <= {"proved", "declared", "unproved"}:
        raise Wrong(f"the status is {c.record['status']!r}, and by the hypotheses {status!r}")
    for kind in ("noisy_sum_", "realised_", "poisson_sum_"):
        if resolve(c)[0].startswith(kind) and "records enter by noisy sums" not in standing:
            raise Wrong("nothing is said of how the records entered the sums")
    if resolve(c)[1] == "compression" and "learner saw picked records alone" not in standing:
        raise Wrong("nothing is said of what the learner saw beside the records it picked")
    if c.name == "disagreement" and "neither network saw the unlabelled rows" not in standing:
        raise Wrong("nothing is said of whether the networks saw the rows on which they are compared")
    for found, needed in (("assumes stationarity", "chain stationary"), ("approximate accountant", "accountant sound")):
        if c.inputs.get("privacy_status") == found and standing.get(needed) != "unproved":
            raise Wrong(f"the privacy {found}, and the hypothesis {needed!r} is {standing.get(needed, 'not there')}")


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


def _value(c: Claim, formula: str, factor: float) -> None:
    if "released_errors" in c.inputs:
        check_counts(c)
    if "monte_carlo_mean" in c.inputs:
        agree("inputs.risk", c.raw("risk"), sampled(c, "monte_carlo_"))
    exact = ball(1.0) if not c.nats.is_finite() else PRICED[formula][1](c) if formula in PRICED else PLAIN[formula](c)
    agree("the value", c.record["value"], (exact * factor).min(ball(1.0)))
