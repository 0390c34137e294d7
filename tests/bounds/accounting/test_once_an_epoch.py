"""Records that are in one batch an epoch: quadrature, moments, contributions that look at the past, refusals."""

import math
from functools import partial

import numpy as np
import pytest
from cells import refused
from scipy.stats import norm

from bounds.accounting import (
    Composed,
    Gaussian,
    NonPrivate,
    OnceAnEpoch,
    PoissonSampled,
    SelfComposed,
    clt_gdp,
    event_from_json,
    event_to_json,
    gaussian_epsilon,
    loss_distribution,
    privacy_delta,
    privacy_epsilon,
)
from bounds.accounting._pieces import ratios

ADD = {"adjacency": "add-remove"}
G = np.linspace(-10.0, 10.0, 801)
WEIGHTS = norm.pdf(G) * (G[1] - G[0])  # the trapezoid rule of a smooth function, exact to rounding


def epochs(batches, noise, count=1):
    one = OnceAnEpoch(batches=batches, event=Gaussian(noise_multiplier=noise))
    return SelfComposed(event=one, count=count)


def ratio(g, c):
    return np.exp(c * g - 0.5 * c * c)


def call(strike, c):
    """E (x - strike)_+ of x = exp(c g - c²/2), in closed form."""
    strike = np.asarray(strike, dtype=np.float64)
    logs = -np.log(np.maximum(strike, 1e-300))
    d = logs / c + 0.5 * c
    return np.where(strike > 0.0, norm.cdf(d) - strike * norm.cdf(d - c), 1.0 - strike)


def removed(level, c, second=None):
    """E (X̄ - level)_+ of two batches, the second of which may have a c that depends on the first's noise."""
    later = c if second is None else second(G)
    return float(WEIGHTS @ (0.5 * call(2.0 * level - ratio(G, c), later)))


def added(level, c, second=None):
    """E (1 - level X̄)_+, as E X̄ = 1."""
    return level * removed(1.0 / level, c, second) - level + 1.0


@pytest.mark.parametrize("noise", [0.6, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.5])
def test_two_batches_by_quadrature(noise, epsilon):
    exact = max(side(math.exp(epsilon), 1.0 / noise) for side in (removed, added))
    found = privacy_delta(event=epochs(2, noise), epsilon=epsilon, **ADD)
    assert found.lower - 1e-12 <= exact <= found.upper + 1e-12
    assert found.upper <= 1.01 * exact + 1e-9


def test_two_epochs_by_quadrature():
    """E (X̄ Ȳ - level)_+ = E X̄ (Ȳ - level / X̄)_+."""
    c, level = 1.0, math.exp(0.7)
    first = 0.5 * (ratio(G, c)[:, None] + ratio(G, c)[None, :])
    logs = np.linspace(-12.0, 12.0, 6001)
    second = np.interp(np.log(level / first), logs, [removed(math.exp(one), c) for one in logs])
    exact = float(WEIGHTS @ (first * second) @ WEIGHTS)
    found = privacy_delta(event=epochs(2, 1.0, count=2), epsilon=0.7, **ADD)
    assert found.lower <= exact * (1 + 1e-5)
    assert exact <= found.upper * (1 + 1e-5) <= 1.01 * exact


@pytest.mark.parametrize("later", [lambda g: np.where(g > 0.0, 1.0, 0.3), lambda g: np.where(g < 1.0, 1.0, 0.3)])
def test_contributions_that_look_at_the_past_cost_no_more(later):
    for epsilon in (0.0, 0.5, 1.5):
        found = privacy_delta(event=epochs(2, 1.0), epsilon=epsilon, **ADD).upper
        assert all(side(math.exp(epsilon), 1.0, later) < found for side in (removed, added))


@pytest.mark.parametrize(("batches", "noise"), [(3, 0.8), (50, 1.0), (1000, 0.6)])
def test_moments_lie_in_the_bracket(batches, noise):
    """E X̄^α of whole orders, by the multinomial sum."""
    above, below = (ratios(batches, noise, 1e-16, side) for side in (True, False))
    for order in (1, 2, 3):
        terms = [math.exp(0.5 * j * (j - 1) / noise**2) / math.factorial(j) for j in range(order + 1)]
        power = np.ones(1)
        for _ in range(batches):
            power = np.convolve(power, terms)[: order + 1]
        exact = math.factorial(order) * power[order] / batches**order
        low, high = (float((law.masses * law.values**order).sum()) for law in (below, above))
        assert low <= exact * (1 + 1e-9)
        assert exact <= high * (1 + 1e-6)
        assert high - low <= 0.02 * (exact - 1.0) + 1e-4


def test_it_lies_between_one_batch_and_all():
    """One batch is every record; more batches hide more; and Poisson batches of the same rate hide less."""
    spent = [privacy_epsilon(event=epochs(batches, 1.0), delta=1e-5, **ADD).upper for batches in (1, 10, 100)]
    assert spent[0] == pytest.approx(gaussian_epsilon(mu=1.0, delta=1e-5), rel=1e-6)
    assert spent[0] > 1.5 * spent[1] > 4.0 * spent[2] > 0.0
    batch = PoissonSampled(sample_rate=0.1, event=Gaussian(noise_multiplier=1.0))
    assert spent[1] < privacy_epsilon(event=SelfComposed(event=batch, count=10), delta=1e-5, **ADD).lower


def test_an_epoch_is_written_and_read():
    event = epochs(10, 1.5, count=3)
    assert event_from_json(event_to_json(event)) == event


ASKED = partial(privacy_epsilon, delta=1e-5)
NESTED = PoissonSampled(sample_rate=0.5, event=epochs(3, 1.0))


def test_what_no_theorem_covers_is_refused():
    refused("batches must be", OnceAnEpoch, batches=0, event=Gaussian(noise_multiplier=1.0))
    refused("event must", OnceAnEpoch, batches=2, event=epochs(2, 1.0))
    for question in (ASKED, loss_distribution):
        refused("one removed and one added", question, event=epochs(2, 1.0), adjacency="replace-one")
    refused("must not hold another sample", ASKED, event=NESTED, **ADD)


def test_too_little_noise_promises_nothing():
    assert privacy_epsilon(event=epochs(10, 0.1), delta=1e-5, **ADD).upper == math.inf


@pytest.mark.parametrize("rare", [NonPrivate(), Gaussian(noise_multiplier=0.01)])
def test_a_rare_step_without_protection_adds_to_what_epochs_spend(rare):
    event, delta = epochs(2, 1.0, count=3), {"delta": 1e-5, **ADD}
    both = Composed(events=(event, PoissonSampled(sample_rate=1e-9, event=rare)))
    alone = privacy_epsilon(event=event, **delta).upper
    assert alone <= privacy_epsilon(event=both, **delta).upper <= 1.01 * alone


@pytest.mark.parametrize("noise", [1e4, 1e8, 1e60, 1e300])
def test_a_great_deal_of_noise_promises_a_great_deal(noise):
    found = privacy_delta(event=epochs(100, noise), epsilon=0.0, **ADD)
    assert 0.0 <= found.lower <= found.upper <= 1e-5
    with pytest.raises(ValueError, match="Gaussian events alone"):
        clt_gdp(event=epochs(2, 1.0))
