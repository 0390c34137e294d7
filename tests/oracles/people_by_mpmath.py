"""Bounds for people once more: at 50 digits, by bisection, and by going through every possible sample."""

from itertools import combinations_with_replacement, product
from math import factorial, fsum, prod

import numpy as np
from kl_by_mpmath import halved, kl
from mpmath import inf, log, mpf, sqrt

from bounds import PeopleSample

UNLIKE = [(0.35, 1, 0), (0.2, 1, 1), (0.2, 3, 1), (0.15, 8, 1), (0.1, 8, 8)]
HEAVY = [(0.8, 1, 0), (0.12, 20, 0), (0.08, 20, 20)]
ALIKE = [(0.55, 10, 0), (0.45, 10, 10)]
"""Kinds of people: probability, examples, sum of their losses."""


def of(sizes, sums):
    return PeopleSample(sizes=np.array(sizes), sums=np.array(sums, dtype=np.float64))


def lower_kl(p, nats):
    """inf{q : kl(q‖p) ≤ nats}."""
    return mpf(0) if kl(0, p) <= nats else halved(lambda q: kl(q, p) <= nats, mpf(p), mpf(0))[0]


def statistic(r, risk, n, effective, nats):
    """K [kl(R̂‖r) - kl(R̂‖q(r))], the log of what the sample says against r."""
    q, risk, effective = lower_kl(r, mpf(nats) / n), mpf(risk), mpf(effective)
    if q == 0 and risk > 0:
        return -inf
    wrong = risk * log(q / r) if risk > 0 else 0
    return effective * (wrong + (1 - risk) * log((1 - q) / (1 - r)))


def log_wealth(m, sizes, sums, most_examples, failure_prob):
    """What the game on a ratio pays at m."""
    n, level = len(sizes), log(1 / mpf(failure_prob))
    shares = [mpf(int(size)) / most_examples for size in sizes]
    values = [mpf(float(total)) / int(size) for size, total in zip(sizes, sums, strict=True)]
    weighted, weight, spread, wealth = mpf("0.5"), mpf(1), mpf("0.25"), mpf(1)
    for i, (w, x) in enumerate(zip(shares, values, strict=True), start=1):
        bet = min(sqrt(2 * level / (n * spread / i)), 3 / (4 * (1 - m)))
        wealth *= 1 + bet * w * (m - x)
        weighted, weight = weighted + w * x, weight + w
        spread += (w * (x - weighted / weight)) ** 2
    return log(wealth)


def samples(kinds, n, ordered=False):
    """Every sample of n people of these kinds, (probability, size, sum), and in how many orders it comes."""
    if ordered:
        return ((sample, 1) for sample in product(kinds, repeat=n))
    numbers = combinations_with_replacement(range(len(kinds)), n)
    return (([kinds[i] for i in sample], _orders(sample)) for sample in numbers)


def expectation(function, kinds, n, ordered=False):
    """The exact mean of a function of the sizes and sums of n people."""
    values = []
    for people, orders in samples(kinds, n, ordered):
        probabilities, sizes, sums = zip(*people, strict=True)
        values.append(orders * prod(probabilities) * function(list(sizes), list(sums)))
    return fsum(values)


def failures(bound, kinds, n, truth, ordered=False):
    """The exact probability that ``bound``, a function of sizes and sums, lies below the truth."""
    return expectation(lambda sizes, sums: bound(sizes, sums) < truth, kinds, n, ordered)


def _orders(sample):
    counts = [sample.count(i) for i in set(sample)]
    return factorial(len(sample)) // prod(factorial(c) for c in counts)


def new_example(kinds):
    """The risk for a new example."""
    examples = fsum(probability * size for probability, size, _ in kinds)
    return fsum(probability * total for probability, _, total in kinds) / examples
