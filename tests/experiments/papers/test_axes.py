"""The axes of figures are as long as the data need: errors can be told from bounds, accuracies from each other."""

import math

import numpy as np
import pytest

from experiments.figures import bayesian_dp, certificates, chains
from experiments.papers import certificates as table_of_certificates
from experiments.papers.entropy_sgld import panels
from experiments.runner import RESULTS, read_table


def drawn(name):
    """The figure of a study's committed table."""
    table = read_table(RESULTS / name / "cpu")
    if name == "certificates":
        risks = table.filter(table["measures"] == "0-1 risk")
        return certificates.draw(table, "test_set_clopper_pearson", table_of_certificates.idle(risks))
    if name == "dp-bnn-tradeoff":
        return bayesian_dp.accuracy_against_epsilon(table)
    return chains.along_runs(table, panels(int(name[-1]), table))


def filled(axes, side):
    """The share of an axis that data take up, on its own scale."""
    values = [np.asarray(getattr(line, f"get_{side}data")(), dtype=float) for line in axes.lines]
    low, high = getattr(axes, f"get_{side}lim")()
    inside = np.concatenate(values)
    inside = inside[np.isfinite(inside) & (inside >= min(low, high)) & (inside <= max(low, high))]
    if getattr(axes, f"get_{side}scale")() == "log":
        inside, low, high = np.log(inside), math.log(low), math.log(high)
    return (inside.max() - inside.min()) / abs(high - low)


@pytest.mark.parametrize("name", ["entropy-sgld-figure-2", "entropy-sgld-figure-4", "dp-bnn-tradeoff"])
def test_errors_and_accuracies_fill_their_axes(name):
    assert all(filled(axes, "y") > 0.8 for axes in drawn(name).axes)


def test_certificates_fill_their_axes_and_rigorous_ones_have_their_own():
    panels_ = drawn("certificates").axes
    assert len(panels_) == 4
    assert all(filled(axes, "x") > 0.8 for axes in panels_)
    rigorous, optimistic = panels_[0], panels_[2]
    assert rigorous.get_xlim()[1] < 0.2, "a number near 1 would hide the others"
    assert "rigorous" in rigorous.get_title()
    assert "optimistic" in optimistic.get_title()
    names = [label.get_text() for label in rigorous.get_yticklabels()]
    assert sum("KL = 0" in name for name in names) == 4
