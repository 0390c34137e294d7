"""Training that reads the files of the bound's examples, whose rows stand nowhere: by what the files are listed in."""

from copy import deepcopy

import numpy as np
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, random_split

from pacdp import self_certify
from pacdp.data import DataError
from tests.marks import parametrize, refusal
from tests.pacdp.toys import seeded

N = 60
LABELS = np.random.default_rng(0).integers(2, size=N)


class Files(Dataset):
    """Examples that are made one by one, under a transform or none."""

    def __init__(self, transform=None, names="a", n=N):
        self.samples = [(f"{names}{k}.png", int(LABELS[k])) for k in range(n)]
        self.transform = transform

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, k):
        name, label = self.samples[k]
        made = torch.randn(5, generator=torch.Generator().manual_seed(1000 + sum(name.encode()) + k))
        return made if self.transform is None else self.transform(made), label


class Moved(Dataset):
    """A part under a transform of its own."""

    def __init__(self, part, transform):
        self.part, self.transform = part, transform

    def __len__(self):
        return len(self.part)

    def __getitem__(self, k):
        image, label = self.part[k]
        return self.transform(image), label


FILES = Files(torch.neg)
LEARNING, TEST = random_split(FILES, [48, 12], generator=seeded())
GIVEN, EARLY = random_split(LEARNING, [36, 12], generator=seeded())


class Own(nn.Linear):
    """A network with the data set at hand, which its loop goes over."""

    held, loader = FILES, staticmethod(lambda: DataLoader(FILES))


class Loop(nn.Linear):
    """One whose method makes the loader."""

    @property
    def loader(self):
        return DataLoader(FILES)


def attempt(given, held=None, module=None):
    """A network that is certified on ``given`` after a training which has ``held`` at hand."""
    module = nn.Linear(5, 2) if module is None else module
    return self_certify(module, given, train=lambda *_: held and None, routes="held-out count")


@parametrize(
    ("given", "held"),
    [
        (Files(), Files(torch.abs)),
        (GIVEN, FILES),
        (Moved(GIVEN, torch.neg), Moved(GIVEN, torch.abs)),
        (Moved(GIVEN, torch.neg), LEARNING),
        (Subset(FILES, range(40)), Subset(Files(torch.abs), range(30, 50))),
    ],
    ids=["another transform", "parts of parts", "wrapped", "the whole of what is wrapped", "parts of two"],
)
def test_the_same_files_in_another_data_set_are_refused(given, held):
    """The augmented copy of a folder, since data with random transforms are not taken."""
    given, held = deepcopy((given, held))  # what was collected is hidden from gc
    with refusal("train, or the model, refers to all labels, or to the data set", DataError):
        attempt(given, DataLoader(held))


@parametrize("given", [GIVEN, Moved(GIVEN, torch.neg)])
@parametrize("held", [EARLY, TEST, Moved(EARLY, torch.neg), ConcatDataset([EARLY, TEST]), Files(names="b", n=50)])
def test_other_files_may_be_read(given, held):
    """As for early stopping."""
    given, held = deepcopy((given, held))
    attempt(given, DataLoader(held))


@parametrize("module", [Own(5, 2), Loop(5, 2)])
def test_what_the_module_has_at_hand_is_looked_at(module):
    """Attributes, static methods and properties, as of a module that makes its own loaders."""
    with refusal("the model, refers to all labels, or to the data set", DataError):
        attempt(FILES, module=module)
    attempt(Files(names="b", n=50), module=module)


WORDS = np.array(["no", "yes"], object)[LABELS]


@parametrize(
    "held",
    [
        [*WORDS],
        WORDS,
        np.array([[f"{k}.png", word] for k, word in enumerate(WORDS)]),
        [(f"{k}.png", label) for k, label in enumerate(LABELS)],
        {f"{k}.png": int(label) for k, label in enumerate(LABELS)},
        [{"file": f"{k}.png", "label": torch.tensor(label)} for k, label in enumerate(LABELS)],
    ],
    ids=["words", "objects", "table", "pairs", "by name", "records"],
)
def test_all_labels_are_found_in_whatever_lists_them(held):
    """Beside names of files, as words, or one by one."""
    inputs = torch.randn(N, 5, generator=seeded())
    with refusal("refers to all labels", DataError):
        attempt((inputs, LABELS), held)
    attempt((inputs, LABELS), held[1:] if isinstance(held, list) else "others")


class Windows(Dataset):
    """Very many places, none of which may be asked for."""

    def __len__(self):
        return 10**15

    def __getitem__(self, place):
        raise AssertionError(place)


def test_places_of_what_has_nothing_to_do_with_the_data_are_not_counted():
    huge = Windows()
    attempt(Files(), "others")
    assert len(huge) > 0
