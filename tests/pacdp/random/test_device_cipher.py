"""Words made on a device are ChaCha20's; noise there waits for nothing and is that of the CPU."""

import os

import numpy as np
import pytest
import torch
from numpy import array_equal
from numpy.random import default_rng
from scipy import stats
from torch import equal

from pacdp.random import cipher, grid
from tests.marks import parametrize
from tests.pacdp.random.secure_toys import fix_keys
from tests.pacdp.step.reads import Reads

KEY, PLACE = bytes(range(32)), bytes(range(100, 112))
CPU = torch.device("cpu")


def of_openssl(first, count):
    words = np.empty(first + count, np.int64)
    cipher.Keystream(KEY, PLACE).fill(words)
    return words[first:]


@pytest.mark.skipif(os.environ["TRITON_INTERPRET"] != "1", reason="tests/pacdp/test_cuda.py runs it")
@parametrize(("first", "count"), [(0, 1), (0, 1040), (43, 2400), (24, 0)])
def test_words_are_those_of_another_implementation(first, count):
    made = pytest.importorskip("pacdp.random.triton_cipher").keystream(KEY, PLACE, first=first, count=count, device=CPU)
    assert array_equal(made.numpy(), of_openssl(first, count))


@parametrize("sizes", [(1, 7, 8, 9, 1), (100, 3), (5,), (8, 16)])
def test_words_go_on_where_they_were_left(sizes):
    there, here = cipher.Keystream(KEY, PLACE), cipher.Keystream(KEY, PLACE)
    for size in sizes:
        words = np.empty(size, np.int64)
        here.fill(words)
        assert array_equal(there.on(CPU, size).numpy(), words)


def test_fresh_words_have_a_key_of_their_own_each_time(monkeypatch):
    fix_keys(monkeypatch)
    one, other = (cipher.fresh().on(CPU, 50) for _ in range(2))
    assert not equal(one, other)
    fix_keys(monkeypatch)
    assert equal(cipher.fresh().on(CPU, 50), one)


@parametrize("size", [1, 1000, 100_000])
def test_enough_spare_words_are_taken_and_nothing_is_waited_for(size):
    words = torch.from_numpy(default_rng(size).integers(-(2**63), 2**63, size))
    spare = torch.from_numpy(default_rng(1).integers(-(2**63), 2**63, 2 * size + 2000))
    asked = []

    def take(count):
        asked.append(count)
        return spare[:count]

    values = torch.linspace(-3, 3, size, dtype=torch.float64)
    counted = grid.on_grid(values, words, take, 1000.0, 2.0**-9, most=size)
    with Reads() as reads:
        made = grid.on_grid(values, words, take, 1000.0, 2.0**-9, most=grid.most_tails(size))
    assert equal(made, counted)
    assert reads.seen == []
    assert asked[-1] <= 2 * (size / 512 + 20 * (size / 512) ** 0.5 + 201)


def test_more_tails_than_that_have_a_chance_below_e_to_the_minus_200():
    for mean in (1, 50, 2048, 1e6):
        most = grid.most_tails(int(mean * 512))
        assert most >= mean * 512 or stats.poisson.logsf(most, mean) < -200.0


def test_noise_made_on_a_device_waits_for_nothing_and_has_the_size_asked_for(monkeypatch):
    fix_keys(monkeypatch)
    total, out = torch.zeros(30_000), torch.empty(30_000)
    with Reads() as reads:
        grid._by_torch(total, 1024.0, 2.0**-10, cipher.fresh(), out)
    assert reads.seen == []
    assert stats.kstest(out.numpy(), "norm").pvalue > 1e-4
    assert not bool((out * 1024.0).frac().any()), "on the grid"
