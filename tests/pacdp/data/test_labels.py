"""Random labels: uniform over all classes, nested in the fraction, untouched elsewhere."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import stats

from pacdp.data import Dataset, random_labels, randomise
from tests.marks import parametrize

seeds = st.integers(0, 2**32)
unit = st.floats(0, 1)


def some_labels(n, classes):
    return np.arange(n, dtype=np.int64) % classes


@given(n=st.integers(1, 200), classes=st.integers(2, 12), seed=seeds, fractions=st.tuples(unit, unit))
def test_a_larger_fraction_corrupts_a_superset(n, classes, seed, fractions):
    labels = some_labels(n, classes)
    few, many = (random_labels(labels, fraction=f, classes=classes, seed=seed) for f in sorted(fractions))
    assert np.sum(few != labels) <= round(min(fractions) * n)
    changed = few != labels
    assert_array_equal(many[changed], few[changed])
    assert many.min() >= 0
    assert many.max() < classes


def pair(n, **how):
    """Two label vectors that differ everywhere, randomised: they agree exactly where labels were drawn."""
    return [random_labels(np.full(n, label), classes=3, **how) for label in (0, 1)]


@given(n=st.integers(1, 200), fraction=unit, seed=seeds)
def test_exactly_the_fraction_is_drawn(n, fraction, seed):
    a, b = pair(n, fraction=fraction, seed=seed)
    drawn = a == b
    assert drawn.sum() == round(fraction * n)
    assert np.all(a[~drawn] == 0)
    assert np.all(b[~drawn] == 1)


@parametrize("classes", [2, 3, 10])
def test_draws_are_uniform_over_all_classes_and_independent_of_the_truth(classes):
    labels = np.sort(some_labels(60_000, classes))
    drawn = random_labels(labels, fraction=1.0, classes=classes, seed=11)

    def pvalue(found):
        return stats.chisquare(np.bincount(labels * classes + found, minlength=classes**2)).pvalue

    assert pvalue(drawn) > 1e-6
    # and this test would notice labels that are never the true one, the commonest mistake
    assert pvalue((labels + 1 + drawn % (classes - 1)) % classes) < 1e-9


def test_the_subset_is_uniform():
    chosen = np.zeros(4)
    for seed in range(400):
        a, b = pair(40, fraction=0.25, seed=seed)
        chosen += (a == b).reshape(4, 10).sum(axis=1)
    assert stats.chisquare(chosen).pvalue > 1e-6


def test_the_seed_decides():
    labels = some_labels(100, 10)
    a, b, c = (random_labels(labels, fraction=1.0, classes=10, seed=s) for s in (7, 7, 8))
    assert_array_equal(a, b)
    assert np.any(a != c)
    # one line of the stream, so that a published seed keeps its meaning
    assert a[:10].tolist() == [2, 6, 6, 6, 9, 9, 6, 0, 5, 6]


def test_randomised_dataset():
    inputs = np.zeros((50, 1, 2, 2), dtype=np.float32)
    data = Dataset("toy", inputs, some_labels(50, 10), 10)
    other = randomise(data, fraction=1.0, seed=7)
    assert other.name == "toy+random1.0@7"
    assert other.hash != data.hash
    assert np.shares_memory(other.inputs, data.inputs)
    assert randomise(data, fraction=0.0, seed=7).hash == data.hash
