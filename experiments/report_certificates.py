"""Certificates as rows of tables: values, ledger of failure probabilities, assumptions, costs."""

import math
from typing import Any

from bounds import Certificate
from experiments.figures.costs import Cost
from experiments.figures.numbers import bound, probability, up_digits, vacuous
from experiments.figures.run import caption, measured_error, subject
from experiments.figures.style import label

_PARTS = {
    "kl": "KL / n", "worst_kl": "KL / n", "log_density_ratio": "KL / n", "renyi": "KL / n", "confidence": "confidence",
    "log_xi": "ln ξ(n) / n", "log_two_sqrt_n": "ln ξ(n) / n", "grid": "grids and unions", "union": "grids and unions",
    "levels": "grids and unions",
}  # fmt: skip
_UNSHARED = ("worst_kl", "log_xi", "transfer", "confidence")
"""What the bounds without draws of the posterior pay; they state no shares."""
_SHARE = "_per_example"


def verified(report: dict[str, Any]) -> list[Certificate]:
    """The certificates of a report, each checked to be one: status and assumptions agree, no budget is overdrawn.

    Raises:
        ValueError: one is not.
    """
    return [Certificate.from_dict(record) for record in report["certificates"]]


def measured(report: dict[str, Any]) -> list[str]:
    """A sentence on what was measured of each classifier."""
    mean, gibbs = report["mean_classifier"], report["gibbs_classifier"]
    test = f", test {_measured(mean['test']['error'])}" if mean["test"] else ""
    who = "Predictor" if "algorithm" in report else "Mean classifier (the weights)"
    said = [f"{who}: 0-1 error, training {_measured(mean['train']['error'])}{test}."]
    if gibbs:
        clipped = f" (the estimate was negative, {gibbs['kl_raw_nats']:.2f}; 0 is used)" if gibbs["kl_clipped"] else ""
        said.append(
            f"Gibbs classifier (a draw of the posterior for each answer): 0-1 error, training "
            f"{_measured(gibbs['error'])}, test {_measured(gibbs['test_error'])}, over {gibbs['draws']} draws "
            f"({gibbs['effective_draws']:.0f} effective); KL {up_digits(gibbs['kl_nats'])} nats{clipped}."
        )
    elif "monte_carlo" in report:
        said.append(
            f"Randomised classifier (fresh weights for each answer): 0-1 error, training "
            f"{_measured(report['empirical_risk'])}, test {_measured(report['test_risk'])}; KL "
            f"{up_digits(report['kl_nats'])} nats."
        )
    return said


def certificate_rows(report: dict[str, Any], certificates: list[Certificate]) -> list[dict[str, Any]]:
    """A row a certificate, values rounded up, measured errors to the nearest."""
    rows = []
    for certificate in certificates:
        record = certificate.to_dict()
        test = measured_error(record, report)
        empirical = certificate.terms.get("empirical_risk")
        rows.append({
            "name": label(certificate.name), "bounds": ", ".join(filter(None, reversed(subject(record)))) or "–",
            "status": certificate.status, "optimistic": certificate.status == "optimistic",
            "value": bound(certificate.value), "vacuous": vacuous(certificate.value),
            "failure_prob": probability(certificate.failure_prob), "empirical": _measured(empirical),
            "test": _measured(test), "below_test": test is not None and certificate.value < test,
            "reference": certificate.reference,
        })  # fmt: skip
    return rows


def ledger(certificates: list[Certificate]) -> list[dict[str, Any]]:
    """What each certificate's failure probability pays for; what it does not spend is an entry too."""
    found = []
    for certificate in certificates:
        entries = [(name, probability(paid)) for name, paid in certificate.budget.items()]
        left = certificate.failure_prob - math.fsum(certificate.budget.values())
        if left > 1e-12 * certificate.failure_prob:
            entries.append(("not spent", probability(left)))
        found.append({
            "name": caption(certificate.to_dict()), "status": certificate.status, "entries": entries or [("–", "0")],
            "total": probability(certificate.failure_prob),
        })  # fmt: skip
    return found


def assumptions(certificates: list[Certificate]) -> list[dict[str, Any]]:
    """Each assumption once, with the certificates that rest on it."""
    found: dict[str, list[str]] = {}
    for certificate in certificates:
        for sentence in certificate.assumptions:
            found.setdefault(sentence, []).append(caption(certificate.to_dict()))
    return [{"sentence": sentence, "names": names} for sentence, names in found.items()]


def costs(certificates: list[Certificate]) -> list[Cost]:
    """What certificates of the kl family pay; others (a test set's, the weights' of 2018) have no such parts."""
    found = [
        Cost(label=caption(c.to_dict()), optimistic=c.status == "optimistic", parts=parts(c),
             monte_carlo=c.terms.get("monte_carlo_nats_per_draw"))
        for c in certificates
    ]  # fmt: skip
    return [cost for cost in found if cost.parts]


def parts(certificate: Certificate) -> dict[str, float]:
    """Nats per example by what they pay for; they add up to the certificate's total where it states one.

    A transfer pays for privacy and confidence in one sum. Of it, ln(1/failure_prob) is called confidence, which is what
    the bound pays without privacy; what is beyond that is called privacy.
    """
    inputs, terms = certificate.inputs, certificate.terms
    n = float(inputs.get("n", inputs.get("n_bound", 0.0)))
    shares = {name.removesuffix(_SHARE): nats for name, nats in terms.items() if name.endswith(_SHARE)}
    if not shares and n > 0 and "worst_kl_nats" in terms:
        shares = {name: terms[f"{name}_nats"] / n for name in _UNSHARED if f"{name}_nats" in terms}
    total = shares.pop("total", None)
    if any(not math.isfinite(nats) for nats in shares.values()):
        return {}
    found: dict[str, float] = {}
    for name, nats in shares.items():
        if name == "transfer" and n > 0:
            alone = -math.log(float(inputs.get("failure_prob", certificate.failure_prob))) / n
            pieces = {"privacy": nats - min(nats, alone), "confidence": min(nats, alone)}
        else:
            pieces = {_PARTS.get(name, "other"): nats}
        for part, share in pieces.items():
            found[part] = found.get(part, 0.0) + share
    left = (total or 0.0) - math.fsum(found.values())
    if found and total is not None and left > 1e-9 * total:
        found["other"] = found.get("other", 0.0) + left
    return found


def cost_rows(found: list[Cost], columns: list[str]) -> list[dict[str, Any]]:
    """The bars' numbers, rounded up."""
    return [
        {
            "name": cost.label, "status": "optimistic" if cost.optimistic else "rigorous",
            "parts": [up_digits(cost.parts[part], 4) if part in cost.parts else "–" for part in columns],
            "total": up_digits(math.fsum(cost.parts.values()), 4),
            "monte_carlo": "–" if cost.monte_carlo is None else up_digits(cost.monte_carlo, 4),
        }
        for cost in found
    ]  # fmt: skip


def _measured(value: float | None) -> str:
    return "–" if value is None else f"{float(value):.4f}"
