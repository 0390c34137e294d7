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
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from pacdp.data.dataset import Dataset
from pacdp.data.errors import DataError
from pacdp.data.registry import Where
from pacdp.data.splits import make_splits

SIDE = 224
"""Height and width of the files, in pixels."""

_SMALL = 64

# the split belongs to the name "xrays-mixed" and never changes; at this seed both keys of the one image that has two
# are on the same side
_SEED = 1
_SHARES = {"train": 0.8, "test": 0.2}


_CLASSES = 3  # normal, bacterial, viral
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
        DataError: a file is missing or not what it should be.
    """
    table = where.locate("metadata.csv", "chest_xray")
    folder = table.parent / "images"
    with table.open(encoding="utf-8", newline="") as file:
        films = [
            Film(row["path"], row["split"], int(row["label"]), row["patient_key"])
            for row in csv.DictReader(file)
        ]
    contents = [_content(folder / film.path) for film in films]
    if sha256_of(contents) != _IMAGES_SHA256:
        raise DataError(
            f"{folder} does not hold the registered images (their sha256 differs); replace them."
        )
    side = SIDE if name.endswith(str(SIDE)) else _SMALL
    images = np.stack([pixels_of(content, side=side) for content in contents])
    return group_films(name, mixed(films) if name.endswith("mixed") else films, images)


def sha256_of(contents: Sequence[bytes]) -> str:
    """The sha256 (hex) over the files' own sha256 sums in order."""
    return hashlib.sha256(b"".join(hashlib.sha256(own).digest() for own in contents)).hexdigest()


def pixels_of(content: bytes, *, side: int) -> UInt8[np.ndarray, "side side"]:
    """A registered JPEG file as grey bytes, each pixel the rounded mean over the area it covers.

    The pixels are the decoder's: builds of libjpeg may differ by one in 255, and the dataset's hash with them.
    """
    from PIL import Image  # only this dataset needs it

    grey = Image.open(io.BytesIO(content), formats=("JPEG",)).convert("L")
    return np.asarray(grey if side == SIDE else grey.resize((side, side), Image.Resampling.BOX))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(f"{path} cannot be read ({reason}); put the image there.") from None


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
            _CLASSES,
            people=numbers[rows],
            unit="patient",
        )
        for rows in (
            [k for k, film in enumerate(films) if film.split == part] for part in ("train", "test")
        )
    )
    return train, test
