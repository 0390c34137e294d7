"""What a run of SGLD or Entropy-SG(L)D with clipped gradients reveals: a history of mechanisms, converged or not.

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
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import bounds
from bounds.accounting import (
    Composed,
    Event,
    Gaussian,
    PoissonSampled,
    SelfComposed,
    clt_gdp,
    event_to_dict,
    privacy_epsilon,
    privacy_record,
)
from bounds.privacy import Adjacency
from pacdp.samplers import SGLD, EntropySGD, Settings
from pacdp.samplers import entropy_sgd as entropy
from pacdp.samplers import sgld as langevin
from pacdp.samplers.types import Schedule, column

Claim = bounds.GaussianDP | bounds.PrivacyLossDistribution
"""What the bounds of ``bounds.private_pac_bayes`` take."""

_ROUNDING = 2.0**-20
"""Step sizes and noise scales reach the update in single precision: two relative errors of 2⁻²⁴ each."""
_GRID = 2.0**-10
"""Noise multipliers of a schedule are rounded down to a geometric grid of this ratio, less than 1/1000 apart."""
_MOST_DISTINCT = 64
_FINE_UP_TO = 200_000
"""Mechanisms that are accounted for on the fine grid, whose masses, rounded up, pass 1 too far beyond."""
DELTA = 1e-5


def accounted_event(
    settings: Settings, *, n: int, steps: int, step_size: Schedule | None = None, temperature: Schedule | None = None
) -> Event | None:
    """The mechanisms of a chain of ``steps`` steps on n records, in any order; None if it has not begun.

    Formal guarantee: the weights after each of the steps, and everything that is computed from these alone, are a
    function of the outputs of Poisson-sampled Gaussian mechanisms whose noise multipliers are at least, and whose
    sample rates at most, those of the event. This holds for an :class:`pacdp.objective.Objective` with the settings'
    ``clip_norm`` and ``batch_size``: Poisson batches, a fixed normaliser, examples that do not mix, gradients clipped
    one by one. First weights, settings, schedules and number of steps must not depend on the records; batches and noise
    must be drawn independently of them; rounding of the sum is not accounted for. The caller vouches for the number of
    steps; :mod:`pacdp.steps` says which one a run pays for that may have been stopped on the way.

    Args:
        settings: of SGLD or Entropy-SG(L)D, with ``clip_norm``.
        n: records that the batches are drawn from; public.
        steps: as the sampler's state counts them: outer steps of Entropy-SG(L)D.
        step_size: the schedule that ``build`` was given; that of Entropy-SG(L)D acts on outer steps and costs nothing.
        temperature: as for SGLD's ``build``.

    Raises:
        ValueError: an algorithm or settings whose steps are no private mechanisms, and why; n, steps or batch size out
            of range.
    """
    reason = refusal(settings)
    if reason is not None:
        raise ValueError(reason)
    assert isinstance(settings, SGLD | EntropySGD)
    assert settings.clip_norm is not None
    if not (settings.batch_size <= n and steps >= 0):
        raise ValueError(f"expected batch_size <= n and steps >= 0, got {settings.batch_size}, n={n}, steps={steps}")
    if isinstance(settings, EntropySGD):
        inner = entropy.inner_coefficients(_columns(settings, "gamma", "tau", "alpha", "inner_step_size",
                                                    "inner_decay"), settings.inner_steps)  # fmt: skip
        rates, scales, each = inner["rate"][:, 0], inner["scale"][:, 0], steps
    else:
        rates, scales = _langevin_steps(settings, steps, step_size, temperature)
        each = 1
    moving = rates > 0.0  # a step of size 0 reads nothing
    if each == 0 or not moving.any():
        return None
    with np.errstate(under="ignore"):
        multipliers = settings.batch_size / settings.clip_norm * scales[moving] / rates[moving] * (1.0 - _ROUNDING)
    if not (np.isfinite(multipliers) & (multipliers > 0.0)).all():
        raise ValueError(
            f"expected noise in every step, got a noise multiplier of {float(multipliers.min())}: tau = {settings.tau} "
            "leaves no temperature"
        )
    rate = settings.batch_size / n
    return Composed(events=tuple(
        SelfComposed(event=PoissonSampled(sample_rate=rate, event=Gaussian(noise_multiplier=value)),
                     count=count * each)
        for value, count in sorted(_counted(multipliers).items())
    ))  # fmt: skip


@lru_cache(maxsize=64)  # the records of a run ask for the same planned steps
def accounted_privacy(settings: Settings, *, n: int, steps: int, adjacency: Adjacency = "add-remove") -> Claim:
    """What the chain's weights promise, as the general transfer takes it.

    The transfer compares the chain with itself without one record: "add-remove" serves, and costs less than
    "replace-one".

    Formal guarantee and errors: as for :func:`accounted_event`; the record's loss dominates the event's.
    """
    event = accounted_event(settings, n=n, steps=steps)
    if event is None:
        return bounds.GaussianDP(mu=0.0, adjacency=adjacency, status="accounted")
    few = steps * settings.gradients_per_step <= _FINE_UP_TO
    return privacy_record(event=event, adjacency=adjacency, resolution=0.05 if few else 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountedChain:
    """What a chain spent, to be read; certificates rest on :func:`accounted_privacy`."""

    event: Event | None
    mechanisms: int
    """Noisy steps: L times the outer steps of Entropy-SG(L)D."""
    mu: float
    """The central limit theorem's mu, add-remove: an approximation that proves nothing."""
    delta: float
    epsilon_add_remove: float
    """With ``delta``, rounded up."""
    epsilon_replace_one: float

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "mechanisms": self.mechanisms, "delta": self.delta, "epsilon_add_remove": self.epsilon_add_remove,
            "epsilon_replace_one": self.epsilon_replace_one, "mu_central_limit": self.mu, "status": "accounted",
            "event": event_to_dict(self.event) if self.event is not None else None,
        }  # fmt: skip


def spent(settings: Settings, *, n: int, steps: int, delta: float = DELTA) -> AccountedChain:
    """Epsilon at ``delta``, for both neighbouring relations; errors as for :func:`accounted_event`."""
    event = accounted_event(settings, n=n, steps=steps)
    if event is None:
        return AccountedChain(event=None, mechanisms=0, mu=0.0, delta=delta, epsilon_add_remove=0.0,
                              epsilon_replace_one=0.0)  # fmt: skip
    add_remove, replace_one = (
        privacy_epsilon(event=event, delta=delta, adjacency=adjacency).upper
        for adjacency in ("add-remove", "replace-one")
    )
    return AccountedChain(
        event=event, mechanisms=steps * settings.gradients_per_step, mu=clt_gdp(event=event).mu, delta=delta,
        epsilon_add_remove=add_remove, epsilon_replace_one=replace_one,
    )  # fmt: skip


def refusal(settings: Settings) -> str | None:
    """Why the steps of a chain with these settings are no private mechanisms, one sentence; None where they are."""
    if not isinstance(settings, SGLD | EntropySGD):
        return (
            f"steps of {type(settings).__name__} have no privacy accounting here: use SGLD or Entropy-SG(L)D with "
            "clip_norm, or a trainer of pacdp.private"
        )
    if settings.clip_norm is None:
        return (
            "without clip_norm one example may move a step without limit, so that no noise hides it: set clip_norm, "
            "which also makes batches Poisson and the normaliser fixed"
        )
    return None


def _columns(settings: EntropySGD | SGLD, *names: str) -> dict[str, np.ndarray]:
    return {name: column([settings], name) for name in names}


def _langevin_steps(
    settings: SGLD, steps: int, step_size: Schedule | None, temperature: Schedule | None
) -> tuple[np.ndarray, np.ndarray]:
    columns = _columns(settings, "step_size", "decay", "tau", "base_std")
    if step_size is None and temperature is None and settings.decay == 0.0:
        first = langevin.coefficients(columns, None, None, 0)
        return np.repeat(first["rate"], steps), np.repeat(first["scale"], steps)
    found = [langevin.coefficients(columns, step_size, temperature, step) for step in range(steps)]
    rates, scales = (np.array([one[name][0] for one in found], dtype=np.float64) for name in ("rate", "scale"))
    return rates, scales


def _counted(multipliers: np.ndarray) -> Counter[float]:
    """How often each occurs; many different ones rounded down to a grid."""
    counts = Counter(multipliers.tolist())
    if len(counts) <= _MOST_DISTINCT:
        return counts
    ratio = np.log1p(_GRID)
    rounded = np.exp(ratio * np.floor(np.log(multipliers) / ratio)) * (1.0 - 2.0**-40)
    return Counter(np.minimum(rounded, multipliers).tolist())
