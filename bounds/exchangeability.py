"""Whether new scores follow the law of old ones, by betting: a conformal test martingale.

Certificates say "new data follow the same law". That can be refuted: among all scores seen so far, old and new, the
latest has a random rank, and whoever bets against ranks being uniform becomes rich only if they are not. The test may
be looked at after every score. Proof: docs/guarantees.md, "Exchangeability". Arguments out of range raise ValueError.

Bets may begin at any time, and their wealth is one nonnegative supermartingale out of many: bets k = 1, ..., K multiply
by factors f_k(i) ≥ 0 whose expectation, given what came before, is at most 1 if the hypothesis is true. Before step i a
share r(i-1) - r(i) of the first unit is put on the K bets in equal parts, where r(i) = 1/(1 + ln(1 + i)) is what is
still kept back after i steps. So a change after t steps is answered by bets of wealth about 1/(K t ln² t), not by ones
that lost everything before it. "Tests by betting" in docs/guarantees.md.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from collections.abc import Callable
from dataclasses import dataclass
from math import log1p, nextafter

import numpy as np
from numpy.typing import ArrayLike

from bounds._arithmetic import jit
from bounds._check import Array, Integers, as_given, open_probability, vector, whole
from bounds.numbers import up_digits

_AT_ONCE = 2**16
_LARGEST = 2.0**900
"""No bet's wealth is counted beyond; less than the exact one is safe."""
_POWERS = (0.2, 0.5, 0.8)
_TIES = 0x74696573
"""What sets the numbers U apart from those of ``default_rng(seed)``, by which scores may have been drawn."""


@jit
def _play(arms: Array, factors: Array, done: int, wealth: Array) -> float:
    bets = arms.size
    kept = 1.0 / (1.0 + log1p(done))
    for i in range(wealth.size):
        after = 1.0 / (1.0 + log1p(done + i + 1))
        placed = (kept - after) / bets
        kept = after
        total = after
        for k in range(bets):
            arms[k] = min((arms[k] + placed) * factors[i, k], _LARGEST)
            total += arms[k]
        wealth[i] = total
    return kept


def played(arms: Array, factors: Callable[[slice], Array], size: int, done: int = 0) -> tuple[Array, Array]:
    """The wealth of each bet after ``size`` more steps, ``done`` having come before, and the whole wealth after each.

    ``factors`` gives those of a part of the steps, one row a step and one column a bet.

    Formal guarantee: the whole wealth is rounded down, by more than the rounding of so many steps, each factor having
    been within 8 ulp of its exact value.
    """
    arms, wealth = arms.copy(), np.empty(size)
    for start in range(0, size, _AT_ONCE):
        part = slice(start, min(start + _AT_ONCE, size))
        _play(arms, np.ascontiguousarray(factors(part)), done + start, wealth[part])
    steps = np.arange(done + 1, done + 1 + size)
    return arms, np.maximum(0.0, wealth * (1.0 - (steps + 16.0) * 2.0**-48))


def first_alarm(wealth: Array, false_alarm_prob: float) -> int | None:
    """After how many steps the wealth first reached 1/false_alarm_prob; None when it did not."""
    found = np.flatnonzero(wealth * false_alarm_prob >= 1.0 + 2.0**-50)
    return int(found[0]) + 1 if found.size else None


def p_value(peak: float) -> float:
    """One over the largest wealth, rounded up: a p-value wherever one stops."""
    return min(1.0, nextafter(1.0 / max(1.0, peak), 2.0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exchangeability:
    """What a conformal test martingale says of new scores against old ones.

    Attributes:
        old: how many old scores there were.
        evidence: float64 [new], the wealth after each new score, an e-value; read-only.
    """

    old: int
    evidence: Array

    @property
    def new(self) -> int:
        """How many new scores there were."""
        return int(self.evidence.size)

    @property
    def e_value(self) -> float:
        """The wealth after the last score: its expectation is at most 1 if all scores are exchangeable."""
        return float(self.evidence[-1])

    @property
    def p_value(self) -> float:
        """One over the largest wealth so far, rounded up: a p-value wherever one stops."""
        return p_value(float(self.evidence.max()))

    def alarm(self, failure_prob: float) -> int | None:
        """After how many new scores the wealth first reached 1/failure_prob; None when it did not.

        Formal guarantee: if old and new scores are exchangeable, it ever does so with probability at most failure_prob.
        """
        open_probability(failure_prob=failure_prob)
        return first_alarm(self.evidence, failure_prob)

    def __str__(self) -> str:
        return (
            f"{self.new} new scores against {self.old} old ones: if they follow one law, evidence this strong ever "
            f"appears with probability at most {up_digits(self.p_value, 4)}."
        )


def exchangeable(*, old: ArrayLike, new: ArrayLike, seed: int = 0) -> Exchangeability:
    """A test, valid at all times, of whether new scores are exchangeable with old ones.

    A score is any number that a record gets without the others: its loss, its confidence, a distance. The p-value of
    the i-th new one is p = (#{greater} + U #{equal})/N among the N scores so far, itself among the equal ones; U is
    random. Bets on small p (scores rise) and on small 1 - p (scores fall), by ε p^(ε-1) for three ε and by 3/2 - p, may
    begin at any time; their mean wealth is the evidence. As more scores arrive call it again with all of them and the
    same seed: what was said of the first ones stays.

    Formal guarantee: if all scores are exchangeable, as independent draws of one law are, the evidence ever reaches
    1/failure_prob with probability at most failure_prob, over the scores and U.

    Args:
        old: one number for each record that the certificate was computed from; the predictor must not have been
            trained on them, or their scores differ from new ones for that reason.
        new: one number for each new record, in the order in which the records came, not in one that scores decided.
        seed: of the numbers U; not to be chosen by looking at results.
    """
    before, after = _alike(old, new)
    whole(seed=seed)
    kinds, places = np.unique(np.concatenate([before, after]), return_inverse=True)
    less, equal = np.empty(after.size), np.empty(after.size)
    counts = np.bincount(places[: before.size], minlength=kinds.size).astype(np.int64)
    _ranks(counts, places[before.size :].astype(np.int64), less, equal)
    many = before.size + np.arange(1, after.size + 1)
    below = np.random.default_rng([seed, _TIES]).random(after.size)  # whole multiples of 2⁻⁵³ below 1
    above = 1.0 - below  # U, and 1 - U one step further: both p-values are on the upper end of their steps
    greater = many - less - equal
    p, q = (greater + above * equal) / many, (less + (below + 2.0**-53) * equal) / many
    arms = np.zeros(2 * (len(_POWERS) + 1))
    _, evidence = played(arms, lambda part: _factors(p[part], q[part]), after.size)
    evidence.setflags(write=False)
    return Exchangeability(old=int(before.size), evidence=evidence)


def _factors(p: Array, q: Array) -> Array:
    """What each bet multiplies by; every one falls as its p-value rises, so that rounding p up is safe."""
    columns = [power * one ** (power - 1.0) for one in (p, q) for power in _POWERS]
    return np.column_stack([*columns, 1.5 - p, 1.5 - q])


@jit
def _ranks(counts: Integers, places: Integers, less: Array, equal: Array) -> float:
    """How many scores so far are less than each new one, and how many equal it, by a binary indexed tree."""
    size = counts.size
    tree = np.zeros(size + 1, dtype=np.int64)
    for k in range(1, size + 1):
        tree[k] += counts[k - 1]
        parent = k + (k & -k)
        if parent <= size:
            tree[parent] += tree[k]
    for i in range(places.size):
        place = places[i]
        found, k = 0, place
        while k > 0:
            found += tree[k]
            k -= k & -k
        counts[place] += 1
        less[i], equal[i] = found, counts[place]
        k = place + 1
        while k <= size:
            tree[k] += 1
            k += k & -k
    return 0.0


def _alike(old: ArrayLike, new: ArrayLike) -> list[Array]:
    """Both as doubles; where one is of a coarser precision, in which its scores were rounded, so is the other."""
    found = [_scores(name, values) for name, values in (("old", old), ("new", new))]
    kinds = [as_given(values).dtype for values in (old, new)]
    if all(one.kind == "f" for one in kinds):
        coarser = min(kinds, key=lambda one: one.itemsize)
        with np.errstate(all="ignore"):
            found = [one.astype(coarser).astype(np.float64) for one in found]
    return found


def _scores(name: str, values: ArrayLike) -> Array:
    scores = vector(name, values)
    if np.isnan(scores).any():
        raise ValueError(f"{name} must be numbers other than NaN, got one; leave it out.")
    return scores
