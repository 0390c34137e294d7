"""What to minimise when training for a certificate: PAC-Bayes bounds as differentiable formulas.

``f_classic`` and ``f_quad`` use nothing but +, -, *, / and ** of their arguments: floats, NumPy arrays
and torch tensors go through unchanged, with gradients where the tensors have them. They are the values of
``mcallester`` and ``quadratic`` without rounding to the safe side and without the cap at one, where
gradients vanish.
``f_kl`` gives value and derivatives of ``maurer`` as numbers, for a custom gradient.

None of them is a certificate: train on these, certify with ``maurer`` ("Training objectives" in docs/guarantees.md).
The derivatives of the upper inverse of kl are here too.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bounds._arithmetic import log_inverse
from bounds._check import Array, door, doubles, nonnegative
from bounds.kl import binary_kl, binary_kl_upper, log_xi


def _operand(**values: Any) -> Any:
    """A number as a float that is not negative; an array or a tensor of numbers unchanged."""
    ((name, value),) = values.items()
    dtype = getattr(value, "dtype", None)
    if dtype is None or isinstance(value, float | int | np.generic):
        return nonnegative(**values)
    if getattr(dtype, "kind", "f") not in "fiu":  # those of torch have no kind
        raise ValueError(f"{name} must be a number, or an array or a tensor of numbers, got {value!r}.")
    return value


@door(kl_nats=_operand)
def cost_per_example(kl_nats: Any, *, n: int, failure_prob: float) -> Any:
    """c = [KL(Q‖P) + ln ξ(n) + ln(1/failure_prob)]/n, of the type of ``kl_nats``."""
    return (kl_nats + (log_xi(n) + log_inverse(failure_prob))) / n


@door(risk=_operand, kl_nats=_operand)
def f_classic(risk: Any, kl_nats: Any, *, n: int, failure_prob: float) -> Any:
    """R̂ + √(c/2); McAllester 1999."""
    return risk + (cost_per_example(kl_nats, n=n, failure_prob=failure_prob) / 2.0) ** 0.5


@door(risk=_operand, kl_nats=_operand)
def f_quad(risk: Any, kl_nats: Any, *, n: int, failure_prob: float) -> Any:
    """(√(R̂ + c/2) + √(c/2))²; Rivasplata et al. 2019, Pérez-Ortiz et al. 2021."""
    half = cost_per_example(kl_nats, n=n, failure_prob=failure_prob) / 2.0
    root = (risk + half) ** 0.5 + half**0.5
    return root * root


class KLObjective(NamedTuple):
    """kl⁻¹(R̂, c) and its partial derivatives, float64 arrays of the broadcast shape."""

    value: Array
    by_risk: Array
    by_kl_nats: Array


def f_kl(risk: ArrayLike, kl_nats: ArrayLike, *, n: int, failure_prob: float) -> KLObjective:
    """kl⁻¹(R̂, c), the tightest objective, with its derivatives by risk and by KL in nats.

    With automatic differentiation, use the numbers as constants: value + by_risk · (risk - stopped(risk)) +
    by_kl_nats · (kl - stopped(kl)) has the right value and gradient. At risk 0 the derivative by risk is infinite;
    where the bound is vacuous both are 0, and ``f_quad`` should be trained on first.
    """
    cost = cost_per_example(doubles("kl_nats", kl_nats), n=n, failure_prob=failure_prob)
    by_risk, by_cost = binary_kl_upper_gradient(risk, cost)
    return KLObjective(np.asarray(binary_kl_upper(risk, cost)), by_risk, by_cost / n)


def binary_kl_upper_gradient(q: ArrayLike, nats: ArrayLike) -> tuple[Array, Array]:
    """(∂p/∂q, ∂p/∂nats) at p = ``binary_kl_upper(q, nats)``, elementwise in float64.

    From kl(q‖p) = nats: ∂p/∂nats = p(1-p)/(p-q) and ∂p/∂q = ln(p(1-q)/(q(1-p))) · p(1-p)/(p-q), both non-negative.
    p - q is taken from the computed kl, so that the rounding of p does not enter when the two are close; relative
    error about 1e-13 ("Derivatives of the inverse kl" in docs/guarantees.md).

    At the edges, one-sided limits: (1, inf) for nats = 0 and 0 < q < 1; (inf, 1-p) for q = 0; (0, 0) where the
    inverse is 1. NaN on invalid input.
    """
    q, nats = np.broadcast_arrays(doubles("q", q), doubles("nats", nats))
    p = np.asarray(binary_kl_upper(q, nats))
    with np.errstate(all="ignore"):
        # kl grows with the square of p - q where rounding matters, and is nats to all digits elsewhere
        d = (p - q) * np.sqrt(nats / binary_kl(q, p))
        by_nats = p * (1.0 - p) / d
        by_rate = by_nats * (np.log1p(d / q) - np.log1p(-d / (1.0 - q)))
    edges = [np.isnan(p), p == 1.0, q == 0.0, nats == 0.0]  # the first that holds decides
    by_rate = np.select(edges, [np.nan, 0.0, np.inf, 1.0], by_rate)
    return by_rate, np.select(edges, [np.nan, 0.0, 1.0 - p, np.inf], by_nats)
