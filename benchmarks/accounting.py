"""Privacy accounting side by side: many equal steps, and as many noise multipliers as steps.

Peers: dp-accounting (connect-the-dots, value grid 1e-4) and the PRV accountant in Opacus (error 0.01), where installed.
A thousand different multipliers take both of them minutes, so each runs that case once, at the sizes in ``SLOW``.
"""

import time
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

from benchmarks.timing import publish, side_by_side
from bounds.accounting import PrivacyBound, privacy_epsilon, renyi_epsilon, sampled_gaussians

DELTA = 1e-5
RATE = 0.01
EQUAL = [1.0] * 10_000
DIFFERENT = list(np.linspace(0.8, 3.0, 1000))
SLOW = {"dp-accounting": (50, 200, 1000), "Opacus PRV": (50, 200)}


def ours(multipliers: list[float], resolution: float | None = None) -> PrivacyBound:
    event = sampled_gaussians(sample_rate=RATE, noise_multipliers=multipliers)
    return privacy_epsilon(event=event, delta=DELTA, adjacency="add-remove", resolution=resolution)


def ours_by_renyi(multipliers: list[float]) -> float:
    event = sampled_gaussians(sample_rate=RATE, noise_multipliers=multipliers)
    return renyi_epsilon(event=event, delta=DELTA, adjacency="add-remove").upper


def by_dp_accounting(multipliers: list[float]) -> float:
    import dp_accounting  # type: ignore[import-not-found]
    from dp_accounting import pld  # type: ignore[import-not-found]

    accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    values, counts = np.unique(multipliers, return_counts=True)
    for value, count in zip(values, counts, strict=True):
        event = dp_accounting.PoissonSampledDpEvent(RATE, dp_accounting.GaussianDpEvent(float(value)))
        accountant.compose(event, int(count))
    return accountant.get_epsilon(DELTA)


def by_opacus(multipliers: list[float]) -> float:
    from opacus.accountants import PRVAccountant

    accountant = PRVAccountant()
    values, counts = np.unique(multipliers, return_counts=True)
    accountant.history = [(float(value), RATE, int(count)) for value, count in zip(values, counts, strict=True)]
    return float(accountant.get_epsilon(DELTA))


def once(run: Callable[[list[float]], float], sizes: tuple[int, ...]) -> dict[str, dict[str, float]]:
    """Seconds and epsilon, once, at each size."""
    found: dict[str, dict[str, float]] = {}
    for size in sizes:
        start = time.perf_counter()
        epsilon = run(list(np.linspace(DIFFERENT[0], DIFFERENT[-1], size)))
        found[str(size)] = {"seconds": time.perf_counter() - start, "epsilon": epsilon}
    return found


def main() -> None:
    peers: dict[str, Callable[[list[float]], float]] = {}
    if find_spec("dp_accounting"):
        peers["dp-accounting"] = by_dp_accounting
    if find_spec("opacus"):
        peers["Opacus PRV"] = by_opacus
    equal = side_by_side(
        {
            "bounds.accounting": lambda: ours(EQUAL),
            "bounds.accounting, Rényi": lambda: ours_by_renyi(EQUAL),
            **{name: lambda run=run: run(EQUAL) for name, run in peers.items()},
        },
        rounds=3,
    )
    different = side_by_side(
        {
            "bounds.accounting": lambda: ours(DIFFERENT),
            "bounds.accounting, resolution 0.01": lambda: ours(DIFFERENT, 0.01),
            "bounds.accounting, Rényi": lambda: ours_by_renyi(DIFFERENT),
        },
        rounds=3,
    )
    made = {"10000 equal": ours(EQUAL), "1000 different": ours(DIFFERENT)}
    publish(
        "accounting",
        {
            "seconds, 10000 equal steps": equal,
            "seconds, 1000 different steps": different,
            "epsilon, ours (lower, upper)": {name: (bound.lower, bound.upper) for name, bound in made.items()},
            "epsilon, peers, 10000 equal steps": {name: run(EQUAL) for name, run in peers.items()},
            "peers, different steps, once": {name: once(run, SLOW[name]) for name, run in peers.items()},
        },
    )


if __name__ == "__main__":
    main()
