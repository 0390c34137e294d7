"""Data sets by name: what is known of each, on the files that are here; and what a data set's hash is of."""

import os
import pickle
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pacdp.data import Dataset, Rows, load, require_apart, require_plain
from tests.marks import every_case, near, refusal

HERE = Path(os.environ.get("PACDP_DATA") or "nowhere")


class Facts(NamedTuple):
    """What is known of a train or a test set."""

    shape: tuple[int, ...]
    units: int
    hash: str | None = None
    """What checkpoints carry: a new value here would orphan them. None where pixels are the JPEG decoder's."""
    counts: list[int] | None = None
    repeats: int = 0


FACTS = {
    "digits": (
        "",
        Facts((1437, 1, 8, 8), 1437, "9d1f9286ff6716bf69b1b3a02b47ad068063dbf45e8be09d814fec6ba00b978f"),
        Facts((360, 1, 8, 8), 360, "cff7267035caa1385d65491a7a18aab58fb6b94d1145d65e5aafcd9037b72393"),
    ),
    "mnist-writers": (
        "mnist_writers",
        Facts((60_000, 1, 28, 28), 539, "f94f8fbc239c67db239121f5760bcee513da25118fb46435201e35d24846ee7d"),
        Facts((10_000, 1, 28, 28), 297, "177b3ef6c86b857005af31f0431294e9af0feb9a75e69aa75602690be0353231"),
    ),
    "cifar10": (
        "cifar10",
        Facts((50_000, 3, 32, 32), 50_000, "bdb77ceaada8a361b4c9e2f8f5f3036350cbf15a9d5aaafe737e5232c42a6fc9"),
        Facts((10_000, 3, 32, 32), 10_000, "286f9ba03db02774178c66d1e688fd72e13f84996fa78ca9ae096421ed831950"),
    ),
    "malaria": (
        "malaria_cells",
        Facts((21_947, 1, 50, 50), 161, "9df5aa118abf793ad96898773ada6d4ff559d4d0d17242ca23582dfad73fade1"),
        Facts((5_611, 1, 50, 50), 40, "8bcedd74f217a1a30ce8dca084263cad7b9b91ee5a6847427b0f367900903e17"),
    ),
    "xrays": (
        "chest_xray",
        Facts((5_216, 1, 64, 64), 3_654, None, [1341, 2530, 1345], 26),
        Facts((624, 1, 64, 64), 428, None, [234, 242, 148], 6),
    ),
    "xrays-mixed": (
        "chest_xray",
        Facts((4_672, 1, 64, 64), 3_266, None, [1254, 2211, 1207], 26),
        Facts((1_168, 1, 64, 64), 816, None, [321, 561, 286], 6),
    ),
    "mnist": (
        "mnist",
        Facts((60_000, 1, 28, 28), 60_000, "b0d7725b7d6048b53111c5af80b469f3f926f7aeff57b05be84416f40c2ff592"),
        Facts((10_000, 1, 28, 28), 10_000, "1fedc85c2ade70dcaab651f8db6f640f5c6c26d4b9f95fc564beb6ca148f8801"),
    ),
}
MEANS = {"mnist": [0.1306604], "cifar10": [0.4914, 0.4822, 0.4465]}
"""Of the pixels, as every tutorial prints them."""
LARGE = {"xrays", "xrays-mixed"}
"""Whose files take seconds to read."""


@every_case("name", [pytest.param(name, marks=pytest.mark.slow if name in LARGE else ()) for name in FACTS])
def test_the_data_here(name):
    folder, *facts = FACTS[name]
    if folder and not (HERE / folder).is_dir():
        pytest.skip(f"PACDP_DATA names no folder with {folder}/")
    parts = load(name, download=False)
    for part, known in zip(parts, facts, strict=True):
        assert (part.name, part.inputs.shape, part.units) == (name, known.shape, known.units)
        assert part.inputs.min() == 0.0
        assert 0.8 < part.inputs.max() <= 1.0
        assert known.hash in (part.people_hash or part.hash, None)
        assert known.counts in (np.bincount(part.labels).tolist(), None)
    train, test = (Rows.of(part.inputs, part.labels) for part in parts)
    require_apart(train, test)
    assert [rows.repeats for rows in (train, test)] == [known.repeats for known in facts]
    require_plain(train)
    require_plain(test)
    if name in MEANS:
        assert parts[0].inputs.mean((0, 2, 3)) == near(MEANS[name], abs=1e-4)


def test_two_classes_are_small_against_large_digits():
    for ten, two in zip(load("digits"), load("digits2"), strict=True):
        assert (two.name, two.classes) == ("digits2", 2)
        assert_array_equal(two.labels, (ten.labels < 5).astype(np.int64))
        assert_array_equal(two.inputs, ten.inputs)
        assert two.hash != ten.hash


def test_hash_is_of_the_content_alone_and_arrays_are_read_only():
    inputs, labels = np.zeros((3, 4), dtype=np.float32), np.array([0, 1, 2])
    small = Dataset("small", inputs, labels, 3)
    wide = np.zeros((3, 8), dtype=np.float32)
    assert Dataset("strided", wide[:, ::2], labels, 3).hash == small.hash
    assert pickle.loads(pickle.dumps(small)).hash == small.hash  # noqa: S301
    for changed in ((inputs.reshape(3, 2, 2), labels), (inputs + 1, labels), (inputs, labels[::-1])):
        assert Dataset("small", *changed, 3).hash != small.hash
    for array in (small.inputs, small.labels):
        with refusal("read-only"):
            array[0] = 1
    labels[0] = 1  # the caller's own is not
