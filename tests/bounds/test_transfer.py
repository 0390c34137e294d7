"""The general transfer: printed values, 40-digit arithmetic, order between notions of privacy, refusals."""

from math import log, sqrt

import pytest
import transfer_by_mpmath as slow
from cells import KNOWN, steps
from gaussian_cells import gaussian_cells
from mpmath import mpf

from bounds import ApproxDP, GaussianDP, PureDP, Sharp, ZeroConcentratedDP
from bounds._losses import ConcentratedLoss, GaussianLoss
from bounds.accounting import loss_distribution
from bounds.transfer import transfer_cost

N = 60_000


def gaussian(mu):
    return GaussianDP(mu=mu, **KNOWN)


def cost(privacy, n=N, failure_prob=0.05):
    return transfer_cost(privacy=privacy, n=n, failure_prob=failure_prob)


@pytest.mark.parametrize(("mu", "printed"), [(0.001, 0.000088), (0.03, 0.003640), (1.0, 2.9588)])
def test_cost_per_record_of_gaussian_privacy_at_mnist_size(mu, printed):
    assert cost(gaussian(mu)).nats / N == pytest.approx(printed, rel=5e-4, abs=6e-7)


@pytest.mark.parametrize("mu", [0.01, 0.05, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("scale", [0.005, 0.05, 0.5])
def test_divergences_formal_guarantee_above_the_exact_value_and_close(mu, scale):
    """At the orders that matter: the best α - 1 is about 0.006/mu for n = 60000."""
    alpha = 1 + scale / mu
    for factor, room in ((1e-3, "1e-9"), (0.5, "1e-9"), (2.0, "1e-9"), (9.0, "1e-8"), (40.0, "1e-7")):
        level = factor * mu * mu * (1 + mu)
        truth = slow.gaussian(alpha, level, mu)
        assert truth <= GaussianLoss(mu).divergence(alpha, level) <= truth * (1 + mpf(room)), factor
    level, rho = 4 * mu * mu * (1 + mu), mpf(mu) ** 2 / 2
    truth = slow.concentrated(alpha, level, rho)
    assert truth <= ConcentratedLoss(mu).divergence(alpha, level) <= truth * (1 + mpf("1e-9"))


@pytest.mark.cases(1)
@pytest.mark.parametrize(("mu", "alpha", "failure_prob"), [(0.01, 1.5, 0.03), (0.1, 1.1, 0.045), (0.6, 1.01, 1e-6)])
def test_cost_per_record_is_above_the_smallest_and_close(mu, alpha, failure_prob):
    level, truth = slow.gaussian_tail_level(alpha, mu, failure_prob)
    law = GaussianLoss(mu)
    chosen = law.level(alpha, failure_prob, 1e-9)
    found = chosen + law.divergence(alpha, chosen) / failure_prob
    assert chosen == pytest.approx(float(level), rel=1e-4)
    assert truth <= found <= truth * (1 + mpf("1e-9"))


@pytest.mark.parametrize("mu", [1e-4, 0.01, 0.1, 0.7])
@pytest.mark.parametrize("failure_prob", [0.5, 0.05, 1e-9])
def test_gaussian_privacy_costs_less_than_the_concentrated_privacy_it_implies(mu, failure_prob):
    implied = ZeroConcentratedDP(rho=mu * mu / 2, **KNOWN)
    assert cost(gaussian(mu), failure_prob=failure_prob).nats < cost(implied, failure_prob=failure_prob).nats


@pytest.mark.parametrize(("mu", "spacing", "reach"), [(0.1, 1e-3, 9.0), (0.02, 2e-4, 6.5), (0.5, 1e-2, 9.0)])
def test_a_gaussian_on_a_grid_costs_slightly_more_than_the_gaussian(mu, spacing, reach):
    laws = gaussian(mu), gaussian_cells(mu, spacing / 2, reach), gaussian_cells(mu, spacing, reach)
    exact, finer, on_grid = (cost(law, n=1000).nats for law in laws)
    assert exact * (1 - 1e-9) <= finer < on_grid <= exact * 1.002


def test_dp_sgd_on_a_grid_has_its_printed_cost():
    law = loss_distribution(event=steps(1.1, 256 / N, 3515), adjacency="add-remove")
    printed = 0.2334197 + 1.023 / 0.023 * log(2000) / N
    assert printed * (1 - 1e-6) <= cost(law).nats / N <= printed * 1.001


def test_pure_privacy_takes_the_sharp_transfer():
    excess = sqrt(8.0 * log(20) / N)
    for adjacency, epsilon in (("replace-one", 0.02), ("add-remove", 0.01)):
        pure = PureDP(epsilon=epsilon, adjacency=adjacency, status="exact mechanism")
        assert cost(pure).nats == Sharp(epsilon=0.02).charge(n=N, failure_prob=0.05).nats
        assert cost(pure).budget == {"transfer": 0.05}
        assert cost(pure).terms["transfer_alpha"] == pytest.approx(1.0 + excess / 0.02)
        assert cost(pure).terms["transfer_level"] == pytest.approx((0.02 + excess) * 0.02 / 8.0)
        same = ApproxDP(epsilon=epsilon, delta=0.0, adjacency=adjacency, status="exact mechanism")
        assert cost(same) == cost(pure)


def test_approximate_privacy_tends_to_pure_privacy():
    pure = cost(PureDP(epsilon=0.01, **KNOWN)).nats
    near = [cost(ApproxDP(epsilon=0.01, delta=delta, **KNOWN)).nats for delta in (1e-15, 1e-12, 1e-9, 1e-7, 5e-7)]
    assert near == sorted(near)
    assert pure * (1 - 1e-9) <= near[0] <= pure * 1.0001


def test_without_privacy_loss_the_price_of_independence_returns():
    assert cost(gaussian(0.0)).nats == pytest.approx(log(20), rel=1e-14)
    concentrated = [cost(ZeroConcentratedDP(rho=rho, **KNOWN)).nats for rho in (0.0, 0.5, 1.0, 2.0)]
    assert concentrated[0] == cost(gaussian(0.0)).nats
    assert concentrated == sorted(set(concentrated))
    assert cost(gaussian(1e-12)).nats == pytest.approx(log(20), rel=1e-3)
