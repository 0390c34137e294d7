"""What a certificate is made of: errors, their sampling, divergence, price of the prior, choice of settings.

Each part is the amount by which the certificate rises when that part is added to the ones before it, in the order of
``PARTS``; together they are the certificate. Nats become risk through kl⁻¹, which is concave: what is added late looks
smaller than what is added early, and the order is the same for all.
"""

from itertools import pairwise
from typing import Any

import bounds
from bounds import Certificate

PARTS = ("error", "sampling", "divergence", "ln xi(n) and confidence", "price of the prior", "choice")
Row = dict[str, Any]


def parts(made: Certificate, *, count: int, choice_nats: float = 0.0) -> Row:
    """Nats and shares of risk of a certificate whose failure probability was divided among ``count`` settings.

    Args:
        choice_nats: what is in the divergence for a prior that was chosen from a list.

    Draws have none: how their failure probability is divided depends on the draw.
    """
    if "k" in made.inputs:
        return _counted(made, count)
    if made.name.startswith("one_draw"):
        return {}
    costs = {one.name: one.nats for one in made.costs}
    n, failure_prob = int(made.inputs["n"]), float(made.inputs["failure_prob"])
    transfer = costs.get("transfer", costs.get("confidence", 0.0))
    alone = price(made, n=n, failure_prob=failure_prob * count)
    if alone is None:
        return {}
    own = {
        "error": float(made.terms.get("monte_carlo_mean", made.inputs["risk"])),
        "sampled_error": float(made.terms.get("empirical_risk", made.inputs["risk"])),
        "kl_nats": costs.get("kl", 0.0) - choice_nats,
        "log_xi_nats": costs.get("log_xi", 0.0),
        "confidence_nats": bounds.Independent().charge(n=n, failure_prob=failure_prob * count).nats,
        "transfer_nats": transfer,
    }
    own["prior_nats"] = alone - own["confidence_nats"]
    own["choice_nats"] = transfer - alone + choice_nats
    return own | _risks(own, n=n, whole=made.value)


def price(made: Certificate, *, n: int, failure_prob: float) -> float | None:
    """What using the prior costs at another failure probability; None where the certificate does not say."""
    given: Any = made.inputs
    if "sum_contributions" in given:
        of: bounds.Price = bounds.RealisedSum(contributions=given["sum_contributions"], records=n)
    elif "sum_mu" in given:
        of = bounds.WorstCaseSum(mu=given["sum_mu"])
    elif given.get("privacy_notion") == "gaussian":
        claim = bounds.GaussianDP(
            mu=given["privacy_mu"], adjacency=given["privacy_adjacency"], status=given["privacy_status"]
        )
        of = bounds.Accounted(privacy=claim)
    elif "privacy_notion" in given:
        return None
    else:
        of = bounds.Independent()
    return of.charge(n=n, failure_prob=failure_prob).nats


def _risks(own: Row, *, n: int, whole: float) -> Row:
    steps = ("kl_nats", "log_xi_nats", "confidence_nats", "prior_nats", "choice_nats")
    nats, ends = 0.0, [own["error"], own["sampled_error"]]
    for name in steps:
        nats += own[name]
        ends.append(bounds.binary_kl_upper(own["sampled_error"], max(0.0, nats) / n))
    ends[-1] = whole
    rises = [ends[0], *(after - before for before, after in pairwise(ends))]
    return dict(zip(PARTS, [*rises[:3], rises[3] + rises[4], *rises[5:]], strict=True))


def _counted(made: Certificate, count: int) -> Row:
    """The parts of Clopper and Pearson's bound."""
    k, n = int(made.inputs["k"]), int(made.inputs["n"])
    error, alone = k / n, bounds.clopper_pearson_upper(k, n, min(0.5, made.failure_prob * count))
    rises = dict.fromkeys(PARTS, 0.0) | {PARTS[0]: error, PARTS[3]: alone - error, PARTS[5]: made.value - alone}
    return {"error": error, "sampled_error": error} | rises
