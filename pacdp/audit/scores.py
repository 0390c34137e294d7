"""Lower bounds on a mechanism's privacy parameters from one run that holds many canaries.

Each of m canaries is in the data with probability 1/2, independently. Whoever sees the output (the auditor) gives each
canary a score, says "in" for the highest and "out" for the lowest scores, and abstains on the rest. Many right guesses
refute small parameters:

* (ε, δ): if v of r guesses are right, the p-value of "the mechanism is (ε, δ)-DP" is at most β + 2mδα, with
  β = P[B ≥ v], α = max_i P[v > B ≥ v - i]/i and B ~ Binomial(r, e^ε/(1 + e^ε)) (Steinke, Nasr and Jagielski 2023,
  "Privacy auditing with one (1) training run", Theorem 5.2 and Corollary 5.4).
* a trade-off function f: with p_j the probability of exactly j right guesses out of r, r_c = Σ_{j≥c} j p_j/m and
  h_c = Σ_{j≥c} (r-j) p_j/m obey r_{c+1} ≤ 1 - f(h_c) for every c. If these inequalities force Σ_j p_j above 1 once
  P[at least v right] is ``failure_prob``, f is refuted (Mahloujifar, Melis and Chaudhuri 2024, "Auditing f-differential
  privacy in one run", Theorem 9 and Algorithm 3). Gaussian f gives the bound on mu.

The guesses need not be good: bad ones give low bounds, never wrong ones.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, expit, ndtr, ndtri

from bounds import _check
from bounds.accounting import Event, privacy_profile
from pacdp.errors import require_share
from pacdp.step.event import ADJACENCY

_SLACK = 1e-9
"""Relative error allowed to SciPy's tails and to sums."""
_FEWEST = 50
InverseBlowUp = Callable[[float], float]


class Attempt(NamedTuple):
    """One way of guessing, fixed before the run."""

    statistic: int
    """Which row of scores."""
    guesses: int
    correct: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """What one run with canaries refutes.

    Formal guarantee: each canary being in the data with probability 1/2, independently of all else, and scores
    depending on the data through the output only: if the mechanism is (ε, delta)-DP, then epsilon_lower ≤ ε with
    probability at least 1 - failure_prob; if it is μ-GDP, then mu_lower ≤ μ with probability at least 1 - failure_prob.
    Under add-remove adjacency, over canaries and mechanism. The two statements hold one at a time; both together with
    probability at least 1 - 2 failure_prob. A low bound proves nothing about privacy.
    """

    epsilon_lower: float
    mu_lower: float
    delta: float
    failure_prob: float
    canaries: int
    attempts: tuple[Attempt, ...]
    """All that were made; ``failure_prob`` was divided among them."""


def epsilon_p_value(
    *, canaries: int, guesses: int, correct: int, epsilon: float, delta: float
) -> float:
    """P[at least ``correct`` of ``guesses`` right] is at most this for any (epsilon, delta)-DP mechanism; rounded up.

    Formal guarantee: Steinke, Nasr and Jagielski 2023, Theorem 5.2 in the form of their Appendix D: min(1, β + 2mδα).

    Raises:
        ValueError: a count or a parameter out of range.
    """
    _check_counts(canaries, guesses, correct)
    _check.nonnegative(epsilon=epsilon)
    require_share(delta=delta)
    if epsilon == math.inf:
        raise ValueError(f"expected a finite epsilon, got {epsilon}")
    if correct == 0:
        return 1.0
    counts = np.arange(1, correct + 1, dtype=np.float64)
    tails = np.concatenate([[1.0], betainc(counts, guesses - counts + 1.0, expit(epsilon))])
    windows = np.maximum(tails[-2::-1] - tails[-1], 0.0)
    density = float((windows / counts).max())
    return min(1.0, (float(tails[-1]) + 2.0 * canaries * delta * density) * (1.0 + _SLACK))


def epsilon_lower_bound(
    *, canaries: int, guesses: int, correct: int, delta: float, failure_prob: float
) -> float:
    """An epsilon with :func:`epsilon_p_value` at most ``failure_prob``, 0 where there is none; rounded down.

    Formal guarantee: no larger than the epsilon of any (epsilon, delta)-DP mechanism, with probability at least
    1 - failure_prob. That the p-value need not grow with epsilon does no harm: each rejected value contradicts all
    smaller ones, since privacy at a smaller epsilon is privacy at a larger one.
    """
    _check.open_probability(failure_prob=failure_prob)

    def refuted(epsilon: float) -> bool:
        p_value = epsilon_p_value(
            canaries=canaries, guesses=guesses, correct=correct, epsilon=epsilon, delta=delta
        )
        return p_value <= failure_prob

    return _largest(refuted)


def trade_off_refuted(
    inverse: InverseBlowUp, *, canaries: int, guesses: int, correct: int, failure_prob: float
) -> bool:
    """Whether so many right guesses have probability at most ``failure_prob`` under f-DP.

    Formal guarantee: if the mechanism is f-DP, True comes with probability at most ``failure_prob``.

    Args:
        inverse: the inverse of the concave function 1 - f, or any function below it: from the power of a test to the
            smallest level at which it can have that power.
        canaries: m, each in the data with probability 1/2.
        guesses: how many were guessed.
        correct: how many of those rightly.
        failure_prob: level of the test.

    Raises:
        ValueError: a count or the level out of range.
    """
    _check_counts(canaries, guesses, correct)
    _check.open_probability(failure_prob=failure_prob)
    whole = guesses / canaries * (1.0 + _SLACK)
    right, wrong = failure_prob * correct / canaries, failure_prob * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        least = max(wrong, inverse(right)) if right < 1.0 else math.inf
        if least == wrong:
            return False
        right, wrong = right + i / (guesses - i) * (least - wrong), least
        if right + wrong > whole:
            return True
    return False


def mu_lower_bound(*, canaries: int, guesses: int, correct: int, failure_prob: float) -> float:
    """The largest mu for which mu-GDP is refuted, 0 where none is; rounded down.

    Formal guarantee: no larger than the mu of any mu-GDP mechanism, with probability at least 1 - failure_prob.
    """
    counts = {"canaries": canaries, "guesses": guesses, "correct": correct}

    def refuted(mu: float) -> bool:
        return trade_off_refuted(
            lambda power: float(ndtr(ndtri(power) - mu)), failure_prob=failure_prob, **counts
        )

    return _largest(refuted)


def guess(scores: ArrayLike, *, guesses: int) -> np.ndarray:
    """1 ("in") for the higher half of ``guesses`` scores, -1 ("out") for the lower half, 0 (abstain) between.

    Raises:
        ValueError: scores that are not finite, or fewer than ``guesses``.
    """
    values = np.asarray(scores, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("scores must be finite numbers, one a canary")
    if not (isinstance(guesses, int) and 1 <= guesses <= len(values)):
        raise ValueError(
            f"guesses must be whole numbers between 1 and the {len(values)} canaries, got {guesses}"
        )
    order, said = np.argsort(-values, kind="stable"), np.zeros(len(values))
    said[order[: (guesses + 1) // 2]] = 1
    said[order[len(values) - guesses // 2 :]] = -1
    return said


def audit_scores(
    scores: ArrayLike,
    included: ArrayLike,
    *,
    delta: float,
    failure_prob: float = 0.05,
    guesses: Sequence[int] | int | None = None,
) -> AuditResult:
    """Guess, count, and bound.

    Args:
        scores: shape (canaries,) or (statistics, canaries), finite; high where the canary seems to be in the data. They
            may depend on the output, on all other records and on the canaries, not on which canaries are in. Of equal
            scores the wrong guess is counted first, so that no order of the canaries is taken for knowledge.
        included: whether each canary was in the data.
        delta: at which epsilon is bounded.
        failure_prob: of each bound; divided among the numbers of guesses and the statistics.
        guesses: numbers of guesses to try, fixed before the run; by default all canaries, a quarter, a sixteenth,
            and so on down to 50.

    Raises:
        ValueError: shapes that differ, or numbers out of range.
    """
    rows, truth = np.atleast_2d(np.asarray(scores, dtype=np.float64)), np.asarray(included)
    if truth.dtype != np.bool_ or rows.ndim != 2 or truth.shape != rows.shape[1:]:
        raise ValueError(
            f"included must hold one bool a canary, got {truth.dtype} of shape {truth.shape} for scores of shape "
            f"{rows.shape}"
        )
    wrong_first = np.argsort(truth, kind="stable")  # of equal scores, whose order may say who is in
    rows, truth, m = rows[:, wrong_first], truth[wrong_first], len(truth)
    fewer = [m // 4**k for k in range(1, 32) if m // 4**k >= _FEWEST]
    numbers = [m, *fewer] if guesses is None else np.atleast_1d(guesses).tolist()
    if not numbers:
        raise ValueError("guesses must name at least one number of guesses, got none")
    right = np.where(truth, 1, -1)
    attempts = [
        Attempt(statistic, number, int((guess(row, guesses=number) == right).sum()))
        for statistic, row in enumerate(rows)
        for number in numbers
    ]
    _check.open_probability(failure_prob=failure_prob)
    each = _counts(attempts, m, failure_prob)
    return AuditResult(
        epsilon_lower=max(epsilon_lower_bound(delta=delta, **counts) for counts in each),
        mu_lower=max(mu_lower_bound(**counts) for counts in each),
        delta=delta, failure_prob=failure_prob, canaries=m, attempts=tuple(attempts))  # fmt: skip


def _counts(
    attempts: Sequence[Attempt], canaries: int, failure_prob: float
) -> list[dict[str, Any]]:
    """What a bound is told of each attempt: they share ``failure_prob``."""
    share = failure_prob / len(attempts)
    return [
        {"canaries": canaries, "guesses": a.guesses, "correct": a.correct, "failure_prob": share}
        for a in attempts
    ]


def contradicts(result: AuditResult, event: Event) -> bool:
    """Whether the run refutes that the mechanism was ``event``, by the event's own trade-off function.

    Sharper than comparing ``epsilon_lower`` with the event's epsilon: all pairs (ε, δ(ε)) are held against the guesses.

    Formal guarantee: if the mechanism satisfies every (ε, δ) that ``event`` does, True comes with probability at most
    ``result.failure_prob``.
    """
    profile = privacy_profile(event=event, adjacency=ADJACENCY)
    shrinkage = np.exp(-profile.epsilons)

    def inverse(power: float) -> float:
        return max(0.0, float((shrinkage * (power - profile.deltas)).max()) * (1.0 - _SLACK))

    each = _counts(result.attempts, result.canaries, result.failure_prob)
    return any(trade_off_refuted(inverse, **counts) for counts in each)


def _largest(refuted: Callable[[float], bool]) -> float:
    """A number that is refuted, next to one that is not; 0 if 0 is not."""
    if not refuted(0.0):
        return 0.0
    high = 1.0
    while refuted(high):
        high *= 2.0
    low = 0.0 if high == 1.0 else 0.5 * high
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def _check_counts(canaries: int, guesses: int, correct: int) -> None:
    _check.count(canaries=canaries, guesses=guesses)
    _check.whole(correct=correct)
    if not correct <= guesses <= canaries:
        raise ValueError(
            f"expected correct <= guesses <= canaries, got {correct}, {guesses} and {canaries}"
        )
