"""What a schedule of noisy gradient steps will spend, before it is run: numbers to plan with, no certificate."""

import math
from dataclasses import dataclass

import numpy as np

from bounds import _check
from bounds._rounding import inward, log_inverse
from bounds.noisy import RealisedPoissonSum, RealisedSum
from bounds.noisy_steps import log_moment
from bounds.pac_bayes import maurer

_MOST_STEPS = 10**6
_AROUND = (0.5, 0.5**0.5, 1.0, 2.0**0.5, 2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisySumPlan:
    """What ``plan_noisy_sum`` foresees.

    Attributes:
        contributions: V = Σ_i Σ_t ‖g_t(s_i)‖²/σ_t², over all records and steps, whether they are sampled or not.
        order: the order α at which the price is least.
        orders: a grid of five around it, to be fixed before the run; ``nats`` pays for it.
        nats: the price Λ.
        value: the bound on the risk, kl⁻¹(risk, [kl_nats + ln ξ(n) + Λ]/n).
    """

    contributions: float
    order: float
    orders: tuple[float, ...]
    nats: float
    value: float


def langevin_noise(*, step_size: float, tau: float, examples: int) -> float:
    """The noise multiplier of a Langevin step, examples · √(2/(tau step_size)), rounded down.

    In w ← w - h (1/K) Σ_{i in batch} ∇ℓ_i(w) + √(2h/τ) ξ the noise on the *sum* of gradients has standard deviation
    K √(2/(τh)), in the unit of the gradients; K is n in a full batch, and the expected size of a Poisson batch.

    Args:
        step_size: h, the step that multiplies the mean gradient.
        tau: τ, inverse temperature, in nats per unit of mean loss.
        examples: K.
    """
    _check.positive(step_size=step_size, tau=tau)
    _check.count(examples=examples)
    return inward(inward(math.sqrt(2.0 / float(tau)) / math.sqrt(step_size)) * int(examples))


def plan_noisy_sum(
    *,
    step_size: float,
    steps: int,
    tau: float,
    n: int,
    squared_norm: float,
    risk: float,
    failure_prob: float,
    decay: float = 0.0,
    batch_size: int | None = None,
    kl_nats: float = 0.0,
) -> NoisySumPlan:
    """What V and what price a Langevin schedule spends, and which bound results, if gradients have the norm given.

        V = Σ_t h_t τ n/(2 K²) squared_norm,    h_t = step_size t^-decay

    in full batch (K = n) that is (τ/(2n)) squared_norm Σ h_t. With a batch size K the batches are Poisson and secret.

    Args:
        step_size, steps, decay: the schedule h_1, ..., h_steps.
        tau: inverse temperature τ; the step adds noise of standard deviation √(2h/τ) to the weights.
        n: number of records.
        squared_norm: typical mean of ‖∇ℓ_i‖² over the records, as a pilot on other rows shows.
        risk: empirical risk that the run is expected to reach.
        failure_prob: probability that the bound fails.
        batch_size: K, the expected size of a secret Poisson batch; left out for all records at every step.
        kl_nats: divergence of a posterior that is trained on from the end; 0 for the weights themselves.
    """
    _check.positive(step_size=step_size, tau=tau)
    _check.nonnegative(squared_norm=squared_norm, decay=decay)
    _check.count(n=n, steps=steps, **({} if batch_size is None else {"batch_size": batch_size}))
    if steps > _MOST_STEPS or not squared_norm < math.inf:
        raise ValueError(
            f"steps must be at most {_MOST_STEPS} of finite squared_norm, got {steps!r}, {squared_norm!r}."
        )
    size = int(n) if batch_size is None else int(batch_size)
    if size > n:
        raise ValueError(f"batch_size must be at most n = {n!r}, got {size!r}; leave it out for all records.")
    with np.errstate(over="ignore", under="ignore"):
        sizes = float(step_size) * np.arange(1, int(steps) + 1, dtype=np.float64) ** -float(decay)
        each = sizes * float(tau) * (0.5 * float(squared_norm) / size / size)
        contributions = int(n) * float(np.sum(each))
    spent = log_inverse(failure_prob) if 0.0 < failure_prob < 1.0 else 1.0  # refused below
    excess = min(max(math.sqrt(2.0 * spent / contributions) if contributions > 0.0 else 1e3, 1e-6), 100.0)
    rate = size / int(n)
    if rate < 1.0:
        candidates = [1.0 + excess * 2.0 ** (k / 4) for k in range(-24, 25)]
        candidates = [order for order in candidates if order <= 64.0]
    else:
        candidates = [1.0 + excess]

    def moment(order: float) -> float:
        return min(1.7e308, int(n) * float(np.sum(log_moment(order, rate, each))))

    def cost(order: float) -> float:
        return moment(order) / (order - 1.0) + order / (order - 1.0) * spent

    order = min(candidates, key=cost)
    orders = tuple(1.0 + (order - 1.0) * factor for factor in _AROUND)
    price = (
        RealisedPoissonSum(log_moments=tuple(map(moment, orders)), records=int(n), orders=orders)
        if rate < 1.0
        else RealisedSum(contributions=contributions, records=int(n), orders=orders)
    )
    made = maurer(risk=risk, kl_nats=kl_nats, n=n, failure_prob=failure_prob, price=price)
    return NoisySumPlan(
        contributions=contributions, order=order, orders=orders, nats=made.nats("transfer"), value=made.value
    )
