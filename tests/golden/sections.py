"""The sections of golden.json. When an interface moves, its section's calls change; the frozen numbers do not."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.golden import of_bounds, of_estimates, of_privacy, of_routes, of_runs, of_tools, of_training
from tests.golden.records import Frozen

SINGLE = 1e-6
"""Relative tolerance where the numbers come out of float32 training or sampling, or of a search by a curve."""
FOURIER = 1e-8
"""Where tails are the small differences of a fast Fourier transform, whose last bits vary from processor to
processor."""


@dataclass(frozen=True, slots=True)
class Section:
    """Results by key, and how closely they must be met."""

    results: Callable[[], Frozen]
    rel: float = 1e-12


SECTIONS = {
    "kl": Section(of_bounds.kl),
    "pac_bayes": Section(of_bounds.pac_bayes),
    "other_pac_bayes": Section(of_bounds.other_pac_bayes),
    "pure_privacy": Section(of_privacy.pure),
    "transfer": Section(of_privacy.transfer),
    "accountant": Section(of_privacy.accountant, FOURIER),
    "envelopes": Section(of_privacy.envelopes, SINGLE),
    "monte_carlo": Section(of_estimates.monte_carlo),
    "partition": Section(of_estimates.partition),
    "calibration": Section(of_estimates.calibration),
    "combined": Section(of_estimates.combined),
    "calculators": Section(of_tools.calculators, FOURIER),
    "histories": Section(of_tools.histories, FOURIER),
    "audits": Section(of_tools.audits),
    "measures": Section(of_tools.measures),
    "gaussian": Section(of_routes.gaussian, SINGLE),
    "chains": Section(of_routes.chains, SINGLE),
    "finite": Section(of_routes.finite),
    "weights_float64": Section(of_training.on_a_quadratic),
    "weights_float32": Section(of_training.on_networks, SINGLE),
    "commands": Section(of_runs.commands, SINGLE),
    "private": Section(of_runs.private, SINGLE),
    "foreign": Section(of_runs.foreign, SINGLE),
    "studies": Section(of_runs.studies, SINGLE),
}
