"""Bounds by the general transfer: laws, their pure twins, budgets, status; and what is no certificate."""

from math import exp, inf, log

import pytest
from cells import KNOWN, refused
from gaussian_cells import gaussian_cells

from bounds import ApproxDP, Certificate, GaussianDP, PrivacyLossDistribution, PureDP, ZeroConcentratedDP, log_xi
from bounds.printed import hybrid_pac_bayes, private_pac_bayes
from bounds.transfer import in_expectation_nats, markov_transfer_nats, transfer_cost

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


def test_bounds_in_expectation_have_their_printed_information():
    for privacy, per_record in (
        (GaussianDP(mu=0.05, **KNOWN), 0.00125),
        (ZeroConcentratedDP(rho=0.02, **KNOWN), 0.02),
        (PureDP(epsilon=0.04, adjacency="replace-one", status="accounted"), 0.0002),
        (PureDP(epsilon=0.02, **KNOWN), 0.0002),
    ):
        found = in_expectation_nats(privacy=privacy, n=N)
        assert N * per_record <= found.information_nats <= N * per_record * (1 + 1e-3)
        assert found.value_nats == pytest.approx(found.information_nats + log_xi(N), rel=1e-14)
    grid = gaussian_cells(0.05, 5e-4)
    refused(r"^privacy must bound the mutual information", in_expectation_nats, privacy=grid, n=N)
    closed = PrivacyLossDistribution.from_dict({**grid.to_dict(), "infinity_mass": 0.0})
    found = in_expectation_nats(privacy=closed, n=N).information_nats
    assert N * 0.00125 * (1 - 1e-9) <= found <= N * 0.00125 * 1.001


def test_a_bound_in_expectation_cannot_pass_for_a_certificate():
    assumed = GaussianDP(mu=0.03, adjacency="add-remove", status="assumes stationarity")
    assert [one.name for one in in_expectation_nats(privacy=assumed, n=N).hypotheses] == ["chain stationary"]
    found = in_expectation_nats(privacy=RECORDS["gaussian"], n=N)
    assert found.hypotheses == ()
    assert not isinstance(found, Certificate)
    assert not hasattr(found, "value")
    with pytest.raises(TypeError):
        float(found)


def test_markov_transfer_formal_guarantee_and_printed_values():
    for mu, printed in ((0.001, 0.000236), (0.005, 0.000492), (0.01, 0.00126), (0.05, 0.0253), (0.2, 0.400)):
        information = in_expectation_nats(privacy=GaussianDP(mu=mu, **KNOWN), n=N).information_nats
        found = markov_transfer_nats(information_nats=information, failure_prob=0.05)
        assert found / N == pytest.approx(printed, rel=5e-3)
        splits = (0.05 * 10 ** (-k / 40) for k in range(1, 200))
        best = min(log(1 / first) + (information + exp(-1)) / (0.05 - first) for first in splits)
        assert found <= best * (1 + 1e-12)
        assert found > transfer_cost(privacy=GaussianDP(mu=mu, **KNOWN), n=N, failure_prob=0.05).nats
    assert markov_transfer_nats(information_nats=inf, failure_prob=0.05) == inf
