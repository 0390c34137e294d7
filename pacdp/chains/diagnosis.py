"""What was found out about Langevin chains: numbers of every trace, and what is wrong in plain sentences."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from bounds.record import record

R_HAT_LIMIT = 1.01
"""Vehtari et al. 2021."""
FEWEST_DRAWS = 100
"""Bulk effective draws per chain: Vehtari et al. 2021 (400 for the four chains that they recommend) and Stan."""
REFUTED_BY_CHANCE = 0.01
"""Shared equally by the three tests of every trace: about how often stationary chains are refuted."""
FEWEST_STEPS = 100
"""Kept steps per chain below which nothing is judged."""


@record
class TraceDiagnosis:
    """What one recorded quantity says about its chains. None where too few effective draws allow no judgement."""

    chains: int
    steps: int
    """Kept of each chain."""
    still_chains: int
    """How many never move in a half of theirs."""
    mean: float
    """Over all chains and kept steps."""
    standard_error: float | None = None
    """Monte Carlo standard error of the mean; assumes stationarity."""
    effective_draws: float | None = None
    """Bulk, of all chains together; assumes stationarity."""
    r_hat: float | None = None
    """Rank-normalised, split, the larger of plain and folded."""
    r_hat_p_value: float | None = None
    """Of halves with means this unequal."""
    ks_p_value: float | None = None
    """Of two halves this unlike: the smallest of the chains, times their number."""
    geweke_z: float | None = None
    """Beginning less end in standard errors, the largest in size of the chains and their sum."""
    geweke_p_value: float | None = None
    """Two-sided, times the number of z from which it was chosen."""


@record
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
        return any(_refutations(trace, level_of(self.traces)) for trace in self.traces.values())

    def to_dict(self) -> dict[str, Any]:
        """JSON values; what is not a finite number is None."""
        traces = {name: {key: _json(value) for key, value in asdict(trace).items()}
                  for name, trace in self.traces.items()}  # fmt: skip
        return {"refuted": self.refuted, "warnings": list(self.warnings), "traces": traces}


def level_of(traces: Mapping[str, TraceDiagnosis]) -> float:
    """Each test's share of ``REFUTED_BY_CHANCE``."""
    return REFUTED_BY_CHANCE / (len(_TESTS) * len(traces))


_TESTS = {
    "r_hat_p_value": (
        "R-hat",
        "halves of chains differ by more than chance explains (p = {r_hat_p_value:.1e})",
    ),
    "ks_p_value": (
        "Kolmogorov-Smirnov",
        "the two halves of a chain have different laws (Kolmogorov-Smirnov p = {ks_p_value:.1e})",
    ),
    "geweke_p_value": (
        "Geweke",
        "the level drifts from the beginning to the end (Geweke z = {geweke_z:.3g})",
    ),
}
"""Tests of stationarity: p-value, name, and what a small one says."""


def _refutations(trace: TraceDiagnosis, level: float) -> list[str]:
    seen = asdict(trace)
    small = [name for name in _TESTS if seen[name] is not None and seen[name] < level]
    if (trace.r_hat or 0.0) <= R_HAT_LIMIT and "r_hat_p_value" in small:
        small.remove("r_hat_p_value")
    return [_TESTS[name][1].format(**seen) for name in small]


def warnings_of(name: str, trace: TraceDiagnosis, level: float) -> list[str]:
    """What is wrong with a trace, in sentences."""
    if trace.steps < FEWEST_STEPS:
        return [
            f"{name}: too short to judge: {trace.steps} steps of each chain, at least {FEWEST_STEPS} are needed."
        ]
    if trace.effective_draws is None or trace.r_hat is None:
        return [f"{name}: constant after burn-in, which says nothing."]
    said = [f"not stationary: {text}" for text in _refutations(trace, level)]
    if trace.r_hat > R_HAT_LIMIT:
        said.append(
            f"R-hat = {trace.r_hat:.4g}, above {R_HAT_LIMIT}: halves of chains do not agree yet"
        )
    if trace.still_chains:
        said.append(
            f"{trace.still_chains} of {trace.chains} chains never move during half of the kept steps"
        )
    draws = trace.effective_draws / trace.chains
    if draws < FEWEST_DRAWS:
        said.append(
            f"{draws:.0f} effective draws per chain, fewer than {FEWEST_DRAWS}: its averages are not reliable"
        )
    silent = [test for p_value, (test, _) in _TESTS.items() if getattr(trace, p_value) is None]
    if silent:
        said.append(
            f"too short to judge ({', '.join(silent)}): half a chain is worth fewer than 30 independent draws, or "
            "hardly moves"
        )
    return [f"{name}: {text}." for text in said]


def _json(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
