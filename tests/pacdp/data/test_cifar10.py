"""CIFAR-10 from its archive."""

import gzip
import io
import tarfile

import numpy as np
from data_tools import put, register
from numpy.random import default_rng
from numpy.testing import assert_array_equal

from pacdp.data import load
from pacdp.data.cifar10 import ARCHIVE, FOLDER

NAMES = [*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin"]
RECORDS = default_rng(0).integers(0, 10, (18, 3073), dtype=np.uint8)


def test_a_small_archive(tmp_path, monkeypatch):
    batches = {f"{FOLDER}/{name}": RECORDS[3 * k : 3 * k + 3].tobytes() for k, name in enumerate(NAMES)}
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, content in {f"{FOLDER}/readme.html": b"<p>", **batches}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    put(tmp_path / "cifar10" / ARCHIVE, gzip.compress(file.getvalue(), mtime=0))
    register(monkeypatch, tmp_path)
    for part, rows in zip(load("cifar10", root=tmp_path, download=False), (slice(0, 15), slice(15, 18)), strict=True):
        assert (part.name, part.classes, part.inputs.shape[1:]) == ("cifar10", 10, (3, 32, 32))
        assert_array_equal(part.labels, RECORDS[rows, 0])
        assert_array_equal(part.inputs.reshape(part.n, -1), (RECORDS[rows, 1:] / 255).astype(np.float32))
