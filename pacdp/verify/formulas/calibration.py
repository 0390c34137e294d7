"""Bounds on the calibration error, of all bins together and bin by bin."""

from collections.abc import Callable
from typing import NamedTuple

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import ONE, ZERO, binomial_lower, binomial_upper, largest, total
from pacdp.verify.claim import Claim
from pacdp.verify.formulas.pac_bayes import bernstein


def ece_pac_bayes(c: Claim) -> arb:
    """plug-in ECE + (c_η/η) mean(g²) + costs/(ηn) ("Calibration error from training data")."""
    return bernstein(c, c["calibration_error"], c["mean_squared_gap"])


def ece_hoeffding(c: Claim) -> arb:
    """ECE ≤ plug-in ECE + √(2 ln(1/δ)/n) ("Calibration error on held-out examples")."""
    return c["calibration_error"] + (2 * c.share).sqrt()


class _Bin(NamedTuple):
    """Examples with a confidence from low to high, how many, how many of them are right, and their mean confidence."""

    low: arb
    high: arb
    count: arb
    right: arb
    confidence: arb

    @property
    def gap(self) -> arb:
        """|ĝ_b|."""
        return abs(self.right / self.count - self.confidence)

    @property
    def width(self) -> arb:
        """w_b."""
        return self.high - self.low


def mce_hoeffding(c: Claim) -> arb:
    """|E[g | b]| ≤ |ĝ_b| + (1 + w_b) √(ln(K/δ)/(2n_b)) ("Calibration bin by bin")."""

    def bound(one: _Bin, delta: arb) -> arb:
        reach = (-delta.log() / (2 * one.count)).sqrt()
        return one.gap + (1 + one.width) * reach

    return _worst_bin(c, bound)


def mce_clopper_pearson(c: Claim) -> arb:
    """max{a⁺ - f⁻, f⁺ - a⁻}, a± at δ/(2K), f± = mean confidence ± w_b √(ln(2K/δ)/(2n_b)) ("Calibration bin by bin")."""

    def bound(one: _Bin, delta: arb) -> arb:
        half = delta / 2
        reach = one.width * (-half.log() / (2 * one.count)).sqrt()
        right, count = int(float(one.right)), int(float(one.count))
        above = binomial_upper(right, count, half) - (one.confidence - reach).max(one.low)
        below = (one.confidence + reach).min(one.high) - binomial_lower(right, count, half)
        return above.max(below)

    return _worst_bin(c, bound)


def _worst_bin(c: Claim, bound: Callable[[_Bin, arb], arb]) -> arb:
    """The largest bound on a bin's gap, among those with enough examples; δ is divided by their number K."""
    names = ("lows", "highs", "counts", "corrects", "mean_confidences")
    columns = [c.listed(name) for name in names]
    bins = [_Bin(*row) for row in zip(*columns, strict=True)]
    enough = [one.count >= c.raw("min_count") for one in bins]
    delta = c["failure_prob"] / max(1, sum(enough))
    values = list[arb]()
    for place, one in enumerate(bins):
        value = bound(one, delta).min(ONE) if enough[place] else ONE
        c.term_agrees(f"gap_{place}", value)
        if enough[place]:
            values.append(value)
    _check_summary(c, bins, [one for one in bins if one.count >= c.raw("min_count")])
    return largest(values) if values else ONE


def _check_summary(c: Claim, bins: list[_Bin], kept: list[_Bin]) -> None:
    whole = total(one.count for one in bins).max(ONE)
    c.term_is_about("bins", arb(len(bins)))
    c.term_is_about("bins_certified", arb(len(kept)))
    c.term_is_about("largest_empirical_gap", largest([ZERO, *(one.gap for one in kept)]))
    c.term_is_about("share_certified", total(one.count for one in kept) / whole)
