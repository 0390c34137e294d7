"""Datasets by name, as arrays whose shapes and labels have been checked: the table of readers.

A new data set is a module beside this one, whose reader is a line of the table, and a row of ``files.json``;
``pacdp/cli/recipes.json`` gives it recipes, and ``PEOPLE`` of ``pacdp/cli/private/config.py`` those that hide people.
"""

from collections.abc import Callable, Mapping

from pacdp.data.cifar10 import load_cifar10
from pacdp.data.dataset import Dataset, require_other_people
from pacdp.data.digits import load_digits
from pacdp.data.errors import DataError
from pacdp.data.malaria import load_malaria
from pacdp.data.mnist import load_mnist, load_writers
from pacdp.data.registry import Place, Progress, Where
from pacdp.data.xrays import load_xrays

_READERS: Mapping[str, Callable[[str, Where], tuple[Dataset, Dataset]]] = {
    "digits": load_digits,
    "digits2": load_digits,
    "mnist": load_mnist,
    "mnist2": load_mnist,
    "cifar10": load_cifar10,
    "mnist-writers": load_writers,
    "malaria": load_malaria,
    "xrays": load_xrays,
    "xrays224": load_xrays,
    "xrays-mixed": load_xrays,
}

NAMES = ("digits", "digits2", "mnist", "mnist2")
"""The small ones, which every computer with a connection can have."""

ALL_NAMES = tuple(_READERS)
"""All that `load` knows."""


def load(
    name: str,
    *,
    root: Place = None,
    download: bool = True,
    progressbar: bool | Progress = False,
) -> tuple[Dataset, Dataset]:
    """The train and test set of that name, inputs scaled to [0, 1].

    - "digits": scikit-learn's 8x8 digits, inputs [n, 1, 8, 8], 1,437 train and 360 test, needs no file;
    - "mnist": inputs [n, 1, 28, 28], 60,000 train and 10,000 test, files by `pacdp.data.locate`;
    - "digits2", "mnist2": the same inputs, label 1 for the digits 0 to 4, label 0 for 5 to 9;
    - "cifar10": inputs [n, 3, 32, 32], 50,000 train and 10,000 test, by `pacdp.data.cifar10`;
    - "mnist-writers": MNIST in its own order, by the writers that QMNIST found (Yadav and Bottou, NeurIPS 2019):
      539 who wrote the 60,000 training digits, 19 to 131 each, and 297 others who wrote the 10,000 test digits;
    - "malaria": 27,558 red blood cells from thin smears of 201 patients, inputs [n, 1, 50, 50], label 1 for a cell
      with a parasite (NIH); four patients in five are in the training set, infected and healthy ones alike;
    - "xrays": chest X-rays of children, normal, bacterial or viral pneumonia as labels 0, 1 and 2, inputs
      [n, 1, 64, 64], Kermany et al. 2018's own split: 5,216 of 3,654 patients and 624 of 428 others
      (`pacdp.data.xrays` says what a patient is there);
    - "xrays224": the same at the full size of their files, [n, 1, 224, 224]: 1 GB for the training set alone;
    - "xrays-mixed": the small ones, with four in five of all 4,082 patients in the training set, drawn by a seed of the
      name: the authors' two sets are of different laws.

    Where people are known, train and test share none of them.

    Args:
        name: one of `ALL_NAMES`.
        root: a folder laid out like the one PACDP_DATA names.
        download: whether missing files may be downloaded; nobody serves those of "malaria" and "xrays".
        progressbar: True for pooch's own bar (needs tqdm), or an object with its members.

    Raises:
        DataError: unknown name, a file that is missing, damaged or not what it should be, a person in both sets.
    """
    if name not in _READERS:
        raise DataError(f"dataset {name!r} is unknown; choose one of {', '.join(ALL_NAMES)}.")
    train, test = _READERS[name](name, Where(root, download, progressbar))
    require_other_people(train, test)
    return train, test
