"""Noise in sums: exact addition on the grid, shares, refusals, the price of finite arithmetic."""

import copy
import itertools
import math
import pickle
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats
from torch import equal
from toys import dtypes

from pacdp.random import cipher, grid
from pacdp.random import grid as on_grid
from pacdp.random.grid import arithmetic_cost
from pacdp.step.noise import SeededRandomness, SystemRandomness, add_noise, share
from pacdp.step.processes import RankRandomness
from tests.marks import near, parametrize
from tests.pacdp.random.secure_toys import fix_keys, normals_of, words_of

CPU = torch.device("cpu")
WHOLE = {"dtype": torch.float64, "device": CPU}


def grid_of(std):
    return 2.0 ** (math.floor(math.log2(std)) - 10)


def released(monkeypatch, total, std=1.7, name="keys"):
    fix_keys(monkeypatch, name)
    return add_noise(total, std=std, randomness=SystemRandomness())


def totals(size=5000, spread=30.0, dtype=torch.float64):
    return torch.from_numpy(spread * stats.norm.ppf((np.arange(size) + 0.5) / size)).to(dtype)


@dtypes
@parametrize("std", [1.0, 1.7, 1.999, 2.0, 3e-7, 5e11])
def test_the_sum_is_rounded_once_to_the_grid(monkeypatch, dtype, std):
    total, grid = totals(spread=30.0 * std, dtype=dtype), grid_of(std)
    words = words_of(cipher.AT_ONCE)
    monkeypatch.setattr(cipher.Keystream, "fill", lambda self, out: out.__setitem__(slice(None), words[: len(out)]))
    found = add_noise(total, std=std, randomness=SystemRandomness())
    numbers = normals_of(words[on_grid._SPARE :][: len(total)], words[: on_grid._SPARE])
    for x, z, y in zip(total.tolist(), numbers.tolist(), found.tolist(), strict=True):
        exact = Fraction(x) / Fraction(grid) + Fraction(z) * Fraction(std) / Fraction(grid)
        point = Fraction(y) / Fraction(grid)
        if dtype == torch.float64:
            assert point.denominator == 1
            assert abs(point - exact) <= Fraction(1, 2) + Fraction(2) ** -36
        else:  # rounded a second time, which is post-processing
            assert abs(point - exact) <= Fraction(1, 2) + Fraction(2) ** -36 + abs(point) / 2**24


def test_noise_is_the_same_whatever_it_hides(monkeypatch):
    total, grid = totals(), grid_of(1.7)
    one = released(monkeypatch, total)
    for shift in (-(2**31), -1, 1, 12345678901):
        assert equal(released(monkeypatch, total + shift * grid) - one, torch.full_like(one, shift * grid))


def test_a_sum_that_is_added_in_single_precision_would_be_seen(monkeypatch):
    total, grid = totals(dtype=torch.float32), grid_of(1.7)
    drawn = (released(monkeypatch, torch.zeros_like(total)) + total).double() / grid
    assert not equal(drawn, drawn.round())


def test_huge_infinite_and_undefined_sums(monkeypatch):
    limit = grid.LIMIT * grid_of(1.7)
    found = released(monkeypatch, torch.tensor([1e300, -1e300, math.inf, -math.inf, math.nan, 0.0]).double())
    assert (found[[0, 2]] - limit).abs().max() < 20.0
    assert (found[[1, 3]] + limit).abs().max() < 20.0
    assert found[4].isnan()
    assert abs(float(found[5])) < 20.0


@parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_shapes_and_types_stay(monkeypatch, dtype):
    for shape in ((), (0,), (3, 0), (4, 5, 6), (cipher.AT_ONCE + 7,)):
        total = torch.ones(shape, dtype=dtype)
        drawn = SystemRandomness().noised(torch.zeros(shape, dtype=dtype), std=0.3)
        for found in (released(monkeypatch, total), drawn):
            assert (found.shape, found.dtype) == (total.shape, dtype)
        assert equal(total, torch.ones(shape, dtype=dtype))


def test_other_layouts_of_memory_keep_their_places(monkeypatch):
    total = totals(6000).reshape(60, 100)
    assert equal(released(monkeypatch, total.T.contiguous().T), released(monkeypatch, total))
    expanded = torch.ones(1, dtype=torch.float64).expand(4000)
    assert len(released(monkeypatch, expanded).unique()) > 2000


def test_few_spare_words_are_fetched_again(monkeypatch):
    fix_keys(monkeypatch)
    monkeypatch.setattr(on_grid, "_SPARE", 24)
    found = SystemRandomness().noised(torch.zeros(400_000, **WHOLE), std=1.0).numpy()
    assert stats.kstest(found, "norm").pvalue > 1e-3
    tails = np.abs(found)[np.abs(found) > 3.1]
    assert stats.kstest(stats.norm.sf(tails) / stats.norm.sf(3.1), "uniform").pvalue > 1e-3


def test_no_noise_is_a_copy_and_seeded_noise_what_it_was():
    total = totals(dtype=torch.float32)
    before = total.clone()
    for randomness in (SystemRandomness(), SeededRandomness(1)):
        found = add_noise(total, std=0.0, randomness=randomness)
        assert equal(found, total)
        assert found.data_ptr() != total.data_ptr()
    old = torch.empty(5000).normal_(0.0, 1.7, generator=SeededRandomness(9).generator("noise"))
    assert equal(add_noise(total, std=1.7, randomness=SeededRandomness(9)), total + old)
    assert equal(total, before)


def test_copies_draw_their_own():
    randomness = SystemRandomness()
    others = [
        randomness,
        copy.deepcopy(randomness),
        pickle.loads(pickle.dumps(randomness)),  # noqa: S301
        randomness,
    ]
    drawn = torch.stack([r.noised(torch.zeros(200, **WHOLE), std=1.0) for r in others])
    assert (torch.corrcoef(drawn) - torch.eye(4)).abs().max() < 0.6
    assert randomness.state() == {}


# batches


def test_a_batch_is_drawn_by_the_upper_bits_of_words(monkeypatch):
    rate = 0.1 + 2.0**-56
    threshold = math.floor(Fraction(rate) * 2**53)
    words = np.array([threshold - 1, threshold, threshold + 1, 0, 2**53 - 1], dtype=np.uint64) << np.uint64(11)
    words[0] |= np.uint64(2047)
    monkeypatch.setattr(
        cipher.Keystream, "fill", lambda self, out: out.__setitem__(slice(None), words.view(np.int64)[: len(out)])
    )
    for n, sample_rate, expected in ((5, rate, [0, 3]), (5, 1.0, [0, 1, 2, 3, 4]), (5, 0.0, []), (0, 0.5, [])):
        assert SystemRandomness().batch(n, sample_rate).tolist() == expected


def test_batches_reach_over_many_parts(monkeypatch):
    fix_keys(monkeypatch)
    n, draws = 2 * cipher.AT_ONCE + 1000, 60
    counts = np.zeros(n)
    for _ in range(draws):
        drawn = SystemRandomness().batch(n, 0.3)
        assert equal(drawn, drawn.unique())
        counts[drawn] += 1
    for part in (counts, counts[:1000], counts[-1000:]):
        expected = stats.binom.pmf(np.arange(draws + 1), draws, 0.3) * len(part)
        kept = expected > 5.0
        found = np.bincount(part.astype(int), minlength=draws + 1)[kept]
        assert stats.chi2.sf(((found - expected[kept]) ** 2 / expected[kept]).sum(), kept.sum() - 1) > 1e-4


# shares


@parametrize("processes", [1, 2, 3, 5, 7, 8, 1000])
@parametrize("std", [1.0, 1.1, 0.3, 3e-200, 7e200, 1.0 + 2.0**-52])
def test_shares_add_up_to_the_least_variance_that_suffices(std, processes):
    part = share(std, processes)
    assert processes * Fraction(part) ** 2 >= Fraction(std) ** 2
    assert processes * Fraction(math.nextafter(part, 0.0)) ** 2 < Fraction(std) ** 2


def ranks(count):
    made = []
    for rank in range(count):
        part = RankRandomness(SystemRandomness())
        part.rank, part.count = rank, count
        made.append(part)
    return made


def sums_over(parts, size=100_000, std=3.0):
    return [part.noised(torch.full((size,), 0.1 * part.rank), std=std) for part in parts]


def scale_is(values, std):
    statistic = float((values / std).pow(2).sum())
    law = stats.chi2(values.numel())
    return 2.0 * min(law.cdf(statistic), law.sf(statistic)) > 1e-4


@parametrize("count", [2, 3, 8])
def test_every_process_draws_its_share(monkeypatch, count):
    fix_keys(monkeypatch)
    drawn = torch.stack(sums_over(ranks(count)))
    assert drawn.dtype == torch.float64
    centred = drawn - torch.arange(count)[:, None] * torch.tensor(0.1).double()
    assert scale_is(centred.sum(0), 3.0)
    assert all(scale_is(part, 3.0 / math.sqrt(count)) for part in centred)
    assert not scale_is(centred.sum(0), 3.0 * 1.03)
    for values in (centred, centred.square() - centred.square().mean()):
        correlation = torch.corrcoef(values) - torch.eye(count)
        assert correlation.abs().max() < 5.0 / math.sqrt(centred.shape[1])
    orders = [drawn, drawn.flip(0), drawn.roll(1, 0)]
    assert all(equal(sum(o.unbind()), sum(drawn.unbind())) for o in orders)  # exact sums have no order


def test_a_share_that_is_the_whole_or_nothing_would_be_seen(monkeypatch):
    fix_keys(monkeypatch)
    for each in (3.0, 3.0 / 2):
        drawn = [add_noise(torch.zeros(100_000), std=each, randomness=part.base) for part in ranks(2)]
        assert not scale_is(sum(drawn), 3.0)


# the argument of docs/noise.md


def rounded(scale):
    """Probabilities of round(N(0, scale²)) at -14 .. 14."""
    edges = [mpmath.ncdf((mpmath.mpf(k) - 0.5) / scale) for k in range(-14, 16)]
    return [b - a for a, b in itertools.pairwise(edges)]


@pytest.mark.slow
@parametrize(("one", "other"), [(0.6, 0.6), (0.5, 1.0), (0.8, 0.7)])
def test_shares_on_a_grid_are_a_rounded_normal_number_up_to_their_bound(one, other):
    with mpmath.workdps(30):
        first, second, both = rounded(one), rounded(other), mpmath.hypot(one, other)
        harmonic = (mpmath.mpf(one) * other / both) ** 2
        bound, errors = (2 * sum(mpmath.exp(-2 * mpmath.pi**2 * m * m * harmonic) for m in range(1, 9)), [])
        for k in range(4):
            found = sum(first[14 + j] * second[14 + k - j] for j in range(k - 14, 15))
            upper, lower = (
                mpmath.quad(lambda u, x=x: mpmath.ncdf((x - u) / both), [-0.5, 0.5]) for x in (k + 0.5, k - 0.5)
            )
            errors.append(abs(found / (upper - lower) - 1))
        assert bound / 50 < max(errors) <= bound  # and the bound is about something


@parametrize(("coordinates", "steps", "processes"), [(10**6, 10**4, 1), (1, 7, 4), (3, 1, 1)])
def test_the_price_of_finite_arithmetic(coordinates, steps, processes):
    """Every number of the run pays, by an advanced composition of its own cost, there and back."""
    epsilon, delta = arithmetic_cost(coordinates=coordinates, steps=steps, delta=1e-12, processes=processes)
    with mpmath.workdps(40):
        numbers, each = mpmath.mpf(coordinates) * steps * processes, mpmath.mpf(on_grid.CELL_ERROR)
        spread = mpmath.sqrt(2 * numbers * mpmath.log(mpmath.mpf(10) ** 12)) * each
        assert epsilon == near(float(2 * (spread + numbers * each * (mpmath.exp(each) - 1))), rel=1e-12)
        assert delta - 1e-12 == near(float(numbers * on_grid.TAIL_MASS), rel=1e-3, abs=1e-27)


def test_the_constants_of_the_argument():
    """Error of a number in units of the grid, then of a cell's probability: docs/noise.md, sections 3 and 4."""
    u, scale, lowest = 2.0**-53, 2.0**11, 2.0**-86
    reach = -float(stats.norm.isf(1.0 - lowest)) if lowest > 1e-15 else -float(stats.norm.ppf(lowest))
    assert 10.5 < reach < 10.65
    inside = 2.6 * u + max(2.0**-64 / stats.norm.pdf(stats.norm.isf(2.0**-10)), 2.0**-136 / stats.norm.pdf(reach))
    assert inside < 3.4 * u
    moved = scale * (inside + (2.05 * reach + 0.5) * u) + 2.01 * u * scale * reach + u
    assert moved < scale * u * (4.1 * reach + 4.0) < 2.0**-36.3
    ratio = 2.0 * moved * math.exp((reach + 0.01) / 2.0**10)
    assert ratio * 1.001 < on_grid.CELL_ERROR
    assert 2.0 * stats.norm.sf(reach - 8.0 / 2.0**10) < on_grid.TAIL_MASS
