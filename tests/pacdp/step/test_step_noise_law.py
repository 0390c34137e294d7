"""The law of the noise and its independence, for both sources; each check notices the faults that are planted here.

Every check gives a p-value, corrected for the number of things that it looks at. A right source keeps above 1e-5 (with
the keys and the seed that stand here: nothing is left to chance), a planted fault falls below 1e-9.
"""

import numpy as np
import pytest
import torch
from scipy import fft, stats

from pacdp.random import cipher
from pacdp.step.noise import SeededRandomness, SystemRandomness
from tests.marks import parametrize, slow
from tests.pacdp.random.secure_toys import fix_keys

CPU = torch.device("cpu")
WIDE = cipher.AT_ONCE + 7001  # more than is made at once
STEPS = [
    (5, WIDE), (8_000, 10), slow(20, WIDE), slow(30_000, 10),
]  # fmt: skip
SOURCES = {"system": SystemRandomness, "seeded": lambda: SeededRandomness(20)}


def drawn(source, calls, size):
    """So many calls for so many numbers, one row a call."""
    return np.stack([source.noised(torch.zeros(size), std=1.0).numpy() for _ in range(calls)])


def corrected(pvalues):
    pvalues = np.atleast_1d(pvalues)
    return min(1.0, float(pvalues.min()) * pvalues.size)


def two_sided(scores):
    return 2.0 * stats.norm.sf(np.abs(scores))


def cells(values):
    """Every cell of the grid: the probability that the rounded normal law gives to it."""
    index = np.rint(values * 1024.0).astype(np.int64)
    edges = (np.arange(-3300, 3302) - 0.5) / 1024.0
    expected = np.diff(stats.norm.cdf(edges)) * len(values)
    found = np.bincount(np.clip(index, -3301, 3301) + 3301, minlength=6603)[1:-1]
    single = two_sided((found - expected) / np.sqrt(expected) * 0.97)  # Poisson's skewness
    return min(corrected(single), stats.chi2.sf(((found - expected) ** 2 / expected).sum(), len(found)))


def tails(values):
    """How many numbers are beyond 1, 1.5, ..., 6 standard deviations, on either side."""
    found = []
    for level in np.arange(1.0, 6.5, 0.5) - 0.5 / 1024.0:  # between two points of the grid
        for side in (-1.0, 1.0):
            count = int((side * values > level).sum())
            found.append(stats.binomtest(count, len(values), stats.norm.sf(level)).pvalue)
    return corrected(found)


def moments(values):
    """The first four."""
    n, found = len(values), values.astype(np.float64)
    scores = [found.mean(), (found**2).mean() - 1.0, (found**3).mean(), (found**4).mean() - 3.0]
    return corrected(two_sided(scores * np.sqrt(n / np.array([1.0, 2.0, 15.0, 96.0]))))


def coordinates(rows):
    """Every coordinate by itself, over the calls: its whole law, its mean, its scale."""
    kolmogorov = [stats.kstest(column, "norm").pvalue for column in rows.T]
    statistic, law = (rows.astype(np.float64) ** 2).sum(0), stats.chi2(len(rows))
    scale = 2.0 * np.minimum(law.cdf(statistic), law.sf(statistic))
    mean = two_sided(rows.mean(0) * np.sqrt(len(rows)))
    return min(corrected(kolmogorov), corrected(scale), corrected(mean))


def between_coordinates(rows):
    """All pairs of coordinates, of this call and of the next one, as they are and squared."""
    values = rows.astype(np.float64)
    found = []
    for x in (values, (values**2 - 1.0) / np.sqrt(2.0)):
        now = (x.T @ x)[np.triu_indices(x.shape[1], 1)]
        later = (x[1:].T @ x[:-1]).ravel()
        found += [two_sided(products / np.sqrt(len(x)) * 0.9) for products in (now, later)]
    return corrected(np.concatenate(found))


def lags(rows):
    """Every lag through all calls one after the other, as they are and squared."""
    values = rows.ravel().astype(np.float64)
    n, found = len(values), []
    for x in (values, (values**2 - 1.0) / np.sqrt(2.0)):
        spectrum = fft.rfft(x, fft.next_fast_len(2 * n, real=True))
        products = fft.irfft(np.abs(spectrum) ** 2, fft.next_fast_len(2 * n, real=True))[1 : n - 20_000]
        found.append(products / np.sqrt(n - 1.0 - np.arange(len(products))))
    return corrected(two_sided(np.concatenate(found) * 0.9))  # products have heavier tails


@pytest.fixture
def fixed(monkeypatch):
    fix_keys(monkeypatch, "laws")


every_source = parametrize("name", SOURCES)


@parametrize("size", [1 << 21, slow(1 << 23)])
@every_source
def test_the_law_of_all_numbers(fixed, name, size):
    values = drawn(SOURCES[name](), 1, size).ravel()
    assert min(cells(values), tails(values), moments(values)) > 1e-5


@every_source
def test_the_law_of_each_coordinate(fixed, name):
    rows = drawn(SOURCES[name](), 3000, 61)
    assert min(coordinates(rows), between_coordinates(rows)) > 1e-5


@every_source
@parametrize(("calls", "size"), [*STEPS, (1, 200_000), slow(1, 800_000)])
def test_independence_at_every_lag(fixed, name, calls, size):
    assert lags(drawn(SOURCES[name](), calls, size)) > 1e-5


# planted faults


class Planted(SystemRandomness):
    """A secure source with something wrong in what it hands out."""

    def __init__(self, fault):
        self.fault = fault

    def noised(self, total, **how):
        return self.fault(super().noised(total, **how))


def uniform(count):
    words = np.empty(count, np.int64)
    cipher.fresh().fill(words)
    return torch.from_numpy((words.view(np.uint64) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def box_muller(values, *, second):
    half = len(values) // 2
    radius, angle = (-2.0 * uniform(half).log()).sqrt(), 2.0 * np.pi * uniform(half)
    return torch.cat([radius * angle.cos(), second(radius, angle)]).float()


def repeated_chunk(values):
    values[20_000:36_384] = values[:16_384]
    return values


def biased_cell(values):
    values[values == 300.0 / 1024.0] = 301.0 / 1024.0
    return values


def bias_without_noise(values):
    values[-1] *= 0.8
    return values


def shared_noise(values):
    values[7] = values[3]
    return values


OF_LAGS = {
    "half of each Box-Muller pair twice": lambda v: box_muller(v, second=lambda r, a: r * a.cos()),
    "one radius for two angles": lambda v: box_muller(v, second=lambda r, a: r * (2.0 * np.pi * uniform(len(r))).cos()),
    "a chunk twice": repeated_chunk,
    "neighbours averaged": lambda v: (v + 0.05 * v.roll(1)) / 1.0025**0.5,
}
OF_ALL = {
    "a biased cell": (biased_cell, cells, 1 << 21),
    "a grid twice as coarse": (lambda v: (512.0 * v).round() / 512.0, cells, 1 << 21),
    "tails cut off": (lambda v: v.clamp(-4.4, 4.4), tails, 1 << 23),
    "tails too long": (lambda v: torch.where(v.abs() > 4.0, 1.1 * v, v), tails, 1 << 21),
    "a mean": (lambda v: v + 0.006, moments, 1 << 21),
    "half a percent too little": (lambda v: 0.995 * v, moments, 1 << 21),
}
OF_COORDINATES = {
    "a bias with less noise": (bias_without_noise, coordinates),
    "two coordinates with one noise": (shared_noise, between_coordinates),
    "the same tail in each": (lambda v: v.abs(), coordinates),
}


def test_a_right_box_muller_transform_passes(fixed):
    right = Planted(lambda v: box_muller(v, second=lambda r, a: r * a.sin()))
    assert lags(drawn(right, 10, 40_000)) > 1e-5


@parametrize("name", OF_LAGS)
def test_dependence_within_a_step_would_be_seen(fixed, name):
    assert lags(drawn(Planted(OF_LAGS[name]), 20, 40_000)) < 1e-9


@parametrize(("calls", "size"), STEPS)
def test_a_keystream_that_begins_anew_at_each_step_would_be_seen(monkeypatch, calls, size):
    monkeypatch.setattr(cipher, "new_key", lambda: bytes(32))
    assert lags(drawn(SystemRandomness(), calls, size)) < 1e-9


def test_a_key_that_begins_anew_within_a_step_would_be_seen(monkeypatch):
    fix_keys(monkeypatch)
    key, fill = cipher.new_key(), cipher.Keystream.fill
    monkeypatch.setattr(cipher.Keystream, "fill", lambda self, words: fill(cipher.Keystream(key, bytes(12)), words))
    assert lags(drawn(SystemRandomness(), 1, 200_000)) < 1e-9


@parametrize("name", OF_ALL)
def test_a_wrong_law_would_be_seen(fixed, name):
    fault, check, size = OF_ALL[name]
    assert check(drawn(Planted(fault), 1, size).ravel()) < 1e-9


@parametrize("name", OF_COORDINATES)
def test_a_wrong_coordinate_would_be_seen(fixed, name):
    fault, check = OF_COORDINATES[name]
    assert check(drawn(Planted(fault), 3000, 61)) < 1e-9
