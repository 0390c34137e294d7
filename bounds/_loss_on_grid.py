"""Privacy losses of finitely many values: distributions on a grid, and what dominates (epsilon, delta)-DP."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bounds._rounding import outward
from bounds.privacy import ApproxDP
from bounds.privacy_loss import PrivacyLossDistribution

_ULP = 2.0**-52
_COARSE = 2048


@dataclass(frozen=True, slots=True, eq=False)
class DiscreteLoss:
    """Losses x ≥ 0 with their masses under P, losses x < 0 with their masses under Q, and the masses at ±infinity.

    With u = e^x and f(u) = [(u^α - u)/(α-1) + 1 - u - a u]^+, H(a) = E_Q f(u). On the negative half its terms are
    Q e^x (ζ(x) - a)^+ ≤ Q, on the other P (ζ(x) - a)^+; Q's mass where P vanishes counts whole, as f(0) = 1. Beyond the
    cutoff A = largest loss + margin, f continues along its tangent, whose slope is what P's mass at infinity pays.
    """

    losses: NDArray[np.float64]
    masses: NDArray[np.float64]
    infinity_mass: float
    zero_mass: float

    @property
    def top(self) -> float:
        """The largest finite loss."""
        return float(self.losses.max())

    def divergence(self, alpha: float, level: float, margin: float) -> float:
        """See ``LossLaw``."""
        with np.errstate(over="ignore"):
            excesses = np.maximum(self._zeta(alpha) - level, 0.0)
            x = self.losses
            terms = np.where(x >= 0.0, excesses, np.where(x < -300.0, 1.0, np.exp(np.maximum(x, -300.0)) * excesses))
        finite = float(np.sum(terms * self.masses)) * (1.0 + 2.0**-44)
        return outward(finite + self.zero_mass + self.infinity_mass * self._slope(alpha, level, margin))

    def level(self, alpha: float, failure_prob: float, precision: float) -> float:
        """See ``LossLaw``; the quantile of ζ(x) under P."""
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

    def _zeta(self, alpha: float) -> NDArray[np.float64]:
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
        exponent = outward(excess * (max(self.top, 0.0) + margin))
        steep = alpha * math.exp(exponent) / excess if exponent < 300.0 else math.inf
        return max(0.0, steep - 1.0 / excess - 1.0 - level) + (16.0 + exponent) * _ULP * (steep + 1.0 / excess + level)


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
    epsilon = float(privacy.epsilon)
    mass = outward((1.0 - privacy.delta) / (1.0 + math.exp(-epsilon)))
    return DiscreteLoss(np.array([epsilon, -epsilon]), np.array([mass, mass]), privacy.delta, privacy.delta)


def _merge(losses: NDArray[np.float64], masses: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    starts = np.linspace(0, losses.size, min(losses.size, _COARSE), endpoint=False).astype(np.int64)
    weights = np.add.reduceat(masses, starts)
    centres = np.add.reduceat(losses * masses, starts)
    kept = weights > 0.0
    return centres[kept] / weights[kept], weights[kept]
