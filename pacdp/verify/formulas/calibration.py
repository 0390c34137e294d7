"""Bounds on the calibration error, of all bins together and bin by bin."""

from collections.abc import Callable
from typing import NamedTuple

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import (
    ONE,
    ZERO,
    binomial_lower,
    binomial_upper,
    largest,
    total,
)
from pacdp.verify.claim import Claim
from pacdp.verify.formulas.pac_bayes import bernstein


def ece_pac_bayes(c: Claim) -> arb:
    """plug-in ECE + (c_η/η) mean(g²) + costs/(ηn) ("Calibration error from training data")."""
    return bernstein(c, c["calibration_error"], c["mean_squared_gap"])


def ece_hoeffding(c: Claim) -> arb:
    """ECE ≤ plug-in ECE + √(2 ln(1/δ)/n) ("Calibration error on held-out examples")."""
    return c["calibration_error"] + (2 * c.share).sqrt()


class Bin(NamedTuple):
    """Examples with a confidence from low to high, how many, how many of them are right, and their mean confidence."""

    low: arb
    high: arb
    size: arb
    right: arb
    confidence: arb

    @property
    def gap(self) -> arb:
        """|ĝ_b|."""
        return abs(self.right / self.size - self.confidence)

    @property
    def width(self) -> arb:
        """w_b."""
        return self.high - self.low


def mce_hoeffding(c: Claim) -> arb:
    """The largest of the bins' bounds by Hoeffding ("Calibration bin by bin")."""
    return _worst_bin(c, by_hoeffding)


def by_hoeffding(one: Bin, delta: arb) -> arb:
    """|E[g | b]| ≤ |ĝ_b| + (1 + w_b) √(ln(K/δ)/(2n_b)), delta = δ/K ("Calibration bin by bin")."""
    square = -delta.log() / (2 * one.size)
    return one.gap + (1 + one.width) * square.sqrt()


def mce_clopper_pearson(c: Claim) -> arb:
    """The largest of the bins' bounds by Clopper and Pearson ("Calibration bin by bin")."""
    return _worst_bin(c, by_clopper_pearson)


def by_clopper_pearson(one: Bin, delta: arb) -> arb:
    """max{a⁺ - f⁻, f⁺ - a⁻}, a± at δ/(2K), f± = mean confidence ± w_b √(ln(2K/δ)/(2n_b)) ("Calibration bin by bin")."""
    half = delta / 2
    square = -half.log() / (2 * one.size)
    reach = one.width * square.sqrt()
    least = (one.confidence - reach).max(one.low)
    most = (one.confidence + reach).min(one.high)
    right, count = int(float(one.right)), int(float(one.size))
    above = binomial_upper(right, count, half) - least
    below = most - binomial_lower(right, count, half)
    return above.max(below)


def _worst_bin(c: Claim, bound: Callable[[Bin, arb], arb]) -> arb:
    """The largest bound, among bins with enough examples; δ is divided by their number K ("Calibration bin by bin")."""
    bins = _bins(c)
    kept = [one for one in bins if one.size >= c.raw("min_count")]
    delta = c["failure_prob"] / max(1, len(kept))
    values = list[arb]()
    for place, one in enumerate(bins):
        value = ONE
        if one.size >= c.raw("min_count"):
            value = bound(one, delta).min(ONE)
            values.append(value)
        c.term_agrees(f"gap_{place}", value)
    _check_summary(c, bins, kept)
    return largest(values) if values else ONE


def _bins(c: Claim) -> list[Bin]:
    names = ("lows", "highs", "counts", "corrects", "mean_confidences")
    columns = [c.listed(name) for name in names]
    return [Bin(*row) for row in zip(*columns, strict=True)]


def _check_summary(
    c: Claim,
    bins: list[Bin],
    kept: list[Bin],
) -> None:
    whole = total(one.size for one in bins).max(ONE)
    c.term_is_about("bins", arb(len(bins)))
    c.term_is_about("bins_certified", arb(len(kept)))
    c.term_is_about(
        "largest_empirical_gap", largest([ZERO, *(one.gap for one in kept)])
    )
    c.term_is_about("share_certified", total(one.size for one in kept) / whole)
