"""Mistakes found in published PAC-Bayes code, each with the number it gives and why ours differs.

The faulty versions are written anew here from their descriptions.
"""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from bounds import (
    FailureBudget,
    binary_kl,
    binary_kl_upper,
    catoni,
    catoni_grid,
    clopper_pearson_upper,
    f_quad,
    kl_chernoff_upper,
    maurer,
    mcallester,
    prior_scale_grid,
)


def naive_kl(q, p):
    return q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p))


def grid():
    rng = np.random.default_rng(0)
    return rng.uniform(0.001, 0.4, 300), 10 ** rng.uniform(-4, 0, 300)


def is_safe(q, nats, p):
    return (p == 1.0) | (binary_kl(q, p) >= nats * (1 - 2e-15))


def test_bisection_that_returns_its_last_midpoint():
    def midpoint(q, nats):
        low, high = q, 1.0
        while high - low > 1e-5 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if naive_kl(q, middle) > nats else (middle, high)
        return (low + high) / 2

    q, nats = grid()
    theirs = np.array([midpoint(a, c) for a, c in zip(q, nats, strict=True)])
    assert 0.3 < np.mean(~is_safe(q, nats, theirs)) < 0.7  # on the unsafe side half of the time
    assert is_safe(q, nats, binary_kl_upper(q, nats)).all()


def test_risk_one_for_which_a_bisection_never_starts():
    assert binary_kl_upper(1.0, 0.1) == 1.0  # not the initial 0 of the result
    assert maurer(risk=1.0, kl_nats=1.0, n=100, failure_prob=0.05).value == 1.0


def test_risk_zero_for_which_logarithms_are_nan():
    with pytest.raises((ValueError, ZeroDivisionError)):
        naive_kl(0.0, 0.5)
    assert binary_kl_upper(0.0, 3.0) == pytest.approx(-math.expm1(-3.0), rel=1e-14)  # 0.950, not a fallback 0.5
    assert binary_kl_upper(0.0, 1e-6) == pytest.approx(1e-6, rel=1e-6)
    assert maurer(risk=0.0, kl_nats=1.0, n=100, failure_prob=0.05).value < 0.1


def test_a_risk_clamped_away_from_zero_and_one():
    nats = 1e-6
    theirs = float(binary_kl_upper(1e-6, nats))
    assert binary_kl_upper(0.0, nats) == pytest.approx(1e-6, rel=1e-5)
    assert theirs > 3e-6  # three times the bound for no error at all
    assert binary_kl_upper(1 - 1e-6, 1e-9) < 1.0 == binary_kl_upper(1.0, 1e-9)  # and below the risk of a constant error


def test_root_finders_that_stop_at_a_cap_below_one():
    q, nats = 0.3, 30.0
    theirs = optimize.brentq(lambda p: naive_kl(q, p) - nats, q, 1 - 1e-9) if naive_kl(q, 1 - 1e-9) > nats else 1 - 1e-9
    assert theirs < binary_kl_upper(q, nats) == 1.0
    for cap in (0.99, 1 - 1e-4):  # clamping a bound for the sake of gradients makes it invalid
        assert binary_kl_upper(0.95, 0.5) > cap


def test_newton_with_a_fixed_number_of_steps_stays_far_above():
    def five_steps(q, nats):
        p = min(q + math.sqrt(nats / 2), 1 - 1e-12)
        for _ in range(5):
            p -= (naive_kl(q, p) - nats) * p * (1 - p) / (p - q)
        return p

    rates = np.linspace(0.05, 0.95, 91)
    excess = np.array([five_steps(q, 1.0) for q in rates]) - binary_kl_upper(rates, 1.0)
    assert excess.max() > 0.01


def test_single_precision_inverses():
    q, nats = grid()
    rounded = binary_kl_upper(q, nats).astype(np.float32).astype(float)
    assert np.mean(~is_safe(q, nats, rounded)) > 0.3
    with pytest.raises(ValueError, match=r"^risk must be a real number in double precision"):
        maurer(risk=np.float32(0.1), kl_nats=1.0, n=100, failure_prob=0.05)  # type: ignore[arg-type]


def test_a_huge_divergence_must_not_return_the_empirical_risk():
    assert maurer(risk=0.597, kl_nats=2.85e6, n=1000, failure_prob=0.05).value == 1.0


def test_n_taken_from_the_whole_set_when_half_of_it_trained_the_prior():
    at = {"risk": 0.0104, "kl_nats": 100.0, "failure_prob": 0.025}
    half, whole = maurer(**at, n=30_000), maurer(**at, n=60_000)
    assert half.value > 1.15 * whole.value  # either looks plausible
    assert half.inputs["n"] == 30_000  # so the certificate says which it was


def test_one_failure_probability_used_for_two_statements():
    made = maurer(risk=0.02, kl_nats=10.0, n=30_000, failure_prob=0.025).charged("posterior sampling", 0.01)
    assert made.failure_prob == pytest.approx(0.035)
    assert dict(made.budget) == {"bound": 0.025, "posterior sampling": 0.01}
    with pytest.raises(ValueError, match="wants"):
        FailureBudget(0.03).spend("bound", 0.025).spend("posterior sampling", 0.01)


def test_sums_divided_by_the_last_batch_index():
    for error_sum, last_index in ((0.1, 0), (2.0, 1)):  # one batch, and two that are all wrong
        theirs = error_sum / last_index if last_index else math.inf
        with pytest.raises(ValueError, match=r"^risk must"):
            maurer(risk=theirs, kl_nats=1.0, n=100, failure_prob=0.05)


def test_a_prior_scale_chosen_by_its_certificate_is_paid_for():
    at = {"risk": 0.05, "n": 10_000, "failure_prob": 0.05}
    for point in prior_scale_grid(scale=0.03, largest=0.1, precision=100):
        assert point.nats > 9.0
        assert maurer(**at, kl_nats=30.0 + point.nats).value > maurer(**at, kl_nats=30.0).value + 0.0025


def test_a_grid_index_of_zero_or_less_has_no_logarithm():
    (point,) = prior_scale_grid(scale=0.5, largest=0.1, precision=100)  # above the grid: j would be negative
    assert point.index == 1
    assert math.isfinite(point.nats)


def test_one_draw_of_the_posterior_taken_for_its_mean():
    assert kl_chernoff_upper(0.03, 1, 0.01) > 0.99  # a single draw says next to nothing, and so says the bound
    assert kl_chernoff_upper(0.03, 1000, 0.01) == pytest.approx(0.0493, abs=1e-4)


def test_monte_carlo_slack_that_counts_nested_draws_as_independent():
    honest, nested = kl_chernoff_upper(0.01, 200, 0.01), kl_chernoff_upper(0.01, 200 * 50, 0.01)
    assert nested < 0.014 < 0.045 < honest  # n is the number of independent terms, and it is the caller's word


def test_misplaced_parenthesis_in_the_constant():
    n, kl, failure_prob = 30_000, 100.0, 0.025
    theirs = math.sqrt((kl + math.log(2 * math.sqrt(n)) / failure_prob) / (2 * n))
    assert theirs == pytest.approx(0.0746, abs=1e-4)
    assert mcallester(risk=0.0, kl_nats=kl, n=n, failure_prob=failure_prob).value == pytest.approx(0.0427, abs=1e-4)


def test_a_loss_outside_the_unit_interval():
    for loss in (3.2, 9.9, -0.1):  # a log-likelihood, say
        with pytest.raises(ValueError, match=r"^risk must lie in \[0, 1\].*rescale the loss"):
            maurer(risk=loss, kl_nats=1.0, n=100, failure_prob=0.05)


def test_catoni_optimised_on_the_sample_without_paying():
    at = {"risk": 0.1, "kl_nats": 300.0, "n": 50_000, "failure_prob": 0.05}
    temperatures = [50_000 * 2 ** (-k / 4) for k in range(-8, 33)]
    theirs = min(catoni(**at, inverse_temperature=c).value for c in temperatures)
    assert theirs < maurer(**at).value  # below the best that is proved for all C together
    assert theirs < catoni_grid(**at, inverse_temperatures=temperatures).value
    paid = catoni_grid(**at, inverse_temperatures=temperatures).value
    assert paid == pytest.approx(theirs, rel=0.02)  # and paying costs little


def test_a_binomial_tail_read_off_the_density():
    n, k, failure_prob = 30_000, 300, 0.0033
    rates = np.linspace(0.01, 0.013, 3001)
    theirs = rates[stats.binom.pmf(k, n, rates) >= failure_prob].max()
    assert theirs < 0.0113
    assert clopper_pearson_upper(k, n, failure_prob) == pytest.approx(0.01166, abs=2e-5)


def test_ten_bisection_steps_for_a_test_set_bound():
    low, high = 0.0, 1.0
    for _ in range(10):
        middle = (low + high) / 2
        low, high = (middle, high) if stats.binom.cdf(3, 1000, middle) > 0.05 else (low, middle)
    assert (low + high) / 2 < clopper_pearson_upper(3, 1000, 0.05) == pytest.approx(0.00774, abs=1e-5)


def test_an_objective_below_the_bound_it_stands_for():
    """A quadratic form with half the cost is no upper bound on the inverse kl; ours is."""
    at = {"risk": 0.05, "kl_nats": 300.0, "n": 10_000, "failure_prob": 0.05}
    cost = maurer(**at).total_per_example
    assert 0.05 + cost / 2 + math.sqrt((cost / 2) ** 2 + 0.05 * cost) < maurer(**at).value <= f_quad(**at)


def test_an_estimated_divergence_below_zero_is_refused():
    with pytest.raises(ValueError, match=r"^kl_nats must not be negative.*max\(0, estimate\)"):
        maurer(risk=0.1, kl_nats=-2.0, n=1000, failure_prob=0.05)
