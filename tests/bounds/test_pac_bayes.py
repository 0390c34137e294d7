"""PAC-Bayes bounds for independent priors: constants, order, and how often they fail."""

import math

import binomial
import numpy as np
import pytest
from scipy import stats

from bounds import (
    binary_kl_upper,
    catoni,
    gibbs_kl,
    kl_chernoff_upper,
    linear,
    log_xi,
    maurer,
    mcallester,
    quadratic,
    thiemann,
)

CASE = {"risk": 0.05, "kl_nats": 40.0, "n": 10_000, "failure_prob": 0.05}


def test_log_xi_formal_guarantee_above_the_definition_and_close():
    for n in range(1, 61):
        exact = binomial.xi(n)
        truth = math.log(exact.numerator) - math.log(exact.denominator)
        assert truth - 1e-15 <= log_xi(n) <= truth + 1e-12


@pytest.mark.parametrize(
    ("n", "xi"),
    [(1, 2), (2, 2.5), (8, 4.245018005371), (100, 13.20996063022), (1000, 40.30321292618), (60_000, 307.6651049432)],
)
def test_log_xi_check_values(n, xi):
    assert log_xi(n) == pytest.approx(math.log(xi), rel=1e-12)


def test_log_xi_below_two_root_n_and_smooth_where_the_formula_changes():
    for n in [*range(1, 30), 10**3, 10**6, 10**9, 10**10, 10**12, 10**15]:
        assert log_xi(n) <= math.log(2 * math.sqrt(n)) * (1 + 2e-14)
        assert log_xi(n) >= math.log(2 / 3 + math.sqrt(math.pi * n / 2)) - 1e-3 / n
    assert 0 < log_xi(10**10 + 1) - log_xi(10**10) < 2e-5


def test_relaxations_lie_above_the_inverse_kl():
    tight = maurer(**CASE).value
    square = quadratic(**CASE).value
    assert tight <= square <= thiemann(**CASE, lam=0.5).value
    assert thiemann(**CASE).value == square  # the best lambda
    assert thiemann(**CASE, lam=thiemann(**CASE).terms["lam"]).value == pytest.approx(square, rel=1e-12)
    assert tight <= mcallester(**CASE).value


def test_check_values_at_one_cent_a_nat():
    n, risk, cost = 10_000, 0.05, 0.01
    at = {"risk": risk, "n": n, "failure_prob": 0.05, "kl_nats": n * cost - log_xi(n) - math.log(20)}
    assert quadratic(**at).value == pytest.approx(0.09316624790355, rel=1e-11)
    assert thiemann(**at, lam=0.5).value == pytest.approx(0.09333333333333, rel=1e-11)
    assert mcallester(**at).value == pytest.approx(0.1207106781187, rel=1e-11)
    assert maurer(**at).value == pytest.approx(0.08690214907386, rel=1e-11)
    big = {"risk": 0.05, "kl_nats": 500.0, "n": 60_000, "failure_prob": 0.05}
    assert catoni(**big, inverse_temperature=30_000).value == pytest.approx(0.08344281741643, rel=1e-11)


def test_linear_is_a_relaxation_of_catoni():
    for lam in (0.6, 1.0, 5.0):
        at_lam = catoni(**CASE, inverse_temperature=CASE["n"] / lam).value
        assert at_lam <= linear(**CASE, lam=lam).value * (1 + 1e-14)


def test_at_zero_divergence_maurer_is_the_chernoff_bound_and_its_constant():
    for n in (10, 1000):
        slack = (math.log(20) + log_xi(n)) / n
        zero = {"risk": 0.1, "kl_nats": 0.0, "n": n, "failure_prob": 0.05}
        assert maurer(**zero).value == pytest.approx(float(binary_kl_upper(0.1, slack)), rel=1e-13)
        assert maurer(**zero).value >= kl_chernoff_upper(0.1, n, 0.05)


@pytest.mark.parametrize(("n", "risk"), [(20, 0.3), (100, 0.05), (100, 0.5), (1000, 0.02)])
def test_coverage_of_a_point_posterior_exactly(n, risk):
    """Q = P fixed: the failure probability is a binomial sum."""
    for failure_prob in (0.2, 0.05):
        fails = [maurer(risk=k / n, kl_nats=0.0, n=n, failure_prob=failure_prob).value < risk for k in range(n + 1)]
        mass = stats.binom.pmf(np.arange(n + 1), n, risk)[fails].sum()
        assert mass <= failure_prob


def test_coverage_of_gibbs_posteriors_over_many_hypotheses():
    """200 hypotheses with independent errors; the posterior chases those that look best on the sample."""
    rng = np.random.default_rng(11)
    n, failure_prob, trials = 50, 0.25, 2_000
    risks = rng.uniform(0.05, 0.4, 200)
    failures, chased = 0, 0
    for counts in rng.binomial(n, risks, size=(trials, risks.size)):
        loss = 40.0 * counts / n
        weight = np.exp(-loss)
        kl = gibbs_kl(mean_loss_nats=float(weight @ loss / weight.sum()), log_partition_nats=math.log(weight.mean()))
        empirical, true = float(weight @ (counts / n) / weight.sum()), float(weight @ risks / weight.sum())
        chased += empirical < true - 0.02
        failures += maurer(risk=empirical, kl_nats=kl.kl_nats, n=n, failure_prob=failure_prob).value < true
    assert chased > trials / 4  # the simulation does overfit
    assert stats.binomtest(failures, trials, failure_prob, alternative="greater").pvalue > 1e-4


@pytest.mark.parametrize(
    ("bound", "extra", "word"),
    [
        (catoni, {"inverse_temperature": 0.0}, "inverse_temperature"),
        (linear, {"lam": 0.5}, "lam"),
        (linear, {"lam": math.nan}, "lam"),
        (thiemann, {"lam": 2.0}, "lam"),
        (thiemann, {"lam": -1.0}, "lam"),
    ],
)
def test_temperatures_out_of_range_are_refused(bound, extra, word):
    with pytest.raises(ValueError, match=rf"^{word} must"):
        bound(**CASE, **extra)
