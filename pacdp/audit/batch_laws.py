"""What Poisson sampling promises about batches, as tests whose p-values are exact or upper bounds.

Batches come as a matrix ``x`` that says which unit was in which step: if the mechanism is what it says, its entries are
independent Bernoulli(q).
"""

import math

import numpy as np
from jaxtyping import Bool
from scipy import stats

from pacdp.audit.p_values import Found, binomial, bonferroni, largest_of, least

Batches = Bool[np.ndarray, "steps units"]
_LAGS = 8


def rate(x: Batches, q: float) -> Found:
    """Units take part at rate q."""
    return _counts(x.sum(keepdims=True), x.size, q)


def rate_of_units(x: Batches, q: float) -> Found:
    """Every unit takes part at rate q."""
    return _counts(x.sum(0), len(x), q)


def empty_batches(x: Batches, q: float) -> Found:
    """A batch is empty with probability (1-q)^n."""
    return _counts((~x.any(1)).sum(keepdims=True), len(x), (1.0 - q) ** x.shape[1])


def pairs_of_units(x: Batches, q: float) -> Found:
    """Two units come together at rate q²."""
    return _counts(_in_common(x.T), len(x), q * q)


def _counts(counts: np.ndarray, trials: int, q: float) -> Found:
    """Each count is Binomial(trials, q)."""
    if not counts.size:
        return Found(1.0, "one unit only")
    seen = f"between {counts.min():.0f} and {counts.max():.0f} times, {q * trials:.2f} expected"
    return Found(bonferroni(float(binomial(counts, trials, q).min()), counts.size), seen)


def sizes_of_batches(x: Batches, q: float) -> Found:
    """Sizes are binomial: how many lie within one standard deviation of nq, within half of one, and on either side."""
    n = x.shape[1]
    sizes, support = x.sum(1), np.arange(n + 1)
    law, spread = stats.binom.pmf(support, n, q), math.sqrt(n * q * (1.0 - q))
    off = (support - n * q) / (spread or 1.0)
    regions = [np.abs(off) <= 1.0, np.abs(off) <= 0.5, np.abs(off) > 2.0, off < 0.0, off > 0.0]
    seen = f"mean {sizes.mean():.2f} of {n * q:.2f}, variance {sizes.var():.2f} of {spread**2:.2f}"
    return least([(float(binomial(int(own[sizes].sum()), len(x), min(1.0, float(law[own].sum())))), seen)
                  for own in regions])  # fmt: skip


def extreme_batches(x: Batches, q: float) -> Found:
    """The largest and the smallest size have the law P[largest <= m] = F(m)^steps, and its like."""
    sizes, (steps, n) = x.sum(1), x.shape
    law, fewest, most = stats.binom(n, q), sizes.min(), sizes.max()
    tails = [
        *largest_of(steps, beyond=law.sf(most), reached=law.sf(most - 1)),
        *largest_of(steps, beyond=law.cdf(fewest - 1), reached=law.cdf(fewest)),
    ]
    return least([(tail, f"{fewest} to {most}, {n * q:.2f} expected") for tail in tails])


def steps_of_batches(x: Batches, q: float) -> Found:
    """Whether a unit comes does not depend on whether it came before: lags 1 to 8, and any two steps' overlap."""
    found = list[tuple[float, str]]()
    for lag in range(1, min(_LAGS, len(x) // 2) + 1):
        numbers = np.arange(len(x) - lag)
        first = numbers[numbers % (2 * lag) < lag]  # in one pair each
        both = x[first] & x[first + lag]
        found.append((float(binomial(int(both.sum()), both.size, q * q)), f"most at lag {lag}"))
    any_two = pairs_of_units(x.T, q)
    return least([*found, (any_two.p_value, f"any two steps {any_two.seen}")])


def _in_common(rows: np.ndarray) -> np.ndarray:
    """How many entries any two rows share."""
    return np.round((rows.astype(np.float64) @ rows.T)[np.triu_indices(len(rows), 1)])
