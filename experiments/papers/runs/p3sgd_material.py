"""The data of a run, on its device."""

from typing import NamedTuple

import torch
from torch import Tensor

from pacdp.cli.config import Runtime
from experiments.papers.runs.p3sgd_config import Training
from pacdp.cli.private.data import Examples, examples


class Material(NamedTuple):
    """Images or features and labels, of people of whom none is in both sets."""

    data: Examples
    inputs: Tensor
    labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor

    @property
    def majority(self) -> float:
        """Share of the test set that naming its most frequent class gets right."""
        return float(self.test_labels.bincount().max()) / len(self.test_labels)


def material(config: Training, runtime: Runtime) -> Material:
    """The run's data. Raises DataError: see :func:`pacdp.data.load`."""
    data = examples(config.dataset, features=config.features, by_person=True, root=runtime.data_root)
    arrays = (data.train.inputs, data.train.labels, data.test.inputs, data.test.labels)
    return Material(data, *(torch.tensor(array, device=runtime.device) for array in arrays))
