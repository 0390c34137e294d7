"""Privacy accounting side by side: equal steps, as many noise multipliers as steps, and two decades of them. One core.

The setting is 15 epochs of DP-SGD on 60,000 examples with batches of 256, at multipliers that drift around 1.1, all
different. Peers: dp-accounting (connect-the-dots, value grid 1e-4) and the PRV accountant in Opacus (error 0.01,
add-remove only), where installed. Different multipliers take both of them minutes, so that they meet equal ones alone.
"""

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.timing import in_turn, publish, tables
from bounds.accounting import PrivacyBound, privacy_epsilon, sampled_gaussians
from bounds.privacy import Adjacency

DELTA = 1e-5
RATE = 256 / 60000
STEPS = 3516
MANY = 100_000
NOISE = 1.1
ADJACENCIES: tuple[Adjacency, ...] = ("add-remove", "replace-one")


def different(count: int) -> list[float]:
    """A wave and a slow rise, no value twice."""
    waves = 0.05 * np.sin(np.linspace(0.0, 6.0, count))
    return [float(value) for value in NOISE + waves + np.linspace(0.0, 0.01, count)]


def wide(count: int) -> list[float]:
    """From 0.5 to 50, evenly in logarithms."""
    return [float(value) for value in np.geomspace(0.5, 50.0, count)]


def ours(multipliers: list[float], adjacency: Adjacency) -> PrivacyBound:
    event = sampled_gaussians(sample_rate=RATE, noise_multipliers=multipliers)
    return privacy_epsilon(event=event, delta=DELTA, adjacency=adjacency)


def by_dp_accounting(adjacency: Adjacency) -> float:
    import dp_accounting  # type: ignore[import-not-found]
    from dp_accounting import pld  # type: ignore[import-not-found]

    relation = dp_accounting.NeighboringRelation
    replace = adjacency == "replace-one"
    accountant = pld.PLDAccountant(relation.REPLACE_ONE if replace else relation.ADD_OR_REMOVE_ONE)
    event = dp_accounting.PoissonSampledDpEvent(RATE, dp_accounting.GaussianDpEvent(NOISE))
    return accountant.compose(event, STEPS).get_epsilon(DELTA)


def by_opacus() -> float:
    from opacus.accountants import PRVAccountant

    accountant = PRVAccountant()
    accountant.history = [(NOISE, RATE, STEPS)]
    return float(accountant.get_epsilon(DELTA))


def peers(adjacency: Adjacency) -> dict[str, Callable[[], float]]:
    """Those that are installed and know the relation."""
    found: dict[str, Callable[[], float]] = {}
    if find_spec("dp_accounting"):
        found["dp-accounting"] = lambda: by_dp_accounting(adjacency)
    if find_spec("opacus") and adjacency == "add-remove":
        found["Opacus PRV"] = by_opacus
    return found


def compare(adjacency: Adjacency) -> dict[str, object]:
    """All cases for one relation, the longest once."""
    cases = {
        f"{STEPS} equal": [NOISE] * STEPS,
        "200 different": different(200),
        f"{STEPS} different": different(STEPS),
        f"{STEPS} over two decades": wide(STEPS),
        f"{MANY} over two decades": wide(MANY),
    }
    runs = {name: lambda case=case: ours(case, adjacency) for name, case in cases.items()}
    last, longest = runs.popitem()
    made = {name: ours(case, adjacency) for name, case in cases.items()}
    rivals = peers(adjacency)
    return {
        "seconds, ours": tables(
            in_turn(runs, rounds=3) | in_turn({last: longest}, rounds=1, warm=False)
        ),
        "epsilon, ours (lower, upper)": {
            name: (own.lower, own.upper) for name, own in made.items()
        },
        "seconds, peers, equal": tables(in_turn(rivals, rounds=3)),
        "epsilon, peers, equal": {name: run() for name, run in rivals.items()},
    }


def main() -> None:
    with threadpool_limits(1):
        results = {adjacency: compare(adjacency) for adjacency in ADJACENCIES}
    publish("accounting", {"sample rate": RATE, "delta": DELTA, **results})


if __name__ == "__main__":
    main()
