"""What pacdp.data refuses, one row a check: values that do not fit."""

import numpy as np
import pytest

from pacdp.data import (
    DataError,
    Dataset,
    Rows,
    Split,
    index_hash,
    load,
    make_splits,
    random_labels,
)
from pacdp.data.hashing import row_hashes
from tests.refusals import refuses

pytestmark = pytest.mark.every_case

DIGITS, LABELS = np.array([5, 0, 4, 1, 9]), np.arange(10, dtype=np.uint8)
PAIR, KEYS, ROW = (np.zeros((2, 2), np.float32), Rows.of(np.zeros((3, 2)), LABELS[:3]).to_arrays(), np.ones((3, 4)))


def dataset(inputs=PAIR, labels=(0, 1)):
    return Dataset("odd", inputs, np.array(labels, np.int64), 2)


def randomised(**changes):
    return random_labels(DIGITS % 5, **{"fraction": 0.5, "classes": 5, "seed": 0} | changes)


def rows(**changes):
    return Rows.from_arrays({name: value for name, value in (KEYS | changes).items() if value is not None})


CALLS = [
    (lambda: load("mnits"), "'mnits' is unknown; choose one of digits, .*, xrays-mixed"),
    (lambda: dataset(PAIR.astype(float)), "odd must be float32"),
    (lambda: dataset(labels=[0, 2]), r"must lie in 0 \.\. classes - 1"),
    (lambda: dataset(PAIR[:0], []), "no examples"),
    (lambda: dataset(PAIR * np.float32("nan")), "not finite"),
    (lambda: Dataset.of_pixels("odd", PAIR, np.array([0, 1]), 2), "pixels of odd must be uint8"),  # type: ignore[arg-type]
    (lambda: randomised(fraction=1.5), "fraction must lie"),
    (lambda: randomised(seed=-1), "seed must be"),
    (lambda: rows(inputs=None), "lack the array inputs"),
    (lambda: rows(inputs=np.zeros(2, np.int64)), "inputs of Rows must be uint64, one for each"),
    (lambda: rows(examples=KEYS["inputs"][:0], inputs=KEYS["inputs"][:0]), "at least one"),
    (lambda: Rows.of(ROW, DIGITS), "labels must be one for each of the 3 inputs, got 5"),
    (lambda: Rows.of(ROW, ROW[:, 0], ROW[:, 0]), "people must be a whole number for each"),
    (lambda: row_hashes(np.zeros((0, 3))), r"at least one row of at least one number, got .*\(0, 3\)"),
    (lambda: index_hash(np.array([-1, 2])), "negative"),
    (lambda: Split(np.array([1, 6]), index_hash(np.array([1, 5]))), "does not belong"),
    (lambda: Split(np.array([5, 1]), index_hash(np.array([1, 5]))), "strictly increasing"),
    (lambda: make_splits(10, sizes={"a": 0.6, "b": 0.6}, seed=0), "add up to 1.2"),
    (lambda: make_splits(10, sizes={"a": -1}, seed=0), "'a' must be a finite number, at least 0"),
    (lambda: make_splits(10, sizes={"a": 0.01}, seed=0), "none of 10"),
]


test_values_that_do_not_fit = pytest.mark.wrong_types(refuses(CALLS, DataError))
