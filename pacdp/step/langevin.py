"""What a chain of Langevin steps with clipped gradients reveals: Poisson-sampled Gaussians, converged or not.

An inner step of these samplers is, for the step size h, the temperature 1/τ and a Poisson batch of rate K/n,

    w ← (terms without data) - h (1/K) Σ_{i in batch} clip_C(∇ℓ_i(w)) + √(2h/τ) N(0, I).

One record more or less moves the sum by at most C, hence w by at most hC/K: the step is a Poisson-sampled Gaussian
mechanism, and its noise multiplier is

    σ = √(2h/τ) / (hC/K) = (K/C) √(2/(τh)),

which is 2K/(τC√η) with η = 2h/τ, the step's Langevin time. SGLD makes one such step a step, Entropy-SG(L)D makes L of
them an outer step; its average μ, its outer update and its outer noise compute with what these released
(post-processing), so that Entropy-SGD, which adds no noise outside the inner loop, is private as well. A run is the
composition of its steps. To first order it costs μ² = (τC/2n)² Σ η: privacy is spent by Langevin time.
"""

from collections import Counter
from functools import lru_cache
from typing import Any

import numpy as np

from bounds.accounting import (
    Composed,
    Event,
    Gaussian,
    PoissonSampled,
    SelfComposed,
    clt_gdp,
    event_to_dict,
)
from bounds.privacy import Adjacency, GaussianDP, PrivacyLossDistribution
from pacdp.step.accountant import epsilon, privacy_claim
from pacdp.step.event import Promising, steps_of

Claim = GaussianDP | PrivacyLossDistribution
"""What the bounds of ``bounds.printed.private_pac_bayes`` take."""

_ROUNDING = 2.0**-20
"""Step sizes and noise scales reach the update in single precision: two relative errors of 2⁻²⁴ each."""
_GRID = 2.0**-10
"""Noise multipliers of a schedule are rounded down to a geometric grid of this ratio, less than 1/1000 apart."""
_MOST_DISTINCT = 64
_FINE_UP_TO = 200_000
"""Mechanisms that are accounted for on the fine grid, whose masses, rounded up, pass 1 too far beyond."""
DELTA = 1e-5


def langevin_event(
    rates: np.ndarray,
    scales: np.ndarray,
    *,
    each: int,
    batch_size: int,
    clip_norm: float | int | None,
    n: int,
) -> Event | None:
    """The mechanisms of steps of sizes ``rates`` with noise of deviations ``scales``, each made ``each`` times.

    Formal guarantee: the weights after each of the steps, and everything that is computed from these alone, are a
    function of the outputs of Poisson-sampled Gaussian mechanisms whose noise multipliers are at least, and whose
    sample rates at most, those of the event. This holds for an :class:`pacdp.objective.Objective` with this clip norm
    and batch size: Poisson batches, a fixed normaliser, examples that do not mix, gradients clipped one by one. First
    weights, settings, schedules and number of steps must not depend on the records; batches and noise must be drawn
    independently of them; rounding of the sum is not accounted for. The caller vouches for the number of steps;
    :mod:`pacdp.step.planned_steps` says which one a run pays for that may have been stopped on the way.

    Returns:
        The mechanisms in any order; None if there is none.

    Raises:
        ValueError: no clip norm, or steps without noise.
    """
    if clip_norm is None:
        raise ValueError(
            "without clip_norm one example may move a step without limit, so that no noise hides it: set clip_norm, "
            "which also makes batches Poisson and the normaliser fixed"
        )
    if not (batch_size <= n and each >= 0):
        raise ValueError(
            f"expected batch_size <= n and steps >= 0, got {batch_size}, n={n}, steps={each}"
        )
    moving = rates > 0.0  # a step of size 0 reads nothing
    if each == 0 or not moving.any():
        return None
    with np.errstate(under="ignore"):
        multipliers = batch_size / clip_norm * scales[moving] / rates[moving] * (1.0 - _ROUNDING)
    if not (np.isfinite(multipliers) & (multipliers > 0.0)).all():
        raise ValueError(
            f"expected noise in every step, got a noise multiplier of {float(multipliers.min())}: tau leaves no "
            "temperature"
        )
    return Composed(events=tuple(
        SelfComposed(event=PoissonSampled(sample_rate=batch_size / n, event=Gaussian(noise_multiplier=value)),
                     count=count * each)
        for value, count in sorted(_counted(multipliers).items())
    ))  # fmt: skip


@lru_cache(maxsize=64)  # the records of a run ask for the same planned steps
def accounted_privacy(
    settings: Promising, *, n: int, steps: int, adjacency: Adjacency = "add-remove"
) -> Claim:
    """What the chain's weights promise, as the general transfer takes it.

    The transfer compares the chain with itself without one record: "add-remove" serves, and costs less than
    "replace-one".

    Formal guarantee and errors: as for :func:`langevin_event`; the record's loss dominates the event's.
    """
    event = settings.promise(n, steps)
    fine = steps_of(event) <= _FINE_UP_TO
    return privacy_claim(event, adjacency=adjacency, resolution=0.05 if fine else 0.5)


def accounted_to_dict(event: Event | None, *, delta: float = DELTA) -> dict[str, Any]:
    """What a chain spent, to be read, as JSON values; certificates rest on :func:`accounted_privacy`.

    ``mu_central_limit`` is the central limit theorem's, add-remove: an approximation that proves nothing.
    """
    return {
        "mechanisms": steps_of(event), "delta": delta,
        "epsilon_add_remove": epsilon(event, delta=delta, adjacency="add-remove"),
        "epsilon_replace_one": epsilon(event, delta=delta, adjacency="replace-one"),
        "mu_central_limit": 0.0 if event is None else clt_gdp(event=event).mu,
        "status": "accounted", "event": None if event is None else event_to_dict(event),
    }  # fmt: skip


def _counted(multipliers: np.ndarray) -> Counter[float]:
    """How often each occurs; many different ones rounded down to a grid."""
    counts = Counter(multipliers.tolist())
    if len(counts) <= _MOST_DISTINCT:
        return counts
    ratio = np.log1p(_GRID)
    rounded = np.exp(ratio * np.floor(np.log(multipliers) / ratio)) * (1.0 - 2.0**-40)
    return Counter(np.minimum(rounded, multipliers).tolist())
