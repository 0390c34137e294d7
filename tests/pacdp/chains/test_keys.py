"""A key is a function of seed and chain number: different pairs have different keys, equal pairs the same."""

import numpy as np
import pytest
import torch

from pacdp.chains import Keys


def test_equal_pairs_have_equal_keys_and_different_ones_do_not() -> None:
    seeds = [0, 1, 2, 7, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**40, 2**63 - 1, 2**64 + 3, 2**100]
    chains = [0, 1, 2, 1000, 2**31, 2**32, 2**33]
    pairs = [(seed, chain) for seed in seeds for chain in chains]
    keys, again = (Keys.derive(*zip(*pairs, strict=True)) for _ in range(2))
    assert np.array_equal(keys.noise, again.noise)
    assert np.array_equal(keys.batch, again.batch)
    everything = np.concatenate([keys.noise, keys.batch])
    assert len(np.unique(everything)) == 2 * len(pairs)


def test_a_key_does_not_depend_on_its_companions() -> None:
    together = Keys.derive([3, 4, 5], [0, 1, 0])
    for k, (seed, chain) in enumerate(((3, 0), (4, 1), (5, 0))):
        alone = Keys.derive([seed], [chain])
        assert (alone.noise[0], alone.batch[0]) == (together.noise[k], together.batch[k])


def test_chains_are_zero_by_default() -> None:
    assert np.array_equal(Keys.derive([3, 4]).noise, Keys.derive([3, 4], [0, 0]).noise)
    assert (Keys.derive([3, 4]).count, Keys.derive([]).count) == (2, 0)


def test_keys_are_spread_over_all_bits() -> None:
    keys = Keys.derive(range(2000))
    for column in (keys.noise, keys.batch):
        ones = np.unpackbits(column.view(np.uint8).reshape(-1, 8), axis=1).sum(axis=0, dtype=np.int64)
        assert np.abs(ones - 1000).max() < 5 * 500**0.5


def test_select_takes_some_in_the_given_order() -> None:
    keys = Keys.derive(range(5))
    some = keys.select([4, 0])
    assert some.noise.tolist() == [keys.noise[4], keys.noise[0]]
    assert some.batch.tolist() == [keys.batch[4], keys.batch[0]]


def test_groups_share_minibatch_keys() -> None:
    keys = Keys.derive([7, 8, 7, 7], [0, 0, 1, 0])
    distinct, group = keys.groups
    assert len(distinct) == 3
    assert group[0] == group[3] != group[1] != group[2]
    assert np.array_equal(distinct[group], keys.batch)


def test_noise_on_a_device_is_the_two_halves() -> None:
    keys = Keys.derive([1, 2, 3])
    low, high = keys.noise_on(torch.device("cpu")).tolist()
    assert [a | b << 32 for a, b in zip(low, high, strict=True)] == keys.noise.tolist()
    assert keys.noise_on(torch.device("cpu")) is keys.noise_on(torch.device("cpu"))


@pytest.mark.parametrize(
    ("seeds", "chains", "sentence"),
    [
        ([1, -1], None, "expected seeds and chain numbers >= 0"),
        ([1], [-1], "expected seeds and chain numbers >= 0"),
        ([1, 2], [0], "expected as many chains as seeds, got 1 and 2"),
    ],
)
def test_bad_numbers_are_refused(seeds: list[int], chains: list[int] | None, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Keys.derive(seeds, chains)
