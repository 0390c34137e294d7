"""Chest X-rays of children, by patient (Kermany et al., Cell 172, 2018; CC BY 4.0).

Normal (0), bacterial (1) and viral (2) pneumonia, in the authors' own train and test sets, as 224x224 JPEG files
beside a table:

    metadata.csv                       path,split,class,label,patient_key,person
    images/{train,test}/.../*.jpeg     as the column path says

A patient is a `patient_key`, class and number together, because the authors number each class from the start: 170
numbers occur in both sets, under different classes. A child who was photographed both healthy and ill, or with both
kinds of pneumonia, would therefore count as two, and nothing in the files can tell. 30 images occur more than once,
byte for byte, never in both sets, but once (in the test set) under two keys.

The two sets are of different laws: their shares of the classes differ. "xrays-mixed" puts all patients together and
draws four in five of them for training, so that the others are new patients of the same law.
"""

import csv
import hashlib
import io
import os
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from pacdp.data.dataset import Dataset
from pacdp.data.errors import DataError
from pacdp.data.registry import REGISTRY, DatasetEntry, FileEntry, Where
from pacdp.data.splits import make_splits

SIDE = 224
"""Height and width of the files, in pixels."""

_SMALL = 64

# the split belongs to the name "xrays-mixed" and never changes; at this seed both keys of the one image that has two
# are on the same side
_SEED = 1
_SHARES = {"train": 0.8, "test": 0.2}

REGISTRY["chest_xray"] = DatasetEntry(
    files=MappingProxyType(
        {
            "metadata.csv": FileEntry(
                size=512_511,
                sha256="d26ea9527a9af7d9d26e8e0f7640af8ebcfcb49d646c57bea65e085febc56751",
            )
        }
    ),
    source="it lists the chest X-rays of Kermany et al. 2018 (https://doi.org/10.17632/rscbjbr9sj) scaled to 224x224 "
    "pixels and lies beside their folder images",
)

_CLASSES = ("normal", "bacteria", "virus")
_COLUMNS = ("path", "split", "class", "label", "patient_key")
# sha256 over the 5,840 files' own sha256 sums, in the table's order
_IMAGES_SHA256 = "790adf0365194d6ae482cc7b1fd9b7f0cc160422c18bb6cc5f816fc95dd860d6"


class Film(NamedTuple):
    """A row of the table: where the image is, its side of the split, its label and its patient's key."""

    path: str
    split: str
    label: int
    patient: str


def load_xrays(name: str, where: Where) -> tuple[Dataset, Dataset]:
    """The authors' two sets, or their patients mixed: 224x224 if the name ends in 224, else 64x64.

    Raises:
        DataError: a file is missing, damaged or not what it should be.
    """
    table = where.locate("metadata.csv", "chest_xray")
    folder = table.parent / "images"
    films = read_table(table)
    side = SIDE if name.endswith(str(SIDE)) else _SMALL
    images, sha256 = read_films([folder / film.path for film in films], side=side)
    if sha256 != _IMAGES_SHA256:
        raise DataError(
            f"{folder} does not hold the registered images (their sha256 differs); replace them."
        )
    return group_films(name, mixed(films) if name.endswith("mixed") else films, images)


def mixed(films: Sequence[Film]) -> list[Film]:
    """The same films, four in five of all patients for training, drawn by a seed of the name."""
    patients = sorted({film.patient for film in films})
    test = {
        patients[k] for k in make_splits(len(patients), sizes=_SHARES, seed=_SEED)["test"].indices
    }
    return [film._replace(split="test" if film.patient in test else "train") for film in films]


def group_films(
    name: str, films: Sequence[Film], images: UInt8[np.ndarray, "n height width"]
) -> tuple[Dataset, Dataset]:
    """Train and test set, in the table's order; patients are numbered by their keys' alphabetical order.

    Raises:
        DataError: one of the two sets would be empty.
    """
    numbers = np.unique([film.patient for film in films], return_inverse=True)[1].astype(np.int64)
    labels = np.array([film.label for film in films], dtype=np.int64)
    train, test = (
        Dataset(
            name,
            np.divide(images[rows][:, None], 255, dtype=np.float32),
            labels[rows],
            len(_CLASSES),
            people=numbers[rows],
            unit="patient",
        )
        for rows in (
            [k for k, film in enumerate(films) if film.split == part] for part in ("train", "test")
        )
    )
    return train, test


def read_table(path: str | os.PathLike[str]) -> list[Film]:
    """The rows of metadata.csv.

    Raises:
        DataError: the file cannot be read, lacks a column, has no rows, or has one with an empty field, an unknown
            split, or a label that is not its class's.
    """
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, strict=True))
    except (UnicodeDecodeError, csv.Error):
        raise DataError(
            f"{path} is not a table of comma-separated UTF-8 text; replace it."
        ) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(
            f"{path} cannot be read ({reason}); check the path and its permissions."
        ) from None
    if not rows:
        raise DataError(f"{path} has no rows; replace it.")
    return [_film(path, line, row) for line, row in enumerate(rows, start=2)]


def _film(path: str | os.PathLike[str], line: int, row: dict[str, str | None]) -> Film:
    fields = [row.get(column) for column in _COLUMNS]
    image, split, kind, label, patient = fields
    if not (image and split and kind and label and patient):
        raise DataError(f"{path} lacks one of {', '.join(_COLUMNS)} in line {line}; replace it.")
    if split not in ("train", "test"):
        raise DataError(
            f"{path} has the split {split!r} in line {line}, not train or test; replace it."
        )
    if kind not in _CLASSES or label != str(_CLASSES.index(kind)):
        raise DataError(
            f"{path} has the class {kind!r} with the label {label!r} in line {line}; replace it."
        )
    return Film(image, split, int(label), patient)


def read_films(
    paths: Sequence[Path], *, side: int = 64
) -> tuple[UInt8[np.ndarray, "n side side"], str]:
    """JPEG files of 224x224 pixels as grey bytes, each pixel the rounded mean over the area it covers.

    The pixels are the decoder's: builds of libjpeg may differ by one in 255, and the dataset's hash with them.

    Args:
        paths: the files.
        side: height and width of the result, 1 to 224.

    Returns:
        uint8 [n, side, side], and the sha256 (hex) over the files' own sha256 sums in order.

    Raises:
        DataError: a bad side, or a file that is missing, damaged, no JPEG or of another size.
    """
    if not 1 <= side <= SIDE:
        raise DataError(f"side must lie in 1 .. {SIDE}, got {side}.")
    images = np.empty((len(paths), side, side), dtype=np.uint8)
    sums = hashlib.sha256()
    for image, path in zip(images, paths, strict=True):
        try:
            content = path.read_bytes()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise DataError(f"{path} cannot be read ({reason}); put the image there.") from None
        sums.update(hashlib.sha256(content).digest())
        image[...] = _decode(content, path, side)
    return images, sums.hexdigest()


def _decode(content: bytes, path: Path, side: int) -> np.ndarray:
    from PIL import Image  # only this dataset needs it

    try:
        with Image.open(io.BytesIO(content), formats=("JPEG",)) as film:
            size = film.size
            # nothing is decoded before the declared size is known to be small
            grey = film.convert("L") if size == (SIDE, SIDE) else None
    except (
        OSError,
        SyntaxError,
        ValueError,
        Image.DecompressionBombError,
        Image.DecompressionBombWarning,
    ):
        raise DataError(f"{path} is no JPEG image, or a damaged one; replace it.") from None
    if grey is None:
        raise DataError(
            f"{path} is an image of {size[0]}x{size[1]} pixels, not {SIDE}x{SIDE}; replace it."
        )
    return np.asarray(grey if side == SIDE else grey.resize((side, side), Image.Resampling.BOX))
