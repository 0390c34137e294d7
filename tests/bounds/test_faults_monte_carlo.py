"""Faults of Monte Carlo and of counting, seen in published code, that this package refuses or cannot express.

Each is a row of docs/pitfalls.md.
"""

from functools import partial
from math import log

import numpy as np
import pytest

from bounds import FailureBudget, best_of, gibbs_risk_upper, maurer, overall_certificate, weighted_risk_upper


def test_the_sample_counts_what_the_bound_evaluated_not_what_the_prior_saw_too():
    """n = 30,000 held out of 60,000: dividing by 60,000 gives a certificate that is too small by a sixth."""
    held_out = maurer(risk=0.0104, kl_nats=100.0, n=30_000, failure_prob=0.035)
    whole = maurer(risk=0.0104, kl_nats=100.0, n=60_000, failure_prob=0.035)
    assert held_out.value == pytest.approx(0.02153, abs=1e-5)
    assert whole.value < 0.85 * held_out.value
    assert held_out.inputs["n"] == 30_000  # and the certificate says which it was


def test_monte_carlo_and_pac_step_each_use_their_own_failure_probability():
    budget = FailureBudget(0.035).spend("Monte Carlo", 0.01).spend("PAC step", 0.025)
    risk = gibbs_risk_upper(mean=0.03, draws=1000, failure_prob=0.01)
    made = overall_certificate(risk=risk, bound=partial(maurer, kl_nats=50.0, n=30_000), budget=budget)
    assert made.terms["monte_carlo_confidence_nats"] == pytest.approx(log(100))
    assert made.nats("confidence") == pytest.approx(log(40))
    assert made.failure_prob == pytest.approx(0.035)


def test_a_short_last_batch_weighs_what_it_is():
    """Ten batches of 100 and one of 10 that is all wrong: the risk is 1 per cent, not the 9 per cent of the batches."""
    means, sizes = [0.0] * 10 + [1.0], [100] * 10 + [10]
    made = weighted_risk_upper(values=means, weights=sizes, failure_prob=0.05)
    assert made.terms["monte_carlo_mean"] == pytest.approx(10 / 1010)
    assert made.terms["monte_carlo_draws"] == pytest.approx(10.1)


def test_a_grid_of_priors_chosen_by_certificate_is_paid_or_refused():
    risks = np.linspace(0.05, 0.2, 12)
    each = FailureBudget(0.05).spend("prior grid", 0.05).share("prior grid", 12)
    paid = best_of([maurer(risk=float(r), kl_nats=5.0, n=1000, failure_prob=each) for r in risks], budget=0.05)
    unpaid = maurer(risk=0.05, kl_nats=5.0, n=1000, failure_prob=0.05)
    assert paid.value > unpaid.value
    cost = paid.nats("confidence") - unpaid.nats("confidence")
    assert cost == pytest.approx(log(12))


def test_one_draw_of_the_weights_is_one_draw():
    one = gibbs_risk_upper(mean=0.0, draws=1, failure_prob=0.01)
    assert one.value == pytest.approx(0.99)  # a single perfect network says next to nothing of the randomised one
    budget = FailureBudget(0.05).spend("Monte Carlo", 0.01).spend("PAC step", 0.025)
    made = overall_certificate(risk=one, bound=partial(maurer, kl_nats=50.0, n=55_000), budget=budget)
    assert made.value > 0.99
    assert made.terms["monte_carlo_draws"] == 1.0
