"""What the name of a certificate says: the predictor, the loss, the price and the formula."""

import re

from pacdp.verify.claim import (
    GROUPED,
    Claim,
    Kind,
    Unchecked,
    Wrong,
    without_unit,
)
from pacdp.verify.formulas import PLAIN, PRICED
from pacdp.verify.prices import PREFIXES

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
_HEAD = re.compile(
    r"(randomised|half_brier|rescaled_.+|one_draw|test_set|new_examples|prior_mean|vote|)"
)
"""What may stand before a name: the predictor, the loss, or the examples that it is about."""
_PREDICTORS = {
    "randomised": "randomised",
    "one_draw": "one draw",
    "vote": "vote",
    "prior_mean": "prior mean",
}
"""Predictors by what stands before a name."""
_RISKS = {
    "ece_pac_bayes": "ECE",
    "ece_hoeffding": "ECE",
    "ece_second_moment": "ECE",
    "mce_hoeffding": "MCE",
    "mce_clopper_pearson": "MCE",
    "gibbs_risk_upper": "empirical risk",
    "weighted_risk_upper": "empirical risk",
    "correlated_risk_upper": "empirical risk",
    "gibbs_catoni": "surrogate risk, rescaled to [0, 1]",
    "largest_gap": "largest gap between ",
}
"""How the name of the risk begins that these formulas bound; others bound whatever lies in [0, 1]."""
_BY_SUMS = {
    "sum_contributions": "realised_sum_",
    "sum_log_moments": "realised_poisson_",
    "sum_mu": "noisy_sum_",
    "sum_event": "poisson_sum_",
}
"""Prices of noisy sums by an input that they alone have; a worst case may name its event as well."""


def kind_of(c: Claim) -> Kind:
    """What the certificate's name says; of the best of several and of an overall one, that of what it rests on."""
    if c.name != "best_of":
        return named(c.name, c)
    if "among" not in c.inputs:
        raise Unchecked(
            "the certificates that were compared are not in the file"
        )
    return named(str(c.inputs.get("chosen")), c)


def named(name: str, c: Claim) -> Kind:
    """The kind of a certificate of this name."""
    if name == "overall_certificate":
        name = str(c.inputs.get("bound"))
    words = name.split("_")
    for count in range(len(words)):
        head = "_".join(words[:count])
        rest = "_".join(words[count:])
        if _HEAD.fullmatch(head):
            if rest == "ece":
                return _calibrated(head, c)
            if kind := _priced(head, _ALIASES.get(rest, rest)):
                return kind
    raise Unchecked(f"this checker knows no certificate {name!r}")


def _priced(head: str, full: str) -> Kind | None:
    for prefix in PREFIXES:
        formula = full.removeprefix(prefix)
        if full.startswith(prefix) and formula in (
            PRICED if prefix else PRICED | PLAIN
        ):
            return Kind(head, prefix, formula)
    return None


def _calibrated(head: str, c: Claim) -> Kind:
    """The calibration error of one draw by PAC-Bayes, of other predictors from fresh examples."""
    if head != "one_draw":
        return Kind(head, "", "ece_second_moment")
    for name, prefix in _BY_SUMS.items():
        if name in c.inputs:
            return Kind(head, prefix, "ece_pac_bayes")
    if "transfer" not in c.costs:
        return Kind(head, "", "ece_pac_bayes")
    prefix = "private_" if "privacy_notion" in c.inputs else "dp_"
    return Kind(head, prefix, "ece_pac_bayes")


def check_labels(c: Claim) -> None:
    """Predictor and risk are those that the name says; of one record a person, the risk is a new person's."""
    of = c.record.of
    expected = _PREDICTORS.get(c.kind.head, of)
    if of != expected and not of.startswith(f"{expected} of "):
        raise Wrong(
            f"it is said to be about {of!r}, and its name says {expected!r}"
        )
    _check_risk(c)
    _check_unit(c)


def _check_risk(c: Claim) -> None:
    measures, head = c.record.measures, c.kind.head
    begins = _RISKS.get(c.kind.formula, "")
    if head == "half_brier":
        begins = "half the Brier risk"
    if head.startswith("rescaled_"):
        begins = f"{head.removeprefix('rescaled_')} risk, rescaled to [0, 1]"
    calibration = measures.startswith(("ECE", "MCE")) and begins not in (
        "ECE",
        "MCE",
    )
    if calibration or not measures.startswith(begins):
        raise Wrong(
            f"it is said to bound {measures!r}, and its name says {begins or 'another risk'!r}"
        )


def _check_unit(c: Claim) -> None:
    measures = c.record.measures
    units = {
        one.unit
        for one in c.record.hypotheses
        if one.name == "records independent"
    }
    unit = without_unit(measures)[1]
    expected = units.intersection(GROUPED) or {None}
    if (
        units
        and expected != {unit}
        and not measures.endswith(" of a new example")
    ):
        raise Wrong(
            f"the records are of unit {', '.join(units)!r}, and what is bounded is {measures!r}"
        )
    if "new_person" in c.name and unit is None:
        raise Wrong(
            f"it is said to bound {measures!r}, and its name says that of a new person"
        )
