"""Bounds by the general transfer: laws, their pure twins, budgets, status; and what is no certificate."""

import pytest
from cells import KNOWN
from gaussian_cells import gaussian_cells

from bounds import ApproxDP, GaussianDP, PureDP, ZeroConcentratedDP
from bounds.printed import hybrid_pac_bayes, private_pac_bayes

N = 60_000
RECORDS = {
    "pure": PureDP(epsilon=0.02, **KNOWN),
    "approximate": ApproxDP(epsilon=0.01, delta=1e-9, **KNOWN),
    "gaussian": GaussianDP(mu=0.03, **KNOWN),
    "concentrated": ZeroConcentratedDP(rho=5e-4, **KNOWN),
    "grid": gaussian_cells(0.03, 5e-4),
}
AT = {"risk": 0.03, "kl_nats": 50.0, "n": N, "failure_prob": 0.05}


@pytest.mark.every_case
@pytest.mark.parametrize("privacy", RECORDS.values(), ids=RECORDS)
def test_a_prior_that_saw_one_part_freely_pays_for_the_other_alone(privacy):
    """The hybrid is the private bound of its part, whose formula and price are those of test_laws.py."""
    made = private_pac_bayes(**AT, privacy=privacy)
    hybrid = hybrid_pac_bayes(risk=0.03, kl_nats=50.0, n_bound=N, failure_prob=0.05, privacy=privacy)
    assert (hybrid.name, hybrid.value) == ("hybrid_pac_bayes", made.value)
    assert set(made.budget) <= {"transfer", "privacy tail", "unbounded privacy loss"}
    assert made.inputs["privacy_notion"] == privacy.notion


@pytest.mark.parametrize("status", ["assumes stationarity", "approximate accountant"])
def test_unproved_records_make_optimistic_certificates(status):
    made = private_pac_bayes(**AT, privacy=GaussianDP(mu=0.03, adjacency="add-remove", status=status))
    assert made.status == "optimistic"
    assert made.value == private_pac_bayes(**AT, privacy=RECORDS["gaussian"]).value
