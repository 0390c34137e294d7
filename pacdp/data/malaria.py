"""Red blood cells with and without malaria parasites, by patient (NIH, National Library of Medicine).

27,558 cells, half of them with a parasite, cut out of photographs of thin smears from 201 patients and scaled to
50x50 grey pixels. 151 patients are infected (their cells are of both labels), 50 are healthy. A patient's cells share
stain, light and microscope, so a split that mixes patients measures too small an error.
"""

import numpy as np
from jaxtyping import Int64

from pacdp.data.dataset import Dataset
from pacdp.data.registry import Where
from pacdp.data.splits import make_splits

# the split belongs to the name "malaria" and never changes
_SEEDS = {"healthy": 0, "infected": 1}
_SHARES = {"train": 0.8, "test": 0.2}


def load_malaria(name: str, where: Where) -> tuple[Dataset, Dataset]:
    """The cells of four patients in five, and those of the rest.

    Raises:
        DataError: the file is missing or not what it should be.
    """
    with np.load(where.locate("malaria_cells_50x50_gray.npz", "malaria_cells")) as file:
        images = file["images"]
        labels, patients = (file[key].astype(np.int64) for key in ("labels", "patient"))
    chosen = split_patients(labels, patients)

    def of(part: str) -> Dataset:
        rows = np.isin(patients, chosen[part])
        inputs = np.divide(images[rows][:, None], 255, dtype=np.float32)
        return Dataset(name, inputs, labels[rows], 2, people=patients[rows], unit="patient")

    return of("train"), of("test")


def split_patients(
    labels: Int64[np.ndarray, " n"], patients: Int64[np.ndarray, " n"]
) -> dict[str, Int64[np.ndarray, " people"]]:
    """Patients for "train" (four in five) and "test", drawn among the healthy and the infected by themselves.

    A patient is infected if any of their cells is labelled 1. The draw depends on which patients are infected
    alone, not on how many cells they have. Of either kind there are three or more.
    """
    infected = np.unique(patients[labels == 1])
    strata = {"healthy": np.setdiff1d(patients, infected), "infected": infected}
    parts: dict[str, list[np.ndarray]] = {part: [] for part in _SHARES}
    for name, people in strata.items():
        for part, split in make_splits(len(people), sizes=_SHARES, seed=_SEEDS[name]).items():
            parts[part].append(people[split.indices])
    return {part: np.sort(np.concatenate(people)) for part, people in parts.items()}
