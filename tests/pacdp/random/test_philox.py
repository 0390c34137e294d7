"""Random words are Philox4x32-10's, in torch, from the compiled code and from Triton; normal numbers are normal."""

import os

import numpy as np
import pytest
import torch
from numpy import array_equal
from scipy import stats
from torch import equal

from pacdp.chains import Keys, normal_like
from pacdp.random import philox
from pacdp.random.philox_compiled import _direction, _radius, block, words
from tests.marks import every_case, parametrize
from tests.pacdp.random.known_answers import VECTORS, numbers

U = np.uint64
KEYS = Keys.derive([11, 12, 13, 2**40])
PAIRS = [(0, 0), (3, 1), (2**32 - 1, 0), (2**32, 2), (2**32 + 5, 4), (2**62 + 12345, 77)]


def normals(dim, keys=KEYS, *, tick=0, stream=0):
    return normal_like(torch.empty(keys.count, dim), keys=keys, stream=stream, tick=tick).numpy()


def by_reference(c, k):
    return philox.words(torch.tensor([c[0]]), c[1], c[2] | c[3] << 32, k[0], k[1])


def by_compiled_code(c, k):
    return block(*(np.uint32(word) for word in (*c, *k)))


def by_triton(c, k):
    """The block of the step's kernel, alone, in Triton's interpreter."""
    if os.environ["TRITON_INTERPRET"] != "1":
        pytest.skip("tests/pacdp/test_cuda.py runs it")
    pytest.importorskip("triton")
    from tests.pacdp.random.triton_block import words_of

    return words_of(torch.tensor([*c, *k]))


@every_case("form", [by_reference, by_compiled_code, by_triton])
def test_known_answers(form):
    for counter, key, expected in VECTORS:
        assert [int(word) for word in form(numbers(counter), numbers(key))] == numbers(expected)


every_pair = parametrize(("tick", "stream"), PAIRS)


@every_pair
@parametrize("size", [1, 3, 4, 5, 1001])
def test_compiled_words_are_those_of_torch(tick, stream, size):
    for key in [int(key) for key in KEYS.noise] + [0, 2**64 - 1, 2**63]:
        compiled = np.empty(size, np.uint32)
        words(compiled, U(key), np.uint32(stream), U(tick))
        for given in (tick, torch.tensor(tick)):
            halves = torch.tensor([[key & 0xFFFFFFFF, 5], [key >> 32, 7]])
            found = philox.uniform_words(halves, size, stream, given)
            assert array_equal(found[0].numpy().astype(np.uint32), compiled)
            assert equal(found[1:], philox.uniform_words(halves[:, 1:], size, stream, given))


@every_pair
@parametrize("dim", [1, 3, 1024, 1025, 4095, 4096, 4097, 10_000])
def test_compiled_normals_are_those_of_torch(dim, tick, stream):
    twin = philox.normal(dim, KEYS.noise_on(torch.device("cpu")), stream, torch.tensor(tick)).numpy()
    found = normals(dim, tick=tick, stream=stream)
    assert found.shape == twin.shape == (4, dim)
    assert np.abs(found - twin).max() < 1e-5
    assert array_equal(normals(dim + 1, tick=tick, stream=stream)[:, :dim], found)


def test_normals_are_box_and_mullers_of_the_words_in_double_precision():
    """Layout included: coordinate i is word (i mod 4096)//1024 of block 1024 (i // 4096) + i mod 1024."""
    dim, keys = 9000, KEYS.select([1])
    drawn = np.empty(4 * 3 * 1024, np.uint32)
    words(drawn, keys.noise[0], np.uint32(2), U(7))
    four = drawn.reshape(-1, 4).astype(float)
    radius = np.sqrt(-2 * np.log((four[:, [0, 2]] + 0.5) / 2**32))
    angle = 2 * np.pi * four[:, [1, 3]] / 2**32
    both = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2).reshape(-1, 4)
    exact = both.reshape(3, 1024, 4).transpose(0, 2, 1).reshape(-1)[:dim]
    found = normals(dim, keys, tick=7, stream=2)[0]
    assert np.abs(found - exact).max() < 2e-5  # near u = 1 single precision resolves u to 2^-24 only
    assert np.sqrt(((found - exact) ** 2).mean()) < 1e-6


@every_case("word", [0, 1, 2**24, 2**31, 2**32 - 257, 2**32 - 256, 2**32 - 129, 2**32 - 1])
def test_no_word_surprises(word):
    r, angle = float(_radius(np.uint32(word))), 2 * np.pi * word / 2**32
    u = (word + 0.5) / 2**32
    assert 0 <= r <= np.sqrt(2 * np.log(2**33)) * (1 + 1e-6)
    # u is rounded to single precision: its neighbours bracket the radius
    low, high = max(0.0, -2 * np.log(min(1.0, u * (1 + 2**-23)))), -2 * np.log(u * (1 - 2**-23))
    assert np.sqrt(low) * (1 - 1e-6) - 1e-6 <= r <= np.sqrt(high) * (1 + 1e-6) + 1e-6
    assert np.allclose(_direction(np.uint32(word)), [np.cos(angle), np.sin(angle)], rtol=0.0, atol=1e-6)


LONG = Keys.derive([5] * 25, range(25))


def test_tails_and_distribution():
    x = np.concatenate([normals(20_000, LONG, tick=tick).ravel() for tick in range(4)]).astype(float)
    n = x.size
    edges = np.array([-np.inf, -4.5, -4, -3.5, -3, -2, -1, 0, 1, 2, 3, 3.5, 4, 4.5, np.inf])
    counts = np.histogram(x, edges)[0]
    assert stats.chisquare(counts, n * np.diff(stats.norm.cdf(edges))).pvalue > 1e-3
    assert stats.kstest(1.01 * x, "norm").pvalue < 1e-6


def correlations(left, right):
    """Of each row, times √n: N(0, 1) where rows are independent. Of values, squares and products with both."""
    n = left.shape[1]
    plain = (left * right).sum(axis=1) / n**0.5
    squares = ((left**2 - 1) * (right**2 - 1)).sum(axis=1) / (2 * n**0.5)
    return np.concatenate([plain, squares])


def test_chains_ticks_streams_and_neighbours_are_uncorrelated():
    keys, dim = Keys.derive(range(40)), 8192
    first = normals(dim, keys).astype(float)
    companions = {
        "chains": np.roll(first, 1, axis=0), "next tick": normals(dim, keys, tick=1),
        "high tick": normals(dim, keys, tick=2**32), "stream": normals(dim, keys, stream=1),
    }  # fmt: skip
    found = {name: correlations(first, other.astype(float)) for name, other in companions.items()}
    for lag in (1, 2, 1023, 1024, 1025, 2048, 3072, 4096):
        found[f"lag {lag}"] = correlations(first[:, :-lag], first[:, lag:])
    for name, z in found.items():
        assert np.abs(z).max() < 5, name
        assert stats.chi2(z.size).sf((z**2).sum()) > 1e-4, name
    related = correlations(first, first + 0.05 * np.roll(first, 1, axis=0))
    assert stats.chi2(related.size).sf((related**2).sum()) < 1e-6
