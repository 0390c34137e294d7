"""A Gaussian around a Gibbs law that nobody draws: its price, its integrals, and its divergence against exact ones."""

import math

import mpmath as mp
import numpy as np
import pytest
from cells import refused, within_rounding
from numpy.random import default_rng
from scipy.integrate import quad
from scipy.special import expit, ndtr

import bounds
from bounds import gibbs_around as gibbs_around_module
from bounds.gibbs_around import (
    GibbsAround,
    Head,
    Margins,
    gibbs_around,
    margins,
    sigmoid_moments,
    wrong_classes,
    wrong_signs,
)

PAID = GibbsAround(
    divergence=2.5, log_moments=(1.33 * 0.33 * 60 / 2,), records=55_000, orders=(1.33,), weights=(1 / 9,)
)


def test_the_price_has_its_published_value_and_serves_the_mean_over_q_alone():
    at = {"n": 55_000, "failure_prob": 0.05, "price": PAID}
    made = bounds.maurer(risk=0.02, kl_nats=0.0, **at)
    assert made.value == within_rounding(0.02829933202711902)
    names = {one.name for one in made.hypotheses}
    assert names >= {"losses convex", "norms of all records kept"}
    assert not names & {"noise secret or independent", "drawn from the law that is paid for"}
    refused("formula must be in", bounds.disintegrated, risk=0.02, log_density_ratio=0.0, **at)
    refused(
        "divergence must not be negative", GibbsAround, divergence=-1.0, log_moments=(1.0,), records=1, orders=(2.0,)
    )


@pytest.mark.parametrize("spread", [1e-3, 0.4, 1.5, 6.0])
@mp.workdps(30)
def test_integrals_are_off_by_no_more_than_they_say(spread):
    """Hermite coefficients and the square of σ, against adaptive quadrature, which is 30 digits deep."""
    centres, order = np.array([-7.0, 0.3, 2.0]), 4
    found, square, error = sigmoid_moments(Margins(centres, np.full(3, spread), 0.0), order)
    assert 0.0 < error < 1e-11
    polynomials = (lambda x: 1, lambda x: x, lambda x: x * x - 1, lambda x: x**3 - 3 * x)
    for place, centre in enumerate(centres):
        p = lambda x, at=centre: 1 / (1 + mp.exp(-(mp.mpf(at) + mp.mpf(spread) * x)))  # noqa: E731
        exact = lambda f: mp.quad(lambda x: f(x) * mp.npdf(x), np.linspace(-12, 12, 13).tolist())  # noqa: E731
        assert abs(exact(lambda x, p=p: p(x) ** 2) - square[place]) < error
        for k, polynomial in enumerate(polynomials):
            wanted = exact(lambda x, p=p, f=polynomial: p(x) * f(x)) / mp.sqrt(mp.factorial(k))
            assert abs(wanted - found[k, place]) < error


def test_errors_of_heads_are_their_integrals_rounded_up():
    rng = default_rng(0)
    laws = [Margins(rng.normal(0, 1, 5), rng.uniform(0.3, 1.5, 5), 0.0) for _ in range(3)]
    labels = np.array([0, 1, 2, 1, 0])

    def right(x, i):
        own = laws[labels[i]]
        at = own.centres[i] + own.spreads[i] * x
        others = [ndtr((at - law.centres[i]) / law.spreads[i]) for k, law in enumerate(laws) if k != labels[i]]
        return math.exp(-x * x / 2) / math.sqrt(2 * math.pi) * np.prod(others)

    exact = 1 - np.mean([quad(right, -12, 12, args=(i,), epsabs=1e-13, epsrel=1e-12)[0] for i in range(5)])
    assert exact <= wrong_classes(laws, labels) <= exact + 1e-9
    targets = np.array([0.0, 1.0, 1.0, 0.0, 1.0])
    signed = np.mean(ndtr((1 - 2 * targets) * laws[0].centres / laws[0].spreads))
    assert signed <= wrong_signs(laws[0], targets) <= signed + 1e-12


def world(tau, ridge, n=800, dim=20, seed=0):
    """Rows of length ridge^(-1/2), labels of a steep logistic law, and the Gaussian nearest to the Gibbs law."""
    rng = np.random.Generator(np.random.PCG64(seed))  # the stream of the published values
    rows = rng.standard_normal((n, dim)) * np.arange(1, dim + 1) ** -0.5
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    steep = expit(2 * rows @ rng.normal(0, 6, dim))
    targets = (rng.random(n) < steep).astype(float)
    rows = rows / math.sqrt(ridge)
    mean, factor = np.zeros(dim), np.zeros((dim, dim))
    for _ in range(40):
        (first, *_), square, _ = sigmoid_moments(margins(rows, mean, factor + 1e-9 * np.eye(dim), tau), 2)
        curve = (rows.T * (first - square)) @ rows / n + np.eye(dim)
        mean = mean - np.linalg.solve(curve, rows.T @ (first - targets) / n + mean)
        factor = np.linalg.inv(np.linalg.cholesky(curve)).T
    return rows, Head(targets, mean, factor)


def divergence(rows, head, tau, order=2):
    return gibbs_around(rows=rows, heads=[head], tau=tau, normaliser=len(rows), exact_below=order).divergence


def sampled(rows, head, tau, draws=20_000):
    """The Fisher term from draws, with its standard error."""
    away = default_rng(1).standard_normal((draws, len(head.mean))) @ head.factor.T / math.sqrt(tau)
    weights = head.mean + away
    slope = (expit(weights @ rows.T) - head.targets) @ rows / len(rows) + weights
    found = 0.5 * tau * ((slope - away @ np.linalg.inv(head.factor @ head.factor.T)) ** 2).sum(axis=1)
    return found.mean(), found.std() / math.sqrt(draws)


def test_the_divergence_has_its_published_values_and_lies_above_what_draws_say():
    rows, head = world(20.0, 0.01)
    found = [divergence(rows, head, 20.0, order) for order in (3, 5, 7)]
    assert np.round(found, 4).tolist() == [0.0749, 0.068, 0.0676]
    for tau, ridge in ((20.0, 0.01), (200.0, 0.001), (2000.0, 0.001)):
        rows, head = world(tau, ridge)
        middle, error = sampled(rows, head, tau)
        found = [divergence(rows, head, tau, order) for order in (2, 3, 4, 5, 7)]
        assert sorted(found, reverse=True) == found
        assert middle - 3 * error <= found[-1] <= found[3] <= 1.04 * middle + 3 * error


def test_pairs_are_missed_and_a_posterior_that_is_not_the_best_is_paid_for(monkeypatch):
    rows, head = world(2000.0, 0.001)
    for other in (head, head._replace(mean=head.mean + 0.01), head._replace(factor=1.3 * head.factor)):
        moved, error = sampled(rows, other, 2000.0)
        assert moved - 3 * error <= divergence(rows, other, 2000.0, 5) <= 1.04 * moved + 3 * error
    monkeypatch.setattr(gibbs_around_module._Around, "_by_pairs", lambda _: 0.0)
    middle, error = sampled(rows, head, 2000.0)
    assert divergence(rows, head, 2000.0, 5) < middle - 3 * error


@pytest.mark.parametrize("shift", [0.3, 2.0])
def test_without_records_the_divergence_is_that_of_two_gaussians_and_four_fifths_of_it_is_not(shift):
    head, tau = Head(np.zeros(1), np.array([shift, 0.0]), np.eye(2)), 5.0
    exact, found = tau * shift**2 / 2, divergence(np.full((1, 2), 1e-9), head, tau)
    assert exact * (1 - 1e-6) <= found <= exact * (1 + 1e-6)
    wide = head._replace(factor=np.diag([1.5, 0.8]))
    spread = 0.5 * ((wide.factor**2).sum() - 2) - math.log(1.2)
    assert exact + spread <= divergence(np.full((1, 2), 1e-9), wide, tau)


def test_in_one_dimension_the_divergence_is_above_the_exact_one():
    rng, line = default_rng(2), np.linspace(-12, 12, 40_001)
    rows = rng.normal(0, 4, (30, 1))
    targets = (rng.random(30) < expit(2 * rows[:, 0])).astype(float)
    tau, at = 20.0, rows * line
    exponent = tau * ((np.logaddexp(0, at) - targets[:, None] * at).mean(axis=0) + line**2 / 2)
    law = np.exp(-(exponent - exponent.min()))
    law /= law.sum()
    mean, deviation = law @ line, math.sqrt(law @ (line - law @ line) ** 2)
    around = np.exp(-((line - mean) ** 2) / (2 * deviation**2))
    around /= around.sum()
    exact = float(np.sum(around[around > 0] * np.log(around[around > 0] / law[around > 0])))
    head = Head(targets, np.array([mean]), np.array([[deviation * math.sqrt(tau)]]))
    assert 0 < exact <= divergence(rows, head, tau, 5)


ROWS, HEAD = np.eye(2), Head(np.array([0.0, 1.0]), np.zeros(2), np.eye(2))


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"exact_below": 1}, "exact_below must be at least 2"),
        ({"heads": []}, "heads not be empty"),
        ({"rows": np.zeros((2, 2))}, "none of zeros alone"),
        ({"rows": np.full((2, 2), np.nan)}, "all finite"),
        ({"heads": [HEAD._replace(targets=np.array([-1.0, 1.0]))]}, "targets must be 0 or 1"),
        ({"heads": [HEAD._replace(mean=np.zeros(3))]}, r"mean \[dim\]"),
        ({"tau": 0.0}, "tau must be positive"),
        ({"tau": 1e-165}, "tau/normaliser must be at least"),
        ({"normaliser": 0}, "normaliser must be"),
    ],
)
def test_refusals(told, words):
    refused(words, gibbs_around, **({"rows": ROWS, "heads": [HEAD], "tau": 1.0, "normaliser": 2} | told))


def test_integrals_that_would_take_hours_are_refused():
    refused("rows, tau and normaliser must", sigmoid_moments, Margins(np.zeros(1), np.full(1, 1e6), 0.0), 2)
