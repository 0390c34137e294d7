"""The one Poisson sampler: rounded down, the same room for every generator, the numbers of seeded runs as they were."""

import math
from fractions import Fraction

import torch

from pacdp.random import Words
from pacdp.step.noise import SeededRandomness
from pacdp.step.sample import poisson, with_replacement
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
