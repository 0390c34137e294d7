"""How far a privacy loss x = ln(P/Q) strays, in the divergence that the general transfer needs, rounded up.

For α > 1 let ζ(x) = (e^((α-1)x) - 1)/(α-1) + e^(-x) - 1, which is 0 at 0, convex, and about αx²/2. Each law
bounds H(a) = E_P (ζ(x) - a)^+ for its notion of privacy ("General transfer" in docs/guarantees.md). Here: x of a
Gaussian pair, and x known through its Rényi divergences alone; both are sums of Gaussian tails.
"""

# scipy is untyped
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false
import math
from dataclasses import dataclass
from typing import Protocol

from bounds._rounding import outward

_ULP = 2.0**-52


class LossLaw(Protocol):
    """What the general transfer asks of a privacy loss."""

    @property
    def infinity_mass(self) -> float:
        """P(x = +infinity), rounded up."""
        ...

    def divergence(self, alpha: float, level: float, margin: float) -> float:
        """At least H(level); losses above the largest finite one plus ``margin`` continue linearly in e^x."""
        ...

    def level(self, alpha: float, failure_prob: float, precision: float) -> float:
        """About the a that makes a + H(a) / failure_prob smallest. A choice only: nothing rests on it."""
        ...


def zeta(alpha: float, loss: float) -> tuple[float, float]:
    """ζ(loss), bracketed."""
    excess = alpha - 1.0  # exact
    try:
        rising, falling = math.expm1(excess * loss) / excess, math.expm1(-loss)
    except OverflowError:
        return 0.0, math.inf
    slack = (8.0 + abs(excess * loss) + abs(loss)) * _ULP * (abs(rising) + abs(falling))
    return max(0.0, rising + falling - slack), max(0.0, rising + falling + slack)


def inner_root(alpha: float, level: float, side: int) -> float:
    """A loss of the sign ``side`` at which ζ is at most ``level``, and as good as equal to it."""
    if level <= 0.0:
        return 0.0
    excess = alpha - 1.0
    beyond = math.log1p(excess * (level + 1.0)) / excess if side > 0 else math.log1p(level + 1.0 / excess)
    beyond = min(beyond, 700.0 / excess if side > 0 else 700.0)  # where exponentials still are numbers
    x, last = side * min(beyond, math.sqrt(2.0 * level / alpha)), math.inf
    for _ in range(100):  # Newton on a convex function; the loop below corrects what rounding leaves
        rising, falling = math.expm1(excess * x), math.expm1(-x)
        if rising == falling:
            break
        step = (rising / excess + falling - level) / (rising - falling)
        moved = side * (x - step)
        x = side * min(beyond, moved if moved > 0.0 else 0.5 * side * x)
        if abs(step) <= 1e-14 * abs(x) or abs(step) >= last:
            break
        last = abs(step)
    nudge = _ULP
    while zeta(alpha, x)[1] > level:
        x *= max(0.0, 1.0 - nudge)
        nudge *= 2.0
    return x


def gaussian_moment(order: float, start: float, mu: float, side: int) -> tuple[float, float]:
    """E[e^(order x); side · x > side · start] for x ~ N(mu²/2, mu²), bracketed."""
    growth = order * (order + 1.0) * mu * mu / 2.0
    if growth > 300.0:
        return 0.0, math.inf
    z = side * (start / mu - (0.5 + order) * mu)
    reach = 16.0 * _ULP * (abs(start) / mu + (0.5 + abs(order)) * mu)
    scale = 0.5 * math.exp(growth)
    slack = (16.0 + 4.0 * abs(growth)) * _ULP  # erfc is trusted to 12 units in the last place
    low = scale * math.erfc((z + reach) / math.sqrt(2.0)) * (1.0 - slack)
    return low, scale * (math.erfc((z - reach) / math.sqrt(2.0)) * (1.0 + slack) + 1e-300)


@dataclass(frozen=True, slots=True)
class GaussianLoss:
    """The loss of N(mu, 1) against N(0, 1), x ~ N(mu²/2, mu²): what mu-GDP is dominated by.

    Beyond thresholds c where ζ(c) ≤ a, H(a) ≤ Σ_sides E[ζ(x) - ζ(c); x beyond c], in closed form.
    """

    mu: float
    infinity_mass: float = 0.0

    def divergence(self, alpha: float, level: float, margin: float = 0.0) -> float:
        """At least E (ζ(x) - level)^+."""
        excess, parts = alpha - 1.0, 0.0
        for side in (1, -1):
            start = inner_root(alpha, level, side)
            risen = gaussian_moment(excess, start, self.mu, side)[1]
            fallen = gaussian_moment(-1.0, start, self.mu, side)[1]
            low, high = gaussian_moment(0.0, start, self.mu, side)
            height = zeta(alpha, start)[0]
            noise = 8.0 * _ULP * ((risen + high) / excess + fallen + (1.0 + height) * high)
            parts += max(0.0, (risen - low) / excess + (fallen - low) - height * low + noise)
        return outward(parts)

    def level(self, alpha: float, failure_prob: float, precision: float) -> float:
        """See ``LossLaw``."""
        return _best_level(self, self.mu, alpha, failure_prob, precision)


@dataclass(frozen=True, slots=True)
class ConcentratedLoss:
    """The loss of a (mu²/2)-zCDP pair: P(x > t) and Q(x < -t) are at most τ(t) = exp(-(t - ρ)²/(4ρ)), t > ρ = mu²/2.

    By parts, with e = α - 1 and c₊, c₋ > 0 the distances of the two points where ζ = a,

        H(a) ≤ ∫_{c₊}^∞ (e^(et) - e^(-t)) τ(t) dt + ∫_{c₋}^∞ e^(-t) (1 + a - (α e^(-et) - 1)/e) τ(t) dt,

    where τ is 1 up to ρ. As t ~ N(mu²/2, mu²) has density τ/(√(2π) mu), these are Gaussian tails once more.
    """

    mu: float
    infinity_mass: float = 0.0

    def divergence(self, alpha: float, level: float, margin: float = 0.0) -> float:
        """At least E (ζ(x) - level)^+."""
        return outward(self._above(alpha, level) + self._below(alpha, level))

    def _above(self, alpha: float, level: float) -> float:
        excess, rho = alpha - 1.0, outward(self.mu * self.mu / 2.0)
        start = inner_root(alpha, level, 1)
        flat = 0.0
        if start < rho:
            flat = max(0.0, zeta(alpha, rho)[1] - zeta(alpha, start)[0])
            start = rho
        risen = gaussian_moment(excess, start, self.mu, 1)[1]
        fallen = gaussian_moment(-1.0, start, self.mu, 1)[0]
        return flat + self._integral(risen - fallen, 4.0 * _ULP * (risen + fallen))

    def _below(self, alpha: float, level: float) -> float:
        excess, rho = alpha - 1.0, outward(self.mu * self.mu / 2.0)
        start = -inner_root(alpha, level, -1)
        flat = 0.0
        if start < rho:  # e^(-t) (ζ(-t) - a) grows from its value at the start to that at ρ
            upper = math.exp(-rho) * (zeta(alpha, -rho)[1] - level) if rho < 300.0 else 1.0
            lower = math.exp(-start) * (zeta(alpha, -start)[0] - level)
            flat = max(0.0, upper - lower + 8.0 * _ULP * (abs(upper) + abs(lower) + level))
            start = rho
        high = gaussian_moment(-1.0, start, self.mu, 1)[1]
        steep = gaussian_moment(-alpha, start, self.mu, 1)[0]
        difference = level * high + alpha * (high - steep) / excess
        return flat + self._integral(difference, 8.0 * _ULP * ((level + alpha / excess) * high))

    def _integral(self, moment: float, noise: float) -> float:
        return outward(math.sqrt(2.0 * math.pi) * self.mu * max(0.0, moment + noise))

    def level(self, alpha: float, failure_prob: float, precision: float) -> float:
        """See ``LossLaw``."""
        return _best_level(self, self.mu, alpha, failure_prob, precision)


def _best_level(
    law: GaussianLoss | ConcentratedLoss, mu: float, alpha: float, failure_prob: float, precision: float
) -> float:
    far = mu * math.sqrt(2.0 * math.log(2.0 / failure_prob))
    top = 4.0 * max(zeta(alpha, mu * mu / 2.0 + far)[1], zeta(alpha, mu * mu / 2.0 - far)[1])
    if not 0.0 < top < math.inf:
        return 0.0

    def cost(log_level: float) -> float:
        level = math.exp(log_level)
        return min(1e300, level + law.divergence(alpha, level) / failure_prob)

    ends = (math.log(top) - 16.0, math.log(top))
    from scipy.optimize import minimize_scalar  # takes long to import, and few need it

    return math.exp(minimize_scalar(cost, bounds=ends, method="bounded", options={"xatol": precision}).x)
