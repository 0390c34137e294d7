"""Examples record by record, and what decides whether a network errs on one."""

from typing import Any

import numpy as np


class Examples:
    """Inputs and labels, and the record of each example: itself, or the person who gave it.

    Attributes:
        grouped: whether people are the records.
        count: how many records there are.
        starts: where each record's examples begin in ``order``, and where the last ones end.
    """

    def __init__(self, inputs: Any, labels: Any, people: Any) -> None:
        self.inputs, self.labels = np.asarray(inputs), np.asarray(labels)
        self.grouped = people is not None
        owner = np.arange(len(self.labels))
        if self.grouped:
            owner = np.unique(people, return_inverse=True)[1].ravel()
        self.count = int(owner.max()) + 1
        self.order = np.argsort(owner, kind="stable")
        records = np.arange(self.count + 1)
        self.starts = np.searchsorted(owner[self.order], records)

    def of(self, records: np.ndarray) -> tuple[Any, Any, np.ndarray]:
        """Inputs and labels of these records in the order given, and the place of each example's record in it."""
        import torch

        places = np.split(self.order, self.starts[1:-1])
        own = np.concatenate([places[one] for one in records])
        sizes = np.diff(self.starts)[records]
        inputs, labels = map(
            torch.from_numpy, (self.inputs[own], self.labels[own])
        )
        return inputs, labels, np.repeat(np.arange(len(records)), sizes)


def margins(outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The output of the own class less the largest other; of one output, it or minus it. Not above 0: an error."""
    if outputs.ndim == 1 or outputs.shape[1] == 1:
        return outputs.reshape(-1) * (2 * labels - 1)
    rows = np.arange(len(outputs))
    others = outputs.copy()
    others[rows, labels] = -np.inf
    with np.errstate(invalid="ignore"):  # infinity less infinity
        return outputs[rows, labels] - others.max(axis=1)
