"""PAC-Bayes bounds for independent priors: constants and order. How often they fail: tests/coverage."""

from math import log, pi, sqrt

import mpmath as mp
from kl_by_mpmath import xi

from bounds import linear, log_xi


def test_log_xi_formal_guarantee_above_the_definition_and_close():
    for n in range(1, 61):
        truth = mp.log(xi(n))
        assert truth - 1e-15 <= log_xi(n) <= truth + 1e-12


def test_log_xi_below_two_root_n_and_smooth_where_the_formula_changes():
    for n in [*range(1, 30), 10**3, 10**6, 10**9, 10**10, 10**12, 10**15]:
        assert log_xi(n) <= log(2 * sqrt(n)) * (1 + 2e-14)
        assert log_xi(n) >= log(2 / 3 + sqrt(pi * n / 2)) - 1e-3 / n
    assert 0 < log_xi(10**10 + 1) - log_xi(10**10) < 2e-5


def test_linear_takes_every_lambda_above_one_half():
    assert linear(risk=0.1, kl_nats=1.0, n=100, failure_prob=0.05, lam=0.6).value < 1.0
