"""A stranger's network and data, as a user's own module would have them."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from pacdp import BoundSet
from pacdp.data import Split, index_hash

PRIOR = np.arange(0, 900)
BOUND = np.arange(900, 1500)
TEST = np.arange(1500, 1797)


def factory():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 10)
    )


def examples(indices):
    inputs, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))  # they come by writer
    inputs, labels = inputs[order], labels[order]
    return torch.tensor(inputs[indices] / 16.0, dtype=torch.float32), torch.tensor(labels[indices])


def bound_set():
    inputs, labels = examples(BOUND)
    return BoundSet(inputs=inputs, labels=labels, indices=Split(BOUND, index_hash(BOUND)))


def overlapping():
    inputs, labels = examples(BOUND - 100)
    return BoundSet(inputs=inputs, labels=labels, indices=Split(BOUND - 100, index_hash(BOUND - 100)))


def test_set():
    return examples(TEST)


def without_labels():
    return examples(BOUND)[0]


def wrong_shape():
    return torch.zeros(20, 3), torch.zeros(20, dtype=torch.int64)


def trained():
    module = factory()
    inputs, labels = examples(PRIOR)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(80):
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(inputs), labels).backward()
        optimizer.step()
    return module.eval()
