"""Convergence diagnostics of Langevin chains: they can refute that a chain is stationary, never prove that it is.

Each looks at scalars recorded along chains, [chains, steps], after burn-in: the energy, |w|², |μ - w|². The kept steps
of each chain are cut into halves of n steps, which have the same law if the chain is stationary.

- R-hat and bulk effective draws: Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021), "Rank-normalization, folding,
  and localization: an improved R-hat", Bayesian Analysis 16, over all halves; one chain has two. R-hat of stationary
  chains with few effective draws exceeds 1.01 by chance, so beside it stands the p-value of the one-way analysis of
  variance with n / τ independent draws in each half.
- Kolmogorov-Smirnov: first against second half of each chain, every (2τ - 1)-th step of both (of an autoregression,
  whose correlation after that is about e⁻⁴).
- Geweke (1992): the mean of the first tenth less the mean of the second half, over its standard error, as Student's t;
  each chain by itself and all together, of ranks turned into normal scores, since losses and norms are skewed. Variance
  and τ are those of the second half.

τ is the autocorrelation time of a half about its least-squares line: about its mean, a drift would pass for slow mixing
and excuse itself. The line hides slow mixing in turn, by some 2τ/n of τ: τ (1 + 4τ/n) is used, no less than the median
of all chains where chains are judged singly, and a half worth fewer than 30 draws is not judged.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy  # its parts, which take long to import, where they are used
from jaxtyping import Float
from numpy.typing import ArrayLike

from bounds.monte_carlo import effective_sample_size
from pacdp.chains.diagnosis import (
    FEWEST_STEPS,
    Diagnosis,
    TraceDiagnosis,
    level_of,
    warnings_of,
)

_FEWEST_IN_HALF = 30.0
_FEWEST_AT_START = 5.0
"""Values other than the commonest, as minibatch errors may hardly have any: the mean of fewer is far from normal."""


def after_burn_in(trace: ArrayLike, burn_in: float) -> Float[np.ndarray, "chains kept"]:
    """[chains, steps] without the first ``burn_in`` share of the steps, but never fewer than ``FEWEST_STEPS`` of them.

    Raises:
        ValueError: ``burn_in`` is outside [0, 1), or ``trace`` is not [chains, steps] with at least one of each.
    """
    if not 0.0 <= burn_in < 1.0:
        raise ValueError(f"expected burn_in in [0, 1), the share of steps to drop, got {burn_in}")
    values = np.asarray(trace, dtype=np.float64)
    if values.ndim != 2 or values.size == 0:
        raise ValueError(
            f"expected trace as [chains, steps], got shape {values.shape}: a single chain is trace[None]"
        )
    steps = values.shape[1]
    return values[:, max(0, min(int(burn_in * steps), steps - FEWEST_STEPS)) :]


def diagnose(traces: Mapping[str, ArrayLike], *, burn_in: float = 0.5) -> Diagnosis:
    """Look for signs that chains are not stationary.

    Args:
        traces: by name, one number per recorded step, [chains, steps], all from before burn-in on.
        burn_in: share of the steps that is dropped; see ``after_burn_in``.

    Formal guarantee: none. It can refute stationarity, never prove it; see ``Diagnosis``.

    Raises:
        ValueError: no traces, a trace that is not [chains, steps] or not finite, or ``burn_in`` outside [0, 1). Traces
            that are short or constant are no error: they yield None and a warning.
    """
    if not traces:
        raise ValueError("expected at least one trace, got none: record the energy of each step")
    found: dict[str, TraceDiagnosis] = {}
    twice: list[str] = []
    for name, trace in traces.items():
        kept = after_burn_in(trace, burn_in)
        if not np.isfinite(kept).all():
            chain, step = np.argwhere(~np.isfinite(kept))[0]
            raise ValueError(
                f"trace {name!r} is not finite in chain {chain}, kept step {step}: the chain has diverged"
            )
        found[name] = _diagnose(kept)
        copies = len(kept) - len(np.unique(kept, axis=0))
        if copies and found[name].effective_draws is not None:
            twice.append(
                f"{name}: {copies} of {len(kept)} chains are copies of others, number by number: what is worked out "
                "here takes all for independent; leave copies out, or give each chain a number of its own"
            )
    level = level_of(found)
    warnings = twice + [
        text for name, trace in found.items() for text in warnings_of(name, trace, level)
    ]
    return Diagnosis(traces=found, warnings=tuple(warnings))


def _diagnose(kept: Float[np.ndarray, "chains steps"]) -> TraceDiagnosis:
    chains, steps = kept.shape
    # neither overflows nor passes for constant, however large or small the trace
    peak = float(np.abs(kept).max()) or 1.0
    unit = kept / peak
    moves = [(part != part[:, :1]).any(axis=1) for part in _halves(unit)]
    numbers: dict[str, Any] = {
        "chains": chains,
        "steps": steps,
        "still_chains": int((~(moves[0] & moves[1])).sum()),
        "mean": float(unit.mean()) * peak,
    }
    low, width = float(unit.min()), float(np.ptp(unit))
    if steps < FEWEST_STEPS or width == 0.0:
        return TraceDiagnosis(**numbers)
    unit = (unit - low) / width
    # unscaled: rounding would break ties when folded
    r_hat, r_hat_p_value = _r_hat(np.vstack(_halves(kept / 2.0)))
    z, z_p_value = _geweke(_scores(unit))
    return TraceDiagnosis(
        **numbers, standard_error=float(_arviz().mcse(unit, method="mean")) * width * peak,
        effective_draws=float(_arviz().ess(unit, method="bulk")), r_hat=r_hat, r_hat_p_value=r_hat_p_value,
        ks_p_value=_kolmogorov_smirnov(*_halves(unit)), geweke_z=z, geweke_p_value=z_p_value,
    )  # fmt: skip


def _halves(rows: Float[np.ndarray, "chains steps"]) -> tuple[Any, Any]:
    half = rows.shape[1] // 2
    return rows[:, :half], rows[:, rows.shape[1] - half :]


def _arviz() -> Any:
    from arviz_stats.base import array_stats  # pyright: ignore[reportPrivateImportUsage]  # takes long to import

    return array_stats


def _times(rows: Float[np.ndarray, "rows steps"]) -> Float[np.ndarray, " rows"]:
    """Autocorrelation time of each row about its line, on the long side; a row that never moves gets too long a one."""
    steps = rows.shape[1]
    moves = np.ptp(rows, axis=1) > 0.0
    residuals = scipy.signal.detrend(rows, axis=1)
    given = zip(residuals, moves, strict=True)
    draws = np.array([effective_sample_size(row) if ok else 1.0 for row, ok in given])
    return (steps / draws) * (1.0 + 4.0 / draws)


def _scores(values: Float[np.ndarray, "rows steps"]) -> Float[np.ndarray, "rows steps"]:
    return scipy.special.ndtri(
        (scipy.stats.rankdata(values).reshape(values.shape) - 0.375) / (values.size + 0.25)
    )


def _r_hat(halves: Float[np.ndarray, "rows steps"]) -> tuple[float | None, float | None]:
    rows, steps = halves.shape
    found: list[float] = []
    p_values: list[float | None] = []
    for values in (halves, np.abs(halves - np.median(halves))):
        if np.ptp(values) == 0.0:  # a trace of two values, folded
            continue
        scores = _scores(values)
        moves = bool((np.ptp(values, axis=1) > 0.0).any())
        r_hat = float(_arviz().rhat(scores, method="identity")) if moves else math.inf
        draws = steps / float(_times(scores).mean())
        between = draws * (r_hat**2 - (steps - 1) / steps)
        found.append(r_hat)
        judged = draws > _FEWEST_IN_HALF
        p_values.append(
            float(scipy.stats.f.sf(between, rows - 1, rows * (draws - 1.0))) if judged else None
        )
    return max(found, default=None), _smallest(p_values)


def _kolmogorov_smirnov(
    first: Float[np.ndarray, "chains half"], second: Float[np.ndarray, "chains half"]
) -> float | None:
    times = np.maximum(_times(first), _times(second))
    times = np.maximum(times, np.median(times))
    p_values: list[float | None] = []
    for one, other, time in zip(first, second, times, strict=True):
        if one.size > time * _FEWEST_IN_HALF:
            apart = max(1, round(2.0 * time - 1.0))
            # the exact law is for draws without ties, and minibatch errors have many
            test: Any = scipy.stats.ks_2samp(one[::apart], other[::apart], method="asymp")
            p_values.append(float(test.pvalue))
    return _smallest(p_values)


def _geweke(scores: Float[np.ndarray, "chains steps"]) -> tuple[float | None, float | None]:
    start, end = scores[:, : scores.shape[1] // 10], _halves(scores)[1]
    times = _times(end)
    times = np.maximum(times, np.median(times))
    draws = end.shape[1] / times
    others = (end != np.median(scores)).mean(axis=1) * start.shape[
        1
    ]  # than the commonest, expected at the start
    judged = (draws > _FEWEST_IN_HALF) & (others > _FEWEST_AT_START)
    if not judged.any():
        return None, None
    moved = (start.mean(axis=1) - end.mean(axis=1))[judged]
    spread = (scipy.signal.detrend(end, axis=1).var(axis=1) * times)[judged] * (
        1 / start.shape[1] + 1 / end.shape[1]
    )
    freedom = draws[judged] - 1.0
    if judged.sum() > 1:
        moved, spread, freedom = (np.append(each, each.sum()) for each in (moved, spread, freedom))
    z = moved / np.sqrt(spread)
    p_values = 2.0 * scipy.stats.t.sf(np.abs(z), freedom)
    return float(z[np.argmax(np.abs(z))]), _smallest(list(p_values))


def _smallest(p_values: list[float | None]) -> float | None:
    """Bonferroni's correction for the choice of the smallest."""
    known = [p for p in p_values if p is not None]
    return min(1.0, float(min(known)) * len(known)) if known else None
