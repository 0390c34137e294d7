"""The upper inverse of kl on 10⁶ random points, against what it replaces and against the price of one logarithm."""

import math
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit, vectorize
from scipy.optimize import brentq

from benchmarks.timing import in_turn, publish
from bounds import binary_kl, binary_kl_lower, binary_kl_upper

POINTS = 10**6
PIECE = 20_000  # below the size from which threads are used
BRENTQ_POINTS = 1_000


@njit
def bisection(q: np.ndarray, nats: np.ndarray, tolerance: float) -> np.ndarray:
    """The midpoint that published helpers return, at relative tolerance 1e-5; to the last bit at 0."""
    found = np.empty_like(q)
    for i in range(len(q)):
        low, high = q[i], 1.0
        while (high - low) > tolerance * high:
            middle = 0.5 * (low + high)
            if middle <= low or middle >= high:
                break
            value = q[i] * math.log(q[i] / middle) + (1 - q[i]) * math.log(
                (1 - q[i]) / (1 - middle)
            )
            if value > nats[i]:
                high = middle
            else:
                low = middle
        found[i] = 0.5 * (low + high) if tolerance else high
    return found


@vectorize(["float64(float64)"])
def logarithm(x: float) -> float:
    return math.log(x)


def by_brentq(q: np.ndarray, nats: np.ndarray) -> list[float]:
    def gap(p: float, q: float, nats: float) -> float:
        return q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p)) - nats

    return [brentq(gap, a, 1 - 1e-12, args=(a, c)) for a, c in zip(q, nats, strict=True)]  # type: ignore[misc]


def in_pieces(q: np.ndarray, nats: np.ndarray) -> None:
    """All points on one thread."""
    for start in range(0, len(q), PIECE):
        binary_kl_upper(q[start : start + PIECE], nats[start : start + PIECE])


def in_two_threads(q: np.ndarray, nats: np.ndarray) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(in_pieces, np.array_split(q, 2), np.array_split(nats, 2)))


def second_core() -> float:
    """How much processor time two busy threads get for each second: 2 when nothing else runs."""
    x = np.random.default_rng(0).random(2 * POINTS)
    start, used = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(2) as pool:
        for _ in range(4):
            list(pool.map(lambda part: [logarithm(part) for _ in range(20)], np.array_split(x, 2)))
    return (time.process_time() - used) / (time.perf_counter() - start)


def main() -> None:
    rng = np.random.default_rng(0)
    q, nats = rng.uniform(0.001, 0.2, POINTS), 10 ** rng.uniform(-4, math.log10(0.3), POINTS)
    few = slice(BRENTQ_POINTS)
    times = in_turn({
        "bounds.binary_kl_upper, one thread": lambda: in_pieces(q, nats),
        "bounds.binary_kl_upper, two threads": lambda: in_two_threads(q, nats),
        "bounds.binary_kl_upper, as called": lambda: binary_kl_upper(q, nats),
        "one logarithm": lambda: logarithm(q),
        "bisection to 1e-5": lambda: bisection(q, nats, 1e-5),
        "bisection to the last bit": lambda: bisection(q, nats, 0.0),
        "bounds.binary_kl_lower": lambda: [binary_kl_lower(q[:PIECE], nats[:PIECE]) for _ in range(5)],
        "scipy brentq in a Python loop": lambda: by_brentq(q[few], nats[few]),
    }, rounds=5)  # fmt: skip
    points = {"scipy brentq in a Python loop": BRENTQ_POINTS, "bounds.binary_kl_lower": 5 * PIECE}
    per_point = {name: own.table(1e9 / points.get(name, POINTS)) for name, own in times.items()}
    least = {name: table["least"] for name, table in per_point.items()}
    ours = least["bounds.binary_kl_upper, one thread"]
    publish(
        "kl_inverse",
        {
            "nanoseconds per inverse": per_point,
            "times slower than ours on one thread": {
                name: value / ours for name, value in least.items()
            },
            "processor seconds per second of two busy threads": second_core(),
            # on the unsafe side: kl at the returned point is below the budget
            "share below the true inverse": {
                "bounds.binary_kl_upper": float(
                    np.mean(binary_kl(q, binary_kl_upper(q, nats)) < nats)
                ),
                "bisection to 1e-5": float(np.mean(binary_kl(q, bisection(q, nats, 1e-5)) < nats)),
                "bisection to the last bit": float(
                    np.mean(binary_kl(q, bisection(q, nats, 0.0)) < nats)
                ),
            },
        },
    )


if __name__ == "__main__":
    main()
