"""The upper inverse of kl on 10⁶ random points and on one, against what it replaces and the price of one logarithm."""

import math

import numpy as np
from scipy.optimize import brentq

from benchmarks.timing import in_turn, publish, tables
from bounds import binary_kl, binary_kl_lower, binary_kl_upper

POINTS = 10**6
FEW = 1_000


def by_brentq(q: float, nats: float) -> object:
    return brentq(lambda p: binary_kl(q, p) - nats, q, 1 - 1e-12)


def main() -> None:
    rng = np.random.default_rng(0)
    q, nats = rng.uniform(0.001, 0.2, POINTS), 10 ** rng.uniform(-4, math.log10(0.3), POINTS)
    few = list(zip(q[:FEW].tolist(), nats[:FEW].tolist(), strict=True))
    together = {
        "bounds.binary_kl_upper": lambda: binary_kl_upper(q, nats),
        "bounds.binary_kl_lower": lambda: binary_kl_lower(q, nats),
        "one logarithm": lambda: np.log(q),
    }
    singly = {
        "bounds.binary_kl_upper, point by point": lambda: [binary_kl_upper(*one) for one in few],
        "scipy brentq, point by point": lambda: [by_brentq(*one) for one in few],
    }
    each = tables(in_turn(together, rounds=5), 1e9 / POINTS)
    each |= tables(in_turn(singly, rounds=5), 1e9 / FEW)
    below = float(np.mean(binary_kl(q, binary_kl_upper(q, nats)) < nats))  # the unsafe side
    publish("kl_inverse", {"nanoseconds per inverse": each, "share below the true inverse": below})


if __name__ == "__main__":
    main()
