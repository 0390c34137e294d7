"""Red blood cells with and without malaria parasites, by patient (NIH, National Library of Medicine).

27,558 cells, half of them with a parasite, cut out of photographs of thin smears from 201 patients and scaled to
50x50 grey pixels. 151 patients are infected (their cells are of both labels), 50 are healthy. A patient's cells share
stain, light and microscope, so a split that mixes patients measures too small an error.
"""

import os
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64, UInt8

from pacdp.data.arrays import read_npz
from pacdp.data.dataset import Dataset
from pacdp.data.errors import DataError
from pacdp.data.registry import REGISTRY, DatasetEntry, FileEntry, Where
from pacdp.data.splits import make_splits

REGISTRY["malaria_cells"] = DatasetEntry(
    files=MappingProxyType(
        {
            "malaria_cells_50x50_gray.npz": FileEntry(
                size=33_985_535,
                sha256="0b74a94bd5e6da82ba4f0766cfa67dc1cba4954e7ae685fa1d3beca7da268554",
            )
        }
    ),
    source="it is derived from the malaria cell images of the NIH's National Library of Medicine "
    "(https://lhncbc.nlm.nih.gov/LHC-research/LHC-projects/image-processing/malaria-datasheet.html)",
)

# the split belongs to the name "malaria" and never changes
_SEEDS = {"healthy": 0, "infected": 1}
_SHARES = {"train": 0.8, "test": 0.2}


class Cells(NamedTuple):
    """Cells as their file holds them: images [n, 50, 50], labels (1 with a parasite) and patients [n]."""

    images: UInt8[np.ndarray, "n 50 50"]
    labels: Int64[np.ndarray, " n"]
    patients: Int64[np.ndarray, " n"]


def load_malaria(name: str, where: Where) -> tuple[Dataset, Dataset]:
    """The cells of four patients in five, and those of the rest.

    Raises:
        DataError: the file is missing, damaged or not what it should be.
    """
    cells = read_malaria(where.locate("malaria_cells_50x50_gray.npz", "malaria_cells"))
    chosen = split_patients(cells.labels, cells.patients)
    train, test = (
        _cells_of(name, cells, np.isin(cells.patients, chosen[part])) for part in _SHARES
    )
    return train, test


def _cells_of(name: str, cells: Cells, rows: np.ndarray) -> Dataset:
    inputs = np.divide(cells.images[rows][:, None], 255, dtype=np.float32)
    return Dataset(name, inputs, cells.labels[rows], 2, people=cells.patients[rows], unit="patient")


def split_patients(
    labels: Int64[np.ndarray, " n"], patients: Int64[np.ndarray, " n"]
) -> dict[str, Int64[np.ndarray, " people"]]:
    """Patients for "train" (four in five) and "test", drawn among the healthy and the infected by themselves.

    A patient is infected if any of their cells is labelled 1. The draw depends on which patients are infected
    alone, not on how many cells they have.

    Raises:
        DataError: fewer than three healthy or three infected patients, too few to have some on either side.
    """
    infected = np.unique(patients[labels == 1])
    strata = {"healthy": np.setdiff1d(patients, infected), "infected": infected}
    parts: dict[str, list[np.ndarray]] = {part: [] for part in _SHARES}
    for name, people in strata.items():
        if len(people) < 3:
            raise DataError(
                f"patients hold {len(people)} {name} ones, too few to split; give at least 3."
            )
        for part, split in make_splits(len(people), sizes=_SHARES, seed=_SEEDS[name]).items():
            parts[part].append(people[split.indices])
    return {part: np.sort(np.concatenate(people)) for part, people in parts.items()}


def read_malaria(path: str | os.PathLike[str]) -> Cells:
    """Images, labels and patients from the npz file, nothing unpickled.

    Raises:
        DataError: the file is missing, damaged, lacks an array or holds other shapes, dtypes or labels.
    """
    arrays, names = read_npz(path), ("images", "labels", "patient")
    missing = [name for name in names if name not in arrays]
    if missing:
        raise DataError(f"{path} lacks an array ({missing[0]}); replace it.")
    images, labels, patients = (arrays[name] for name in names)
    if images.dtype != np.uint8 or images.shape[1:] != (50, 50):
        raise DataError(
            f"{path} holds {images.dtype} {list(images.shape)}, not 50x50 images of bytes; replace it."
        )
    for name, array in (("labels", labels), ("patient", patients)):
        if not np.issubdtype(array.dtype, np.integer) or array.shape != images.shape[:1]:
            raise DataError(
                f"{path} holds {name} as {array.dtype} {list(array.shape)}, not an integer for each of "
                f"{len(images)} images; replace it."
            )
    if labels.size and not (labels.min() >= 0 and labels.max() <= 1):
        raise DataError(
            f"{path} holds labels from {labels.min()} to {labels.max()}, not 0 and 1; replace it."
        )
    return Cells(images, labels.astype(np.int64), patients.astype(np.int64))
