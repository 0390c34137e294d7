"""How a result becomes what golden.json holds: the lines to adapt when certificates or reports change their form."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from bounds import Certificate
from bounds.certificate import total_of

RAISES = "raises"
Frozen = dict[str, Any]


def attempt(key: str, call: Callable[[], Any]) -> Frozen:
    """What ``call`` gives, under ``key``; a refusal by ValueError is a result too, whatever its words."""
    try:
        found = call()
    except ValueError:
        return {key: RAISES}
    return {key: plain(found)}


def many(prefix: str, call: Callable[[], Iterable[Certificate | Mapping[str, Any]]]) -> Frozen:
    """A key for each certificate that ``call`` gives: its name, and which of that name it is."""
    try:
        rows = [certificate(made) for made in call()]
    except ValueError:
        return {prefix: RAISES}
    counts: dict[str, int] = {}
    found: Frozen = {}
    for row in rows:
        counts[row["name"]] = counts.get(row["name"], 0) + 1
        found[f"{prefix}/{row['name']}#{counts[row['name']]}"] = row
    return found


def plain(found: Any) -> Any:
    """Numbers, words, lists and mappings of them."""
    if isinstance(found, Certificate):
        return certificate(found)
    if isinstance(found, Mapping):
        return {str(name): plain(value) for name, value in found.items()}
    if isinstance(found, list | tuple):
        return [plain(value) for value in found]
    if found is None or isinstance(found, bool | int | str):
        return found
    if hasattr(found, "tolist") and getattr(found, "ndim", 0):
        return plain(found.tolist())
    return float(found)


def certificate(made: Certificate | Mapping[str, Any]) -> Frozen:
    """Name, value, failure probability, status, total nats, whose risk and which; None is not compared."""
    record = made.to_dict() if isinstance(made, Certificate) else made
    return {
        "name": record["name"],
        "value": float(record["value"]),
        "failure_prob": float(record["failure_prob"]),
        "status": record["status"],
        "nats": total_of(float(cost["nats"]) for cost in record["costs"]) if record["costs"] else None,
        "of": record["of"],
        "measures": record["measures"],
    }


def plain_number(value: Any) -> float | None:
    """A number of a report, where infinity is the word "inf"."""
    return None if value is None else float(value)


def _mean(record: Mapping[str, Any], on: str) -> float | None:
    """The error of the law that the route is about, the first of these that was measured."""
    for of in ("randomised", "Gibbs classifier", "ensemble", "weights", "predictor"):
        for one in record["measured"]:
            if (one["of"], one["on"], one["loss"]) == (of, on, "zero-one"):
                return float(one["mean"])
    return None


def digest(weights: Tensor) -> Frozen:
    """Numbers by which one vector of weights is known: sums, and both ends."""
    flat = weights.detach().reshape(-1).double()
    return {
        "size": flat.numel(),
        "sums": [float(flat.sum()), float(flat.square().sum())],
        "first": flat[:5].tolist(),
        "last": flat[-5:].tolist(),
    }


def model_digest(model: Mapping[str, Tensor]) -> Frozen:
    """Of all tensors of a checkpoint, in the order of their names."""
    return digest(torch.cat([model[name].detach().reshape(-1).double() for name in sorted(model)]))


def report(prefix: str, call: Callable[[], Mapping[str, Any]]) -> Frozen:
    """A report's certificates, what was measured, and how many certificates were refused."""
    try:
        record = call()
    except ValueError:
        return {prefix: RAISES}
    measured = {
        "empirical_risk": _mean(record, "bound"),
        "test_risk": _mean(record, "test"),
        "kl_nats": plain_number((record["gibbs"] or record["details"]).get("kl_nats")),
    }
    found = many(prefix, lambda: record["certificates"])
    found[f"{prefix}/measured"] = {"n": record["n"], "failure_prob": record["failure_prob"], **measured}
    found[f"{prefix}/refused"] = sorted({refusal["name"] for refusal in record["not_applicable"]})
    return found
