"""The difference of two models on the same examples, from counts of those on which one errs and the other does not.

e·d is the difference: d the rate of such examples, of which the first model errs on a share (1 + e)/2. A pair (e, d)
is refuted as "Differences on the same examples" in docs/guarantees.md says.
"""

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import (
    ONE,
    ball,
    binomial_below,
    binomial_lower,
    binomial_upper,
)
from pacdp.verify.claim import Claim, exactly, require

_DEEPEST = 60
_TINY = ball(1e-6)
_NEEDED = ball(0.99)
"""How much of the way from what was measured to the value is needed at least."""
_ROUGH = 1e-7
"""Below this failure probability rates that are refuted lie closer to 1 than rounding, and a value may be larger."""


def paired(c: Claim) -> arb:
    """The largest e·d that is not refuted; the value is half of one plus it ("Differences on the same examples")."""
    region = _Region(c)
    c.terms_are(empirical_risk=(1 + region.measured) / 2)
    half = exactly(c.record.value)
    value = 2 * half - 1
    room = value - region.measured
    less = value - (1 - _NEEDED) * room
    holds = value >= 1 or region.nothing_above(value)
    close = room < _TINY or c.failure_prob < _ROUGH
    close = close or not region.nothing_above(less)
    why = f"{value} is not about the least bound of all"
    require(holds and close, why)
    return half


class _Region:
    """The pairs (e, d) that are not refuted."""

    def __init__(self, c: Claim) -> None:
        self.n = n = c.n
        self.more = c.whole("more", n)
        fewer = c.whole("fewer", n - self.more)
        self.measured = (self.more - fewer) / arb(n)
        self.apart = apart = self.more + fewer
        self.alone = c.failure_prob / 10
        self.least = binomial_lower(apart, n, self.alone)
        self.most = binomial_upper(apart, n, self.alone)
        self.quantile = _normal(c.failure_prob * 7 / 10)

    def nothing_above(self, value: arb) -> bool:
        """Whether every pair with e·d > value is refuted: in cells of e, which are halved where that is not seen."""
        cells = [(arb(-1), arb(0), 0), (arb(0), ONE, 0)]
        while cells:
            low, high, depth = cells.pop()
            if self._refuted(low, high, value):
                continue
            middle = (low + high) / 2
            if depth == _DEEPEST or not self._refuted(
                middle, middle, value
            ):
                return False
            cells += [
                (low, middle, depth + 1),
                (middle, high, depth + 1),
            ]
        return True

    def _refuted(self, low: arb, high: arb, value: arb) -> bool:
        """Whether all (e, d) with e from ``low`` to ``high``, on one side of 0, and e·d > value are refuted.

        P(Bin(D, (1+e)/2) ≤ B) is largest at ``low``, and the other probability at the d that is nearest to value/e.
        """
        share = binomial_below(self.more, self.apart, (1 + low) / 2)
        if share <= self.alone:
            return True
        least, most = self.least, self.most
        if low >= 0:
            if high * most <= value:
                return True
            if value > 0:
                least = least.max(value / high)
            rate = binomial_below(self.apart, self.n, least)
        else:
            if high * least <= value:
                return True
            if high < 0:
                most = most.min(value / high)
            rate = binomial_below(
                self.n - self.apart, self.n, 1 - most
            )
        ends = [abs(e) * 7 / 10 for e in (low, high)]
        of_share = _normal(share)
        of_rate = _normal(rate)
        above = [(1 - w**2).sqrt() * of_share for w in ends]
        beside = [w * of_rate for w in ends]
        return all(
            one + other <= self.quantile
            for one in above
            for other in beside
        )


def _normal(probability: arb) -> arb:
    """The quantile of N(0, 1)."""
    return -arb(2).sqrt() * (2 * probability).erfcinv()
