"""People: counted, hashed, subset. Never in train and test at once: test_xrays, test_rows."""

import numpy as np
from numpy.testing import assert_array_equal

from pacdp.data import Dataset, make_splits, randomise
from tests.marks import refusal


def toy(people, *, unit="patient"):
    n = len(people)
    inputs = np.arange(2 * n, dtype=np.float32).reshape(n, 2)
    return Dataset("toy", inputs, np.arange(n) % 2, 2, people=np.array(people), unit=unit)


NOBODY = Dataset("toy", np.arange(8, dtype=np.float32).reshape(4, 2), np.arange(4) % 2, 2)


def test_people_are_in_a_hash_of_their_own_and_in_the_rows():
    one = toy([4, 4, 0, 9])
    assert (one.n, one.units, one.unit) == (4, 3, "patient")
    assert one.people_hash == toy([4, 4, 0, 9], unit="writer").people_hash
    assert one.people_hash not in (one.hash, toy([4, 4, 0, 8]).people_hash, toy([4, 0, 4, 9]).people_hash)
    # whose they are changes neither the examples nor the hash that checkpoints carry
    assert one.hash == NOBODY.hash
    assert (NOBODY.units, NOBODY.unit, NOBODY.people_hash) == (4, "example", "")
    with refusal("read-only"):
        one.people[0] = 1
    assert one.rows().people == 3
    assert one.rows().digest != NOBODY.rows().digest
    assert one.rows().shared(NOBODY.rows()) == 4


def test_parts_and_other_labels_keep_each_with_their_examples():
    one = toy([4, 4, 0, 9, 2])
    split = make_splits(5, sizes={"a": 3}, seed=1)["a"]
    part = one.subset(split)
    assert_array_equal(part.people, one.people[split.indices])
    assert_array_equal(part.inputs, one.inputs[split.indices])
    assert part.unit == "patient"
    assert one.subset(make_splits(5, sizes={"a": 1.0}, seed=1)["a"]) is one
    assert NOBODY.subset(make_splits(4, sizes={"a": 2}, seed=1)["a"]).people is None
    other = randomise(one, fraction=1.0, seed=3)
    assert (other.people.tolist(), other.unit) == ([4, 4, 0, 9, 2], "patient")
