"""What steps of the sampled Gaussian mechanism cost: proved bounds of epsilon, and the central limit's epsilon."""

from dataclasses import dataclass
from pathlib import Path

from bounds.accounting import Event, SelfComposed, clt_gdp, gaussian_epsilon, privacy_epsilon
from pacdp.cli.runtime import Runtime
from pacdp.cli.sweep.jobs import single
from pacdp.step.event import sampled_step


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """Steps on Poisson samples, all with one noise multiplier."""

    sample_rate: float
    noise_multiplier: float
    steps: int
    delta: float
    seed: int = 0
    """Nothing is drawn."""


def accounted(event: Event, *, delta: float) -> dict[str, float]:
    """A proved bracket of epsilon for add-remove neighbours, and the central limit's epsilon, which is no bound;
    ``lacks`` is the share of the lower end that it falls short of."""
    found = privacy_epsilon(event=event, delta=delta, adjacency="add-remove")
    limit = gaussian_epsilon(mu=clt_gdp(event=event).mu, delta=delta)
    lacks = 1.0 - limit / found.lower
    return {"lower": found.lower, "upper": found.upper, "central_limit": limit, "lacks": lacks}


def _account(config: Accounting, runtime: Runtime, folder: Path) -> dict[str, float]:
    step = sampled_step([config.noise_multiplier], sample_rate=config.sample_rate)
    return accounted(SelfComposed(event=step, count=config.steps), delta=config.delta)


ACCOUNT = single(_account)
