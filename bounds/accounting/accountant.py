"""epsilon at a delta, and delta at an epsilon, of anything that is composed of events: the accountant.

Every distinct mechanism's privacy loss is put on one grid by connecting the dots (Doroshenko, Ghazi, Kamath, Kumar and
Manurangsi 2022), which gives a pair of laws that dominates it; pairs compose by adding up losses (Zhu, Dong and Wang
2022, Theorem 10), for which one Fourier transform a mechanism and direction suffices, however different the mechanisms.
Truncation and rounding are bounded and counted. Which theorem covers which event: docs/accounting.md.
"""

import math

from bounds import _check
from bounds.accounting._compose import Law, compose
from bounds.accounting._curve import Curve, overstated, understated
from bounds.accounting._pieces import Mechanism, mechanisms
from bounds.accounting._plan import plan
from bounds.accounting._schedule import Schedule, schedule
from bounds.accounting.events import Event, delta_in_range
from bounds.accounting.gaussian import delta_bracket, epsilon_bracket
from bounds.accounting.records import PrivacyBound
from bounds.accounting.renyi import renyi_epsilon
from bounds.privacy import Adjacency

_METHOD = "privacy loss distribution, dots connected"
_EXACT = "Gaussian mechanism, closed form"
_FEW = 20
_PASSES = 3
_CLOSE = 0.02
_ROUNDING = 1.0 + 1e-13  # of sums of squares, and what they are put into


def privacy_epsilon(
    *, event: Event, delta: float, adjacency: Adjacency, resolution: float | None = None
) -> PrivacyBound:
    """The smallest epsilon for which an event is (epsilon, delta)-differentially private, bracketed.

    Formal guarantee: the event is (upper, delta)-DP for these neighbours, both directions included. Discretisation,
    truncation and the rounding of the transforms are part of ``upper``; random numbers are taken to be ideal.

    ``resolution`` is the grid spacing in standard deviations of one step's loss, by default 0.01, or 0.05 where more
    than 20 mechanisms differ; the error of ``upper`` falls with its square. "replace-one" costs up to twice as much as
    "add-remove".

    Raises ValueError when an argument is out of range or the event holds a nesting that no theorem here covers.
    """
    made = schedule(event, adjacency)
    delta_in_range(delta)
    _check_resolution(resolution)
    if not made.private:
        return _bound((math.inf, math.inf, math.inf), math.inf, delta, made, _METHOD)
    if made.exact:
        low = epsilon_bracket(made.mu / _ROUNDING, delta)[0]
        high = epsilon_bracket(made.mu * _ROUNDING, delta)[1]
        return _bound((low, high, high), high, delta, made, _EXACT)
    parts = mechanisms(made)
    upper, lower, near = math.inf, 0.0, None
    for _ in range(_PASSES):
        chosen = plan(parts, resolution=_resolution(resolution, parts), log_delta=math.log(delta), epsilon=near)
        sides, below = curves(compose(parts, chosen))
        upper = min(upper, max(side.epsilon(delta) for side in sides))
        lower = max(lower, below.epsilon(delta))
        last, near = near, upper if upper < math.inf else lower
        if near == last or near == 0.0 or upper - lower <= _CLOSE * near:
            break
    if upper == math.inf or upper - lower > 2.0 * _CLOSE * upper:
        upper = min(upper, renyi_epsilon(event=event, delta=delta, adjacency=adjacency).upper)
    return _bound(_between(lower, upper), upper, delta, made, _METHOD)


def privacy_delta(
    *, event: Event, epsilon: float, adjacency: Adjacency, resolution: float | None = None
) -> PrivacyBound:
    """The smallest delta for which an event is (epsilon, delta)-differentially private, bracketed.

    Formal guarantee: the event is (epsilon, upper)-DP for these neighbours, both directions included.

    ``epsilon`` is finite, 0 or more; ``resolution`` is as for ``privacy_epsilon``.

    Raises ValueError when an argument is out of range or the event holds a nesting that no theorem here covers.
    """
    made = schedule(event, adjacency)
    _check.nonnegative(epsilon=epsilon)
    if epsilon == math.inf:
        raise ValueError("epsilon must be finite, got inf; at infinity every delta is 0.")
    _check_resolution(resolution)
    if not made.private:
        return _bound((1.0, 1.0, 1.0), epsilon, 1.0, made, _METHOD)
    if made.exact:
        low = delta_bracket(made.mu / _ROUNDING, epsilon)[0]
        high = delta_bracket(made.mu * _ROUNDING, epsilon)[1]
        return _bound((low, high, high), epsilon, high, made, _EXACT)
    parts = mechanisms(made)
    upper, lower, near = 1.0, 0.0, None
    for _ in range(_PASSES):
        chosen = plan(parts, resolution=_resolution(resolution, parts), epsilon=float(epsilon), log_delta=near)
        sides, below = curves(compose(parts, chosen))
        last, upper = upper, min(upper, max(side.at(epsilon) for side in sides))
        lower = max(lower, below.at(epsilon))
        if upper - lower <= _CLOSE * upper or upper > 0.9 * last < 1.0:
            break
        near = math.log(upper)
    return _bound(_between(lower, upper), epsilon, upper, made, _METHOD)


def curves(law: Law) -> tuple[tuple[Curve, Curve], Curve]:
    """delta(epsilon) overstated in the remove and the add direction, and understated in the remove direction."""
    return (
        overstated(law.remove, law.infinity_mass, law.slack),
        overstated(law.add, law.zero_mass, law.slack),
    ), understated(law.lower, law.slack)


def _check_resolution(resolution: float | None) -> None:
    if resolution is not None:
        _check.positive(resolution=resolution)
        if not 1e-4 <= resolution <= 1.0:
            raise ValueError(f"resolution must lie in [0.0001, 1], got {resolution!r}; 0.01 suits most.")


def _resolution(resolution: float | None, parts: list[tuple[Mechanism, int]]) -> float:
    if resolution is not None:
        return float(resolution)
    return 0.01 if len(parts) <= _FEW else 0.05


def _between(lower: float, upper: float) -> tuple[float, float, float]:
    """The bracket with an estimate: connecting dots overstates variances by half of what merging cells understates."""
    lower = min(lower, upper)
    return lower, upper if upper == math.inf else upper - (upper - lower) / 3.0, upper


def _bound(ends: tuple[float, float, float], epsilon: float, delta: float, made: Schedule, method: str) -> PrivacyBound:
    low, estimate, high = ends
    return PrivacyBound(
        lower=low, estimate=estimate, upper=high, epsilon=epsilon, delta=delta, adjacency=made.adjacency, method=method
    )
