"""What a history of private steps costs, by the accountant of ``bounds``; a run that has not begun costs nothing.

The number to report is the upper end of a bracket computed from the distribution of the composed privacy loss;
discretisation, truncation and rounding are in it. docs/accounting.md says how, and which theorems it rests on.
"""

import math
from dataclasses import replace

from bounds.accounting import (
    Composed,
    Event,
    ExponentialMechanism,
    OnceAnEpoch,
    PoissonSampled,
    PrivacyBound,
    SelfComposed,
    privacy_epsilon,
    privacy_record,
)
from bounds.accounting.events import delta_in_range
from bounds.privacy import Adjacency, ApproxDP, GaussianDP, PrivacyLossDistribution

_SLACK, _LARGE = 1e-4, 300.0


def privacy_spent(event: Event | None, *, delta: float, adjacency: Adjacency) -> PrivacyBound:
    """The epsilon of a history, bracketed: ``lower``, ``estimate``, ``upper``, of which ``upper`` is to be reported.

    Formal guarantee: the mechanisms are (upper, delta)-differentially private for these neighbours, and so is whatever
    is computed from their outputs. No mechanism of this description has less than ``lower``.

    Replace-one neighbours of an event for which no theorem is here are two add-remove steps apart: (epsilon, delta)
    for one step is (2 epsilon, (1 + e^epsilon) delta) for both (Dwork and Roth 2014, Theorem 2.2).

    Args:
        event: what ran; None for nothing.
        delta: a probability strictly between 0 and 1.
        adjacency: "add-remove", or "replace-one", where the clipped sum moves by twice as much.

    Raises:
        ValueError: delta or adjacency out of range.
    """
    if event is not None and adjacency == "replace-one" and _of_presence(event):
        return _by_two_steps(event, delta=delta)
    if event is not None:
        return privacy_epsilon(event=event, delta=delta, adjacency=adjacency)
    delta_in_range(delta=delta)
    ApproxDP(epsilon=0.0, delta=delta, adjacency=adjacency, status="accounted")
    return PrivacyBound(
        lower=0.0,
        estimate=0.0,
        upper=0.0,
        epsilon=0.0,
        delta=delta,
        adjacency=adjacency,
        status="accounted",
        method="nothing ran",
    )


def _of_presence(event: Event, *, sampled: bool = False) -> bool:
    """Whether the accountant knows add-remove neighbours alone: choices on a sample, and records once an epoch."""
    match event:
        case ExponentialMechanism():
            return sampled
        case OnceAnEpoch():
            return event.batches > 1
        case PoissonSampled():
            return _of_presence(event.event, sampled=True)
        case SelfComposed():
            return _of_presence(event.event, sampled=sampled)
        case Composed():
            return any(_of_presence(one, sampled=sampled) for one in event.events)
        case _:
            return False


def _by_two_steps(event: Event, *, delta: float) -> PrivacyBound:
    """The bracket of replace-one neighbours from that of add-remove ones.

    The lower end is theirs: a record without a contribution in the place of another is one record less.
    """
    found = one = privacy_epsilon(event=event, delta=delta, adjacency="add-remove")
    most = math.inf
    while one.upper < _LARGE:
        most = one.upper * (1.0 + _SLACK)
        share = delta / (1.0 + math.exp(most)) * (1.0 - 2.0**-40)
        one = privacy_epsilon(event=event, delta=share, adjacency="add-remove")
        if one.upper <= most:
            break
    else:
        most = math.inf
    ends = {"estimate": 2.0 * most, "upper": 2.0 * most, "epsilon": 2.0 * most}
    return replace(
        found, adjacency="replace-one", method=f"{found.method}, two add-remove steps", **ends
    )


def epsilon(event: Event | None, *, delta: float, adjacency: Adjacency) -> float:
    """``privacy_spent(...).upper``: never less than the truth; infinity where a step has no noise.

    Formal guarantee: the mechanisms are (epsilon, delta)-differentially private for these neighbours.

    Raises:
        ValueError: delta or adjacency out of range.
    """
    return privacy_spent(event, delta=delta, adjacency=adjacency).upper


def privacy_claim(
    event: Event | None, *, adjacency: Adjacency, resolution: float = 0.05
) -> GaussianDP | PrivacyLossDistribution:
    """What ``private_pac_bayes(privacy=...)`` takes, for a prior or weights that these mechanisms released.

    A Gaussian where that is exact (every unit in every step), else the distribution of the privacy loss. Those bounds
    compare the run with itself without one unit, so that "add-remove" serves, and costs less.

    Formal guarantee: the record's loss dominates that of the history for these neighbours.

    Raises:
        ValueError: adjacency unknown, or a step without noise.
    """
    if event is None:
        return GaussianDP(mu=0.0, adjacency=adjacency, status="accounted")
    return privacy_record(event=event, adjacency=adjacency, resolution=resolution)
