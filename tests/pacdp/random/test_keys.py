"""A key is a function of seed and chain number: different pairs have different keys, equal pairs the same."""

import numpy as np
from numpy import array_equal

from pacdp.chains import Keys


def test_equal_pairs_have_equal_keys_and_different_ones_do_not():
    seeds = [0, 1, 2, 7, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**40, 2**63 - 1, 2**64 + 3, 2**100]
    chains = [0, 1, 2, 1000, 2**31, 2**32, 2**33]
    pairs = [(seed, chain) for seed in seeds for chain in chains]
    keys, again = (Keys.derive(*zip(*pairs, strict=True)) for _ in range(2))
    assert array_equal(keys.noise, again.noise)
    assert array_equal(keys.batch, again.batch)
    everything = np.concatenate([keys.noise, keys.batch])
    assert len(np.unique(everything)) == 2 * len(pairs)


def test_a_key_does_not_depend_on_its_companions_and_chains_are_zero_by_default():
    together = Keys.derive([3, 4, 5], [0, 1, 0])
    alone = [Keys.derive([3]), Keys.derive([4], [1]), Keys.derive([5], [0])]
    for some in (together.select([k]) for k in range(3)):
        expected = alone.pop(0)
        assert (some.noise.tolist(), some.batch.tolist()) == (expected.noise.tolist(), expected.batch.tolist())
    assert (together.count, Keys.derive([]).count) == (3, 0)


def test_groups_share_minibatch_keys():
    keys = Keys.derive([7, 8, 7, 7], [0, 0, 1, 0])
    distinct, group = keys.groups
    assert len(distinct) == 3
    assert group[0] == group[3] != group[1] != group[2]
    assert array_equal(distinct[group], keys.batch)
