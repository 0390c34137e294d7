"""Malaria cells: a split of patients that never changes."""

import numpy as np
from data_tools import npz_bytes, put, register
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_array_equal

from pacdp.data import load
from pacdp.data.malaria import split_patients

# 12 patients of five cells each; the even ones are infected, in one of their cells
PATIENTS = np.repeat(np.arange(12), 5)
LABELS = ((PATIENTS % 2 == 0) & (np.arange(60) % 5 == 3)).astype(np.uint8)
IMAGES = np.arange(60 * 2500, dtype=np.uint8).reshape(60, 50, 50)
CELLS = npz_bytes(images=IMAGES, labels=LABELS, patient=PATIENTS.astype(np.int16))


def test_small_cells(tmp_path, monkeypatch):
    put(tmp_path / "malaria_cells" / "malaria_cells_50x50_gray.npz", CELLS)
    register(monkeypatch, tmp_path)
    train, test = load("malaria", root=tmp_path)
    assert (train.n + test.n, train.units + test.units) == (60, 12)
    assert train.unit == "patient"
    assert sorted({*test.people.tolist()}) == [3, 10], "the split never changes"
    for part in (train, test):  # every example is still beside its own patient, label and pixels
        rows = np.flatnonzero(np.isin(PATIENTS, part.people))
        assert_array_equal(part.people, PATIENTS[rows])
        assert_array_equal(part.labels, LABELS[rows])
        assert_array_equal(part.inputs[:, 0], (IMAGES[rows] / 255).astype(np.float32))


@given(healthy=st.integers(3, 40), infected=st.integers(3, 40), seed=st.integers(0, 2**32), cells=st.integers(1, 5))
def test_four_patients_in_five_of_either_kind(healthy, infected, seed, cells):
    draw = default_rng(seed)
    people = draw.permutation(1000)[: healthy + infected]
    patients = np.repeat(people, cells)
    labels = np.isin(patients, people[:infected]).astype(np.int64)
    chosen = split_patients(labels, patients)
    train, test = chosen["train"], chosen["test"]
    assert not set(train) & set(test)
    assert set(train) | set(test) == set(people.tolist())
    for kind in (people[:infected], people[infected:]):
        assert abs(np.isin(test, kind).sum() - len(kind) / 5) <= 1
        assert np.isin(test, kind).any()
    # neither the order of the cells nor their number changes the split
    order = draw.permutation(len(patients))
    again = split_patients(np.append(labels[order], labels[0]), np.append(patients[order], patients[0]))
    assert_array_equal(again["test"], test)
