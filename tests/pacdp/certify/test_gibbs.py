"""On a quadratic risk the Gibbs posterior is Gaussian: its KL and log-partition function are known in closed form."""

import dataclasses
import math
from math import nan, sqrt

import numpy as np
import torch
from toys import keys_of, toy_data, toy_objective

from pacdp.certify.gibbs import GibbsSettings, estimate_gibbs
from pacdp.errors import Diverged
from pacdp.objective import Estimate, Objective, Risks
from pacdp.posterior import LocalGibbs
from tests.marks import near, parametrize, refusal

DIM = 3


class QuadraticRisk(Objective):
    """R̂(w) = curvature/2 |w - target|² + offset, known without data; the error of a batch is what the test scripts."""

    def __init__(self, curvature, target=1.0, *, offset=0.0, n=1000):
        self.curvature, self.target, self.offset = curvature, target, offset
        self.n, self.batch_size = n, 1
        self.visited = []

    def risk(self, weights):
        return self.curvature / 2 * ((weights - self.target) ** 2).sum() + self.offset

    def estimate(self, weights, keys, tick):
        del keys, tick
        self.visited.append(weights[0].clone())
        losses = torch.stack([self.risk(own) for own in weights])
        return Estimate(self.curvature * (weights - self.target), losses, (weights[:, 0] > 0).to(weights.dtype))

    def risks(self, weights):
        return [Risks(float(self.risk(own)), float(own[0]), 0.0, 0, self.n) for own in weights]


def posterior(*, tau=6.0, gamma=0.5):
    return LocalGibbs(weights=torch.zeros(DIM, dtype=torch.float64), tau=tau, gamma=gamma)


def estimate(risk, *, seed=0, **settings):
    (found,) = estimate_gibbs([posterior()], risk, None, GibbsSettings(**settings), keys_of(seed))  # type: ignore[arg-type]
    return found


def sets():
    """An empirical risk, and one on other examples."""
    return toy_objective(toy_data()), toy_objective(toy_data(seed=1))


def log_partition(risk, q, *, power=1):
    """ln E exp(-power τ R̂) under the prior N(0, 1/(γτ)): one Gaussian integral a coordinate."""
    a, g = power * risk.curvature, q.gamma
    return (
        DIM * (-0.5 * math.log1p(a / g) - q.tau * a * g / (2 * (a + g)) * risk.target**2) - power * q.tau * risk.offset
    )


def mean_risk(risk, q):
    """E_Q R̂ under Q = N(a t/(a+γ), 1/(τ(a+γ)))."""
    a, g = risk.curvature, q.gamma
    return DIM * a / 2 * ((g * risk.target / (a + g)) ** 2 + 1 / (q.tau * (a + g))) + risk.offset


def test_log_partition_is_that_of_the_gaussian_integral():
    risk, q, draws = QuadraticRisk(0.8), posterior(), 4000
    found = estimate(risk, epochs=0.002, prior_draws=draws).log_partition_nats
    exact = log_partition(risk, q)
    relative = sqrt(math.expm1(log_partition(risk, q, power=2) - 2 * exact) / draws)  # deviation of Ẑ/Z
    assert relative < 0.1
    assert abs(math.expm1(found - exact)) < 5 * relative


def test_kl_is_that_of_two_gaussians():
    risk, q, h = QuadraticRisk(0.8), posterior(), 0.1
    settings = {"epochs": 8.0, "step_size": h, "step_floor": h, "prior_draws": 4000, "test_draws": 1}
    found = estimate(risk, **settings)
    rate = h * (risk.curvature + q.gamma)
    bias = DIM * risk.curvature / 2 / (q.tau * (risk.curvature + q.gamma)) * (1 / (1 - rate / 2) - 1)  # of Euler steps
    spread = torch.stack([risk.risk(w) for w in risk.visited[found.steps - found.draws :]]).std()
    error = float(spread) * sqrt(2 / rate / found.draws)  # correlations die out over 1/rate steps
    expected = mean_risk(risk, q) + bias
    assert error < 0.04 * expected
    assert abs(found.loss - expected) < 5 * error
    assert found.mean_loss_nats == q.tau * found.loss
    assert found.kl_raw_nats == near(-found.mean_loss_nats - found.log_partition_nats, rel=1e-12)
    exact = -q.tau * expected - log_partition(risk, q)
    assert abs(found.kl_nats - exact) < 5 * q.tau * error + 0.2
    assert exact > 2
    assert not found.kl_clipped


@parametrize("offset", [0.0, 0.3, 2.5])
def test_a_constant_loss_teaches_nothing(offset):
    found = estimate(QuadraticRisk(0.0, offset=offset), epochs=0.05)
    assert abs(found.kl_raw_nats) < 1e-6
    assert found.log_partition_nats == near(-6.0 * offset, rel=1e-6)
    plain, shifted = (estimate(QuadraticRisk(0.8, offset=some), epochs=0.1) for some in (0.0, offset))
    assert shifted.kl_raw_nats == near(plain.kl_raw_nats, rel=1e-4)
    assert shifted.loss == near(plain.loss + offset, rel=1e-5)


def test_a_negative_estimate_is_reported_as_zero_and_says_so():
    clipped = 0
    for seed in range(20):  # short runs that start in the prior's mean, which is the minimum: noise decides the sign
        found = estimate(QuadraticRisk(0.05, target=3.0), seed=seed, epochs=0.004, burn_in=0.0, prior_draws=1)
        assert found.kl_clipped == (found.kl_raw_nats < 0)
        assert found.kl_nats == max(0.0, found.kl_raw_nats)
        clipped += found.kl_clipped
    assert 0 < clipped < 20


@parametrize(("alpha", "burn_in"), [(0.0, 0.25), (0.005, 0.0), (0.3, 0.25)])
def test_averages_are_those_of_the_recursion(alpha, burn_in):
    risk = QuadraticRisk(0.8)
    found = estimate(risk, epochs=0.2, alpha=alpha, burn_in=burn_in)
    kept = risk.visited[int(burn_in * 200) :]
    assert (found.steps, found.draws, len(risk.visited)) == (200, len(kept), 200)
    mean = None
    for place, w in enumerate(kept, start=1):
        here, share = np.array([float(risk.risk(w)), float(w[0] > 0)]), alpha or 1 / place
        mean = here if mean is None else (1 - share) * mean + share * here
    assert [found.loss, found.error] == near(mean.tolist(), rel=1e-6)
    assert found.effective_draws <= ((2 - alpha) / alpha if alpha else len(kept))


@parametrize(("epochs", "burn_in", "steps"), [(1e-9, 0.0, 4), (1e-9, 0.99, 4), (0.005, 0.99, 5)])
def test_the_shortest_run_keeps_four_draws(epochs, burn_in, steps):
    found = estimate(QuadraticRisk(0.8), epochs=epochs, burn_in=burn_in)
    assert found.steps == steps
    assert found.draws >= 4
    assert 1 <= found.effective_draws <= found.draws


def test_a_network_is_judged_on_both_sets_by_its_keys_alone():
    train, test = sets()
    q = LocalGibbs(weights=train.weights()[0], tau=20.0, gamma=1.0)
    ambient, calls = torch.get_rng_state(), []
    settings = GibbsSettings(epochs=5.0, prior_draws=3, test_draws=4)
    first, again, other = (
        estimate_gibbs([q], train, test, settings, keys_of(seed), lambda *call: calls.append(call))[0]
        for seed in (0, 0, 1)
    )
    assert torch.equal(torch.get_rng_state(), ambient)
    assert first == again
    assert first != other
    assert 0 <= first.error <= 1
    assert round(first.test_error * 60 * 4, 6) % 1 == 0  # a mean of four exact counts out of sixty
    assert (first.steps, first.draws, first.prior_draws) == (30, 24, 3)
    assert calls[len(calls) // 3 - 1] == (33, 33)
    assert torch.equal(q.weights, toy_objective(toy_data()).weights()[0])


def test_posteriors_together_are_each_alone():
    train, test = sets()
    settings, keys = GibbsSettings(epochs=3.0, prior_draws=3, test_draws=2), keys_of(4, 5)
    every = [LocalGibbs(weights=train.weights()[0] + k, tau=20.0 * (k + 1), gamma=1.0 / (k + 1)) for k in range(2)]
    together = estimate_gibbs(every, train, test, settings, keys)
    for k in range(2):
        (alone,) = estimate_gibbs([every[k]], train, test, settings, keys.select([k]))
        for name, value in dataclasses.asdict(alone).items():
            assert getattr(together[k], name) == near(value, rel=1e-4, abs=1e-6), name


def test_a_diverging_run_names_its_chains():
    train = toy_objective(toy_data())
    every = [LocalGibbs(weights=train.weights()[0] + shift, tau=20.0, gamma=1.0) for shift in (0.0, 1.0, 0.0)]
    settings, risks = GibbsSettings(epochs=1.0, prior_draws=1), train.risks
    every[1].weights[0] = nan
    train.risks = lambda weights: [risks(every[0].weights[None])[0]] * len(weights)
    with refusal("at step 1", Diverged) as caught:
        estimate_gibbs(every, train, None, settings, keys_of(0, 1, 2))
    assert caught.value.step == 1
