"""Bounds on the calibration error, of all bins together and bin by bin."""

from collections.abc import Callable
from typing import NamedTuple

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import (
    ONE,
    ZERO,
    ball,
    binomial_lower,
    binomial_upper,
    largest,
    total,
)
from pacdp.verify.claim import Claim, agree, require
from pacdp.verify.formulas.prices import OF_PRIVACY
from pacdp.verify.formulas.risk import bernstein


def ece_pac_bayes(c: Claim) -> arb:
    """plug-in ECE + (c_η/η) mean(g²) + costs/(ηn) ("Calibration error from training data"); KL pays for one draw."""
    if c.head == "one_draw" and c.prefix in OF_PRIVACY:
        paid = c.kl_nats >= -c.paid("draw").log()
        require(paid, "the divergence is less than its draw costs")
    return bernstein(c, c.calibration_error, c.mean_squared_gap)


def ece_hoeffding(c: Claim) -> arb:
    """ECE ≤ plug-in ECE + √(2 ln(1/δ)/n) ("Calibration error on held-out examples")."""
    return c.calibration_error + (2 * c.share).sqrt()


class Bin(NamedTuple):
    """Examples with a confidence from low to high, how many, how many of them are right, and their mean confidence."""

    low: arb
    high: arb
    size: arb
    right: arb
    confidence: arb

    @property
    def possible(self) -> bool:
        """Whether its mean confidence lies in it, and it counts examples, of which no more are right than there are."""
        near = ball(1e-9)
        inside = (
            self.low - near <= self.confidence <= self.high + near
        )
        counts = self.right.is_integer() and self.size.is_integer()
        return inside and counts and 0 <= self.right <= self.size

    @property
    def gap(self) -> arb:
        """|ĝ_b|."""
        return abs(self.right / self.size - self.confidence)

    def reach(self, delta: arb) -> arb:
        """√(ln(1/δ)/(2n_b)): by how much a mean of numbers in [0, 1] may be off."""
        return (-delta.log() / (2 * self.size)).sqrt()


def by_hoeffding(one: Bin, delta: arb) -> arb:
    """|E[g | b]| ≤ |ĝ_b| + (1 + w_b) √(ln(K/δ)/(2n_b)), delta = δ/K ("Calibration bin by bin")."""
    return one.gap + (1 + one.high - one.low) * one.reach(delta)


def by_clopper_pearson(one: Bin, delta: arb) -> arb:
    """max{a⁺ - f⁻, f⁺ - a⁻}, a± at δ/(2K), f± = mean confidence ± w_b √(ln(2K/δ)/(2n_b)) ("Calibration bin by bin")."""
    half = delta / 2
    reach = (one.high - one.low) * one.reach(half)
    least = (one.confidence - reach).max(one.low)
    most = (one.confidence + reach).min(one.high)
    right = int(float(one.right))
    count = int(float(one.size))
    above = binomial_upper(right, count, half) - least
    below = most - binomial_lower(right, count, half)
    return above.max(below)


def mce_hoeffding(c: Claim) -> arb:
    """The largest of the bins' bounds by Hoeffding ("Calibration bin by bin")."""
    return _worst_bin(c, by_hoeffding)


def mce_clopper_pearson(c: Claim) -> arb:
    """The largest of the bins' bounds by Clopper and Pearson ("Calibration bin by bin")."""
    return _worst_bin(c, by_clopper_pearson)


def _worst_bin(c: Claim, bound: Callable[[Bin, arb], arb]) -> arb:
    """The largest bound, among bins with enough examples; δ is divided by their number K ("Calibration bin by bin")."""
    names = (
        "lows",
        "highs",
        "counts",
        "corrects",
        "mean_confidences",
    )
    columns = [c.listed(name) for name in names]
    bins = [Bin(*row) for row in zip(*columns, strict=True)]
    require(
        all(one.possible for one in bins),
        "a bin has another confidence than its own, or more right answers than examples",
    )
    lows, highs = columns[:2]
    require(
        [*lows, ONE] == [ZERO, *highs],
        f"the bins from {c.inputs.lows} to {c.inputs.highs} do not hold every confidence from 0 to 1 once",
    )
    kept = [one for one in bins if one.size >= c.inputs.min_count]
    delta = c.failure_prob / max(1, len(kept))
    values = [ZERO if kept else ONE]
    for place, one in enumerate(bins):
        value = bound(one, delta).min(ONE) if one in kept else ONE
        agree(f"terms.gap_{place}", c.terms[f"gap_{place}"], value)
        values += [value] if one in kept else []
    whole = total(one.size for one in bins).max(ONE)
    c.terms_are(
        bins=arb(len(bins)),
        bins_certified=arb(len(kept)),
        largest_empirical_gap=largest(
            [ZERO, *(one.gap for one in kept)]
        ),
        share_certified=total(one.size for one in kept) / whole,
    )
    return largest(values)
