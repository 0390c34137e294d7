"""Derivatives of the inverses of kl, for training on the bound that certifies."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bounds import _check
from bounds.kl import binary_kl, binary_kl_lower, binary_kl_upper

Gradient = tuple[NDArray[np.float64], NDArray[np.float64]]


def binary_kl_upper_gradient(q: ArrayLike, nats: ArrayLike) -> Gradient:
    """(∂p/∂q, ∂p/∂nats) at p = ``binary_kl_upper(q, nats)``, elementwise in float64.

    From kl(q‖p) = nats: ∂p/∂nats = p(1-p)/(p-q) and ∂p/∂q = ln(p(1-q)/(q(1-p))) · p(1-p)/(p-q), both non-negative.
    p - q is taken from the computed kl, so that the rounding of p does not enter when the two are close; relative
    error about 1e-13 ("Derivatives of the inverse kl" in docs/guarantees.md).

    At the edges, one-sided limits: (1, inf) for nats = 0 and 0 < q < 1; (inf, 1-p) for q = 0; (0, 0) where the
    inverse is 1. NaN on invalid input.
    """
    return _gradient(binary_kl_upper, q, nats)


def binary_kl_lower_gradient(q: ArrayLike, nats: ArrayLike) -> Gradient:
    """(∂p/∂q, ∂p/∂nats) at p = ``binary_kl_lower(q, nats)``: the second is negative. As ``binary_kl_upper_gradient``.

    At the edges, one-sided limits: (1, -inf) for nats = 0 and 0 < q < 1; (inf, -p) for q = 1; (0, 0) where the inverse
    is 0.
    """
    return _gradient(binary_kl_lower, q, nats)


def _gradient(inverse: Callable[..., Any], q: ArrayLike, nats: ArrayLike) -> Gradient:
    q, nats = np.broadcast_arrays(_check.array("q", q), _check.array("nats", nats))
    p = np.asarray(inverse(q, nats))
    upper = inverse is binary_kl_upper
    with np.errstate(all="ignore"):
        # kl grows with the square of p - q where rounding matters, and is nats to all digits elsewhere
        d = (p - q) * np.sqrt(nats / binary_kl(q, p))
        by_nats = p * (1.0 - p) / d
        by_rate = by_nats * (np.log1p(d / q) - np.log1p(-d / (1.0 - q)))
    constant = (p == 1.0) if upper else (p == 0.0)
    still = nats == 0.0
    by_nats = np.where(still, np.inf if upper else -np.inf, by_nats)
    by_rate = np.where(still, 1.0, by_rate)
    corner = (q == 0.0) if upper else (q == 1.0)
    by_nats = np.where(corner, 1.0 - p if upper else -p, by_nats)
    by_rate = np.where(corner, np.inf, by_rate)
    valid = ~np.isnan(p)
    zero = constant & valid
    return np.where(zero, 0.0, np.where(valid, by_rate, np.nan)), np.where(zero, 0.0, np.where(valid, by_nats, np.nan))
