"""How far a privacy loss x = ln(P/Q) strays, in the divergence that the general transfer needs, rounded up.

For α > 1 let ζ(x) = (e^((α-1)x) - 1)/(α-1) + e^(-x) - 1, which is 0 at 0, convex, and about αx²/2. Each law
bounds H(a) = E_P (ζ(x) - a)^+ for its notion of privacy ("General transfer" in docs/guarantees.md): x of a Gaussian
pair, and x known through its Rényi divergences alone, both sums of Gaussian tails; and x of finitely many values. Of
every law the transfer asks

    infinity_mass                          P(x = +infinity), rounded up
    divergence(alpha, level, margin)       at least H(level); losses above the largest finite one plus ``margin``
                                           continue linearly in e^x
    level(alpha, failure_prob, precision)  about the a that makes a + H(a) / failure_prob smallest, a choice only
    coarse()                               a law of few values that is like this one, to choose parameters by
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
from math import erfc, exp, expm1, inf, log, log1p, pi, sqrt
from typing import Any, NamedTuple, Self

import numpy as np

from bounds._arithmetic import outward
from bounds._check import Array
from bounds.privacy import ApproxDP, PrivacyLossDistribution

_ULP = 2.0**-52
_COARSE = 2048


def zeta(alpha: float, loss: float) -> tuple[float, float]:
    """ζ(loss), bracketed."""
    excess = alpha - 1.0  # exact
    try:
        rising, falling = expm1(excess * loss) / excess, expm1(-loss)
    except OverflowError:
        return 0.0, inf
    slack = (8.0 + abs(excess * loss) + abs(loss)) * _ULP * (abs(rising) + abs(falling))
    return max(0.0, rising + falling - slack), max(0.0, rising + falling + slack)


def inner_root(alpha: float, level: float, side: int) -> float:
    """A loss of the sign ``side`` at which ζ is at most ``level``, and as good as equal to it."""
    if level <= 0.0:
        return 0.0
    excess = alpha - 1.0
    beyond = log1p(excess * (level + 1.0)) / excess if side > 0 else log1p(level + 1.0 / excess)
    beyond = min(beyond, 700.0 / excess if side > 0 else 700.0)  # where exponentials still are numbers
    x, last = side * min(beyond, sqrt(2.0 * level / alpha)), inf
    for _ in range(100):  # Newton on a convex function; the loop below corrects what rounding leaves
        rising, falling = expm1(excess * x), expm1(-x)
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
        return 0.0, inf
    z = side * (start / mu - (0.5 + order) * mu)
    reach = 16.0 * _ULP * (abs(start) / mu + (0.5 + abs(order)) * mu)
    scale = 0.5 * exp(growth)
    slack = (16.0 + 4.0 * abs(growth)) * _ULP  # erfc is trusted to 12 units in the last place
    low = scale * erfc((z + reach) / sqrt(2.0)) * (1.0 - slack)
    return low, scale * (erfc((z - reach) / sqrt(2.0)) * (1.0 + slack) + 1e-300)


class TailLoss:
    """A loss that is known by one number, and has tails like those of N(mu²/2, mu²)."""

    infinity_mass = 0.0

    def __init__(self, mu: float) -> None:
        self.mu = mu

    def divergence(self, alpha: float, level: float, margin: float = 0.0) -> float:
        """At least E (ζ(x) - level)^+."""
        raise NotImplementedError

    def level(self, alpha: float, failure_prob: float, precision: float) -> float:
        """About the best level, by search."""
        from scipy.optimize import minimize_scalar  # takes long to import, and few need it

        far = self.mu * sqrt(2.0 * log(2.0 / failure_prob))
        top = 4.0 * max(zeta(alpha, self.mu * self.mu / 2.0 + side * far)[1] for side in (1, -1))
        if not 0.0 < top < inf:
            return 0.0

        def cost(log_level: float) -> float:
            level = exp(log_level)
            return min(1e300, level + self.divergence(alpha, level) / failure_prob)

        ends = (log(top) - 16.0, log(top))
        found: Any = minimize_scalar(cost, bounds=ends, method="bounded", options={"xatol": precision})
        return exp(found.x)

    def coarse(self) -> Self:
        """The law itself."""
        return self


class GaussianLoss(TailLoss):
    """The loss of N(mu, 1) against N(0, 1), x ~ N(mu²/2, mu²): what mu-GDP is dominated by.

    Beyond thresholds c where ζ(c) ≤ a, H(a) ≤ Σ_sides E[ζ(x) - ζ(c); x beyond c], in closed form.
    """

    def divergence(self, alpha: float, level: float, margin: float = 0.0) -> float:
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


class ConcentratedLoss(TailLoss):
    """The loss of a (mu²/2)-zCDP pair: P(x > t) and Q(x < -t) are at most τ(t) = exp(-(t - ρ)²/(4ρ)), t > ρ = mu²/2.

    By parts, with e = α - 1 and c₊, c₋ > 0 the distances of the two points where ζ = a,

        H(a) ≤ ∫_{c₊}^∞ (e^(et) - e^(-t)) τ(t) dt + ∫_{c₋}^∞ e^(-t) (1 + a - (α e^(-et) - 1)/e) τ(t) dt,

    where τ is 1 up to ρ. As t ~ N(mu²/2, mu²) has density τ/(√(2π) mu), these are Gaussian tails once more.
    """

    def divergence(self, alpha: float, level: float, margin: float = 0.0) -> float:
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
            upper = exp(-rho) * (zeta(alpha, -rho)[1] - level) if rho < 300.0 else 1.0
            lower = exp(-start) * (zeta(alpha, -start)[0] - level)
            flat = max(0.0, upper - lower + 8.0 * _ULP * (abs(upper) + abs(lower) + level))
            start = rho
        high = gaussian_moment(-1.0, start, self.mu, 1)[1]
        steep = gaussian_moment(-alpha, start, self.mu, 1)[0]
        difference = level * high + alpha * (high - steep) / excess
        return flat + self._integral(difference, 8.0 * _ULP * ((level + alpha / excess) * high))

    def _integral(self, moment: float, noise: float) -> float:
        return outward(sqrt(2.0 * pi) * self.mu * max(0.0, moment + noise))


class DiscreteLoss(NamedTuple):
    """Losses x ≥ 0 with their masses under P, losses x < 0 with their masses under Q, and the masses at ±infinity.

    With u = e^x and f(u) = [(u^α - u)/(α-1) + 1 - u - a u]^+, H(a) = E_Q f(u). On the negative half its terms are
    Q e^x (ζ(x) - a)^+ ≤ Q, on the other P (ζ(x) - a)^+; Q's mass where P vanishes counts whole, as f(0) = 1. Beyond the
    cutoff A = largest loss + margin, f continues along its tangent, whose slope is what P's mass at infinity pays.
    """

    losses: Array
    masses: Array
    infinity_mass: float
    zero_mass: float

    def divergence(self, alpha: float, level: float, margin: float) -> float:
        with np.errstate(over="ignore"):
            excesses = np.maximum(self._zeta(alpha) - level, 0.0)
            x = self.losses
            terms = np.where(x >= 0.0, excesses, np.where(x < -300.0, 1.0, np.exp(np.maximum(x, -300.0)) * excesses))
        finite = float(np.sum(terms * self.masses)) * (1.0 + 2.0**-44)
        return outward(finite + self.zero_mass + self.infinity_mass * self._slope(alpha, level, margin))

    def level(self, alpha: float, failure_prob: float, precision: float) -> float:
        """The quantile of ζ(x) under P."""
        values = self._zeta(alpha)
        order = np.argsort(-values)
        weights = self.masses * np.exp(np.minimum(self.losses, 0.0))
        above = self.infinity_mass + np.cumsum(weights[order])
        first = int(np.searchsorted(above, failure_prob, side="right"))
        return float(values[order][first]) if first < order.size else 0.0

    def coarse(self) -> "DiscreteLoss":
        """A law of few values that is like this one, to choose parameters by."""
        if self.losses.size <= 2 * _COARSE:
            return self
        halves = [half for half in (self.losses < 0.0, self.losses >= 0.0) if half.any()]
        merged = [_merge(self.losses[half], self.masses[half]) for half in halves]
        losses, masses = (np.concatenate(arrays) for arrays in zip(*merged, strict=True))
        return DiscreteLoss(losses, masses, self.infinity_mass, self.zero_mass)

    def _zeta(self, alpha: float) -> Array:
        """ζ at every loss, rounded up; below -300, where only e^x ζ(x) ≤ 1 is used, at -300."""
        excess, x = alpha - 1.0, np.maximum(self.losses, -300.0)
        with np.errstate(over="ignore"):
            rising, falling = np.expm1(excess * x) / excess, np.expm1(-x)
            slack = (16.0 + np.abs(excess * x) + np.abs(x)) * _ULP
            return np.maximum(rising + falling + slack * (np.abs(rising) + np.abs(falling)), 0.0)

    def _slope(self, alpha: float, level: float, margin: float) -> float:
        if self.infinity_mass == 0.0:
            return 0.0
        excess = alpha - 1.0
        exponent = outward(excess * (max(float(self.losses.max()), 0.0) + margin))
        steep = alpha * exp(exponent) / excess if exponent < 300.0 else inf
        return max(0.0, steep - 1.0 / excess - 1.0 - level) + (16.0 + exponent) * _ULP * (steep + 1.0 / excess + level)


LossLaw = TailLoss | DiscreteLoss


def from_distribution(privacy: PrivacyLossDistribution) -> DiscreteLoss:
    """The losses that a distribution on a grid holds; masses of the far side of zero are not used."""
    x = privacy.losses
    masses = np.where(x >= 0.0, privacy.with_record, privacy.without_record)
    kept = masses > 0.0
    if not kept.any():
        return DiscreteLoss(np.zeros(1), np.zeros(1), privacy.infinity_mass, privacy.zero_mass)
    return DiscreteLoss(x[kept], masses[kept], privacy.infinity_mass, privacy.zero_mass)


def from_approximate(privacy: ApproxDP) -> DiscreteLoss:
    """The pair that dominates every (epsilon, delta)-DP pair: ±epsilon, and delta at either infinity."""
    epsilon = privacy.epsilon
    mass = outward((1.0 - privacy.delta) / (1.0 + exp(-epsilon)))
    return DiscreteLoss(np.array([epsilon, -epsilon]), np.array([mass, mass]), privacy.delta, privacy.delta)


def _merge(losses: Array, masses: Array) -> tuple[Array, Array]:
    starts = np.linspace(0, losses.size, min(losses.size, _COARSE), endpoint=False).astype(np.int64)
    weights = np.add.reduceat(masses, starts)
    centres = np.add.reduceat(losses * masses, starts)
    kept = weights > 0.0
    return centres[kept] / weights[kept], weights[kept]
