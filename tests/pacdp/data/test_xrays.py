"""Chest X-rays: the table's split and patients, pixels as area means."""

import io

import numpy as np
import pytest
from data_tools import put, register
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

from pacdp.data import DataError, load, xrays
from tests.marks import parametrize, refusal

HEAD = "path,split,class,label,patient_key,person\n"
ROWS = [
    "train/a.jpeg,train,normal,0,normal:1,1",
    "train/b.jpeg,train,bacteria,1,bacteria:1,1",
    "test/c.jpeg,test,virus,2,virus:7,7",
    "train/d.jpeg,train,bacteria,1,bacteria:1,1",
]


def jpeg(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=100)
    return file.getvalue()


def film(value):
    return jpeg(np.full((224, 224, 3), value, dtype=np.uint8))


@pytest.fixture
def root(tmp_path, monkeypatch):
    folder = tmp_path / "chest_xray"
    images = [folder / "images" / row.split(",")[0] for row in ROWS]
    for k, path in enumerate(images):
        put(path, film(60 * k))
    put(folder / "metadata.csv", (HEAD + "\n".join(ROWS)).encode())
    register(monkeypatch, tmp_path)
    monkeypatch.setattr(xrays, "_IMAGES_SHA256", xrays.sha256_of([path.read_bytes() for path in images]))
    return tmp_path


@parametrize(("name", "side"), [("xrays", 64), ("xrays224", 224)])
def test_small_films(root, name, side):
    train, test = load(name, root=root)
    assert train.inputs.shape == (3, 1, side, side)
    assert (train.name, train.unit, train.classes) == (name, "patient", 3)
    assert train.labels.tolist() == [0, 1, 1]
    assert train.people.tolist() == [1, 0, 0]
    assert (test.people.tolist(), test.labels.tolist()) == ([2], [2])
    assert_allclose(train.inputs[:, 0, 0, 0] * 255, [0, 60, 180], atol=1)
    assert_allclose(test.inputs * 255, 120, atol=1)


def test_patients_of_both_sets_are_mixed():
    films = [xrays.Film(f"{k}.jpeg", "test", 0, f"normal:{k // 2}") for k in range(40)]
    again = xrays.mixed(films)
    assert [film._replace(split="test") for film in again] == films
    sides = {part: {film.patient for film in again if film.split == part} for part in ("train", "test")}
    assert {part: len(patients) for part, patients in sides.items()} == {"train": 16, "test": 4}
    assert not sides["train"] & sides["test"]
    assert xrays.mixed(films[::-1]) == again[::-1]


def test_each_pixel_is_the_mean_of_its_area():
    pixels = default_rng(0).integers(0, 256, (224, 224), dtype=np.uint8)
    content = jpeg(pixels)
    full = xrays.pixels_of(content, side=224).astype(np.float64)
    assert_array_equal(full, np.asarray(Image.open(io.BytesIO(content))))
    for side in (32, 56, 224, 1):
        k = 224 // side
        means = full.reshape(side, k, side, k).mean((1, 3))
        assert_allclose(xrays.pixels_of(content, side=side), means, atol=1)


def test_a_patient_on_both_sides(root, monkeypatch):
    mixed = (HEAD + "\n".join(ROWS)).replace("virus:7", "bacteria:1").encode()
    put(root / "chest_xray" / "metadata.csv", mixed)
    register(monkeypatch, root)
    with refusal("train and test of xrays share 1 patient ", DataError):
        load("xrays", root=root)


def test_an_image_of_other_bytes(root):
    put(root / "chest_xray" / "images" / "train" / "b.jpeg", film(61))
    with refusal(r"chest_xray/images does not hold the registered images", DataError):
        load("xrays", root=root)
