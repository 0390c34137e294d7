"""KL of Gibbs posteriors and certificates that need no draw of them, against finite classes known exactly."""

from fractions import Fraction
from math import inf, log, nextafter

import numpy as np
import pytest
from gibbs_by_mpmath import certificate_on_a_grid, posterior
from hypothesis import given
from hypothesis.strategies import floats, integers, lists, sampled_from, tuples

import bounds
from bounds import gibbs_catoni, gibbs_pac_bayes, maurer
from bounds.gibbs_posterior import gibbs_kl_upper
from bounds.printed import dp_gibbs_pac_bayes, dp_pac_bayes

LN2 = log(2)
BASE = {
    "log_partition_lower_nats": -20.0,
    "tau": 60.0,
    "loss_low": 0.0,
    "loss_high": 4.0,
    "error_loss": LN2,
    "n": 3000,
    "failure_prob": 0.04,
    "log_partition_failure_prob": 0.01,
}
CATONI = {name: value for name, value in BASE.items() if name != "error_loss"}

finite_class = lists(tuples(floats(0.01, 1), floats(0.2, 2.0)), min_size=2, max_size=6)


def exact(members, tau):
    prior = np.array([weight for weight, _ in members])
    losses = np.array([loss for _, loss in members])
    return losses, prior / prior.sum(), posterior(prior, losses, tau)


@given(members=finite_class, tau=floats(1e-3, 300))
def test_kl_upper_formal_guarantee_over_finite_classes(members, tau):
    _, _, (log_partition, _, kl, _) = exact(members, tau)
    below = nextafter(float(log_partition) - 1e-14 * (1 + abs(float(log_partition))), -inf)
    interval = {"loss_low": 0.2, "loss_high": 2.0}
    for known in (below, -inf):
        upper = gibbs_kl_upper(log_partition_lower_nats=known, tau=tau, **interval)
        assert kl <= upper <= min(1.8 * tau, (1.8 * tau) ** 2 / 8) * (1 + 1e-12)


def test_kl_upper_is_nearly_attained():
    """A rare perfect hypothesis: KL is -ln Z. A mild temperature: the variance cap is reached by a fair coin."""
    _, _, (log_partition, _, kl, _) = exact([(1e-3, 0.2), (1.0, 2.0)], 30.0)
    upper = gibbs_kl_upper(log_partition_lower_nats=float(log_partition) - 1e-12, tau=30.0, loss_low=0.2, loss_high=2.0)
    assert float(kl) == pytest.approx(upper, rel=1e-6)
    _, _, (_, _, kl, _) = exact([(1.0, 0.2), (1.0, 2.0)], 0.05)
    upper = gibbs_kl_upper(log_partition_lower_nats=-inf, tau=0.05, loss_low=0.2, loss_high=2.0)
    assert float(kl) == pytest.approx(upper, rel=0.01)


@given(
    members=lists(tuples(floats(0.01, 1), floats(0, 1), floats(0, 1)), min_size=1, max_size=5),
    tau=floats(0.1, 200),
    n=integers(5, 10**5),
    epsilon=sampled_from([0.0, 0.01, 0.3]),
)
def test_formal_guarantee_no_posterior_with_this_log_partition_has_a_larger_bound(members, tau, n, epsilon):
    """Losses between error_loss · errors and 4: the certificate is above the bound at the true R̂(Q) and KL."""
    prior = [weight for weight, _, _ in members]
    errors = np.array([error for _, error, _ in members])
    losses = errors * LN2 + (4 - errors * LN2) * np.array([extra for _, _, extra in members])
    log_partition, mean, kl, q = posterior(prior, losses, tau)
    below = float(log_partition) - 1e-13 * (1 + abs(float(log_partition)))
    given = BASE | {"log_partition_lower_nats": below, "tau": tau, "n": n}
    risk = min(1.0, float(sum(weight * error for weight, error in zip(q, errors, strict=True))))
    kl_nats = max(0.0, float(kl))
    made = gibbs_pac_bayes(**given)
    assert made.value >= maurer(risk=risk, kl_nats=kl_nats, n=n, failure_prob=0.04).value * (1 - 1e-10)
    private = dp_gibbs_pac_bayes(**given, epsilon=epsilon)
    step = dp_pac_bayes(risk=risk, kl_nats=kl_nats, n=n, epsilon=epsilon, failure_prob=0.04)
    assert private.value >= step.value * (1 - 1e-10)
    surrogate = gibbs_catoni(**(CATONI | {"log_partition_lower_nats": below, "tau": tau, "n": n}))
    catoni = bounds.catoni(risk=float(mean) / 4, kl_nats=kl_nats, n=n, failure_prob=0.04, inverse_temperature=4 * tau)
    assert surrogate.value == pytest.approx(catoni.value, rel=1e-9)  # nothing is lost when ln Z is known


def test_an_inner_maximum_is_found_to_a_millionth():
    """Where the price of KL beats the risk, the largest value is neither at x = loss_low nor at KL = 0."""
    given = BASE | {"log_partition_lower_nats": -40.0, "tau": 45.0, "n": 60, "error_loss": 3.0}
    made = gibbs_pac_bayes(**given)
    nats = made.nats("log_xi") + made.nats("confidence")
    brute = certificate_on_a_grid(-40.0, 45.0, 0.0, 4.0, 3.0, nats, 60, points=400_001)
    assert brute <= made.value <= brute + 1e-6
    assert 0.0 < made.terms["worst_kl_nats"] < 40.0


@given(floats(1e-3, 1e3), floats(-3.0, 3.0), floats(0.01, 5.0), floats(0.05, 0.95))
def test_the_upper_bound_on_kl_is_at_least_the_exact_one(tau, low, width, share):
    high = low + width
    partition = -tau * (low + share * share * width)
    value = gibbs_kl_upper(log_partition_lower_nats=partition, tau=tau, loss_low=low, loss_high=high)
    exact = Fraction(tau) * (Fraction(high) - Fraction(low))
    first = -Fraction(partition) - Fraction(tau) * Fraction(low)
    assert Fraction(value) >= min(max(Fraction(0), first), exact, exact * exact / 8)


@given(floats(1e-3, 1e3), floats(1e3, 1e9))
def test_the_upper_bound_on_kl_is_rounded_up_where_the_ends_are_large(tau, end):
    value = gibbs_kl_upper(log_partition_lower_nats=0.0, tau=tau, loss_low=-end, loss_high=end)
    least = Fraction(tau) * Fraction(end)
    assert Fraction(value) >= min(least, least * least / 2)


@pytest.mark.parametrize("bound", [gibbs_pac_bayes, dp_gibbs_pac_bayes, gibbs_catoni])
def test_what_is_known_for_certain_rests_on_no_draws(bound):
    base = (CATONI if bound is gibbs_catoni else BASE) | ({"epsilon": 0.01} if bound is dp_gibbs_pac_bayes else {})
    certain, drawn = bound(**(base | {"log_partition_failure_prob": 0.0})), bound(**base)
    assert (certain.value, certain.failure_prob) == (drawn.value, 0.04)
    assert {one.name for one in drawn.hypotheses} - {one.name for one in certain.hypotheses} == {"draws independent"}


def test_losses_that_are_shifted_say_the_same():
    def value(shift):
        return gibbs_pac_bayes(
            log_partition_lower_nats=-90.0 - 900.0 * shift, loss_low=shift, loss_high=2.0 + shift, tau=900.0,
            error_loss=0.7 + shift, n=3000, failure_prob=0.04, log_partition_failure_prob=0.0,
        ).value  # fmt: skip

    assert 0.1 < value(0.0) < 0.9
    assert [value(shift) for shift in (-0.5, 0.25, 1.0)] == pytest.approx([value(0.0)] * 3, rel=1e-6)
