"""Calibration errors against torchmetrics and netcal: empty bins, ties, confidences of 0 and 1.

netcal's metrics need no more than ``pip install --no-deps netcal tqdm``; without it their tests are skipped.
"""

import numpy as np
import pytest
import torch
from calibration_tools import continuous, ties
from torchmetrics.functional.classification import binary_calibration_error, multiclass_calibration_error

from pacdp.calibration import ace, ece, mce, sce, top_label
from tests.marks import made_once, parametrize

BINS = (1, 8, 10, 15, 16, 64)
NORMS = {"l1": ece, "max": mce}
CONTINUOUS = [continuous(seed) for seed in range(30)]
TIES = [ties(seed, pieces=pieces) for seed in range(10) for pieces in (10, 15, 16)]
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


@made_once
def netcal():
    return pytest.importorskip("netcal.metrics")


def measured(metric, confidence, correct):
    return float(metric.measure(confidence, correct.astype(np.int64)))


def by_class(metric, case):
    return near(np.mean([measured(metric, *one) for one in each_class(case)]), abs=1e-6)


def test_netcal_agrees_on_all_cases(netcal):
    for case, bins in numbered(CONTINUOUS + TIES):
        found, metric = (top_label(probabilities=case.probabilities, labels=case.labels), netcal.ECE(bins))
        assert ece(*case, bins=bins) == near(measured(metric, *found), abs=1e-6)
        assert mce(*case, bins=bins) == near(measured(netcal.MCE(bins), *found), abs=1e-6)
        assert sce(*case, bins=bins) == by_class(metric, case)


def test_netcal_s_equal_mass_agrees_where_it_divides_the_data(netcal):
    for seed, bins in enumerate((5, 10, 25)):
        case, metric = continuous(seed, n=200), netcal.ECE(bins, equal_intervals=False)
        assert ace(*case, bins=bins) == by_class(metric, case)
