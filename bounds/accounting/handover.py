"""From what ran to what bounds on the risk take: the privacy loss of one record, remove direction."""

import math

import numpy as np
from numpy.typing import NDArray

from bounds import _check
from bounds.accounting._compose import compose
from bounds.accounting._fourier import Composite
from bounds.accounting._pieces import mechanisms
from bounds.accounting._plan import plan
from bounds.accounting._schedule import schedule
from bounds.accounting.events import Event, event_to_json
from bounds.privacy import Adjacency, GaussianDP
from bounds.privacy_loss import PrivacyLossDistribution

Array = NDArray[np.float64]


def privacy_record(
    *, event: Event, adjacency: Adjacency, resolution: float = 0.05
) -> GaussianDP | PrivacyLossDistribution:
    """What ``bounds.private_pac_bayes`` takes as ``privacy``: a Gaussian where that is exact, else a distribution.

    The general transfer compares the mechanism with itself without one record, so that the remove direction of
    "add-remove" neighbours serves as it is, and is cheaper than "replace-one".

    Formal guarantee: as for ``loss_distribution``, and ``full_batch_gdp``.
    """
    made = schedule(event, adjacency)
    if made.exact:
        mu = made.mu * (1.0 + 1e-13)
        return GaussianDP(mu=mu, adjacency=adjacency, status="accounted", event=event_to_json(event))
    return loss_distribution(event=event, adjacency=adjacency, resolution=resolution)


def loss_distribution(*, event: Event, adjacency: Adjacency, resolution: float = 0.05) -> PrivacyLossDistribution:
    """The distribution of the composed privacy loss, on a grid, with every error rounded up into its masses.

    P is the mechanism with the record; Q without it (add-remove), or with another in its place (replace-one).

    Formal guarantee: a pair that dominates the event's has masses at most those returned: P's where the loss is at
    least 0 and at infinity, Q's where it is below 0 and at minus infinity. ``resolution`` is the grid spacing in
    standard deviations of one step's loss.

    Raises ValueError when an argument is out of range, or nothing is promised.
    """
    made = schedule(event, adjacency)
    _check.positive(resolution=resolution)
    if not made.private:
        raise ValueError(
            "event must promise something to have a distribution of its loss, got one that is not private."
        )
    parts = mechanisms(made)
    law = compose(parts, plan(parts, resolution=resolution))
    spacing = law.remove.spacing
    low, raised, above = _raised(law.remove, law.slack)
    far, lowered, below = _raised(law.add, law.slack)
    first, last = min(low, 1 - far - lowered.size, 0), max(low + raised.size - 1, -far, 0)
    with_record, without_record = np.zeros(last - first + 1), np.zeros(last - first + 1)
    with_record[low - first : low - first + raised.size] = raised
    without_record[1 - far - lowered.size - first : 1 - far - first] = lowered[::-1]
    x = spacing * (first + np.arange(with_record.size))
    decay = np.exp(-np.abs(x))
    upper, lower = np.where(x >= 0.0, with_record, 0.0), np.where(x < 0.0, without_record, 0.0)
    return PrivacyLossDistribution(
        spacing=spacing,
        lowest=first,
        with_record=upper + lower * decay,
        without_record=lower + upper * decay,
        infinity_mass=min(1.0, above + law.infinity_mass),
        zero_mass=min(1.0, below + law.zero_mass),
        adjacency=adjacency,
        status="accounted",
        event=event_to_json(event),
    )


def _raised(law: Composite, slack: float) -> tuple[int, Array, float]:
    """First index, masses with their errors added, and what lies above the window."""
    masses = (law.masses * math.exp(law.log_scale) + law.cell_error) * (1.0 + slack)
    return law.window.start, masses, math.exp(min(0.0, law.log_above))
