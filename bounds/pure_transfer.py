"""The price of a prior that a pure differentially private mechanism learnt from the same sample, by three theorems.

The sample has n independent records and the mechanism is epsilon-DP under replace-one adjacency (epsilon in nats, 0 or
more). Each number takes the place of ln(1/failure_prob) in a bound for a fixed prior; the prior may then be any
function of all that the mechanism released. epsilon = 0 gives ln(1/failure_prob) or more, epsilon = inf gives inf.
Arguments out of range raise ValueError. Proofs: docs/guarantees.md.
"""

import math

from bounds import _check
from bounds._rounding import log_inverse, outward, total


def transfer_nats(*, epsilon: float, n: int, failure_prob: float) -> float:
    """The sharp transfer, (√ln(1/failure_prob) + epsilon √(n/8))² nats, rounded up.

    "Sharp pure-DP transfer" in docs/guarantees.md: if E_S exp f(y, S) ≤ 1 for every fixed y, and Y is released by an
    epsilon-DP mechanism that saw S, then f(Y, S) exceeds this with probability at most ``failure_prob``.

    Formal guarantee: at least the stated expression. 20.787 nats at n = 60000, epsilon = 8/√n, failure_prob = 0.05.
    """
    epsilon, n, log_inv = _checked(epsilon, n, failure_prob)
    root = math.sqrt(log_inv) + epsilon * math.sqrt(n / 8.0)
    return outward(root * root)


def max_information_nats(*, epsilon: float, n: int, failure_prob: float) -> float:
    """The transfer by max-information, ln(2/δ) + n ε²/2 + ε √(n ln(4/δ)/2) nats with δ = failure_prob, rounded up.

    Dwork et al. (NeurIPS 2015), "Generalization in adaptive data analysis and holdout reuse", Theorem 20 (an
    epsilon-DP mechanism on n independent records has β-approximate max-information at most
    n ε²/2 + ε √(n ln(2/β)/2) nats), with β = δ/2, as used by Dziugaite and Roy (NeurIPS 2018).

    Formal guarantee: at least the stated expression. 47.531 nats at n = 60000, epsilon = 8/√n, failure_prob = 0.05.
    """
    epsilon, n, log_inv = _checked(epsilon, n, failure_prob)
    information = epsilon * math.sqrt(n * total(math.log(4.0), log_inv) / 2.0)
    return total(math.log(2.0), log_inv, outward(n * epsilon * epsilon) / 2.0, information)


def transfer_nats_2018(*, epsilon: float, n: int, failure_prob: float) -> float:
    """The transfer of the Entropy-SGLD paper, 2 max{ln(3/failure_prob), n epsilon²} nats, rounded up.

    Dziugaite and Roy (ICML 2018), Theorem 4.3, from Dwork et al. (STOC 2015), Theorem 11: an event of probability at
    most β for every fixed y has probability at most 3√β for the released one if epsilon ≤ √(ln(1/β)/(2n)).

    Formal guarantee: at least the stated expression. 128 nats at n = 60000, epsilon = 8/√n, failure_prob = 0.05.
    """
    epsilon, n, log_inv = _checked(epsilon, n, failure_prob)
    return outward(2.0 * max(total(math.log(3.0), log_inv), outward(n * epsilon * epsilon)))


def _checked(epsilon: float, n: int, failure_prob: float) -> tuple[float, int, float]:
    """epsilon and n as Python's numbers, and ln(1/failure_prob)."""
    _check.nonnegative(epsilon=epsilon)
    _check.count(n=n)
    _check.open_probability(failure_prob=failure_prob)
    return float(epsilon), int(n), log_inverse(failure_prob)
