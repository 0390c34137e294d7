"""Hyper-parameters chosen by their results on private data: the best of a random number of runs, and what it costs.

K is drawn from a law that was fixed beforehand. The mechanism runs K times, each time with settings drawn anew from a
fixed law, and releases a result with its score. The best of the K results is released, by any fixed order, and nothing
else. D_α is the Rényi divergence of one run, γ the parameter of a truncated negative binomial law and η its shape:

    negative binomial   D'_α = D_α + (1+η) min_β ((1 - 1/β) D_β + ln(1/γ)/β) + ln E[K]/(α-1),       β ≥ 1
    Poisson             D'_α = ln(e^-μ + μ exp((α-1)(D_α + μ δ_α)))/(α-1),   δ_α that of one run at epsilon ln(α/(α-1))

Papernot and Steinke (2022), Theorems 2 and 6; e^-μ is for no run at all, which is an outcome that shows here. Proofs:
docs/accounting.md.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from math import expm1, inf, log

import numpy as np

from bounds import _check
from bounds._check import Array, door, open_probability, positive, real
from bounds.accounting.events import Event, delta_in_range
from bounds.accounting.renyi import ORDERS, epsilon_of_divergences, renyi_divergences
from bounds.accounting.tradeoff import privacy_profile
from bounds.privacy import Adjacency, PrivacyBound
from bounds.record import record

_SLACK = 1.0 + 1e-9


@record
class NegativeBinomialRuns:
    """P[K = k] ∝ (1-γ)^k Π_(l<k) (l+η)/(l+1), k = 1, 2, ...: geometric for η = 1, logarithmic for η = 0."""

    stopping: float
    """γ in (0, 1): the smaller, the more runs; 1 over their expected number where η is 1."""
    shape: float = 1.0
    """η above -1: the smaller, the heavier the tail, and the cheaper the choice."""

    def __post_init__(self) -> None:
        _check.fields(self, stopping=open_probability, shape=real)
        if not -1.0 < self.shape < inf:
            raise ValueError(f"shape must be above -1 and finite, got {self.shape!r}; 1 is the geometric law.")
        if 0.0 < abs(self.shape) < 1e-20:  # whose probabilities lose the digits that a draw needs
            raise ValueError(f"shape must be 0, or 1e-20 or more, got {self.shape!r}; 0 is the logarithmic law.")

    @property
    def mean(self) -> float:
        """E[K] = η(1-γ)/(γ(1-γ^η)), or (1-γ)/(γ ln(1/γ)) for η = 0."""
        within = -log(self.stopping) if self.shape == 0.0 else self._grown / self.shape
        return (1.0 - self.stopping) / self.stopping / within

    @property
    def _grown(self) -> float:
        """1 - γ^η."""
        return -expm1(self.shape * log(self.stopping))

    def probabilities(self) -> Iterator[Decimal]:
        """P[K = 0], P[K = 1], ... in the precision of the decimal context."""
        gamma, eta = Decimal(self.stopping), Decimal(self.shape)
        probability = (1 - gamma) * (eta / (gamma**-eta - 1) if eta else -1 / gamma.ln())
        yield Decimal(0)
        k = 1
        while True:
            yield probability
            probability, k = probability * (1 - gamma) * (k + eta) / (k + 1), k + 1


@record
class PoissonRuns:
    """P[K = k] = e^-μ μ^k/k!, k = 0, 1, ...: few surprises in the running time, and sometimes no run at all."""

    mean: float
    """μ."""

    def __post_init__(self) -> None:
        _check.fields(self, mean=positive)

    def probabilities(self) -> Iterator[Decimal]:
        """P[K = 0], P[K = 1], ... in the precision of the decimal context."""
        mean = Decimal(self.mean)
        probability, k = (-mean).exp(), 0
        while True:
            yield probability
            probability, k = probability * mean / (k + 1), k + 1


Runs = NegativeBinomialRuns | PoissonRuns


def tuned_divergences(
    *, events: Sequence[Event], runs: Runs, adjacency: Adjacency, orders: Sequence[float] = ORDERS
) -> Array:
    """The Rényi divergences of the best of a random number of runs at each order, in nats, rounded up.

    Formal guarantee: for neighbouring data sets the divergence of what is released, the best result with its score and
    settings, is at most this at that order, in both directions, if ``events`` covers all that one run computes from the
    data, scores included, and the number of runs is not released.

    ``events`` holds one event for each of the settings that may be drawn, equal ones once: the largest divergence
    counts, whatever the law of the settings. ``runs`` is the law of K.

    Raises ValueError when an argument is out of range, or an event holds a nesting that no theorem here covers.
    """
    if not isinstance(events, Sequence) or not events:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"events must be a list with the event of one run at least, got {events!r}")
    if not isinstance(runs, Runs):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"runs must be NegativeBinomialRuns or PoissonRuns, got {runs!r}")
    one = np.max([renyi_divergences(event=event, adjacency=adjacency, orders=orders) for event in events], axis=0)
    at = np.array(orders)
    if isinstance(runs, NegativeBinomialRuns):
        nats = -log(runs.stopping)
        extra = min(nats, float(((1.0 - 1.0 / at) * one + nats / at).min()))  # β = 1 is the first
        return (one + (1.0 + runs.shape) * extra + log(runs.mean) / (at - 1.0)) * _SLACK
    near = -np.log1p(-1.0 / at) * (2.0 - _SLACK)
    deltas = [privacy_profile(event=event, adjacency=adjacency, epsilons=near.tolist()).deltas for event in events]
    moments = (at - 1.0) * (one + runs.mean * np.max(deltas, axis=0))
    return np.logaddexp(-runs.mean, log(runs.mean) + moments) / (at - 1.0) * _SLACK


@door(delta=delta_in_range)
def tuned_epsilon(
    *, events: Sequence[Event], runs: Runs, delta: float, adjacency: Adjacency, orders: Sequence[float] = ORDERS
) -> PrivacyBound:
    """epsilon at delta of the best of a random number of runs; arguments as for ``tuned_divergences``.

    Formal guarantee: what is released is (upper, delta)-DP for these neighbours; ``lower`` is 0. The search takes E[K]
    times the time of one run, and with probability P[K > k] more than k times.

    Raises ValueError when an argument is out of range.
    """
    divergences = tuned_divergences(events=events, runs=runs, adjacency=adjacency, orders=orders)
    best = epsilon_of_divergences(divergences, orders, delta)
    return PrivacyBound(
        lower=0.0, estimate=best, upper=best, epsilon=best, delta=delta, adjacency=adjacency,
        method=f"best of K runs, {runs}, Rényi divergences",
    )  # fmt: skip
