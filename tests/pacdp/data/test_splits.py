"""Splits are disjoint, cover what they promise, and are the same on every machine."""

import hashlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import stats

from pacdp.data import DataError, index_hash, make_splits, require_disjoint
from tests.marks import refusal

names = st.text("abcdef", min_size=1, max_size=3)
seeds = st.integers(0, 2**64)


@st.composite
def fraction_sizes(draw):
    weights = draw(st.dictionaries(names, st.integers(1, 20), min_size=1, max_size=4))
    return {name: weight / sum(weights.values()) for name, weight in weights.items()}


@given(n=st.integers(100, 300), sizes=fraction_sizes(), seed=seeds)
def test_fractions_of_one_partition(n, sizes, seed):
    splits = make_splits(n, sizes=sizes, seed=seed)
    assert list(splits) == list(sizes)
    together = np.concatenate([split.indices for split in splits.values()])
    assert_array_equal(np.sort(together), np.arange(n))
    for name, split in splits.items():
        assert abs(split.n - sizes[name] * n) <= 1
        assert split.indices.dtype == np.int64
        assert np.all(np.diff(split.indices) > 0)
        assert split.hash == index_hash(split.indices)


@given(n=st.integers(1, 200), counts=st.lists(st.integers(0, 60), min_size=1, max_size=4), seed=seeds)
def test_counts_are_exact_and_disjoint(n, counts, seed):
    sizes = {f"part {i}": count for i, count in enumerate(counts)}
    if sum(counts) > n:
        with refusal(f"ask for {sum(counts)} of {n}", DataError):
            make_splits(n, sizes=sizes, seed=seed)
        return
    splits = make_splits(n, sizes=sizes, seed=seed)
    assert [split.n for split in splits.values()] == counts
    together = np.concatenate([split.indices for split in splits.values()])
    assert len(np.unique(together)) == sum(counts)


def test_splits_never_change():
    """Checkpoints carry these hashes: a new value here would orphan them. The order of names is none of theirs."""
    sizes = {"prior": 0.5, "bound": 0.3, "rest": 4}
    turned = dict(reversed(sizes.items()))
    assert make_splits(50, sizes=sizes, seed=3) == make_splits(50, sizes=turned, seed=3)
    assert make_splits(50, sizes=sizes, seed=3) != make_splits(50, sizes=sizes, seed=4)
    splits = make_splits(11, sizes={"prior": 0.5, "bound": 0.5}, seed=0)
    assert splits["prior"].indices.tolist() == [4, 5, 7, 9, 10]
    with refusal("read-only"):
        splits["prior"].indices[0] = 0
    assert splits["prior"].hash == "2d5d7814a26b9b16d301c4d565a68c5a0a366fa6264cf473c8f97526159721c0"
    assert splits["bound"].hash == "c5253bb7e7aedc301df6fa104962c95862a5e7b3c37d5b76ee571fe5d815e65a"


def test_every_example_is_equally_likely():
    """Memberships over 2,000 seeds against 10 of 20: chi-square of 20 counts, and it would notice a favourite."""
    hits = np.zeros(20)
    for seed in range(2_000):
        hits[make_splits(20, sizes={"half": 10}, seed=seed)["half"].indices] += 1

    def tail():
        # a without-replacement draw of half: variance 500 each, and the sum is fixed, hence the factor 19/20
        return float(stats.chi2(19).sf(np.sum((hits - 1_000) ** 2) / 500 * 19 / 20))

    assert 1e-6 < tail() < 1 - 1e-6
    hits[0] += 200
    assert tail() < 1e-6


@given(indices=st.lists(st.integers(0, 10**6), unique=True, max_size=30), random=st.randoms(use_true_random=False))
def test_the_hash_is_of_the_set(indices, random):
    shuffled = random.sample(indices, len(indices))
    expected = hashlib.sha256(b"".join(i.to_bytes(8, "little") for i in sorted(indices))).hexdigest()
    assert index_hash(np.array(shuffled, dtype=np.int64)) == expected
    assert index_hash(np.array(shuffled, dtype=np.int32)) == expected


def test_overlap_is_refused_with_its_size():
    splits = make_splits(100, sizes={"prior": 0.5, "bound": 0.5}, seed=1)
    require_disjoint(splits["prior"], splits["bound"])
    with refusal(r"^the prior's set and the bound's set share 50 examples; ", DataError):
        require_disjoint(splits["prior"], splits["prior"].indices, names=("the prior's set", "the bound's set"))
