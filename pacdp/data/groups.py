"""Datasets whose examples belong to people: who wrote a digit, whose blood or chest an image shows.

Privacy of a person covers all of their examples at once, and a test set measures what it should only if none of
its people was trained on.
"""

import hashlib
import os
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Int64

from pacdp.data.datasets import GROUPED_NAMES, Dataset
from pacdp.data.download import Progress
from pacdp.data.errors import DataError
from pacdp.data.splits import Split


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """Labelled examples and whose they are.

    Attributes:
        dataset: the examples.
        groups: int64 [n], the number of each example's person, at least 0, read-only. Numbers need not be
            consecutive; the train and test set of one name share one numbering.
        unit: what a person is called here, in the singular, such as "writer" or "patient".
    """

    dataset: Dataset
    groups: Int64[np.ndarray, " n"]
    unit: str
    _hash: list[str] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the groups; raises DataError naming the dataset and what is wrong with them."""
        name = self.dataset.name
        if self.groups.dtype != np.int64 or self.groups.ndim != 1:
            raise DataError(f"groups of {name} must be int64 [n]; convert them.")
        if len(self.groups) != self.dataset.n:
            raise DataError(
                f"{name} has {self.dataset.n} examples and groups for {len(self.groups)}; give each example one person."
            )
        if self.groups.min() < 0:
            raise DataError(f"groups of {name} must be at least 0, got {self.groups.min()}; number people from 0.")
        if not self.unit.strip():
            raise DataError(f"unit of {name} is empty; say what a person is, such as 'patient'.")
        view = self.groups.view()
        view.setflags(write=False)
        object.__setattr__(self, "groups", view)

    @property
    def n(self) -> int:
        """How many examples."""
        return self.dataset.n

    @property
    def people(self) -> int:
        """How many distinct people."""
        return len(np.unique(self.groups))

    @property
    def hash(self) -> str:
        """sha256 (hex) of the dataset's hash and the groups as little-endian bytes; not of name and unit."""
        if not self._hash:
            digest = hashlib.sha256(f"grouped{self.dataset.hash}".encode())
            digest.update(np.ascontiguousarray(self.groups, dtype="<i8").data)
            self._hash.append(digest.hexdigest())
        return self._hash[0]

    def subset(self, split: Split) -> "Grouped":
        """The examples at ``split.indices``, in that order; all of them are the set itself."""
        if split.n == self.n:
            return self
        return Grouped(self.dataset.subset(split), self.groups[split.indices], self.unit)


def require_other_people(train: Grouped, test: Grouped) -> None:
    """Refuse two sets that share a person.

    Raises:
        DataError: they do; the sentence counts the shared people and names the first.
    """
    shared = np.intersect1d(train.groups, test.groups)
    if len(shared):
        several = f"{train.unit}s" if len(shared) > 1 else train.unit
        raise DataError(
            f"train and test of {train.dataset.name} share {len(shared)} {several} (the first has number "
            f"{shared[0]}); move all examples of a {train.unit} to one side."
        )


def load_grouped(
    name: str,
    *,
    root: str | os.PathLike[str] | None = None,
    download: bool = True,
    progressbar: bool | Progress = False,
) -> tuple[Grouped, Grouped]:
    """The train and test set of that name with their people, none of whom is in both; inputs scaled to [0, 1].

    - "mnist-writers": MNIST in its own order, by the writers that QMNIST found (Yadav and Bottou, NeurIPS 2019):
      539 who wrote the 60,000 training digits, 19 to 131 each, and 297 others who wrote the 10,000 test digits;
    - "malaria": 27,558 red blood cells from thin smears of 201 patients, inputs [n, 1, 50, 50], label 1 for a cell
      with a parasite (NIH); four patients in five are in the training set, infected and healthy ones alike;
    - "xrays": chest X-rays of children, normal, bacterial or viral pneumonia as labels 0, 1 and 2, inputs
      [n, 1, 64, 64], Kermany et al. 2018's own split: 5,216 of 3,654 patients and 624 of 428 others
      (`pacdp.data.xrays` says what a patient is there);
    - "xrays224": the same at the full size of their files, [n, 1, 224, 224]: 1 GB for the training set alone.

    Args:
        name: one of `GROUPED_NAMES`.
        root: a folder laid out like the one PACDP_DATA names.
        download: whether missing files may be downloaded; nobody serves those of "malaria" and "xrays".
        progressbar: True for pooch's own bar (needs tqdm), or an object with its members.

    Raises:
        DataError: unknown name, a file that is missing, damaged or not what it should be, a person in both sets.
    """
    train, test = _load(name, root, download, progressbar)
    require_other_people(train, test)
    return train, test


def _load(
    name: str, root: str | os.PathLike[str] | None, download: bool, progressbar: bool | Progress
) -> tuple[Grouped, Grouped]:
    # each reader imports this module for its record, and only one of them is needed
    if name == "mnist-writers":
        from pacdp.data.writers import load_writers

        return load_writers(root=root, download=download, progressbar=progressbar)
    if name == "malaria":
        from pacdp.data.malaria import load_malaria

        return load_malaria(root=root, download=download, progressbar=progressbar)
    if name in ("xrays", "xrays224"):
        from pacdp.data.xrays import load_xrays

        side = 64 if name == "xrays" else 224
        return load_xrays(name, side=side, root=root, download=download, progressbar=progressbar)
    raise DataError(f"dataset {name!r} has no known people; choose one of {', '.join(GROUPED_NAMES)}.")
