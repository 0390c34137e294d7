"""Privacy records and the exponential mechanism."""

import copy
import json
import pickle
from fractions import Fraction
from math import exp, log, log1p, sqrt

import numpy as np
import pytest
from cells import KNOWN, within_rounding
from gaussian_cells import gaussian_cells

from bounds import (
    ApproxDP,
    GaussianDP,
    PrivacyLossDistribution,
    PureDP,
    ZeroConcentratedDP,
    exponential_mechanism_epsilon,
)

RECORDS = {
    "pure": PureDP(epsilon=0.1, adjacency="replace-one", status="assumes stationarity"),
    "approximate": ApproxDP(epsilon=0.3, delta=1e-7, **KNOWN),
    "gaussian": GaussianDP(mu=0.1, adjacency="add-remove", status="approximate accountant"),
    "zero-concentrated": ZeroConcentratedDP(rho=0.005, adjacency="add-remove", status="exact mechanism"),
    "privacy loss distribution": gaussian_cells(0.1, 1e-2),
}


@pytest.mark.parametrize(("notion", "record"), RECORDS.items(), ids=RECORDS)
def test_records_survive_json_pickle_and_copying(notion, record):
    assert record.to_dict()["notion"] == notion
    for back in (
        type(record).from_dict(json.loads(json.dumps(record.to_dict()))),
        pickle.loads(pickle.dumps(record)),  # noqa: S301
        copy.deepcopy(record),
    ):
        assert back == record
        assert hash(back) == hash(record)
        assert back.to_dict() == record.to_dict()
    assert all(record != other for other in RECORDS.values() if other is not record)
    with pytest.raises(AttributeError):
        record.adjacency = "replace-one"


def test_only_unproved_records_bring_hypotheses():
    assert [len(record.hypotheses) for record in RECORDS.values()] == [1, 0, 1, 0, 0]
    assert [RECORDS[name].hypotheses[0].name for name in ("pure", "gaussian")] == [
        "chain stationary",
        "accountant sound",
    ]
    assert all(one.standing == "unproved" for record in RECORDS.values() for one in record.hypotheses)


def test_masses_cannot_be_changed_from_outside():
    mine = np.ones(1)
    record = PrivacyLossDistribution(spacing=1.0, lowest=0, with_record=mine, without_record=mine, infinity_mass=0.0,
                                     zero_mass=0.0, **KNOWN)  # fmt: skip
    mine[0] = 7.0
    assert record.with_record[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        record.with_record[0] = 2.0


def test_exponential_mechanism_formal_guarantee_at_the_papers_setting():
    tau, n = sqrt(60_000), 60_000
    four = 4 + log1p(-exp(-4))  # oscillation of -ln psi with L = 4, two classes
    exact = 2 * Fraction(0.7) * Fraction(tau) * Fraction(four) / n
    assert (
        exact
        <= Fraction(exponential_mechanism_epsilon(beta=0.7, tau=tau, loss_range=four, n=n))
        <= exact * (1 + Fraction(1, 10**14))
    )


@pytest.mark.parametrize(("beta", "tau", "epsilon"), [(0.0, 5.0, 0.0), (5.0, 0.0, 0.0), (1.0, 5.0, 1.0)])
def test_a_mechanism_that_does_not_look_costs_nothing(beta, tau, epsilon):
    assert exponential_mechanism_epsilon(beta=beta, tau=tau, loss_range=1.0, n=10) == within_rounding(epsilon)


def test_exponential_mechanism_is_as_private_as_said_on_a_finite_set():
    losses = [[0.0, 1.0, 0.5], [1.0, 0.0, 0.2]]  # loss of three hypotheses on two possible records
    n, beta, tau = 4, 1.3, 6.0

    def law(ones):
        weights = [exp(-beta * tau * ((n - ones) * a + ones * b) / n) for a, b in zip(*losses, strict=True)]
        return [weight / sum(weights) for weight in weights]

    epsilon = exponential_mechanism_epsilon(beta=beta, tau=tau, loss_range=1.0, n=n)
    worst = max(abs(log(p / q)) for k in range(n) for p, q in zip(law(k), law(k + 1), strict=True))
    assert 0.3 * epsilon < worst <= epsilon
