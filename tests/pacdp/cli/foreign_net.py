"""A stranger's network and data, as a user's own module would have them."""

import numpy as np
import torch
from numpy.random import default_rng
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import Flatten, Linear, ReLU, Sequential
from torch.utils.data import DataLoader, Dataset

from pacdp.certify import BoundSet
from pacdp.data import Split, index_hash

PRIOR = np.arange(0, 900)
BOUND = np.arange(900, 1500)
TEST = np.arange(1500, 1797)


def factory():
    torch.manual_seed(0)
    return Sequential(Flatten(), Linear(64, 32), nn.BatchNorm1d(32), ReLU(), nn.Dropout(0.5), Linear(32, 10))


def examples(indices):
    inputs, labels = load_digits(return_X_y=True)
    order = default_rng(0).permutation(len(labels))  # they come by writer
    inputs, labels = inputs[order], labels[order]
    return torch.tensor(inputs[indices] / 16.0, dtype=torch.float32), torch.tensor(labels[indices])


def _set(indices, **more):
    inputs, labels = examples(indices)
    return BoundSet(inputs=inputs, labels=labels, indices=Split(indices, index_hash(indices)), **more)


def bound_set():
    return _set(BOUND)


def overlapping():
    return _set(BOUND - 100)


def test_set():
    return examples(TEST)


def prior_set():
    return examples(PRIOR)


def persons():
    """Ten consecutive examples are one person's."""
    return *examples(BOUND), torch.arange(len(BOUND)) // 10


def persons_before():
    """The first of them is the last of ``persons``."""
    return *examples(PRIOR), 59 + torch.arange(len(PRIOR)) // 15


def float_labels():
    inputs, labels = examples(BOUND)
    return inputs, labels + 0.5


def failing():
    return {}["pixels"]


not_a_function = 3


def not_a_module():
    return "a scikit-learn model"


class _Returning(nn.Module):
    def __init__(self, made):
        super().__init__()
        self.weight, self.made = nn.Parameter(torch.zeros(1)), made

    def forward(self, inputs):
        return self.made(inputs + self.weight)


def of_pictures():
    return _Returning(lambda inputs: inputs.reshape(-1, 8, 8))


def trained():
    module = factory()
    inputs, labels = examples(PRIOR)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(80):
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(inputs), labels).backward()
        optimizer.step()
    return module.eval()


class Noisy(Dataset):
    """Examples under a random transform, as a training loader gives them."""

    def __init__(self, indices):
        self.pairs = [*zip(*examples(indices), strict=True)]

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, place):
        inputs, label = self.pairs[place]
        return inputs + 0.01 * torch.randn(64), label


def noisy():
    return DataLoader(Noisy(PRIOR), batch_size=100, shuffle=True)


def noisy_bound_set():
    return Noisy(BOUND)


def forgotten():
    examples(TEST)
