"""The normal quantile: its polynomials against Arb over every part, its numbers against mpmath, its two twins."""

import mpmath
import numpy as np
import torch
from flint import arb, ctx, fmpq
from numpy import array_equal
from scipy import stats

from pacdp.random import grid
from tests.marks import parametrize, slow
from tests.pacdp.random.secure_toys import normals_of, words_of

U = 2.0**-53
TERMS = 11  # of Taylor's series, the last one with its remainder


def parts():
    """Where each part of the table begins, and its width: exact."""
    index = np.arange(((-1 - grid.LOWEST) << grid.PARTS_LOG2) + 1)
    octave, each = np.ldexp(1.0, grid.LOWEST + (index >> grid.PARTS_LOG2)), 1 << grid.PARTS_LOG2
    return octave * (1.0 + (index % each) / each), octave / each


def derivatives(z, half):
    """Taylor coefficients in t of Φ⁻¹ where it has the value z (a ball), up to the order TERMS - 1."""
    a, b = [z], [half * (2 * arb.pi()).sqrt() * (z * z / 2).exp()]
    for k in range(TERMS - 1):
        square = [sum((b[j] * b[i - j] for j in range(i + 1)), arb(0)) for i in range(k + 1)]
        a.append(b[k] / (k + 1))
        b.append(sum((a[i] * square[k - i] for i in range(k + 1)), arb(0)) / (k + 1))
    return a


def in_chebyshev():
    """Rows: t^k as a combination of Chebyshev polynomials, exactly."""
    rows = [[fmpq(1)]]
    for _ in range(TERMS - 1):
        new = [fmpq(0)] * (len(rows[-1]) + 1)
        for j, c in enumerate(rows[-1]):  # t T_j = (T_{j+1} + T_{j-1}) / 2, and t T_0 = T_1
            new[j + 1] += c if j == 0 else c / 2
            if j:
                new[j - 1] += c / 2
        rows.append(new)
    return rows


def error_bounds(coefficients, rows):
    """For each of these rows, an upper bound on |Horner in floating point - Φ⁻¹| in units of 2⁻⁵³ (2.05 |z| + 0.5)."""
    start, width = parts()
    exchange, found = in_chebyshev(), []
    with ctx.workprec(120):
        for row in rows:
            low, half = arb(start[row]), arb(width[row]) / 2
            ends = [-(arb(2).sqrt()) * (2 * p).erfcinv() for p in (low, low + 2 * half)]
            centre = -(arb(2).sqrt()) * (2 * (low + half)).erfcinv()
            exact = derivatives(centre, half)[: TERMS - 1]
            remainder = derivatives(ends[0].union(ends[1]), half)[-1]
            c = [arb(x) for x in coefficients[row]]
            gap = [(c[k] if k < len(c) else 0) - exact[k] for k in range(TERMS - 1)]
            by_degree = [sum((gap[k] * exchange[k][j] for k in range(j, TERMS - 1)), arb(0)) for j in range(TERMS - 1)]
            approximation = sum((abs(x) for x in by_degree), abs(remainder))
            # Horner: the last sum rounds |z|, the last product what it adds, and all before it at most 13 times
            rest = sum((abs(x) for x in c[1:]), arb(0))
            largest = abs(ends[0]).union(abs(ends[1])).abs_upper() + approximation
            rounding = U * (largest + (1 + 14 * U) * 14 * rest)
            least = min(float(abs(e).abs_lower()) for e in ends)
            found.append(float((approximation + rounding).abs_upper()) / (U * (2.05 * least + 0.5)))
    return np.array(found)


@parametrize("every", [5, slow(1)])
def test_every_polynomial_keeps_its_proved_bound(every):
    coefficients = grid.table()
    rows = range(len(coefficients) - 2, -1, -every)  # the last part, from 1/2 on, is met at its left end only
    bounds = error_bounds(coefficients, rows)
    assert bounds.max() <= 1.0, (bounds.argmax(), bounds.max())


@parametrize(("column", "change"), [(0, 16.0), (1, 16.0), (4, 16.0), (7, 16.0)])
def test_a_changed_coefficient_would_be_seen(column, change):
    wrong = grid.table().copy()
    wrong[4000, column] += change * U
    assert error_bounds(wrong, [4000])[0] > 1.0


def awkward_words():
    """Probabilities of all magnitudes, and the ends of parts and octaves."""
    words = [w >> s for s in range(0, 64, 3) for w in (2**63 - 1, 0x5555555555555555, 0x6789ABCDEF012345)]
    ends = [2**k + d for k in range(1, 63) for d in (-1, 0, 1)]
    return np.array([*words, *ends, 0, 1, 2, 3], dtype=np.int64)


def probability_ends(word, first, second):
    """The interval of real probabilities that a word and its spare words stand for, exactly."""
    whole = (int(word) & (2**64 - 1)) >> 1
    if whole >= 2**54:
        return mpmath.mpf(whole) * mpmath.mpf(2) ** -64, mpmath.mpf(whole + 1) * mpmath.mpf(2) ** -64
    fine = (((int(first) & (2**64 - 1)) >> 1) << 63) + ((int(second) & (2**64 - 1)) >> 1)
    return mpmath.mpf(fine) * mpmath.mpf(2) ** -136, mpmath.mpf(fine + 1) * mpmath.mpf(2) ** -136


def worst_error(transform, every):
    """The largest error of a transform at awkward words, in units of its bound 2⁻⁵³ (2.05 |z| + 3.9)."""
    words = np.concatenate([awkward_words(), words_of(300)])[::every]
    tails = ((words >> 1) & (2**63 - 1)) < 2**54
    spare = words_of(2 * int(tails.sum()), "spare")
    spare[::2] >>= np.arange(len(spare) // 2) % 23  # down to 2⁻³³ of 2⁻¹⁰
    found, used, worst = transform(words, spare), 0, 0.0
    with mpmath.workdps(60):
        for word, tail, z in zip(words, tails, found, strict=True):
            pair = spare[used : used + 2] if tail else (0, 0)
            used += 2 * int(tail)
            for p in probability_ends(word, *pair):
                if 0 < p < 0.5:
                    exact = mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1) if p > 0.4 else _far(p)
                    exact = -exact if word & 1 else exact
                    worst = max(worst, float(abs(exact - mpmath.mpf(float(z))) / (U * (2.05 * abs(exact) + 3.9))))
    return worst


def _far(p):
    start = float(stats.norm.ppf(float(p)))
    return mpmath.findroot(lambda z: mpmath.log(mpmath.ncdf(z)) - mpmath.log(p), start)


@parametrize("every", [4, slow(1)])
def test_numbers_are_the_quantiles_of_their_words(every):
    assert worst_error(normals_of, every) < 1.0


def test_uniforms_of_single_precision_would_be_seen():
    def single(words, spare):
        whole = (words >> 1) & (2**63 - 1)
        shift = np.maximum(np.frexp(whole.astype(np.float64))[1] - 25, 0)  # leaves 24 bits
        coarse = (whole >> shift) << shift
        return normals_of(np.where(whole < 2**54, words, (coarse << 1) | (words & 1)), spare)

    assert worst_error(single, 10) > 1e6


def test_a_tail_without_fresh_words_would_be_seen():
    assert worst_error(lambda words, spare: normals_of(words, np.zeros_like(spare)), 10) > 1e6


@parametrize("size", [1, 1023, 1024, 1025, 40_000])
def test_the_twins_agree_to_the_bit(size):
    words, spare = words_of(size), words_of(2 * size, "spare")
    words[::7] >>= 20  # tails
    values = 40.0 * stats.norm.ppf((np.arange(size) + 0.5) / size)
    compiled = values.copy()
    assert grid.add_on_grid(compiled, words, spare, grid.table(), 1234.5, 2.0**-9, 0) == size
    drawn = grid.on_grid(
        torch.from_numpy(values),
        torch.from_numpy(words),
        lambda k: torch.from_numpy(spare[:k]),
        1234.5,
        2.0**-9,
        most=size,
    )
    assert array_equal(compiled, drawn.numpy())


def test_blocks_wait_for_fresh_spare_words():
    words = words_of(3000)
    words[2000] = 5
    words[2040:2044] = 7
    values, before = np.zeros(3000), np.zeros(3000)
    tails = int(((words[:2048] >> 1) & (2**63 - 1) < 2**54).sum())
    spare = words_of(2 * tails - 2, "spare")
    done = grid.add_on_grid(values, words, spare, grid.table(), 1024.0, 1.0, 0)
    assert done == 1024
    assert array_equal(values[1024:], before[1024:])  # nothing of the next block is written yet
    assert (values[:1024] != 0.0).all() or (values[:1024] == 0.0).sum() < 10
    spare = words_of(200, "fresh")
    assert grid.add_on_grid(values, words, spare, grid.table(), 1024.0, 1.0, done) == 3000
    assert values[2000] < -3.09 * 1024.0 or values[2000] > 3.09 * 1024.0


def test_the_tails_follow_the_normal_law_beyond_ten_standard_deviations():
    words = words_of(1 << 20) & 1  # a sign, and a probability below 2⁻¹⁰
    spare = words_of(2 << 20, "tails")
    found = normals_of(words, spare)
    below = stats.norm.sf(np.abs(found)) * 2.0**10
    assert stats.kstest(below, "uniform").pvalue > 1e-4
    assert abs((found > 0).mean() - 0.5) < 5.0 * 0.5 / 1024.0
    spare[::2] &= 2**35 - 1  # p below 2⁻³⁹
    far = stats.norm.logsf(np.abs(normals_of(words, spare))) / np.log(2.0) + 39.0
    assert stats.kstest(2.0**far, "uniform").pvalue > 1e-4
    spare[::2] = 0
    assert 9.1 < np.abs(normals_of(words, spare)).min() < np.abs(normals_of(words, spare)).max() < 13.7
