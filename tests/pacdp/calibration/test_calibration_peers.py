"""Calibration errors against torchmetrics, which has bins of its own at edges: slow twins have those."""

import numpy as np
import pytest
import torch
from calibration_tools import continuous
from torchmetrics.functional.classification import binary_calibration_error, multiclass_calibration_error

from pacdp.calibration import ece, mce, sce
from tests.marks import parametrize

BINS = (1, 8, 10, 15, 16, 64)
NORMS = {"l1": ece, "max": mce}
CONTINUOUS = [continuous(seed) for seed in range(30)]
near = pytest.approx


def numbered(cases):
    return [(case, BINS[number % len(BINS)]) for number, case in enumerate(cases)]


def each_class(case):
    return [(column.copy(), case.labels == k) for k, column in enumerate(case.probabilities.T)]


@parametrize("norm", NORMS)
def test_torchmetrics_agrees_away_from_edges(norm):
    """It reduces confidences to single precision, and gives a confidence of one a bin of its own."""
    for case, bins in numbered(CONTINUOUS):
        probabilities, labels = torch.from_numpy(case.probabilities), torch.from_numpy(case.labels)
        theirs = multiclass_calibration_error(
            probabilities, labels, num_classes=probabilities.shape[1], n_bins=bins,
            norm=norm,  # pyright: ignore[reportArgumentType]
        )  # fmt: skip
        assert NORMS[norm](*case, bins=bins) == near(float(theirs), abs=1e-6)
        each = [float(binary_calibration_error(torch.from_numpy(column), torch.from_numpy(is_it * 1), n_bins=bins))
                for column, is_it in each_class(case)]  # fmt: skip
        assert sce(*case, bins=bins) == near(np.mean(each), abs=1e-6)
