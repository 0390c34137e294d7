"""People: counted, hashed, subset; and never in train and test at once, whatever the files say."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from pacdp.data import ALL_NAMES, NAMES, DataError, Dataset, load, make_splits, randomise, require_other_people

HERE = Path(os.environ.get("PACDP_DATA") or "nowhere")
FOLDERS = {
    "mnist-writers": "mnist_writers",
    "malaria": "malaria_cells",
    "xrays": "chest_xray",
    "xrays-mixed": "chest_xray",
}
# name: examples, people, class counts, the hashes that checkpoints carry (but for "xrays", whose pixels are the
# JPEG decoder's)
FACTS = {
    "mnist-writers": (
        ((60_000, 1, 28, 28), 539, None, "f94f8fbc239c67db239121f5760bcee513da25118fb46435201e35d24846ee7d"),
        ((10_000, 1, 28, 28), 297, None, "177b3ef6c86b857005af31f0431294e9af0feb9a75e69aa75602690be0353231"),
    ),
    "malaria": (
        ((21_947, 1, 50, 50), 161, None, "9df5aa118abf793ad96898773ada6d4ff559d4d0d17242ca23582dfad73fade1"),
        ((5_611, 1, 50, 50), 40, None, "8bcedd74f217a1a30ce8dca084263cad7b9b91ee5a6847427b0f367900903e17"),
    ),
    "xrays": (
        ((5_216, 1, 64, 64), 3_654, [1341, 2530, 1345], None),
        ((624, 1, 64, 64), 428, [234, 242, 148], None),
    ),
    "xrays-mixed": (
        ((4_672, 1, 64, 64), 3_266, [1254, 2211, 1207], None),
        ((1_168, 1, 64, 64), 816, [321, 561, 286], None),
    ),
}


@pytest.mark.parametrize("name", FACTS)
def test_the_data_here(name: str) -> None:
    if not (HERE / FOLDERS[name]).is_dir():
        pytest.skip(f"PACDP_DATA names no folder with {FOLDERS[name]}/")
    parts = load(name, download=False)
    for part, (shape, people, counts, digest) in zip(parts, FACTS[name], strict=True):
        assert part.name == name
        assert part.inputs.shape == shape
        assert part.inputs.min() == 0.0
        assert 0.8 < part.inputs.max() <= 1.0
        assert part.people is not None
        assert part.units == people == part.rows().people
        if counts is not None:
            assert np.bincount(part.labels).tolist() == counts
        if digest is not None:
            assert part.people_hash == digest
    assert not parts[0].rows().shared_people(parts[1].rows())
    if name == "mnist-writers":
        sizes = np.unique(parts[0].people, return_counts=True)[1]
        assert (sizes.min(), np.median(sizes), sizes.max()) == (19, 116, 131)
        for part, plain in zip(parts, load("mnist", download=False), strict=True):
            assert part.hash == plain.hash  # the digits are MNIST's, in MNIST's order


def test_names() -> None:
    assert ALL_NAMES == (*NAMES, "cifar10", "mnist-writers", "malaria", "xrays", "xrays224", "xrays-mixed")


def toy(people: list[int] | np.ndarray, *, unit: str = "patient") -> Dataset:
    n = len(people)
    inputs = np.arange(2 * n, dtype=np.float32).reshape(n, 2)
    return Dataset("toy", inputs, np.arange(n) % 2, 2, people=np.array(people), unit=unit)


NOBODY = Dataset("toy", np.arange(8, dtype=np.float32).reshape(4, 2), np.arange(4) % 2, 2)


def test_people_and_hash() -> None:
    one = toy([4, 4, 0, 9])
    assert (one.n, one.units, one.unit) == (4, 3, "patient")
    assert one.people_hash == toy([4, 4, 0, 9], unit="writer").people_hash
    assert one.people_hash not in (one.hash, toy([4, 4, 0, 8]).people_hash, toy([4, 0, 4, 9]).people_hash)
    # whose they are changes neither the examples nor the hash that checkpoints carry
    assert one.hash == NOBODY.hash
    assert (NOBODY.units, NOBODY.unit, NOBODY.people_hash) == (4, "example", "")
    assert one.people is not None
    with pytest.raises(ValueError, match="read-only"):
        one.people[0] = 1


def test_rows_know_the_people() -> None:
    one = toy([4, 4, 0, 9])
    assert one.rows().people == 3
    assert one.rows().digest != NOBODY.rows().digest
    assert one.rows().shared(NOBODY.rows()) == 4
    assert one.rows(key=bytes(16)).digest != one.rows().digest


def test_subset_keeps_each_with_their_examples() -> None:
    one = toy([4, 4, 0, 9, 2])
    assert one.people is not None
    split = make_splits(5, sizes={"a": 3}, seed=1)["a"]
    part = one.subset(split)
    assert part.people is not None
    np.testing.assert_array_equal(part.people, one.people[split.indices])
    np.testing.assert_array_equal(part.inputs, one.inputs[split.indices])
    assert part.unit == "patient"
    assert part.hash != one.hash
    assert one.subset(make_splits(5, sizes={"a": 1.0}, seed=1)["a"]) is one
    assert NOBODY.subset(make_splits(4, sizes={"a": 2}, seed=1)["a"]).people is None


def test_other_labels_are_still_of_the_same_people() -> None:
    one = toy([4, 4, 0, 9, 2])
    mixed = randomise(one, fraction=1.0, seed=3)
    assert mixed.people is not None
    assert (mixed.people.tolist(), mixed.unit) == ([4, 4, 0, 9, 2], "patient")


@pytest.mark.parametrize(
    ("people", "unit", "match"),
    [
        (np.zeros(2, np.int32), "patient", "must be int64"),
        (np.zeros((2, 1), np.int64), "patient", "must be int64"),
        (np.zeros(3, np.int64), "patient", "2 examples and people for 3"),
        (np.array([0, -1]), "patient", "at least 0, got -1"),
        (np.zeros(2, np.int64), " ", "unit of toy is ' '; say what a person is"),
        (np.zeros(2, np.int64), "example", "unit of toy is 'example'; say what a person is"),
        (None, "patient", "unit of toy is 'patient' and people are not given"),
    ],
)
def test_malformed_people(people: np.ndarray | None, unit: str, match: str) -> None:
    with pytest.raises((DataError, TypeCheckError)) as caught:
        Dataset("toy", np.zeros((2, 2), np.float32), np.array([0, 1]), 2, people=people, unit=unit)
    if isinstance(caught.value, DataError):  # where shapes are checked, the annotation may speak first
        assert re.search(f"toy.*{match}|{match}", str(caught.value))
        assert "\n" not in str(caught.value)


def test_a_person_on_both_sides() -> None:
    require_other_people(toy([1, 2]), toy([3, 0]))
    require_other_people(NOBODY, toy([3, 0]))
    with pytest.raises(DataError, match=r"train and test of toy share 1 patient \(the first has number 2\); move all"):
        require_other_people(toy([1, 2, 2]), toy([3, 2]))
    with pytest.raises(DataError, match=r"share 2 patients \(the first has number 1\)"):
        require_other_people(toy([1, 2]), toy([2, 1, 0]))
