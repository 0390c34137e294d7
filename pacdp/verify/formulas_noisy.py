"""What takes the place of ln(1/δ) where noisy sums made the prior ("Noisy sums" in docs/guarantees.md).

A step is a sum over the records plus N(0, σ²), on all of them or on a secret Poisson sample of rate q; x is a squared
contribution over σ². At an order α > 1 a record costs ln m: α(α-1)x/2 for q = 1; at a whole order
ln Σ_j C(α,j) (1-q)^(α-j) q^j e^(j(j-1)x/2); between, what is linear in α, or for α < 2 what a parabola gives.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import Real, ball, zero_of
from pacdp.verify.claim import Claim, Wrong, agree, parsed

PREFIXES = ("noisy_sum_", "realised_sum_", "poisson_sum_", "realised_poisson_")
_NONE = arb(0)


def check(c: Claim, prefix: str, what: str, claimed: Real, n: int, delta: arb, suffix: str = "") -> None:
    """Raise unless ``claimed`` nats pay for a prior made from noisy sums over n records."""
    log = -delta.log()
    match prefix:
        case "noisy_sum_":
            if "sum_event" in c.inputs:
                steps = list(steps_of(parsed(str(c.raw("sum_event")))))
                if any(rate < 1 for rate, _, _ in steps):
                    raise Wrong("what ran took samples, and is charged as steps on all records")
                agree("inputs.sum_mu", c.raw("sum_mu"), sum((k * x for _, x, k in steps), _NONE).sqrt())
            nats = (log.sqrt() + c["sum_mu"] * (arb(n) / 2).sqrt()) ** 2
        case "poisson_sum_":
            order, steps = float(c.term(f"transfer_alpha{suffix}")), steps_of(parsed(str(c.raw("sum_event"))))
            if not 1 < order <= 1024:
                raise Wrong(f"the order is {order!r}")
            each = sum((k * log_moment(order, rate, x) for rate, x, k in steps), _NONE)
            nats = (n * each + ball(order) * log) / (ball(order) - 1)
        case "realised_sum_":
            orders, v = c.listed("sum_orders"), c["sum_contributions"]
            nats = realised(c, orders, [a * (a - 1) * v / 2 for a in orders], log)
        case _:
            nats = realised(c, c.listed("sum_orders"), c.listed("sum_log_moments"), log)
    agree(what, claimed, nats)


def realised(c: Claim, orders: list[arb], moments: list[arb], log: arb) -> arb:
    """The root Λ of Σ_j w_j exp(((α_j - 1)/α_j) Λ - M_j/α_j) = 1/δ."""
    weights = c.listed("sum_weights") if "sum_weights" in c.inputs else [1 / arb(len(orders))] * len(orders)
    if not len(weights) == len(orders) == len(moments) or not all(one > 1 for one in orders) or len(orders) == 0:
        raise Wrong(f"the orders are {c.inputs['sum_orders']}, with {len(weights)} weights and {len(moments)} moments")
    if not sum(weights, _NONE) <= 1 + 1e-12 or not all(one > 0 for one in weights):
        raise Wrong(f"the weights are {c.inputs['sum_weights']}, which are no probabilities")
    rows = [(a, w.log(), m) for a, w, m in zip(orders, weights, moments, strict=True) if m.is_finite()]
    if not rows:
        return arb("inf")
    above = min(float((m + a * (log - w)) / (a - 1)) for a, w, m in rows) + 1

    def rising(nats: arb) -> arb:
        logs = [w + ((a - 1) * nats - m) / a for a, w, m in rows]
        top = max(logs, key=float).mid()
        return top + sum(((one - top).exp() for one in logs), _NONE).log() - log

    return zero_of(rising, 0, above * (1 + 2.0**-40))


def log_moment(order: float, rate: arb, x: arb) -> arb:
    """ln m at this order."""
    a = ball(order)
    if rate == 1:
        return a * (a - 1) * x / 2
    low = math.floor(order)
    share = a - low
    found = (1 - share) * _whole(low, rate, x) + (share * _whole(low + 1, rate, x) if share > 0 else _NONE)
    if order < 2:
        found = found.min((((1 - rate) ** a - 1 + a * rate) * x.expm1()).log1p())
    return found


def _whole(order: int, rate: arb, x: arb) -> arb:
    terms = (
        math.comb(order, j) * (1 - rate) ** (order - j) * rate**j * (j * (j - 1) * x / 2).expm1()
        for j in range(2, order + 1)
    )
    return sum(terms, _NONE).log1p()


def steps_of(event: Mapping[str, Any]) -> Iterator[tuple[arb, arb, int]]:
    """Sampling rate, 1/(noise multiplier)² and number of the steps of an event."""
    match event["event"]:
        case "Gaussian":
            yield arb(1), 1 / ball(event["noise_multiplier"]) ** 2, 1
        case "PoissonSampled" if event["inner"]["event"] == "Gaussian":
            yield ball(event["sample_rate"]), 1 / ball(event["inner"]["noise_multiplier"]) ** 2, 1
        case "Composed":
            for part in event["inner"]:
                yield from steps_of(part)
        case "SelfComposed":
            yield from ((rate, x, k * int(event["count"])) for rate, x, k in steps_of(event["inner"]))
        case _:
            raise Wrong(f"{event['event']} is no noisy sum on all records or on one Poisson sample")


def log_moments_of_a_run(event: Mapping[str, Any], squared_norms: list[float], orders: list[float]) -> list[arb]:
    """Σ_t squared_norms_t ln m_α,t(1) at each order, for norms in clip norms, step by step as they were recorded."""
    steps = [(rate, x) for rate, x, k in steps_of(event) for _ in range(k)]
    if len(steps) != len(squared_norms):
        raise Wrong(f"{len(steps)} steps ran, and {len(squared_norms)} norms were recorded")
    known: dict[Any, arb] = {}
    totals: list[arb] = []
    for order in orders:
        whole = _NONE
        for (rate, x), norm in zip(steps, squared_norms, strict=True):
            key = (order, rate.str(), x.str())
            if key not in known:
                known[key] = log_moment(order, rate, x)
            whole += ball(norm) * known[key]
        totals.append(whole)
    return totals
