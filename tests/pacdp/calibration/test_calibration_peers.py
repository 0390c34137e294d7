"""Calibration errors against torchmetrics and netcal on 200 seeded cases: empty bins, ties, confidences of 0 and 1.

netcal's metrics need no more than ``pip install --no-deps netcal tqdm``; without it their tests are skipped.
"""

import calibration_tools as tools
import numpy as np
import pytest
import torch
from torchmetrics.functional.classification import binary_calibration_error, multiclass_calibration_error

from pacdp.calibration import ace, adaptive_ece, ece, mce, reliability_curve, rmsce, sce, top_label
from pacdp.calibration.binning import equal_width

BINS = (1, 8, 15, 16, 64)
NORMS = {"l1": ece, "max": mce, "l2": rmsce}
CONTINUOUS = [tools.continuous(seed) for seed in range(100)]
TIES = [tools.ties(seed, pieces=16) for seed in range(100, 200)]
CERTAIN = [case for case in TIES if case.probabilities.max() == 1.0]


def bins_of(number: int) -> int:
    return BINS[number % len(BINS)]


def torchmetrics_value(case: tools.Case, *, bins: int, norm: str) -> float:
    """torchmetrics, which reduces confidences to single precision."""
    return float(multiclass_calibration_error(
        torch.from_numpy(case.probabilities), torch.from_numpy(case.labels),
        num_classes=case.probabilities.shape[1], n_bins=bins, norm=norm,  # pyright: ignore[reportArgumentType]
    ))  # fmt: skip


def without_certain(case: tools.Case) -> tools.Case:
    """The examples whose confidence is below 1."""
    kept = case.probabilities.max(axis=1) < 1.0
    return tools.Case(case.probabilities[kept], case.labels[kept])


def test_the_cases_have_what_they_should() -> None:
    assert len(CERTAIN) > 60
    assert sum((reliability_curve(*case).counts == 0).any() for case in CONTINUOUS) > 90, "empty bins"
    inside = [case.probabilities[(case.probabilities > 0) & (case.probabilities < 1)] for case in TIES]
    assert all(np.isin(part * 16, np.arange(1, 16)).all() for part in inside), "at the edges of 16 bins"


@pytest.mark.parametrize("norm", NORMS)
def test_torchmetrics_agrees_below_a_confidence_of_one(norm: str) -> None:
    for number, case in enumerate(CONTINUOUS + [without_certain(case) for case in TIES]):
        if len(case.labels):
            bins = bins_of(number) if number < len(CONTINUOUS) or bins_of(number) != 15 else 8
            theirs = torchmetrics_value(case, bins=bins, norm=norm)
            assert NORMS[norm](*case, bins=bins) == pytest.approx(theirs, abs=1e-6), (number, bins)


@pytest.mark.parametrize("bins", [1, 8, 16])
def test_torchmetrics_gives_a_confidence_of_one_a_bin_of_its_own(bins: int) -> None:
    differ = 0
    for case in CERTAIN:
        rest, n = without_certain(case), len(case.labels)
        wrong = top_label(probabilities=case.probabilities, labels=case.labels)
        missed = float((~wrong.correct[wrong.confidence == 1.0]).sum())
        apart = (len(rest.labels) * ece(*rest, bins=bins) if len(rest.labels) else 0.0) + missed
        theirs = torchmetrics_value(case, bins=bins, norm="l1")
        assert theirs == pytest.approx(apart / n, abs=1e-6)
        differ += abs(theirs - ece(*case, bins=bins)) > 1e-3
    assert differ > 2, "so the two conventions are two"


def test_torchmetrics_finds_each_class_of_sce() -> None:
    for number, case in enumerate(CONTINUOUS):
        classes, bins = case.probabilities.shape[1], bins_of(number)
        each = [float(binary_calibration_error(torch.from_numpy(case.probabilities[:, k].copy()),
                                               torch.from_numpy((case.labels == k).astype(np.int64)), n_bins=bins))
                for k in range(classes)]  # fmt: skip
        assert sce(*case, bins=bins) == pytest.approx(sum(each) / classes, abs=1e-6)


@pytest.fixture(scope="module")
def netcal():
    return pytest.importorskip("netcal.metrics")


def netcal_value(metric, confidence: np.ndarray, correct: np.ndarray) -> float:
    return float(metric.measure(confidence, correct.astype(np.int64)))


def test_netcal_agrees_on_all_cases(netcal) -> None:
    for number, case in enumerate(CONTINUOUS + TIES):
        bins = bins_of(number)
        found = top_label(probabilities=case.probabilities, labels=case.labels)
        assert ece(*case, bins=bins) == pytest.approx(netcal_value(netcal.ECE(bins), *found), abs=1e-6), number
        assert mce(*case, bins=bins) == pytest.approx(netcal_value(netcal.MCE(bins), *found), abs=1e-6), number
        classes = case.probabilities.shape[1]
        each = [netcal_value(netcal.ECE(bins), case.probabilities[:, k], case.labels == k) for k in range(classes)]
        assert sce(*case, bins=bins) == pytest.approx(sum(each) / classes, abs=1e-6), number


@pytest.mark.parametrize("pieces", [10, 15, 30])
def test_netcal_agrees_at_edges_that_are_no_binary_fractions(netcal, pieces: int) -> None:
    for seed in range(20):
        case = tools.ties(seed, pieces=pieces)
        found = top_label(probabilities=case.probabilities, labels=case.labels)
        for bins in (10, 15):
            assert ece(*case, bins=bins) == pytest.approx(netcal_value(netcal.ECE(bins), *found), abs=1e-6)


@pytest.mark.parametrize("bins", [5, 10, 25])
def test_netcal_s_equal_mass_agrees_where_it_divides_the_data(netcal, bins: int) -> None:
    metric = netcal.ECE(bins, equal_intervals=False)
    for seed in range(20):
        case = tools.continuous(seed, n=200)
        found, classes = top_label(probabilities=case.probabilities, labels=case.labels), case.probabilities.shape[1]
        assert adaptive_ece(*case, bins=bins) == pytest.approx(netcal_value(metric, *found), abs=1e-6)
        each = [netcal_value(metric, case.probabilities[:, k], case.labels == k) for k in range(classes)]
        assert ace(*case, bins=bins) == pytest.approx(sum(each) / classes, abs=1e-6)


def test_netcal_s_ace_is_another_number(netcal) -> None:
    case = tools.continuous(7, n=500, classes=4)
    found = top_label(probabilities=case.probabilities, labels=case.labels)
    theirs = netcal_value(netcal.ACE(15), *found)
    bins = equal_width(*found, bins=15)
    assert theirs == pytest.approx(bins.gaps[bins.counts > 0].mean(), abs=1e-6)
    assert abs(theirs - ace(*case)) > 1e-2
