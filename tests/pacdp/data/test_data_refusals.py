"""What pacdp.data refuses, one row a check: files that are something else, and values that do not fit."""

import gzip
import io
import re
import struct

import numpy as np
import pytest
from data_tools import idx_bytes, npz_bytes, put
from PIL import Image

from pacdp.data import (
    DataError,
    Dataset,
    Rows,
    Split,
    index_hash,
    load,
    make_splits,
    random_labels,
    read_idx,
    read_mnist,
)
from pacdp.data.hashing import row_hashes
from pacdp.data.malaria import read_malaria
from pacdp.data.writers import read_writers
from pacdp.data.xrays import read_films, read_table
from tests.marks import parametrize, refusal
from tests.refusals import refuses

pytestmark = pytest.mark.every_case

DIGITS = np.array([5, 0, 4, 1, 9])
LABELS = np.arange(10, dtype=np.uint8)
ONE = struct.pack(">I", 1) + b"x"
CELLS = {"images": np.zeros((60, 50, 50), np.uint8), "labels": np.arange(60) % 2, "patient": np.arange(60)}
TABLE = np.zeros((5, 8), np.int32)
TABLE[:, 0] = DIGITS
WRONG, NEGATIVE = TABLE.copy(), TABLE.copy()
WRONG[[2, 4], 0], NEGATIVE[3, 2] = 7, -3
HEAD, FILM = "path,split,class,label,patient_key,person\n", "train/a.jpeg,train,normal,0,normal:1,1"


def picture(*size):
    file = io.BytesIO()
    Image.new("L", size).save(file, "JPEG")
    return file.getvalue()


def images(path):
    return read_mnist(path, put(path.parent / "labels", idx_bytes(LABELS[:2])))


def labels(path):
    return read_mnist(put(path.parent / "images", idx_bytes(np.zeros((2, 28, 28), np.uint8))), path)


def writers(path):
    return read_writers(path, DIGITS)


def films(path):
    return read_films([path])


FILES = [
    (read_idx, b"\0\x01\x08\x01" + ONE, "not an IDX file"),
    (read_idx, b"\0\0\x0a\x01" + ONE, "type 0x0a"),
    (images, idx_bytes(np.zeros((2, 28, 27), np.uint8)), r"holds uint8 \[2, 28, 27\], not 28x28"),
    (images, idx_bytes(np.zeros((3, 28, 28), np.uint8)), "holds 3 images and .*labels 2 labels"),
    (labels, idx_bytes(LABELS[9:] + np.uint8(1)), "holds the label 10"),
    (writers, idx_bytes(TABLE[:, :7]), r"holds int32 \[5, 7\], not 8 columns of int32"),
    (writers, idx_bytes(WRONG), r"row 2 the class 7 where MNIST's label is 4 \(and 1 more"),
    (writers, idx_bytes(NEGATIVE), "the writer -3, which is negative"),
    (writers, gzip.compress(idx_bytes(TABLE), mtime=0)[:-9], "is cut short inside its gzip stream"),
    (read_malaria, npz_bytes(images=CELLS["images"], labels=LABELS), "lacks an array .*patient"),
    (read_malaria, npz_bytes(**CELLS | {"images": np.zeros((9, 50, 50))}), r"float64 \[9, 50, 50\], not 50x50"),
    (read_malaria, npz_bytes(**CELLS | {"labels": LABELS}), r"labels as uint8 \[10\], not an integer"),
    (read_malaria, npz_bytes(**CELLS | {"labels": CELLS["labels"] + 1}), "labels from 1 to 2, not 0"),
    (read_malaria, npz_bytes(images=np.array([{}])), "no npz file of plain arrays"),
    (films, picture(224, 224)[:-200], "no JPEG image, or a damaged one"),
    (films, picture(224, 200), "an image of 224x200 pixels, not 224x224"),
    (read_table, HEAD.encode(), "has no rows"),
    (read_table, b"\xff\xfe\x00", "not a table"),
    (read_table, f"{HEAD}{FILM}\na.jpeg,train".encode(), "lacks one of .* in line 3"),
    (read_table, f"{HEAD}{FILM.replace('train,', 'val,')}".encode(), "the split 'val' in line 2"),
    (read_table, f"{HEAD}{FILM.replace('normal,', 'healthy,')}".encode(), "the class 'healthy'"),
]


@parametrize(("read", "content", "words"), FILES)
def test_files_that_are_something_else(tmp_path, read, content, words):
    path = put(tmp_path / "file", content)
    with refusal(words, DataError) as caught:
        read(path)
    assert re.fullmatch(rf"{path} .*\.", str(caught.value)), "one sentence that begins with the file"
    path.unlink()
    with refusal(rf"{path} cannot be read \(No such file", DataError):
        read(path)


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
    (lambda: read_films([], side=225), r"side must lie in 1 \.\. 224, got 225"),
    (lambda: rows(inputs=None), "lack the array inputs"),
    (lambda: rows(inputs=np.zeros(2, np.int64)), "inputs of Rows must be uint64, one for each"),
    (lambda: rows(examples=KEYS["inputs"][:0], inputs=KEYS["inputs"][:0]), "at least one"),
    (lambda: Rows.of(ROW, DIGITS), "labels must be one for each of the 3 inputs, got 5"),
    (lambda: Rows.of(ROW, ROW[:, 0], ROW[:, 0]), "people must be a whole number for each"),
    (lambda: row_hashes(np.zeros((0, 3))), r"at least one row of at least one number, got .*\(0, 3\)"),
    (lambda: row_hashes(ROW, key=b"short"), "key must be 16 to 64 secret bytes"),
    (lambda: index_hash(np.array([-1, 2])), "negative"),
    (lambda: Split(np.array([1, 6]), index_hash(np.array([1, 5]))), "does not belong"),
    (lambda: Split(np.array([5, 1]), index_hash(np.array([1, 5]))), "strictly increasing"),
    (lambda: make_splits(10, sizes={"a": 0.6, "b": 0.6}, seed=0), "add up to 1.2"),
    (lambda: make_splits(10, sizes={"a": -1}, seed=0), "'a' must be a finite number, at least 0"),
    (lambda: make_splits(10, sizes={"a": 0.01}, seed=0), "none of 10"),
]


test_values_that_do_not_fit = pytest.mark.wrong_types(refuses(CALLS, DataError))
