"""Malaria cells: a split of patients that never changes, and a file that is what it should be."""

import io
import re
from pathlib import Path

import numpy as np
import pytest
from data_tools import law, put, register
from hypothesis import given
from hypothesis import strategies as st

from pacdp.data import DataError, load
from pacdp.data.malaria import read_malaria, split_patients

# 12 patients of five cells each; the even ones are infected, in one of their cells
PATIENTS = np.repeat(np.arange(12), 5)
LABELS = ((PATIENTS % 2 == 0) & (np.arange(60) % 5 == 3)).astype(np.uint8)
IMAGES = np.arange(60 * 2500, dtype=np.uint8).reshape(60, 50, 50)


def npz(**changes: np.ndarray | None) -> bytes:
    arrays = {"images": IMAGES, "labels": LABELS, "patient": PATIENTS.astype(np.int16)} | changes
    file = io.BytesIO()
    np.savez_compressed(file, **{name: array for name, array in arrays.items() if array is not None})
    return file.getvalue()


def test_small_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "malaria_cells" / "malaria_cells_50x50_gray.npz", npz())
    register(monkeypatch, tmp_path)
    train, test = load("malaria", root=tmp_path)
    assert (train.n + test.n, train.units + test.units) == (60, 12)
    assert train.unit == "patient"
    for part in (train, test):  # every example is still beside its own patient, label and pixels
        rows = np.flatnonzero(np.isin(PATIENTS, part.people))
        np.testing.assert_array_equal(part.people, PATIENTS[rows])
        np.testing.assert_array_equal(part.labels, LABELS[rows])
        np.testing.assert_array_equal(part.inputs[:, 0], (IMAGES[rows] / 255).astype(np.float32))


@law
@given(healthy=st.integers(3, 40), infected=st.integers(3, 40), seed=st.integers(0, 2**32), cells=st.integers(1, 5))
def test_four_patients_in_five_of_either_kind(healthy: int, infected: int, seed: int, cells: int) -> None:
    draw = np.random.default_rng(seed)
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
    np.testing.assert_array_equal(again["test"], test)


def test_the_split_never_changes() -> None:
    chosen = split_patients(LABELS.astype(np.int64), PATIENTS)
    assert chosen["test"].tolist() == [3, 10]


def test_too_few_patients() -> None:
    with pytest.raises(DataError, match="2 infected ones, too few to split; give at least 3"):
        split_patients(np.array([1, 1, 0, 0, 0]), np.arange(5))


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (npz(patient=None), "lacks an array .*patient"),
        (npz(images=IMAGES.astype(np.float32)), r"holds float32 \[60, 50, 50\], not 50x50 images of bytes"),
        (npz(images=np.full((60, 50, 50), np.nan)), r"holds float64"),
        (npz(images=IMAGES[:, :49]), r"holds uint8 \[60, 49, 50\]"),
        (npz(labels=LABELS[:-1]), r"labels as uint8 \[59\], not an integer for each of 60"),
        (npz(patient=np.full(60, np.nan)), r"patient as float64 \[60\], not an integer"),
        (npz(labels=LABELS + np.uint8(1)), "labels from 1 to 2, not 0 and 1"),
        (npz(images=np.array([{}] * 60)), "no npz file of plain arrays"),
        (npz()[:-30], "no npz file of plain arrays, or a damaged one"),
        (npz()[:1000] + b"\xff" * 40 + npz()[1040:], "no npz file|holds"),
        (b"", "no npz file"),
        (b"nonsense", "no npz file"),
    ],
)
def test_files_that_are_something_else(tmp_path: Path, content: bytes, match: str) -> None:
    path = put(tmp_path / "cells.npz", content)
    with pytest.raises(DataError, match=match) as caught:
        read_malaria(path)
    assert re.fullmatch(rf"{path} .*\.", str(caught.value))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.npz cannot be read \(No such file"):
        read_malaria(tmp_path / "gone.npz")
