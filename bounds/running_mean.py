"""Limits of the mean conditional risk of a stream at all times, from three sums: how many losses, their sum, spread.

Supermartingales for many bets are mixed with fixed weights: exp(-λ Σx) / Π(1 - μ_i (1 - e^(-λ))), which is exact for
errors, and exp(η Σ(μ_i - x_i) - c_η Σ(x_i - x̂_i)²), which knows losses that vary little. Proof: docs/guarantees.md,
"Limits at all times".
"""

from math import exp, expm1, fsum, inf, log, log1p, nextafter

from bounds._rounding import inward, least, log_inverse, outward, total
from bounds.means import eta_cost

_RATES = tuple(6.0 * 0.625**k for k in range(24))
_ETAS = tuple(0.8 * 0.6**k for k in range(18))
_SHARES = (outward(log(2.0 * len(_RATES))), outward(log(2.0 * len(_ETAS))))
_DROPS = tuple(inward(-expm1(-rate)) for rate in _RATES)
_SLACK = 2.0**-48
"""Of an exponent, over the size of its parts: some eight roundings."""


def running_mean_upper(n: int, loss_sum: float, spread: float, failure_prob: float) -> float:
    """The largest mean that the mixture does not refute, rounded up.

    Formal guarantee: for losses in [0, 1] whose expectations given what came before are μ_1, μ_2, ..., the probability
    that (μ_1 + ... + μ_n)/n exceeds this limit at any n is at most failure_prob, if ``loss_sum`` is at least their sum
    and ``spread`` at least Σ (x_i - x̂_i)², where x̂_i in [0, 1] is a function of what came before.
    """
    level = log_inverse(failure_prob)
    if n == 0 or _evidence(1.0, n, loss_sum, spread) < level:
        return 1.0
    mean = min(1.0, loss_sum / n)
    return least(lambda at: _evidence(at, n, loss_sum, spread) >= level, mean, 1.0, relative=1e-11, absolute=1e-13)


def running_mean_lower(n: int, loss_sum: float, spread: float, failure_prob: float) -> float:
    """The smallest mean that the mixture does not refute, rounded down: one minus the upper limit of 1 - x.

    Formal guarantee: as for ``running_mean_upper``, ``loss_sum`` being at most the sum of the losses.
    """
    rest = min(float(n), nextafter(n - loss_sum, inf))
    return max(0.0, nextafter(1.0 - running_mean_upper(n, rest, spread, failure_prob), 0.0))


def _evidence(mean: float, n: int, loss_sum: float, spread: float) -> float:
    """The logarithm of the mixture at this mean, rounded down; it rises with the mean."""
    logs: list[float] = []
    for rate, drop in zip(_RATES, _DROPS, strict=True):
        if mean * drop >= 1.0:
            return inf
        gain, loss = -n * log1p(-mean * drop), rate * loss_sum
        logs.append(gain - loss - _SHARES[0] - _SLACK * (gain + loss + 8.0))
    for eta in _ETAS:
        gain, loss = eta * n * mean, total(eta * loss_sum, eta * eta_cost(eta) * spread)
        logs.append(gain - loss - _SHARES[1] - _SLACK * (gain + loss + 8.0))
    top = max(logs)
    return top + log(fsum(exp(one - top) for one in logs)) - 2.0**-45
