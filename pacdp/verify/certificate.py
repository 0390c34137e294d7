"""One certificate, from its name to a verdict on each of its numbers."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from pacdp.verify.arithmetic import ball, total
from pacdp.verify.claim import BOUGHT, CANNOT, Claim, Statement, Unchecked, Wrong, about, agree, judged, number
from pacdp.verify.formulas import COSTS, ETAS, PLAIN, PRICED, Formula, sampled
from pacdp.verify.prices import PREFIXES, check_price

FORMAT = "pacdp-certificate/2"
_ALIASES = {
    "dp_pac_bayes": "dp_maurer", "private_pac_bayes": "private_maurer", "hybrid_pac_bayes": "private_maurer",
    "max_information_pac_bayes": "max_information_maurer", "printed_2018_pac_bayes": "printed_2018_maurer",
    "dp_pac_bayes_max_information": "max_information_langford_seeger", "finite_ensemble": "maurer",
    "dp_pac_bayes_2018": "printed_2018_langford_seeger", "new_person": "new_person_kl",
}  # fmt: skip
_WRAPPED = re.compile(r"(randomised|half_brier|rescaled_.+|one_draw|test_set|new_examples|prior_mean|vote|)")
"""What may stand before a name: the predictor, the loss, or the examples that it is about."""


def resolve(c: Claim) -> tuple[str, str, float]:
    """The price's prefix, the name of the formula, and what multiplies its value."""
    name = {"best_of": c.inputs.get("chosen"), "overall_certificate": c.inputs.get("bound")}.get(c.name, c.name)
    name = str(c.inputs.get("bound") if name == "overall_certificate" else name)
    for cut in (0, *(found.end() for found in re.finditer("_", name))):
        head, rest = name[: max(0, cut - 1)], name[cut:]
        if not _WRAPPED.fullmatch(head):
            continue
        if rest == "ece":  # of one draw by PAC-Bayes, of others from fresh examples
            price = "" if "transfer" not in c.costs else "private_" if "privacy_notion" in c.inputs else "dp_"
            return (price, "ece_pac_bayes", 1.0) if head == "one_draw" else ("", "ece_second_moment", 1.0)
        full = _ALIASES.get(rest, rest)
        for prefix in PREFIXES:
            formula = full.removeprefix(prefix)
            if full.startswith(prefix) and (formula in PRICED or (not prefix and formula in PLAIN)):
                return prefix, formula, 2.0 if head == "vote" else 1.0
    raise Unchecked(f"this checker knows no certificate {name!r}")


def check_certificate(record: Mapping[str, Any], privacy: Mapping[str, Any] | None = None) -> list[Statement]:
    """A statement on each of: costs, terms, failure probability, standing, value."""
    subject = f"{record.get('name')} of {record.get('of')}"
    if record.get("format") != FORMAT:
        return [Statement(subject, "format", CANNOT, f"it is {record.get('format')!r} and not {FORMAT!r}")]
    c = Claim(record, privacy)
    try:
        prefix, formula, factor = resolve(c)
    except Unchecked as reason:
        return [Statement(subject, "value", CANNOT, str(reason))]
    chosen, drawn = "chosen" in c.inputs, formula.startswith("disintegrated")
    bought = BOUGHT if drawn else BOUGHT[:-2]
    delta = c["failure_prob"] if chosen else c.paid(*BOUGHT[:-2])
    if formula == "recursive":
        delta /= 1 + sum(name.startswith("n_") for name in c.inputs)
    c.divided = formula == "new_example_pac_bayes"
    c.price = lambda what, claimed, n, suffix="": check_price(c, prefix, what, claimed, n, delta, suffix)
    checks: dict[str, Callable[[], None]] = {
        "failure probability": lambda: _failure(c, bought),
        "hypotheses": lambda: _hypotheses(c),
        "costs": lambda: _costs(c, prefix, PRICED.get(formula)),
        "terms": lambda: _terms(c),
        "value": lambda: _value(c, formula, factor),
    }
    return [judged(subject, claim, check) for claim, check in checks.items()]


def _failure(c: Claim, bought: tuple[str, ...]) -> None:
    whole = number(c.record["failure_prob"])
    if not 0 < whole < 1 or any(not 0 <= number(part) < 1 for part in c.budget.values()):
        raise Wrong(f"failure_prob is {whole!r} and the budget {c.budget}")
    about("failure_prob", whole, total(number(part) for part in c.budget.values()))
    if "chosen" not in c.inputs:
        about(
            "inputs.failure_prob",
            c.raw("failure_prob"),
            c.paid(*bought, *(["Monte Carlo"] if "mean" in c.inputs else [])),
        )
    for name, entry in (("monte_carlo_failure_prob", "Monte Carlo"), ("log_partition_failure_prob", "log partition")):
        if name in c.inputs and "chosen" not in c.inputs:
            about(f"inputs.{name}", c.raw(name), c.paid(entry))


def _hypotheses(c: Claim) -> None:
    standing = {one["name"]: one["standing"] for one in c.record["hypotheses"]}
    if not set(standing.values()) <= {"proved", "declared", "unproved"}:
        raise Wrong(f"standings are {sorted(set(standing.values()))}")
    status = "optimistic" if "unproved" in standing.values() else "rigorous"
    if c.record["status"] != status:
        raise Wrong(f"the status is {c.record['status']!r}, and by the hypotheses {status!r}")
    for found, needed in (("assumes stationarity", "chain stationary"), ("approximate accountant", "accountant sound")):
        if c.inputs.get("privacy_status") == found and standing.get(needed) != "unproved":
            raise Wrong(f"the privacy {found}, and the hypothesis {needed!r} is {standing.get(needed, 'not there')}")


def _costs(c: Claim, prefix: str, formula: Formula | None) -> None:
    price = "transfer" if prefix else "confidence"
    named = {name for name in (formula.costs if formula else ()) if name not in ("draw", "order")}
    if set(c.costs) - {"draw", "order"} != named | ({price} if formula else set()):
        raise Wrong(f"the costs are {', '.join(c.costs) or 'none'}")
    for one in c.record["costs"]:
        name, nats = one["name"], number(one["nats"])
        if name != price:
            agree(f"the cost {name}", nats, COSTS[name](c))
        agree(f"the cost {name} per example", one["per_example"], ball(nats) / c.size)
    if formula:
        c.price(f"the cost {price}", c.costs[price], c.n)


def _terms(c: Claim) -> None:
    """Those that repeat an input, or are chosen from a list; the others belong to a formula or a price."""
    for name, value in c.terms.items():
        source = {"empirical_risk": "risk"}.get(name, name)
        if name == "effective_people":
            about("terms.effective_people", value, c["examples"] / c["most_examples"])
        elif name == "empirical_risk" and "k" in c.inputs:
            about("terms.empirical_risk", value, c["k"] / c.n)
        elif source in c.inputs and number(value) != c.raw(source):
            raise Wrong(f"terms.{name} is {value!r} and inputs.{source} {c.raw(source)!r}")
        elif name == "eta" and value not in ETAS:
            raise Wrong(f"terms.eta is {value!r}, which is not of the grid")


def _value(c: Claim, formula: str, factor: float) -> None:
    if "monte_carlo_mean" in c.inputs:
        agree("inputs.risk", c.raw("risk"), sampled(c, "monte_carlo_"))
    exact = PRICED[formula].value(c) if formula in PRICED else PLAIN[formula](c)
    agree("the value", c.record["value"], (exact * factor).min(ball(1.0)))
