"""CIFAR-10 from folder and archive; pickles are refused, damage is named."""

import gzip
import io
import re
import tarfile

import numpy as np
import pytest
from data_tools import put, register
from numpy.random import default_rng
from numpy.testing import assert_array_equal

from pacdp.data import DataError, load, read_cifar10
from pacdp.data.cifar10 import ARCHIVE, FOLDER
from tests.marks import every_case, parametrize, refusal

NAMES = [*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin"]
RECORDS = default_rng(0).integers(0, 10, (18, 3073), dtype=np.uint8)
BATCHES = {name: RECORDS[3 * k : 3 * k + 3].tobytes() for k, name in enumerate(NAMES)}


def archive(batches, *, folder=FOLDER):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, content in {"readme.html": b"<p>", **batches}.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return gzip.compress(file.getvalue(), mtime=0)


def check(parts):
    for (pixels, labels), rows in zip(parts, (slice(0, 15), slice(15, 18)), strict=True):
        assert_array_equal(labels, RECORDS[rows, 0])
        assert_array_equal(pixels.reshape(len(labels), -1), RECORDS[rows, 1:])
        assert pixels.shape[1:] == (3, 32, 32)
        assert (pixels.dtype, labels.dtype) == (np.uint8, np.int64)


@pytest.fixture
def folder(tmp_path):
    for name, content in BATCHES.items():
        put(tmp_path / "cifar10" / FOLDER / name, content)
    return tmp_path / "cifar10" / FOLDER


def test_folder_and_archive_hold_the_same(folder, tmp_path):
    check(read_cifar10(folder))
    check(read_cifar10(put(tmp_path / "any-name", archive(BATCHES))))


def test_by_name(folder, tmp_path, monkeypatch):
    register(monkeypatch, tmp_path)
    train, test = load("cifar10", root=tmp_path, download=False)
    assert (train.n, test.n, train.classes, train.name) == (15, 3, 10, "cifar10")
    assert_array_equal(train.inputs.reshape(15, -1), (RECORDS[:15, 1:] / 255).astype(np.float32))
    other = tmp_path / "other"
    put(other / "cifar10" / ARCHIVE, archive(BATCHES))
    register(monkeypatch, other)
    assert [part.hash for part in load("cifar10", root=other, download=False)] == [train.hash, test.hash]


def test_a_folder_of_other_bytes(folder, tmp_path, monkeypatch):
    register(monkeypatch, tmp_path)
    put(folder / NAMES[1], BATCHES[NAMES[0]])
    with refusal(r"data_batch_2\.bin is not the registered file", DataError):
        load("cifar10", root=tmp_path)
    (folder / NAMES[1]).unlink()
    with refusal(r"data_batch_2\.bin is not in .* because no mirror serves it", DataError):
        load("cifar10", root=tmp_path)


@parametrize("name", ["cifar-10-python.tar.gz", "cifar-10-batches-py/data_batch_1"])
def test_pickles_are_refused(tmp_path, monkeypatch, name):
    monkeypatch.delenv("PACDP_DATA", raising=False)
    put(tmp_path / "cifar10" / name, b"cos\nsystem\n(S'false'\ntR.")
    with refusal(r"Python pickles, which are never read .* put cifar-10-binary\.tar\.gz there", DataError):
        load("cifar10", root=tmp_path)


@every_case(
    ("content", "match"),
    [
        (BATCHES[NAMES[2]][:-1], r"data_batch_3\.bin in .* has 9218 bytes, not 1 to 10,000 records of 3073"),
        (b"\x0a" + BATCHES[NAMES[2]][1:], "holds the label 10, which is not in"),
    ],
)
def test_batches_that_are_something_else(folder, tmp_path, content, match):
    put(folder / NAMES[2], content)
    for path in (folder, put(tmp_path / "a.tar.gz", archive({**BATCHES, NAMES[2]: content}))):
        with refusal(match, DataError) as caught:
            read_cifar10(path)
        assert str(path) in str(caught.value)


def test_missing_batches(folder, tmp_path):
    (folder / NAMES[3]).unlink()
    for path in (
        folder,
        put(tmp_path / "a", archive({name: BATCHES[name] for name in NAMES if name != NAMES[3]})),
        put(tmp_path / "b", archive(BATCHES, folder="cifar-100-binary")),
    ):
        with refusal(rf"{path} lacks .*data_batch_4\.bin.*; replace it by the whole", DataError):
            read_cifar10(path)


def test_archives_cut_anywhere_or_with_a_flipped_byte_are_refused(tmp_path):
    whole = archive(BATCHES)
    cuts = [*range(0, 40, 3), *range(40, len(whole), len(whole) // 20), len(whole) - 1]
    flips = [len(whole) // 2, len(whole) - 6]
    flipped = [whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :] for place in flips]
    for content in [*(whole[:cut] for cut in cuts), *flipped]:
        path = put(tmp_path / "cut.tar.gz", content)
        with refusal(r"damaged|cannot be read", DataError) as caught:
            read_cifar10(path)
        assert re.fullmatch(rf"{path} .*\.", str(caught.value))
