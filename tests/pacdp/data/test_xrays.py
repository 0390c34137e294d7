"""Chest X-rays: the table's split and patients, pixels as area means, damaged files by name."""

import io
import re
from pathlib import Path

import numpy as np
import pytest
from data_tools import put, register
from PIL import Image

from pacdp.data import DataError, load, xrays

HEAD = "path,split,class,label,patient_key,person\n"
ROWS = [
    "train/a.jpeg,train,normal,0,normal:1,1",
    "train/b.jpeg,train,bacteria,1,bacteria:1,1",
    "test/c.jpeg,test,virus,2,virus:7,7",
    "train/d.jpeg,train,bacteria,1,bacteria:1,1",
]


def jpeg(value: int, *, size: tuple[int, int] = (224, 224), kind: str = "JPEG") -> bytes:
    file = io.BytesIO()
    pixels = np.full((*size[::-1], 3), value, dtype=np.uint8)
    Image.fromarray(pixels).save(file, kind, quality=100)
    return file.getvalue()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "chest_xray"
    images = [folder / "images" / row.split(",")[0] for row in ROWS]
    for k, path in enumerate(images):
        put(path, jpeg(60 * k))
    put(folder / "metadata.csv", (HEAD + "\n".join(ROWS)).encode())
    register(monkeypatch, tmp_path)
    monkeypatch.setattr(xrays, "_IMAGES_SHA256", xrays.read_films(images)[1])
    return tmp_path


@pytest.mark.parametrize(("name", "side"), [("xrays", 64), ("xrays224", 224)])
def test_small_films(root: Path, name: str, side: int) -> None:
    train, test = load(name, root=root)
    assert train.inputs.shape == (3, 1, side, side)
    assert (train.name, train.unit, train.classes) == (name, "patient", 3)
    assert train.labels.tolist() == [0, 1, 1]
    assert train.people.tolist() == [1, 0, 0]
    assert (test.people.tolist(), test.labels.tolist()) == ([2], [2])
    np.testing.assert_allclose(train.inputs[:, 0, 0, 0] * 255, [0, 60, 180], atol=1)
    np.testing.assert_allclose(test.inputs * 255, 120, atol=1)


def test_patients_of_both_sets_are_mixed(root: Path) -> None:
    films = [xrays.Film(f"{k}.jpeg", "test", 0, f"normal:{k // 2}") for k in range(40)]
    again = xrays.mixed(films)
    assert [film._replace(split="test") for film in again] == films
    sides = {part: {film.patient for film in again if film.split == part} for part in ("train", "test")}
    assert {part: len(patients) for part, patients in sides.items()} == {"train": 16, "test": 4}
    assert not sides["train"] & sides["test"]
    assert xrays.mixed(films[::-1]) == again[::-1]
    plain, mixed = (load(name, root=root) for name in ("xrays", "xrays-mixed"))
    assert sum(part.n for part in mixed) == sum(part.n for part in plain)
    assert mixed[0].name == "xrays-mixed"


def test_each_pixel_is_the_mean_of_its_area(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (224, 224), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=95)
    path = put(tmp_path / "noise.jpeg", file.getvalue())
    full = xrays.read_films([path], side=224)[0][0].astype(np.float64)
    np.testing.assert_array_equal(full, np.asarray(Image.open(path)))
    for side in (32, 56, 224, 1):
        k = 224 // side
        means = full.reshape(side, k, side, k).mean((1, 3))
        np.testing.assert_allclose(xrays.read_films([path], side=side)[0][0], means, atol=1)
    with pytest.raises(DataError, match=r"side must lie in 1 \.\. 224, got 225"):
        xrays.read_films([path], side=225)


def test_a_patient_on_both_sides(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = (HEAD + "\n".join(ROWS)).replace("virus:7", "bacteria:1").encode()
    put(root / "chest_xray" / "metadata.csv", mixed)
    register(monkeypatch, root)
    with pytest.raises(DataError, match="train and test of xrays share 1 patient "):
        load("xrays", root=root)


def test_an_image_of_other_bytes(root: Path) -> None:
    put(root / "chest_xray" / "images" / "train" / "b.jpeg", jpeg(61))
    with pytest.raises(DataError, match=r"chest_xray/images does not hold the registered images"):
        load("xrays", root=root)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (jpeg(9)[:-200], "no JPEG image, or a damaged one"),
        (b"", "no JPEG image"),
        (jpeg(9, kind="PNG"), "no JPEG image"),
        (jpeg(9, size=(224, 200)), "an image of 224x200 pixels, not 224x224"),
        (None, r"cannot be read \(No such file"),
    ],
)
def test_images_that_are_something_else(root: Path, content: bytes | None, match: str) -> None:
    path = root / "chest_xray" / "images" / "test" / "c.jpeg"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(DataError, match=match) as caught:
        load("xrays", root=root)
    assert re.fullmatch(rf"{path} .*\.", str(caught.value))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (b"", "has no rows"),
        (HEAD.encode(), "has no rows"),
        (b"\xff\xfe\x00", "not a table"),
        (HEAD.replace("patient_key", "patient").encode() + ROWS[0].encode(), "lacks one of .* in line 2"),
        (f"{HEAD}{ROWS[0]}\na.jpeg,train".encode(), "lacks one of .* in line 3"),
        (f"{HEAD}{ROWS[0].replace('train,', 'val,')}".encode(), "the split 'val' in line 2"),
        (f"{HEAD}{ROWS[0].replace(',0,', ',nan,')}".encode(), "the class 'normal' with the label 'nan' in line 2"),
        (f"{HEAD}{ROWS[0].replace('normal,', 'healthy,')}".encode(), "the class 'healthy'"),
    ],
)
def test_tables_that_are_something_else(tmp_path: Path, text: bytes, match: str) -> None:
    path = put(tmp_path / "metadata.csv", text)
    with pytest.raises(DataError, match=match) as caught:
        xrays.read_table(path)
    assert re.fullmatch(rf"{path} .*\.", str(caught.value))


def test_no_table(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        xrays.read_table(tmp_path / "gone.csv")
