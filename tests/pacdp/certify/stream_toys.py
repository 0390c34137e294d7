"""Examples in every form that a network is certified on, and loaders that hand them on in odd ways."""

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import BatchNorm1d, Linear, Sequential, Tanh
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
)

from pacdp.certify import BoundSet
from tests.pacdp.toys import seeded

GENERATOR = seeded(5)
INPUTS = torch.randn(300, 6, generator=GENERATOR)
LABELS = torch.randint(0, 3, (300,), generator=GENERATOR)
ALL = INPUTS, LABELS
PEOPLE = np.arange(300, dtype=np.int64) // 3
SLOPES = torch.tensor([1.0, -2.0, 0.5])
with torch.random.fork_rng():  # of weights whose logits are no probabilities, far from the data either
    torch.manual_seed(0)
    NET = Sequential(Linear(6, 8), BatchNorm1d(8), Tanh(), Linear(8, 3)).eval()


@dataclass
class Output:
    logits: Tensor
    loss: float = 0.0


class Pairs(Dataset):
    def __len__(self):
        return 300

    def __getitem__(self, k):
        return INPUTS[k], LABELS[k]


class Jitter(Pairs):
    """Examples that are moved a little at every look, so that no two rows of a copy are equal."""

    def __getitem__(self, k):
        return INPUTS[k] + 0.01 * torch.randn(6), LABELS[k]


class Endless(Dataset):
    def __getitem__(self, k):
        return INPUTS[k % 300], LABELS[k % 300]


JITTER = Jitter()
TWICE: Any = torch.tensor([*range(300), 7])


def drawn(sampler):
    return DataLoader(JITTER, batch_size=50, sampler=sampler)


def collated(made):
    """A loader whose function makes batches of a list of inputs and a list of labels."""
    return DataLoader(
        Pairs(), batch_size=50, collate_fn=lambda given: made(*map(torch.stack, zip(*given, strict=True)))
    )


def longest(inputs, labels):
    """Rows of other lengths, to the longest of their batch."""
    lengths = 3 + (inputs[:, 0] > 0) + 2 * (inputs[:, 1] > 0)
    taken = (torch.arange(6) < lengths[:, None])[:, : int(lengths.max())].float()
    return {"inputs": inputs[:, : taken.shape[1]] * taken, "taken": taken, "labels": labels}


class Lacking(Pairs):
    """Examples of which some are lacking, as are those whose file cannot be read."""

    def __getitem__(self, k):
        return None if k % 70 == 0 else super().__getitem__(k)


def those_there(given):
    """Rows of those examples that are there, to the longest of their batch."""
    return longest(*map(torch.stack, zip(*(one for one in given if one is not None), strict=True)))


def padded_where_they_lie(records):
    """Batches of dictionaries whose rows are padded in the dictionaries themselves."""
    width = max(int((one["inputs"] != 0).sum()) for one in records)
    for one in records:
        one["inputs"] = torch.nn.functional.pad(one["inputs"], (0, max(0, width - len(one["inputs"]))))
    return {key: torch.stack([one[key] for one in records]) for key in ("inputs", "labels")}


RECORDS: Any = [{"inputs": row[: 3 + k % 4], "labels": label} for k, (row, label) in enumerate(zip(*ALL, strict=True))]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(zip(INPUTS, LABELS, strict=True))


class Jittered(IterableDataset):
    def __iter__(self):
        return iter([(x + 0.01 * torch.randn(6), y) for x, y in zip(INPUTS, LABELS, strict=True)])


class Listed(Pairs):
    """A list of files and how they are read."""

    def __init__(self, transform, files=range(300)):
        self.files, self.transform, self.places = [f"{k}.png" for k in files], transform, torch.arange(300)

    def __getitem__(self, k):
        return self.transform(INPUTS[k]), LABELS[k]


class Ends(Pairs):
    """One that says with StopIteration that it is at its end, in the middle."""

    def __getitem__(self, k):
        return next(iter([super().__getitem__(k)] if k < 100 else []))


class Fetched(Pairs):
    """One that reads a batch at a time."""

    def __getitems__(self, places):
        return list(zip(INPUTS[places], LABELS[places], strict=True))


class Centred(Fetched):
    def __getitems__(self, places):
        return list(zip(INPUTS[places] - INPUTS[places].mean(0), LABELS[places], strict=True))


class Bulk(Pairs):
    """One that makes a batch of a list of places."""

    def __getitem__(self, k):
        return INPUTS[k] - INPUTS[k].mean(0), LABELS[k]


def in_bulk(data):
    return DataLoader(data, sampler=BatchSampler(range(300), 50, False), batch_size=None)


class PassedOn:
    """What stands around a loader, and hands its batches on as a function of them, as tutorials write it."""

    def __init__(self, loader, how=None):
        self.loader, self.how = loader, how

    def __iter__(self):
        return (self.how(*one) if self.how else one for one in self.loader)


class Bar(PassedOn):
    """One that has no copy, as a progress bar."""

    def __init__(self, loader):
        super().__init__(loader)
        self.lock = threading.Lock()


class Opened(Pairs):
    """One that opens its file where it is read first."""

    file = None

    def __getitem__(self, k):
        self.file = "a position, which all that were forked afterwards move"
        return super().__getitem__(k)


def one_with_a_gap(inputs):
    return torch.where(inputs == INPUTS[7], torch.nan, inputs)


def shown(found):
    """Up to the rounding of outputs, which differs with the size of batches."""
    return [
        (made.name, round(made.value, 6), made.measures, made.status) for made in found.certificates
    ], found.measured


def part(start, end):
    return INPUTS[start:end], LABELS[start:end]


FORMS = {
    "arrays": (INPUTS.numpy(), LABELS.numpy()),
    "a data set": Pairs(),
    "a shuffling loader": DataLoader(Pairs(), batch_size=37, shuffle=True, generator=seeded(1)),
    "an iterable data set": DataLoader(Stream(), batch_size=64),
    "a list of batches with empty ones": [part(0, 0), ALL, part(0, 0)],
    "arrays backwards": (INPUTS.numpy()[::-1], LABELS.numpy()[::-1]),
    "labels with a further axis": (INPUTS, LABELS[:, None]),
    "labels in a list": (INPUTS.numpy(), LABELS.tolist()),
    "a bound set": BoundSet(inputs=INPUTS, labels=LABELS),
    "people": [(*part(k, k + 50), PEOPLE[k : k + 50]) for k in range(0, 300, 50)],
}
