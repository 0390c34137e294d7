"""Bounds by the general transfer: laws, their pure twins, budgets, status; and what is no certificate."""

import itertools
import json
import math

import pytest
from gaussian_cells import gaussian_cells

import bounds
from bounds import (
    ApproxDP,
    Certificate,
    GaussianDP,
    PrivacyLossDistribution,
    PureDP,
    ZeroConcentratedDP,
    catoni,
    dp_kl_chernoff,
    dp_pac_bayes,
    hybrid_pac_bayes,
    in_expectation_nats,
    log_xi,
    markov_transfer_nats,
    private_catoni,
    private_ece_pac_bayes,
    private_kl_chernoff,
    private_pac_bayes,
    transfer_cost,
)

N = 60_000
KNOWN = {"adjacency": "add-remove", "status": "accounted"}
RECORDS = {
    "pure": PureDP(epsilon=0.02, **KNOWN),
    "approximate": ApproxDP(epsilon=0.01, delta=1e-9, **KNOWN),
    "gaussian": GaussianDP(mu=0.03, **KNOWN),
    "concentrated": ZeroConcentratedDP(rho=5e-4, **KNOWN),
    "grid": gaussian_cells(0.03, 5e-4),
}
BOUNDS = {
    "private_pac_bayes": private_pac_bayes,
    "private_catoni": lambda **at: private_catoni(**at, inverse_temperature=N / 3),
    "private_kl_chernoff": lambda kl_nats, **at: private_kl_chernoff(**at),
    "private_ece_pac_bayes": lambda risk, **at: private_ece_pac_bayes(
        calibration_error=risk, mean_squared_gap=risk, **at
    ),
    "hybrid_pac_bayes": lambda n, **at: hybrid_pac_bayes(n_bound=n, **at),
}
BASE = {"risk": 0.03, "kl_nats": 50.0, "n": N, "failure_prob": 0.05, "privacy": RECORDS["gaussian"]}

every_bound = pytest.mark.parametrize(("name", "bound"), BOUNDS.items(), ids=BOUNDS)
every_record = pytest.mark.parametrize("privacy", RECORDS.values(), ids=RECORDS)


@every_bound
@every_record
def test_certificates_hold_together(name, bound, privacy):
    for risk, kl_nats in itertools.product([0.0, 0.03, 1.0], [0.0, 50.0, math.inf]):
        made = bound(**{**BASE, "risk": risk, "kl_nats": kl_nats, "privacy": privacy})
        assert made.name == name
        assert made.status == "rigorous"
        assert risk <= made.value <= 1.0
        assert made.value == 1.0 or kl_nats < math.inf or name == "private_kl_chernoff"
        assert set(made.budget) <= {"transfer", "privacy tail", "unbounded privacy loss"}
        assert 0.05 * (1 - 1e-12) <= math.fsum(made.budget.values()) <= 0.05
        assert Certificate.from_json(made.to_json()) == made
        cost = transfer_cost(privacy=privacy, n=N, failure_prob=0.05)
        assert made.nats("transfer") == cost.nats
        assert made.inputs["privacy_notion"] == privacy.notion


@every_bound
@pytest.mark.parametrize(
    ("name_of", "values"),
    [
        ("risk", [0.0, 1e-4, 0.03, 0.6, 1.0]),
        ("kl_nats", [0.0, 1.0, 100.0, math.inf]),
        ("n", [10**6, N, 999, 30, 1]),
        ("failure_prob", [0.9, 0.05, 1e-4]),
        ("privacy", [GaussianDP(mu=mu, **KNOWN) for mu in (0.0, 0.01, 0.1, 1.0, 30.0, math.inf)]),
    ],
)
def test_less_information_never_helps(name, bound, name_of, values):
    if (name, name_of) == ("private_catoni", "n"):
        return  # at a fixed temperature the cost, which grows with n, is no longer divided by it
    found = [bound(**{**BASE, name_of: value}).value for value in values]
    assert all(better <= worse * (1 + 1e-6) for better, worse in itertools.pairwise(found))
    if name_of == "privacy":
        assert found[-1] == 1.0


@every_bound
@pytest.mark.parametrize(
    ("wrong", "value"),
    [("risk", math.nan), ("risk", -0.1), ("failure_prob", math.nan), ("failure_prob", 0.0), ("privacy", None)],
)
def test_nan_and_misuse_are_refused_by_name(name, bound, wrong, value):
    with pytest.raises(ValueError, match=rf"^({wrong}|calibration_error) must"):
        bound(**{**BASE, wrong: value})


def test_counts_and_divergences_are_refused_by_name():
    with pytest.raises(ValueError, match=r"^n must"):
        private_pac_bayes(**{**BASE, "n": 0})
    with pytest.raises(ValueError, match=r"^n_bound must"):
        hybrid_pac_bayes(risk=0.1, kl_nats=1.0, n_bound=0, privacy=RECORDS["gaussian"], failure_prob=0.05)
    with pytest.raises(ValueError, match=r"^kl_nats must"):
        private_pac_bayes(**{**BASE, "kl_nats": -1.0})
    with pytest.raises(ValueError, match=r"^inverse_temperature must"):
        private_catoni(**BASE, inverse_temperature=0.0)


def test_values_follow_from_their_costs():
    cost = transfer_cost(privacy=RECORDS["gaussian"], n=N, failure_prob=0.05).nats
    at = {"risk": 0.03, "n": N, "failure_prob": 0.05, "privacy": RECORDS["gaussian"]}
    per_example = (50.0 + log_xi(N) + cost) / N
    assert private_pac_bayes(**at, kl_nats=50.0).value == pytest.approx(
        bounds.binary_kl_upper(0.03, per_example), rel=1e-12
    )
    assert private_kl_chernoff(**at).value == pytest.approx(bounds.binary_kl_upper(0.03, cost / N), rel=1e-12)
    without = catoni(risk=0.03, kl_nats=50.0 + cost - math.log(20), n=N, failure_prob=0.05, inverse_temperature=9e3)
    assert private_catoni(**at, kl_nats=50.0, inverse_temperature=9e3).value == pytest.approx(without.value, rel=1e-12)


def test_pure_privacy_gives_the_bounds_for_pure_privacy():
    pure = PureDP(epsilon=0.03, adjacency="replace-one", status="exact mechanism")
    at = {"risk": 0.03, "n": N, "failure_prob": 0.05}
    assert (
        private_pac_bayes(**at, kl_nats=9.0, privacy=pure).value == dp_pac_bayes(**at, kl_nats=9.0, epsilon=0.03).value
    )
    found, twin = private_kl_chernoff(**at, privacy=pure), dp_kl_chernoff(**at, epsilon=0.03)
    assert found.value == pytest.approx(twin.value, rel=1e-13)


TABLE = {0.001: (0.0440, 0.0836, 0.1436), 0.02: (0.0470, 0.0875, 0.1485), 0.05: (0.0578, 0.1011, 0.1648),
         0.2: (0.1778, 0.2350, 0.3124), 0.5: (0.5692, 0.6174, 0.6798), 1.0: (0.956, 0.964, 0.974)}  # fmt: skip


@pytest.mark.parametrize(("mu", "printed"), TABLE.items())
def test_certificates_at_mnist_size_with_five_hundred_nats(mu, printed):
    at = {"kl_nats": 500.0, "n": N, "failure_prob": 0.05, "privacy": GaussianDP(mu=mu, **KNOWN)}
    found = [private_pac_bayes(risk=risk, **at).value for risk in (0.02, 0.05, 0.10)]
    assert found == pytest.approx(printed, abs=6e-4 if mu == 1.0 else 6e-5)


@every_bound
@pytest.mark.parametrize(
    ("status", "word"), [("assumes stationarity", "reached"), ("approximate accountant", "understate")]
)
def test_unproved_records_make_optimistic_certificates(name, bound, status, word):
    made = bound(**{**BASE, "privacy": GaussianDP(mu=0.03, adjacency="add-remove", status=status)})
    assert made.status == "optimistic"
    assert word in made.unproved[0].by
    assert made.value == bound(**BASE).value


def test_a_grid_is_recorded_by_its_digest():
    made = private_pac_bayes(**{**BASE, "privacy": RECORDS["grid"]})
    assert made.inputs["privacy_digest"] == RECORDS["grid"].digest
    assert len(json.dumps(made.to_dict())) < 3000


def test_bounds_in_expectation_have_their_printed_information():
    for privacy, per_record in (
        (GaussianDP(mu=0.05, **KNOWN), 0.00125),
        (ZeroConcentratedDP(rho=0.02, **KNOWN), 0.02),
        (PureDP(epsilon=0.04, adjacency="replace-one", status="accounted"), 0.0002),
        (PureDP(epsilon=0.02, **KNOWN), 0.0002),
        (gaussian_cells(0.05, 5e-4, reach=37.0), 0.00125),
    ):
        if isinstance(privacy, PrivacyLossDistribution) and privacy.infinity_mass > 0.0:
            with pytest.raises(ValueError, match=r"^privacy must bound the mutual information"):
                in_expectation_nats(privacy=privacy, n=N)
            continue
        found = in_expectation_nats(privacy=privacy, n=N)
        assert N * per_record <= found.information_nats <= N * per_record * (1 + 1e-3)
        assert found.value_nats == pytest.approx(found.information_nats + log_xi(N), rel=1e-14)
    grid = gaussian_cells(0.05, 5e-4)
    closed = PrivacyLossDistribution.from_dict({**grid.to_dict(), "infinity_mass": 0.0})
    found = in_expectation_nats(privacy=closed, n=N).information_nats
    assert N * 0.00125 * (1 - 1e-9) <= found <= N * 0.00125 * 1.001


def test_a_delta_bounds_no_mutual_information():
    with pytest.raises(ValueError, match=r"^privacy must bound the mutual information"):
        in_expectation_nats(privacy=RECORDS["approximate"], n=N)
    with pytest.raises(ValueError, match=r"^privacy must be a privacy record"):
        in_expectation_nats(privacy=None, n=N)


def test_a_bound_in_expectation_cannot_pass_for_a_certificate():
    assumed = GaussianDP(mu=0.03, adjacency="add-remove", status="assumes stationarity")
    assert [one.name for one in in_expectation_nats(privacy=assumed, n=N).hypotheses] == ["chain stationary"]
    found = in_expectation_nats(privacy=RECORDS["gaussian"], n=N)
    assert found.hypotheses == ()
    assert not isinstance(found, Certificate)
    for attribute in ("value", "failure_prob", "status", "budget", "charged"):
        assert not hasattr(found, attribute)
    with pytest.raises(TypeError):
        float(found)
    with pytest.raises(ValueError, match=r"^information_nats must"):
        markov_transfer_nats(information_nats=found, failure_prob=0.05)


def test_markov_transfer_formal_guarantee_and_printed_values():
    for mu, printed in ((0.001, 0.000236), (0.005, 0.000492), (0.01, 0.00126), (0.05, 0.0253), (0.2, 0.400)):
        information = in_expectation_nats(privacy=GaussianDP(mu=mu, **KNOWN), n=N).information_nats
        found = markov_transfer_nats(information_nats=information, failure_prob=0.05)
        assert found / N == pytest.approx(printed, rel=5e-3)
        splits = (0.05 * 10 ** (-k / 40) for k in range(1, 200))
        best = min(math.log(1 / first) + (information + math.exp(-1)) / (0.05 - first) for first in splits)
        assert found <= best * (1 + 1e-12)
        assert found > transfer_cost(privacy=GaussianDP(mu=mu, **KNOWN), n=N, failure_prob=0.05).nats
    assert markov_transfer_nats(information_nats=math.inf, failure_prob=0.05) == math.inf
