"""PAC-Bayes bounds for independent priors: constants, order, and how often they fail."""

from math import log, pi, sqrt

import binomial
import numpy as np
import pytest
from cells import within_rounding
from scipy.stats import binom

from bounds import linear, log_xi, maurer


def test_log_xi_formal_guarantee_above_the_definition_and_close():
    for n in range(1, 61):
        exact = binomial.xi(n)
        truth = log(exact.numerator) - log(exact.denominator)
        assert truth - 1e-15 <= log_xi(n) <= truth + 1e-12


def test_log_xi_below_two_root_n_and_smooth_where_the_formula_changes():
    for n in [*range(1, 30), 10**3, 10**6, 10**9, 10**10, 10**12, 10**15]:
        assert log_xi(n) <= log(2 * sqrt(n)) * (1 + 2e-14)
        assert log_xi(n) >= log(2 / 3 + sqrt(pi * n / 2)) - 1e-3 / n
    assert 0 < log_xi(10**10 + 1) - log_xi(10**10) < 2e-5


@pytest.mark.parametrize(("n", "risk"), [(20, 0.3), (100, 0.05), (100, 0.5), (1000, 0.02)])
def test_coverage_of_a_point_posterior_exactly(n, risk):
    """Q = P fixed: the failure probability is a binomial sum."""
    for failure_prob in (0.2, 0.05):
        fails = [maurer(risk=k / n, kl_nats=0.0, n=n, failure_prob=failure_prob).value < risk for k in range(n + 1)]
        mass = binom.pmf(np.arange(n + 1), n, risk)[fails].sum()
        assert mass <= failure_prob


def test_the_linear_bound_takes_every_lam_above_a_half():
    at = {"risk": 0.01, "kl_nats": 1.0, "n": 1000, "failure_prob": 0.05}
    cost = linear(**at, lam=0.6).total_nats / 1000
    assert linear(**at, lam=0.6).value == within_rounding((0.01 + 0.6 * cost) / (1 - 0.5 / 0.6))
