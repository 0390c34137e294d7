"""Privacy accounting side by side: many equal steps, and as many noise multipliers as steps, on one core.

The setting is 15 epochs of DP-SGD on 60,000 examples with batches of 256, at multipliers that drift around 1.1, all
different. Peers: dp-accounting (connect-the-dots, value grid 1e-4) and the PRV accountant in Opacus (error 0.01,
add-remove only), where installed. Different multipliers take both of them minutes, so each runs that once, at the sizes
in ``SLOW``; ``--long`` adds all 3,516 for dp-accounting.
"""

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec

import numba
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.timing import publish, side_by_side
from bounds.accounting import PrivacyBound, privacy_epsilon, renyi_epsilon, sampled_gaussians
from bounds.privacy import Adjacency

DELTA = 1e-5
RATE = 256 / 60000
STEPS = 3516
ADJACENCIES: tuple[Adjacency, ...] = ("add-remove", "replace-one")
SLOW = {"dp-accounting": (20, 200), "Opacus PRV": (20, 200)}
Peer = Callable[[list[float], Adjacency], float]


def equal() -> list[float]:
    """One multiplier for all steps."""
    return [1.1] * STEPS


def different(count: int) -> list[float]:
    """A wave and a slow rise, no value twice."""
    values = 1.1 + 0.05 * np.sin(np.linspace(0.0, 6.0, count)) + np.linspace(0.0, 0.01, count)
    assert len(set(values)) == count
    return [float(value) for value in values]


def ours(multipliers: list[float], adjacency: Adjacency) -> PrivacyBound:
    event = sampled_gaussians(sample_rate=RATE, noise_multipliers=multipliers)
    return privacy_epsilon(event=event, delta=DELTA, adjacency=adjacency)


def ours_by_renyi(multipliers: list[float], adjacency: Adjacency) -> float:
    event = sampled_gaussians(sample_rate=RATE, noise_multipliers=multipliers)
    return renyi_epsilon(event=event, delta=DELTA, adjacency=adjacency).upper


def by_dp_accounting(multipliers: list[float], adjacency: Adjacency) -> float:
    import dp_accounting  # type: ignore[import-not-found]
    from dp_accounting import pld  # type: ignore[import-not-found]

    relation = dp_accounting.NeighboringRelation
    replace = adjacency == "replace-one"
    accountant = pld.PLDAccountant(relation.REPLACE_ONE if replace else relation.ADD_OR_REMOVE_ONE)
    values, counts = np.unique(multipliers, return_counts=True)
    for value, count in zip(values, counts, strict=True):
        event = dp_accounting.PoissonSampledDpEvent(RATE, dp_accounting.GaussianDpEvent(float(value)))
        accountant.compose(event, int(count))
    return accountant.get_epsilon(DELTA)


def by_opacus(multipliers: list[float], adjacency: Adjacency) -> float:
    from opacus.accountants import PRVAccountant

    del adjacency
    accountant = PRVAccountant()
    values, counts = np.unique(multipliers, return_counts=True)
    accountant.history = [(float(value), RATE, int(count)) for value, count in zip(values, counts, strict=True)]
    return float(accountant.get_epsilon(DELTA))


def peers(adjacency: Adjacency) -> dict[str, Peer]:
    """Those that are installed and know the relation."""
    found: dict[str, Peer] = {}
    if find_spec("dp_accounting"):
        found["dp-accounting"] = by_dp_accounting
    if find_spec("opacus") and adjacency == "add-remove":
        found["Opacus PRV"] = by_opacus
    return found


def once(run: Peer, sizes: tuple[int, ...], adjacency: Adjacency) -> dict[str, dict[str, float]]:
    """Seconds and epsilon, once, at each number of different multipliers."""
    found: dict[str, dict[str, float]] = {}
    for size in sizes:
        start = time.perf_counter()
        epsilon = run(different(size), adjacency)
        found[str(size)] = {"seconds": time.perf_counter() - start, "epsilon": epsilon}
    return found


def compare(adjacency: Adjacency, *, long: bool) -> dict[str, object]:
    """All cases for one relation."""
    known = peers(adjacency)
    cases = {f"{STEPS} equal": equal(), **{f"{size} different": different(size) for size in (200, STEPS)}}
    seconds = side_by_side({name: lambda case=case: ours(case, adjacency) for name, case in cases.items()}, rounds=3)
    made = {name: ours(case, adjacency) for name, case in cases.items()}
    rival = side_by_side({name: lambda run=run: run(equal(), adjacency) for name, run in known.items()}, rounds=3)
    sizes = {name: (*SLOW[name], STEPS) if long and name == "dp-accounting" else SLOW[name] for name in known}
    return {
        "seconds, ours": seconds,
        "seconds, ours by Rényi, 200 different": side_by_side(
            {"bounds.accounting": lambda: ours_by_renyi(different(200), adjacency)}, rounds=1
        ),
        "epsilon, ours (lower, upper)": {name: (bound.lower, bound.upper) for name, bound in made.items()},
        "seconds, peers, equal": rival,
        "epsilon, peers, equal": {name: run(equal(), adjacency) for name, run in known.items()},
        "peers, different, once": {name: once(run, sizes[name], adjacency) for name, run in known.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="all different multipliers by dp-accounting too")
    long = parser.parse_args().long
    numba.set_num_threads(1)
    with threadpool_limits(1):
        results = {adjacency: compare(adjacency, long=long) for adjacency in ADJACENCIES}
    publish("accounting", {"sample rate": RATE, "delta": DELTA, **results})


if __name__ == "__main__":
    main()
