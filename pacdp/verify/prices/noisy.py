"""What takes the place of ln(1/δ) where noisy sums made the prior ("Noisy sums" in docs/guarantees.md).

A step is a sum over the records plus N(0, σ²), on all of them or on a secret Poisson sample of rate q; x is a squared
contribution over σ². ``realised_sum`` is the price of a trajectory: of a chain that kept the norms of its gradients.
Whether these norms add up to what it pays for is asked in ``pacdp.verify.folder.trajectory``.
"""

import math
from collections.abc import Callable
from typing import Any

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import ZERO, ball, log_sum, total, zero_of
from pacdp.verify.claim import Claim, Wrong, agree, parsed
from pacdp.verify.events import NoisySum, noisy_sums_of


def worst_case_sum(c: Claim, n: int, log: arb, suffix: str) -> arb:
    """(√ln(1/δ) + mu√(n/2))², mu² the sum of all steps' x ("Prices", "Noisy sums")."""
    if "sum_event" in c.inputs:
        steps = list(noisy_sums_of(_event(c)))
        if any(step.rate < 1 for step in steps):
            raise Wrong("what ran took samples, and is charged as steps on all records")
        square = total(step.times * step.x for step in steps)
        agree("inputs.sum_mu", c.raw("sum_mu"), square.sqrt())
    root = c["sum_mu"] * (arb(n) / 2).sqrt()
    return (log.sqrt() + root) ** 2


def poisson_sum(c: Claim, n: int, log: arb, suffix: str) -> arb:
    """n/(α-1) Σ_t ln m_α,t + α/(α-1) ln(1/δ), at the α that the terms name ("Noisy sums on secret batches")."""
    order = c.term(f"transfer_alpha{suffix}")
    if not 1 < order <= 1024:
        raise Wrong(f"the order is {float(order)!r}")
    each = total(step.times * log_moment(order, step) for step in noisy_sums_of(_event(c)))
    return (n * each + order * log) / (order - 1)


def realised_sum(c: Claim, n: int, log: arb, suffix: str) -> arb:
    """The root of Σ_j w_j exp((1 - 1/α_j)Λ - (α_j - 1)V/2) = 1/δ, V the realised sum ("Noisy sums")."""
    contributions = c["sum_contributions"]
    moments = [a * (a - 1) * contributions / 2 for a in c.listed("sum_orders")]
    return root(c, moments, log)


def realised_poisson_sum(c: Claim, n: int, log: arb, suffix: str) -> arb:
    """The root of Σ_j w_j exp((1 - 1/α_j)Λ - M_j/α_j) = 1/δ ("Noisy sums on secret batches")."""
    return root(c, c.listed("sum_log_moments"), log)


PRICES: dict[str, Callable[[Claim, int, arb, str], arb]] = {
    "noisy_sum_": worst_case_sum,
    "realised_sum_": realised_sum,
    "poisson_sum_": poisson_sum,
    "realised_poisson_": realised_poisson_sum,
}
"""By the prefix of a certificate's name."""


def _event(c: Claim) -> Any:
    return parsed(str(c.raw("sum_event")))


def root(c: Claim, moments: list[arb], log: arb) -> arb:
    """The root Λ of Σ_j w_j exp(((α_j - 1)/α_j) Λ - M_j/α_j) = 1/δ ("Noisy sums")."""
    rows = list(zip(c.listed("sum_orders"), _weights(c), moments, strict=True))
    rows = [(a, weight.log(), m) for a, weight, m in rows if m.is_finite()]
    if not rows:
        return arb("inf")

    def rising(nats: arb) -> arb:
        return log_sum([weight + ((a - 1) * nats - m) / a for a, weight, m in rows]) - log

    alone = [(m + a * (log - weight)) / (a - 1) for a, weight, m in rows]
    above = min(map(float, alone)) + 1
    return zero_of(rising, 0, above * (1 + 2.0**-40))


def _weights(c: Claim) -> list[arb]:
    """Orders α_j > 1 and weights w_j ≥ 0 with Σ w_j ≤ 1 ("Noisy sums"); equal ones where none are named."""
    orders = c.listed("sum_orders")
    weights = [1 / arb(len(orders))] * len(orders)
    if "sum_weights" in c.inputs:
        weights = c.listed("sum_weights")
    if len(weights) != len(orders) or not all(order > 1 for order in orders):
        raise Wrong(f"the orders are {c.inputs['sum_orders']}, with {len(weights)} weights")
    if not total(weights) <= 1 + 1e-12 or not all(weight > 0 for weight in weights):
        raise Wrong(f"the weights are {c.inputs['sum_weights']}, which are no probabilities")
    return weights


def log_moment(order: arb, step: NoisySum) -> arb:
    """ln m_α(q, x), what a record costs at the order α ("Noisy sums on secret batches")."""
    rate, x = step.rate, step.x
    if rate == 1:
        return order * (order - 1) * x / 2
    whole = math.floor(float(order))
    share = order - whole
    between = (1 - share) * _at_whole_order(whole, rate, x)
    if share > 0:
        between += share * _at_whole_order(whole + 1, rate, x)
    if order < 2:
        parabola = (1 - rate) ** order - 1 + order * rate
        return between.min((parabola * x.expm1()).log1p())
    return between


def _at_whole_order(order: int, rate: arb, x: arb) -> arb:
    """ln Σ_j C(α,j) (1-q)^(α-j) q^j e^(j(j-1)x/2) ("Noisy sums on secret batches")."""
    excess = ZERO
    for j in range(2, order + 1):
        probability = math.comb(order, j) * (1 - rate) ** (order - j) * rate**j
        excess += probability * (j * (j - 1) * x / 2).expm1()
    return excess.log1p()


def log_moments_of_a_run(event: Any, squared_norms: list[float], orders: list[float]) -> list[arb]:
    """Σ_t squared_norms_t ln m_α,t(1) at each order, for norms in clip norms ("Noisy sums on secret batches")."""
    steps = list[NoisySum]()
    for step in noisy_sums_of(event):
        steps += [step._replace(times=1)] * step.times
    if len(steps) != len(squared_norms):
        raise Wrong(f"{len(steps)} steps ran, and {len(squared_norms)} norms were recorded")
    return [_moment_of_a_run(ball(order), steps, squared_norms) for order in orders]


def _moment_of_a_run(order: arb, steps: list[NoisySum], squared_norms: list[float]) -> arb:
    known = dict[Any, arb]()
    moment = ZERO
    for step, norm in zip(steps, squared_norms, strict=True):
        key = step.rate.str(), step.x.str()
        if key not in known:
            known[key] = log_moment(order, step)
        moment += ball(norm) * known[key]
    return moment
