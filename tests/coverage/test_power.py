"""The harness would notice: what is tried at a fraction of the cost is the bound's own formula, and it fails."""

from math import sqrt

import pytest

from bounds import Certificate, GaussianDP, Sharp
from bounds.transfer import transfer_cost
from tests.coverage import mechanisms
from tests.coverage.broken import BROKEN
from tests.coverage.costs import at_fraction, has_formula
from tests.coverage.entries import ENTRIES, MOST
from tests.coverage.harness import cases_of, given_to
from tests.coverage.priced import PRICED
from tests.coverage.worlds import DELTA


def test_a_bound_that_gives_away_more_than_a_third_of_its_cost_says_why():
    for entry in [*ENTRIES, *PRICED]:
        assert (entry.caught < MOST) == bool(entry.why), entry.name


@pytest.mark.every_case
@pytest.mark.parametrize("entry", [*ENTRIES, *PRICED, *BROKEN], ids=lambda entry: entry.name)
def test_the_formula_at_the_whole_cost_is_the_certificate(entry):
    for world in (*entry.worlds, *entry.power):
        cases = cases_of(world, 50)
        for row in (0, 20, 40):
            made = entry.bound(**given_to(entry.bound, cases, row))
            if isinstance(made, Certificate) and has_formula(made):
                assert at_fraction(made, 1.0) == pytest.approx(made.value, rel=1e-6, abs=1e-12)
                assert at_fraction(made, 0.5) <= at_fraction(made, 1.0)


def price(mu, n):
    privacy = GaussianDP(mu=mu, adjacency="add-remove", **mechanisms.EXACT)
    return transfer_cost(privacy=privacy, n=n, failure_prob=DELTA).nats


@pytest.mark.parametrize("share", [None, 0.01, 0.025, 0.05, 0.09, 0.3])
@pytest.mark.parametrize(("n", "mu"), [(1000, 0.1), (60_000, 0.1), (10**6, 0.03)])
def test_general_transfer_holds_exactly_under_shared_noise(n, mu, share):
    assert mechanisms.noise_failure(n, mu, price(mu, n), share) <= DELTA


def test_general_transfer_leaves_less_than_a_third_of_its_price_unused():
    n, mu = 10**6, 0.03
    assert mechanisms.noise_failure(n, mu, price(mu, n), 0.025) > 0.4 * DELTA
    assert mechanisms.noise_failure(n, mu, MOST * price(mu, n), 0.09) > 1.7 * DELTA
    assert mechanisms.noise_failure(60_000, 0.1, price(0.1, 60_000)) > 0.2 * DELTA  # |g| itself released
    assert mechanisms.noise_failure(60_000, 0.1, price(0.1, 60_000) / 2) > 1.4 * DELTA


def test_general_transfer_at_the_mechanisms_own_loss_law():
    n, mu = 60_000, 0.1
    own = [transfer_cost(privacy=mechanisms.own_loss(mu, h), n=n, failure_prob=DELTA).nats for h in (4e-4, 2e-4)]
    assert own[1] == pytest.approx(own[0], rel=1e-3)
    assert 0.15 * DELTA < mechanisms.noise_failure(n, mu, own[1]) < DELTA
    assert mechanisms.noise_failure(n, mu, own[1] / 2) > 1.3 * DELTA


def test_sharp_transfer_leaves_a_tenth_of_its_price_unused():
    n, epsilon = 60_000, 8 / sqrt(60_000)
    spent = Sharp(epsilon=epsilon).charge(n=n, failure_prob=DELTA).nats
    assert mechanisms.response_failure(n, epsilon, 0.89 * spent) > DELTA


@pytest.mark.parametrize(
    ("world", "n", "rate"),
    [
        (mechanisms.randomised_response(400, 0.5), 400, mechanisms.response_failure(400, 0.5, 15.0)),
        (mechanisms.shared_noise(2000, 0.1), 2000, mechanisms.noise_failure(2000, 0.1, 15.0)),
        (mechanisms.shared_noise(2000, 0.1, 0.2), 2000, mechanisms.noise_failure(2000, 0.1, 15.0, 0.2)),
    ],
    ids=["response", "shared", "coarse"],
)
def test_worlds_fail_as_often_as_their_exact_law_says(world, n, rate):
    failed = (cases_of(world, 20_000).columns["risk"] * n <= mechanisms.rarest(n, 15.0) + 0.5).sum()
    assert abs(failed - 20_000 * rate) < 5 * sqrt(20_000 * rate)
    assert 0.05 < rate < 0.5
