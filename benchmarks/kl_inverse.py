"""The upper inverse of kl against the two ways common in PAC-Bayes code: bisection to 1e-5 and SciPy's brentq."""

import math

import numpy as np
from numba import njit
from scipy.optimize import brentq

from benchmarks.timing import publish, side_by_side
from bounds import binary_kl, binary_kl_upper


@njit
def bisection(q: np.ndarray, nats: np.ndarray) -> np.ndarray:  # the midpoint that published helpers return
    found = np.empty_like(q)
    for i in range(len(q)):
        low, high = q[i], 1.0
        while (high - low) > 1e-5 * high:
            middle = 0.5 * (low + high)
            value = q[i] * math.log(q[i] / middle) + (1 - q[i]) * math.log((1 - q[i]) / (1 - middle))
            if value > nats[i]:
                high = middle
            else:
                low = middle
        found[i] = 0.5 * (low + high)
    return found


def by_brentq(q: np.ndarray, nats: np.ndarray) -> list[float]:
    def gap(p: float, q: float, nats: float) -> float:
        return q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p)) - nats

    return [brentq(gap, a, 1 - 1e-12, args=(a, c)) for a, c in zip(q, nats, strict=True)]  # type: ignore[misc]


def main() -> None:
    rng = np.random.default_rng(0)
    q, nats = rng.uniform(0.001, 0.2, 20_000), 10 ** rng.uniform(-4, -0.5, 20_000)
    seconds = side_by_side(
        {"bounds.binary_kl_upper": lambda: binary_kl_upper(q, nats), "bisection to 1e-5": lambda: bisection(q, nats),
         "scipy brentq": lambda: by_brentq(q[:1000], nats[:1000])}, rounds=7)  # fmt: skip
    per_call = {name: 1e9 * value / (1000 if "brentq" in name else len(q)) for name, value in seconds.items()}
    ours = per_call["bounds.binary_kl_upper"]
    publish(
        "kl_inverse",
        {
            "nanoseconds per inverse": per_call,
            "times slower than ours": {name: value / ours for name, value in per_call.items()},
            # on the unsafe side: kl at the returned point is below the budget
            "share below the true inverse": {
                "bounds.binary_kl_upper": float(np.mean(binary_kl(q, binary_kl_upper(q, nats)) < nats)),
                "bisection to 1e-5": float(np.mean(binary_kl(q, bisection(q, nats)) < nats)),
            },
        },
    )


if __name__ == "__main__":
    main()
