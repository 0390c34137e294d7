"""Lower bounds from one run: exact laws, slow twins, coverage on mechanisms whose parameters are known."""

import math

import mpmath
import numpy as np
from numpy.random import default_rng
from scipy.optimize import minimize
from scipy.special import expit, ndtr, ndtri
from scipy.stats import binom

from bounds.accounting import Gaussian, PoissonSampled, SelfComposed, gaussian_epsilon
from pacdp.audit.scores import (
    Attempt,
    audit_scores,
    contradicts,
    epsilon_lower_bound,
    epsilon_p_value,
    guess,
    trade_off_refuted,
)
from tests.marks import every_case, near, parametrize


def _slow_p_value(m, r, v, epsilon, delta):
    """The theorem as it is printed, term by term."""
    q = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
    mass = [mpmath.binomial(r, k) * q**k * (1 - q) ** (r - k) for k in range(r + 1)]
    alpha = max(mpmath.fsum(mass[v - i : v]) / i for i in range(1, v + 1))
    return min(mpmath.mpf(1), mpmath.fsum(mass[v:]) + 2 * m * delta * alpha)


@every_case(("m", "r", "v"), [(1000, 100, 75), (50, 50, 1), (50, 50, 50), (300, 200, 120)])
@parametrize(("epsilon", "delta"), [(0.0, 1e-5), (0.3, 1e-2), (2.5, 0.0), (9.0, 1e-5)])
def test_the_p_value_is_the_theorem_s_rounded_up(m, r, v, epsilon, delta):
    with mpmath.workdps(40):
        slow = _slow_p_value(m, r, v, epsilon, delta)
    fast = epsilon_p_value(canaries=m, guesses=r, correct=v, epsilon=epsilon, delta=delta)
    assert float(slow) <= fast * (1 + 1e-15)
    assert fast == near(float(slow), rel=1e-7)


def test_the_value_printed_in_the_paper():
    """Steinke, Nasr and Jagielski 2023, Appendix D."""
    bound = epsilon_lower_bound(canaries=1000, guesses=100, correct=75, delta=1e-4, failure_prob=0.05)
    assert bound == near(0.673, abs=2e-3)


@every_case("r", [1, 10, 200])
@parametrize("epsilon", [0.1, 1.0, 3.0])
def test_on_randomised_response_the_level_is_used_up(r, epsilon):
    """Guesses are Binomial(r, q) exactly: the event "bound above epsilon" is the largest tail of at most the level."""
    level, q, counts = (0.05, float(expit(epsilon)), {"canaries": r, "guesses": r, "failure_prob": 0.05})

    def trade_off(power):
        return max(power * math.exp(-epsilon), 1 - math.exp(epsilon) * (1 - power))

    bounds = [epsilon_lower_bound(correct=v, delta=0.0, **counts) for v in range(r + 1)]
    assert bounds == sorted(bounds)
    least = next((v for v, bound in enumerate(bounds) if bound > epsilon), r + 1)
    assert binom.sf(least - 1, r, q) <= level < binom.sf(least - 2, r, q)
    refused = [trade_off_refuted(trade_off, correct=v, **counts) for v in range(r + 1)]
    assert refused == sorted(refused)
    assert binom.sf(r - sum(refused), r, q) <= level
    if r == 200 and epsilon < 3.0:
        assert r + 1 - sum(refused) <= 1.25 * r * q


@parametrize("delta", [1e-4, 1e-2])
def test_the_p_value_covers_mechanisms_that_fail_with_probability_delta(delta):
    """Randomised response that gives every bit away with probability delta, each on its own or all at once."""
    m, epsilon = 120, 0.8
    q = float(expit(epsilon))
    for v in range(m + 1):
        p_value = epsilon_p_value(canaries=m, guesses=m, correct=v, epsilon=epsilon, delta=delta)
        assert binom.sf(v - 1, m, delta + (1 - delta) * q) <= p_value
        assert (1 - delta) * binom.sf(v - 1, m, q) + delta <= p_value


def test_the_trade_off_test_is_the_linear_programme():
    """The recursion finds the smallest total probability that the inequalities allow; so does a search over p."""
    r, m, v, mu = 4, 6, 4, 0.5

    def inverse(power):
        return float(ndtr(ndtri(power) - mu))

    def slack(p):
        right = [sum(j * p[j] for j in range(c, r + 1)) / m for c in range(r + 2)]
        wrong = [sum((r - j) * p[j] for j in range(c, r + 1)) / m for c in range(r + 2)]
        return np.array([wrong[c] - inverse(min(max(right[c + 1], 0.0), 1.0)) for c in range(v)])

    # the total is proportional to neither the level nor mu; bracket the level at which it reaches one
    low, high = 1e-6, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        refuted = trade_off_refuted(inverse, canaries=m, guesses=r, correct=v, failure_prob=middle)
        low, high = (low, middle) if refuted else (middle, high)
    constraints = [{"type": "ineq", "fun": slack}, {"type": "ineq", "fun": lambda p: p[v:].sum() - low}]
    found = minimize(lambda p: p.sum(), np.full(r + 1, 0.3), bounds=[(0, 1)] * (r + 1), constraints=constraints,
                     method="SLSQP", options={"ftol": 1e-14, "maxiter": 2000})  # fmt: skip
    assert found.success
    assert found.fun == near(1.0, abs=1e-4)


def _toy(rng, m, mu, signal=None):
    """Scores of the Gaussian mechanism of parameter mu on m canaries that do not meet."""
    included = rng.random(m) < 0.5
    return (mu if signal is None else signal) * included + rng.standard_normal(m), included


@parametrize("mu", [0.3, 1.0, 2.5])
def test_coverage_on_the_gaussian_mechanism(mu):
    rng, runs, level, delta = default_rng(1), 150, 0.1, 1e-3
    true = gaussian_epsilon(mu=mu, delta=delta)
    above = {"mu": 0, "epsilon": 0}
    for _ in range(runs):
        made = audit_scores(*_toy(rng, 100, mu), delta=delta, failure_prob=level)
        above["mu"] += made.mu_lower > mu
        above["epsilon"] += made.epsilon_lower > true
    assert max(above.values()) <= binom.ppf(0.999, runs, level), above


def test_coverage_breaks_where_more_leaks_than_is_claimed():
    """The same experiment with twice the signal: the claim is refuted nearly always."""
    rng = default_rng(2)
    found = [audit_scores(*_toy(rng, 2000, 1.0, signal=2.0), delta=1e-5).mu_lower > 1.0 for _ in range(20)]
    assert sum(found) >= 18


def test_the_bound_is_not_vacuous():
    rng, delta = default_rng(3), 1e-5
    for mu in (0.5, 1.0, 2.0):
        made = audit_scores(*_toy(rng, 20000, mu), delta=delta)
        assert 0.5 * mu < made.mu_lower < mu
        true = gaussian_epsilon(mu=mu, delta=delta)
        assert gaussian_epsilon(mu=made.mu_lower, delta=delta) > 0.5 * true
        assert 0.2 * true < made.epsilon_lower < true
    for epsilon in (0.5, 1.0, 3.0):  # above it as often as the level allows: that is held to its exact law above
        included = rng.random(8000) < 0.5
        flipped = rng.random(8000) > expit(epsilon)
        made = audit_scores(np.where(included ^ flipped, 1.0, 0.0), included, delta=0.0, guesses=[8000])
        assert made.epsilon_lower > 0.5 * epsilon


def test_guesses_and_abstentions_are_counted():
    scores = np.array([5.0, -1.0, 3.0, 0.0, 4.0, -2.0, 0.5])
    assert guess(scores, guesses=4).tolist() == [1, -1, 0, 0, 1, -1, 0]
    assert guess(scores, guesses=3).tolist() == [1, 0, 0, 0, 1, -1, 0]
    included = np.array([True, True, True, False, False, False, True])
    made = audit_scores(scores, included, delta=0.0, guesses=[4, 7])
    assert made.attempts == (Attempt(0, 4, 2), Attempt(0, 7, 5))
    assert made.epsilon_lower == made.mu_lower == 0.0


@parametrize("values", [1, 2, 5])
def test_no_order_of_canaries_with_equal_scores_is_taken_for_knowledge(values):
    scores = default_rng(5).integers(values, size=1000).astype(float)
    members = np.arange(1000) < 500
    for included in (members, ~members):
        made = audit_scores(scores, included, delta=1e-5)
        assert made.epsilon_lower == made.mu_lower == 0.0
    known = audit_scores(np.where(members, 1.0, 0.0), members, delta=1e-5)
    assert known.epsilon_lower > 3.0, "equal scores of members alone are knowledge"


def test_several_attempts_share_the_level():
    rng = default_rng(4)
    scores, included = _toy(rng, 400, 2.0)
    one = audit_scores(scores, included, delta=1e-5, guesses=[100], failure_prob=0.01)
    two = audit_scores(np.stack([scores, rng.standard_normal(400)]), included, delta=1e-5, guesses=[100],
                       failure_prob=0.02)  # fmt: skip
    assert two.mu_lower == one.mu_lower > 0.0
    assert two.epsilon_lower == one.epsilon_lower


def test_a_sampled_mechanism_is_held_to_its_own_trade_off_function():
    """Rate q, one step, the best statistic: the event itself survives, less noise does not."""
    rng, q, sigma, m = default_rng(5), 0.5, 0.6, 4000
    included = rng.random(m) < 0.5
    scores = included * (rng.random(m) < q) + sigma * rng.standard_normal(m)
    made = audit_scores(scores, included, delta=1e-5)
    claims = {noise: SelfComposed(event=PoissonSampled(sample_rate=q, event=Gaussian(noise_multiplier=noise)), count=1)
              for noise in (0.3, 0.6, 2.4)}  # fmt: skip
    assert {noise: contradicts(made, claim) for noise, claim in claims.items()} == {0.3: False, 0.6: False, 2.4: True}
