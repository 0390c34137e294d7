"""The one sampler, Poisson's rounded down and once an epoch: one room for every generator, seeded runs as they were."""

import math
from fractions import Fraction

import torch
from scipy import stats

from pacdp.random import Words
from pacdp.step.noise import SeededRandomness, SystemRandomness
from pacdp.step.sampling import once_an_epoch, poisson, with_replacement
from tests.marks import parametrize


@parametrize("rate", [0.0, 1.0, 0.3, 1.0 / 3.0, 0.1, 2.0**-40, math.nextafter(1.0, 0.0)])
@parametrize("bits", [32, 53])
def test_the_probability_is_the_rate_rounded_down_to_a_multiple_of_the_grid(rate, bits):
    threshold = math.floor(Fraction(rate) * 2**bits)
    values = torch.tensor(sorted({0, max(0, threshold - 1), min(threshold, 2**bits - 1), 2**bits - 1}))
    expected = [i for i, value in enumerate(values.tolist()) if value < threshold]
    assert poisson(Words(values, bits), rate).tolist() == expected


def test_seeded_batches_are_those_of_uniform_numbers_below_the_rate():
    own, drawn = SeededRandomness(5), SeededRandomness(5).generator("batches")
    for rate in (0.02, 1.0 / 7.0, 1.0):
        uniform = torch.rand(5000, dtype=torch.float64, generator=drawn)
        assert own.batch(5000, rate).tolist() == (uniform < rate).nonzero()[:, 0].tolist()


def test_uniform_indices_use_the_upper_32_bits_of_whatever_words():
    values = torch.tensor([0, 2**31, 2**32 - 1])
    short, long = Words(values, 32), Words(values << 21, 53)
    assert with_replacement(short, 10).tolist() == with_replacement(long, 10).tolist() == [0, 5, 9]


@parametrize("batches", [1, 3, 5, 8])
def test_words_beyond_the_last_whole_round_are_drawn_again_so_that_batches_are_exactly_uniform(batches):
    """Of all pairs of three-bit words, for a record each; what is drawn again is 0."""
    pairs = torch.cartesian_prod(torch.arange(8), torch.arange(8))
    words = iter([pairs.flatten()])
    places = once_an_epoch(lambda n: Words(next(words, torch.zeros(n, dtype=torch.int64)), 3), 128, batches)
    kept = pairs[(pairs < 8 // batches * batches).all(1)]
    found = places.reshape(-1, 2)[(pairs < 8 // batches * batches).all(1)]
    counts = (batches * found[:, 0] + found[:, 1]).bincount(minlength=batches**2)
    assert (counts == len(kept) // batches**2).all()
    assert places.reshape(-1, 2)[(pairs >= 8 // batches * batches).all(1)].sum() == 0


@parametrize("source", [SystemRandomness(), SeededRandomness(3)])
def test_places_are_independent_of_other_records_and_of_other_epochs(source):
    joint = torch.zeros(27)
    for _ in range(2700):
        (a, b), (c, _) = (source.places(2, 3).tolist() for _ in range(2))
        joint[9 * a + 3 * b + c] += 1
    assert stats.chisquare(joint.numpy()).pvalue > 1e-6
