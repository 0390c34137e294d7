"""Privacy accounting side by side: equal steps, as many noise multipliers as steps, and two decades of them. One core.

The setting is 15 epochs of DP-SGD on 60,000 examples with batches of 256, at multipliers that drift around 1.1, all
different. Peers: dp-accounting (connect-the-dots, value grid 1e-4) and the PRV accountant in Opacus (error 0.01,
add-remove only), where installed. Different multipliers take both of them minutes, so each runs that once, at the sizes
in ``SLOW``; ``--long`` adds all 3,516 for dp-accounting, and ``--short`` leaves those minutes out.
"""

import argparse
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.timing import Times, in_turn, publish
from bounds.accounting import PrivacyBound, privacy_epsilon, renyi_epsilon, sampled_gaussians
from bounds.privacy import Adjacency

DELTA = 1e-5
RATE = 256 / 60000
STEPS = 3516
MANY = 100_000
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


def wide(count: int) -> list[float]:
    """From 0.5 to 50, evenly in logarithms."""
    return [float(value) for value in np.geomspace(0.5, 50.0, count)]


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
        event = dp_accounting.PoissonSampledDpEvent(
            RATE, dp_accounting.GaussianDpEvent(float(value))
        )
        accountant.compose(event, int(count))
    return accountant.get_epsilon(DELTA)


def by_opacus(multipliers: list[float], adjacency: Adjacency) -> float:
    from opacus.accountants import PRVAccountant

    del adjacency
    accountant = PRVAccountant()
    values, counts = np.unique(multipliers, return_counts=True)
    accountant.history = [
        (float(value), RATE, int(count)) for value, count in zip(values, counts, strict=True)
    ]
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


def compare(adjacency: Adjacency, *, slow: Mapping[str, tuple[int, ...]]) -> dict[str, object]:
    """All cases for one relation."""
    known = peers(adjacency)
    cases = {
        f"{STEPS} equal": equal(),
        **{f"{size} different": different(size) for size in (200, STEPS)},
    }
    cases[f"{STEPS} over two decades"] = wide(STEPS)
    times = in_turn(
        {name: lambda case=case: ours(case, adjacency) for name, case in cases.items()}, rounds=3
    )
    cases[f"{MANY} over two decades"] = wide(MANY)
    times |= _once(
        {
            name: lambda case=case: ours(case, adjacency)
            for name, case in cases.items()
            if name not in times
        }
    )
    made = {name: ours(case, adjacency) for name, case in cases.items()}
    rival = in_turn(
        {name: lambda run=run: run(equal(), adjacency) for name, run in known.items()}, rounds=3
    )
    return {
        "seconds, ours": _tables(times),
        "seconds, ours by Rényi, 200 different": _tables(
            _once({"bounds.accounting": lambda: ours_by_renyi(different(200), adjacency)})
        ),
        "epsilon, ours (lower, upper)": {
            name: (bound.lower, bound.upper) for name, bound in made.items()
        },
        "seconds, peers, equal": _tables(rival),
        "epsilon, peers, equal": {name: run(equal(), adjacency) for name, run in known.items()},
        "peers, different, once": {
            name: once(run, slow[name], adjacency) for name, run in known.items()
        },
    }


def _once(candidates: Mapping[str, Callable[[], object]]) -> dict[str, Times]:
    """A single round, without one before it."""
    found: dict[str, Times] = {}
    for name, run in candidates.items():
        wall, processor = time.perf_counter(), time.process_time()
        run()
        found[name] = Times((time.perf_counter() - wall,), (time.process_time() - processor,))
    return found


def _tables(times: Mapping[str, Times]) -> dict[str, dict[str, float]]:
    return {name: own.table(1.0) for name, own in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--long", action="store_true", help="all different multipliers by dp-accounting too"
    )
    parser.add_argument("--short", action="store_true", help="no different multipliers by others")
    arguments = parser.parse_args()
    slow = {name: () for name in SLOW} if arguments.short else dict(SLOW)
    if arguments.long:
        slow["dp-accounting"] = (*SLOW["dp-accounting"], STEPS)
    with threadpool_limits(1):
        results = {adjacency: compare(adjacency, slow=slow) for adjacency in ADJACENCIES}
    publish("accounting", {"sample rate": RATE, "delta": DELTA, **results})


if __name__ == "__main__":
    main()
