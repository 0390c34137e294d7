"""Privacy records and the exponential mechanism."""

import math
from fractions import Fraction

import pytest

from bounds import PureDP, exponential_mechanism_epsilon


def test_record_round_trip():
    record = PureDP(epsilon=0.1, adjacency="replace-one", status="assumes stationarity")
    assert record.to_dict()["notion"] == "pure"
    assert PureDP.from_dict(record.to_dict()) == record


@pytest.mark.parametrize(
    ("changes", "word"),
    [({"epsilon": -1.0}, "epsilon"), ({"epsilon": math.nan}, "epsilon"), ({"adjacency": "swap"}, "adjacency"),
     ({"status": "sure"}, "status")],
)  # fmt: skip
def test_bad_records_are_refused(changes, word):
    values = {"epsilon": 0.1, "adjacency": "replace-one", "status": "exact mechanism"}
    with pytest.raises(ValueError, match=rf"^{word} must"):
        PureDP(**{**values, **changes})


def test_foreign_record_is_refused():
    with pytest.raises(ValueError, match=r"^record must describe"):
        PureDP.from_dict({"notion": "gaussian", "mu": 1.0})


def test_exponential_mechanism_formal_guarantee_and_paper_values():
    tau, n = math.sqrt(60_000), 60_000
    four = 4 + math.log1p(-math.exp(-4))  # oscillation of -ln psi with L = 4, two classes
    assert exponential_mechanism_epsilon(beta=1, tau=tau, loss_range=four, n=n) == pytest.approx(0.0325089302, rel=1e-8)
    exact = 2 * Fraction(0.7) * Fraction(tau) * Fraction(four) / n
    assert (
        exact
        <= Fraction(exponential_mechanism_epsilon(beta=0.7, tau=tau, loss_range=four, n=n))
        <= exact * (1 + Fraction(1, 10**14))
    )


def test_exponential_mechanism_is_as_private_as_said_on_a_finite_set():
    losses = [[0.0, 1.0, 0.5], [1.0, 0.0, 0.2]]  # loss of three hypotheses on two possible records
    n, beta, tau = 4, 1.3, 6.0

    def law(ones: int) -> list[float]:
        weights = [math.exp(-beta * tau * ((n - ones) * a + ones * b) / n) for a, b in zip(*losses, strict=True)]
        return [weight / sum(weights) for weight in weights]

    epsilon = exponential_mechanism_epsilon(beta=beta, tau=tau, loss_range=1.0, n=n)
    worst = max(abs(math.log(p / q)) for k in range(n) for p, q in zip(law(k), law(k + 1), strict=True))
    assert 0.3 * epsilon < worst <= epsilon


@pytest.mark.parametrize("word", ["beta", "tau", "loss_range", "n"])
def test_misuse_of_the_exponential_mechanism(word):
    values = {"beta": 1.0, "tau": 1.0, "loss_range": 1.0, "n": 10}
    with pytest.raises(ValueError, match=rf"^{word} must"):
        exponential_mechanism_epsilon(**{**values, word: -1})
