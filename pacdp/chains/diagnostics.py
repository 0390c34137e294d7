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
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from arviz_stats.base import array_stats  # pyright: ignore[reportPrivateImportUsage]
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import signal, special, stats

import bounds

R_HAT_LIMIT = 1.01
"""Vehtari et al. 2021."""
FEWEST_DRAWS = 100
"""Bulk effective draws per chain: Vehtari et al. 2021 (400 for the four chains that they recommend) and Stan."""
REFUTED_BY_CHANCE = 0.01
"""Shared equally by the three tests of every trace: about how often stationary chains are refuted."""
FEWEST_STEPS = 100
"""Kept steps per chain below which nothing is judged."""
_FEWEST_IN_HALF = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceDiagnosis:
    """What one recorded quantity says about its chains. None where too few effective draws allow no judgement."""

    chains: int
    steps: int
    """Kept of each chain."""
    still_chains: int
    """How many never move in a half of theirs."""
    mean: float
    """Over all chains and kept steps."""
    standard_error: float | None
    """Monte Carlo standard error of the mean; assumes stationarity."""
    effective_draws: float | None
    """Bulk, of all chains together; assumes stationarity."""
    r_hat: float | None
    """Rank-normalised, split, the larger of plain and folded."""
    r_hat_p_value: float | None
    """Of halves with means this unequal."""
    ks_p_value: float | None
    """Of two halves this unlike: the smallest of the chains, times their number."""
    geweke_z: float | None
    """Beginning less end in standard errors, the largest in size of the chains and their sum."""
    geweke_p_value: float | None
    """Two-sided, times the number of z from which it was chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Every trace's numbers, and what is wrong in plain sentences.

    Formal guarantee: none. No warning means that nothing was found, not that the chains are stationary: a chain that
    never left one valley looks stationary too. Certificates that assume stationarity stay optimistic either way.
    """

    traces: Mapping[str, TraceDiagnosis]
    warnings: tuple[str, ...]

    @property
    def refuted(self) -> bool:
        """Whether some test, at its share of ``REFUTED_BY_CHANCE``, says that the chains are not stationary."""
        return any(_refutations(trace, _level(self.traces)) for trace in self.traces.values())

    def to_dict(self) -> dict[str, Any]:
        """JSON values; what is not a finite number is None."""
        traces = {name: {key: _json(value) for key, value in asdict(trace).items()}
                  for name, trace in self.traces.items()}  # fmt: skip
        return {"refuted": self.refuted, "warnings": list(self.warnings), "traces": traces}


def after_burn_in(trace: ArrayLike, burn_in: float) -> Float[np.ndarray, "chains kept"]:
    """[chains, steps] without the first ``burn_in`` share of the steps, but never fewer than ``FEWEST_STEPS`` of them.

    Raises:
        ValueError: ``burn_in`` is outside [0, 1), or ``trace`` is not [chains, steps] with at least one of each.
    """
    if not 0.0 <= burn_in < 1.0:
        raise ValueError(f"expected burn_in in [0, 1), the share of steps to drop, got {burn_in}")
    values = np.asarray(trace, dtype=np.float64)
    if values.ndim != 2 or values.size == 0:
        raise ValueError(f"expected trace as [chains, steps], got shape {values.shape}: a single chain is trace[None]")
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
    for name, trace in traces.items():
        kept = after_burn_in(trace, burn_in)
        if not np.isfinite(kept).all():
            chain, step = np.argwhere(~np.isfinite(kept))[0]
            raise ValueError(f"trace {name!r} is not finite in chain {chain}, kept step {step}: the chain has diverged")
        found[name] = _diagnose(kept)
    level = _level(found)
    warnings = [text for name, trace in found.items() for text in _warnings(name, trace, level)]
    return Diagnosis(traces=found, warnings=tuple(warnings))


def _diagnose(kept: Float[np.ndarray, "chains steps"]) -> TraceDiagnosis:
    chains, steps = kept.shape
    half = steps // 2
    peak = float(np.abs(kept).max()) or 1.0
    unit = kept / peak  # neither overflows nor passes for constant, however large or small the trace
    low, width = float(unit.min()), float(np.ptp(unit))
    halves_move = [(np.ptp(part, axis=1) > 0.0) if half else np.zeros(chains, bool) for part in _halves(unit)]
    still = int((~(halves_move[0] & halves_move[1])).sum())
    mean = float(unit.mean()) * peak
    if steps < FEWEST_STEPS or width == 0.0:
        return TraceDiagnosis(
            chains=chains, steps=steps, still_chains=still, mean=mean, standard_error=None, effective_draws=None,
            r_hat=None, r_hat_p_value=None, ks_p_value=None, geweke_z=None, geweke_p_value=None,
        )  # fmt: skip
    unit = (unit - low) / width
    first, second = _halves(unit)
    r_hat, r_hat_p_value = _r_hat(np.vstack(_halves(kept / 2.0)))  # unscaled: rounding would break ties when folded
    z, z_p_value = _geweke(_scores(unit))
    return TraceDiagnosis(
        chains=chains, steps=steps, still_chains=still, mean=mean,
        standard_error=_number(array_stats.mcse(unit, method="mean")) * width * peak,
        effective_draws=_number(array_stats.ess(unit, method="bulk")), r_hat=r_hat, r_hat_p_value=r_hat_p_value,
        ks_p_value=_kolmogorov_smirnov(first, second), geweke_z=z, geweke_p_value=z_p_value,
    )  # fmt: skip


def _halves(rows: Float[np.ndarray, "chains steps"]) -> tuple[Any, Any]:
    half = rows.shape[1] // 2
    return rows[:, :half], rows[:, rows.shape[1] - half :]


def _number(value: Any) -> float:
    return float(value)


def _times(rows: Float[np.ndarray, "rows steps"]) -> Float[np.ndarray, " rows"]:
    """Autocorrelation time of each row about its line, on the long side; a row that never moves gets too long a one."""
    steps = rows.shape[1]
    moves = np.ptp(rows, axis=1) > 0.0
    residuals = signal.detrend(rows, axis=1)
    draws = np.array(
        [bounds.effective_sample_size(row) if ok else 1.0 for row, ok in zip(residuals, moves, strict=True)]
    )
    return (steps / draws) * (1.0 + 4.0 / draws)


def _scores(values: Float[np.ndarray, "rows steps"]) -> Float[np.ndarray, "rows steps"]:
    return special.ndtri((stats.rankdata(values).reshape(values.shape) - 0.375) / (values.size + 0.25))


def _r_hat(halves: Float[np.ndarray, "rows steps"]) -> tuple[float | None, float | None]:
    rows, steps = halves.shape
    found: list[float] = []
    p_values: list[float | None] = []
    for values in (halves, np.abs(halves - np.median(halves))):
        if np.ptp(values) == 0.0:  # a trace of two values, folded
            continue
        scores = _scores(values)
        moves = bool((np.ptp(values, axis=1) > 0.0).any())
        r_hat = _number(array_stats.rhat(scores, method="identity")) if moves else math.inf
        draws = steps / float(_times(scores).mean())
        between = draws * (r_hat**2 - (steps - 1) / steps)
        found.append(r_hat)
        p_values.append(float(stats.f.sf(between, rows - 1, rows * (draws - 1.0))) if draws > _FEWEST_IN_HALF else None)
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
            test: Any = stats.ks_2samp(one[::apart], other[::apart], method="asymp")
            p_values.append(float(test.pvalue))
    return _smallest(p_values)


def _geweke(scores: Float[np.ndarray, "chains steps"]) -> tuple[float | None, float | None]:
    start, end = scores[:, : scores.shape[1] // 10], _halves(scores)[1]
    times = _times(end)
    times = np.maximum(times, np.median(times))
    draws = end.shape[1] / times
    judged = draws > _FEWEST_IN_HALF
    if not judged.any():
        return None, None
    moved = (start.mean(axis=1) - end.mean(axis=1))[judged]
    spread = (signal.detrend(end, axis=1).var(axis=1) * times)[judged] * (1 / start.shape[1] + 1 / end.shape[1])
    freedom = draws[judged] - 1.0
    if judged.sum() > 1:
        moved, spread, freedom = (np.append(each, each.sum()) for each in (moved, spread, freedom))
    z = moved / np.sqrt(spread)
    p_values = 2.0 * stats.t.sf(np.abs(z), freedom)
    return float(z[np.argmax(np.abs(z))]), _smallest(list(p_values))


def _smallest(p_values: list[float | None]) -> float | None:
    """Bonferroni's correction for the choice of the smallest."""
    known = [p for p in p_values if p is not None]
    return min(1.0, float(min(known)) * len(known)) if known else None


def _level(traces: Mapping[str, TraceDiagnosis]) -> float:
    return REFUTED_BY_CHANCE / (3 * len(traces))


def _refutations(trace: TraceDiagnosis, level: float) -> list[str]:
    said: list[str] = []
    if trace.r_hat_p_value is not None and trace.r_hat_p_value < level and (trace.r_hat or 0.0) > R_HAT_LIMIT:
        said.append(f"halves of chains differ by more than chance explains (p = {trace.r_hat_p_value:.1e})")
    if trace.ks_p_value is not None and trace.ks_p_value < level:
        said.append(f"the two halves of a chain have different laws (Kolmogorov-Smirnov p = {trace.ks_p_value:.1e})")
    if trace.geweke_p_value is not None and trace.geweke_p_value < level:
        said.append(f"the level drifts from the beginning to the end (Geweke z = {trace.geweke_z:.3g})")
    return said


def _warnings(name: str, trace: TraceDiagnosis, level: float) -> list[str]:
    if trace.steps < FEWEST_STEPS:
        return [f"{name}: too short to judge: {trace.steps} steps of each chain, at least {FEWEST_STEPS} are needed."]
    if trace.effective_draws is None or trace.r_hat is None:
        return [f"{name}: constant after burn-in, which says nothing."]
    said = [f"not stationary: {text}" for text in _refutations(trace, level)]
    if trace.r_hat > R_HAT_LIMIT:
        said.append(f"R-hat = {trace.r_hat:.4g}, above {R_HAT_LIMIT}: halves of chains do not agree yet")
    if trace.still_chains:
        said.append(f"{trace.still_chains} of {trace.chains} chains never move during half of the kept steps")
    draws = trace.effective_draws / trace.chains
    if draws < FEWEST_DRAWS:
        said.append(f"{draws:.0f} effective draws per chain, fewer than {FEWEST_DRAWS}: its averages are not reliable")
    silent = {"R-hat": trace.r_hat_p_value, "Kolmogorov-Smirnov": trace.ks_p_value, "Geweke": trace.geweke_p_value}
    names = ", ".join(test for test, p in silent.items() if p is None)
    if names:
        said.append(f"too short to judge ({names}): half a chain is worth fewer than 30 independent draws")
    return [f"{name}: {text}." for text in said]


def _json(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
