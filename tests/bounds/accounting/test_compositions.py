"""Many steps: published numbers, another implementation as a bracket, laws, and the faults that others have."""

from math import comb, exp, expm1, fsum, inf, sqrt

import numpy as np
import pytest
from cells import within_rounding
from events_for_tests import HEADLINE, either, lost, spent, steps
from hypothesis import given, settings
from hypothesis.strategies import floats, integers, lists, randoms, sampled_from, tuples

from bounds.accounting import (
    Composed,
    ExponentialMechanism,
    Gaussian,
    PoissonSampled,
    SelfComposed,
    clt_gdp,
    gaussian_epsilon,
    renyi_epsilon,
    sampled_gaussians,
)

REPLACE = "replace-one"


def upper(event, *at, **options):
    return spent(event, *at, **options).upper


def test_refining_the_grid_narrows_the_bracket():
    made = [spent(HEADLINE, resolution=resolution) for resolution in (0.2, 0.05, 0.01)]
    assert made[0].upper > made[1].upper > made[2].upper >= made[2].lower > made[1].lower > made[0].lower
    assert made[1].estimate == pytest.approx(made[2].estimate, abs=2e-4)


@pytest.mark.parametrize(
    ("multipliers", "rate", "delta"),
    [
        ([1.1] * 3516, 256 / 60000, 1e-5),
        ([0.6] * 100, 0.02, 1e-5),
        (list(np.linspace(0.8, 3.0, 4)), 0.05, 1e-5),
        pytest.param(list(np.linspace(0.8, 3.0, 12)), 0.05, 1e-5, marks=pytest.mark.slow),
    ],
)
@either
def test_google_s_accountant_lies_between(multipliers, rate, delta, adjacency):
    """dp-accounting connects dots too, on a grid of 1e-4: above the truth, by less than its grid allows."""
    dp = pytest.importorskip("dp_accounting")
    pld = pytest.importorskip("dp_accounting.pld")
    relation = dp.NeighboringRelation["REPLACE_ONE" if adjacency == REPLACE else "ADD_OR_REMOVE_ONE"]
    accountant = pld.PLDAccountant(relation, value_discretization_interval=1e-4)
    for value in sorted(set(multipliers)):
        event = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(value))
        accountant.compose(event, multipliers.count(value))
    theirs = accountant.get_epsilon(delta)
    ours = spent(sampled_gaussians(sample_rate=rate, noise_multipliers=multipliers), delta, adjacency)
    assert ours.lower <= theirs * (1 + 1e-6)
    assert ours.upper == pytest.approx(theirs, rel=5e-4)


@pytest.mark.parametrize(
    ("scales", "published"), [((3, 1), 6.19), ((2, 1), 6.92), ((3, 2), 2.61), ((1,), 5.15), ((2,), 1.68), ((3,), 0.98)]
)
def test_selection_on_the_same_sample(scales, published):
    """P3SGD, all candidates released and one chosen by an exponential mechanism, on one Poisson sample."""
    parts = [Gaussian(noise_multiplier=float(scale)) for scale in scales]
    if len(scales) > 1:
        parts.append(ExponentialMechanism(epsilon=sqrt(0.1), adjacency="add-remove"))
    event = SelfComposed(event=PoissonSampled(sample_rate=0.1, event=Composed(events=tuple(parts))), count=100)
    assert upper(event, delta=1000**-1.1) == pytest.approx(published, abs=0.006)


def test_pure_mechanisms_compose_as_randomised_response():
    """Exact binomial sums."""
    epsilon, count, delta = 0.3, 20, 1e-4
    p = 1 / (1 + exp(-epsilon))

    def true(at):
        return fsum(
            comb(count, k) * p**k * (1 - p) ** (count - k) * max(0.0, -expm1(at - (2 * k - count) * epsilon))
            for k in range(count + 1)
        )

    event = SelfComposed(event=ExponentialMechanism(epsilon=epsilon, adjacency="replace-one"), count=count)
    made = spent(event, delta, REPLACE)
    assert true(made.upper) <= delta < true(made.upper * 0.999)
    assert lost(event, 1.0, REPLACE).upper >= true(1.0)
    half = ExponentialMechanism(epsilon=epsilon / 2, adjacency="add-remove")
    assert spent(SelfComposed(event=half, count=count), delta, REPLACE) == made


EVENTS = tuples(floats(0.4, 20.0), sampled_from([0.003, 0.02, 0.2, 0.7]), integers(1, 300), sampled_from([1e-3, 1e-6]))


@settings(max_examples=25)
@given(EVENTS, floats(1.01, 2.0), sampled_from(["add-remove", "replace-one"]))
def test_monotone_in_everything(setting, factor, adjacency):
    sigma, rate, count, delta = setting
    base = spent(steps(sigma, rate, count), delta, adjacency, resolution=0.1)
    assert base.lower <= base.estimate <= base.upper
    safer = [
        (steps(sigma * factor, rate, count), delta),
        (steps(sigma, rate / factor, count), delta),
        (steps(sigma, rate, max(1, int(count / factor))), delta),
        (steps(sigma, rate, count), delta * factor),
    ]
    for event, at in safer:
        made = spent(event, at, adjacency, resolution=0.1)
        assert made.lower <= base.upper * (1 + 1e-9) + 1e-12
        assert made.upper <= base.upper * 1.01 + 1e-9  # but for the grid, which differs


@settings(max_examples=15)
@given(EVENTS)
def test_delta_and_epsilon_are_inverse_and_renyi_lies_above(setting):
    sigma, rate, count, delta = setting
    event = steps(sigma, rate, count)
    made = spent(event, delta, resolution=0.05)
    back = lost(event, made.upper, resolution=0.05)
    assert back.lower <= delta * (1 + 1e-6)
    if made.upper > 0.0:
        assert back.upper == pytest.approx(delta, rel=0.05)
    assert renyi_epsilon(event=event, delta=delta, adjacency="add-remove").upper >= made.lower
    assert made.upper <= upper(event, delta, REPLACE, resolution=0.05) * 1.01 + 1e-9


@settings(max_examples=10)
@given(lists(sampled_from([0.7, 1.0, 1.3, 4.0]), min_size=1, max_size=30), randoms(use_true_random=False))
def test_order_does_not_matter(multipliers, random):
    shuffled = random.sample(multipliers, len(multipliers))
    events = [sampled_gaussians(sample_rate=0.05, noise_multipliers=values) for values in (multipliers, shuffled)]
    nested = Composed(events=(Composed(events=(events[0],)),))
    one, two, three = (upper(event) for event in (*events, nested))
    assert one == two == three


# Faults of other accountants


@pytest.mark.parametrize("sigma", [0.3, 0.1])
def test_large_epsilons_are_finite(sigma):
    """Others give infinity, or fail, at this sample rate and number of steps."""
    event = steps(sigma, 0.1, 2000)
    made, moments = spent(event), renyi_epsilon(event=event, delta=1e-5, adjacency="add-remove")
    assert 100.0 < made.lower <= made.upper < moments.upper * 1.001


@pytest.mark.parametrize(
    ("q", "sigma", "count"), [(0.0043, 0.7, 3516), (0.01, 0.6, 1000), (0.0043, 1.1, 3516), (0.1, 2.0, 100)]
)
def test_the_central_limit_theorem_understates(q, sigma, count):
    mu = clt_gdp(event=steps(sigma, q, count))
    assert mu.status == "approximate accountant"
    assert gaussian_epsilon(mu=mu.mu, delta=1e-5) < spent(steps(sigma, q, count)).lower


def test_check_value_of_the_central_limit_theorem():
    assert clt_gdp(event=steps(1.0, 0.01, 1000)).mu == within_rounding(0.4145216313365)


def test_small_deltas_do_not_drown_in_the_noise_of_transforms():
    made = [spent(HEADLINE, delta) for delta in (1e-10, 1e-15, 1e-20)]
    assert all(bound.upper < 1.01 * bound.lower for bound in made)
    assert made[0].upper < made[1].lower < made[1].upper < made[2].lower


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("sigma", "rate", "count", "delta", "adjacency"),
    [
        (0.1, 0.3, 2064, 1e-28, "replace-one"),
        pytest.param(0.545, 1e-6, 52_926, 0.00988, "add-remove", marks=pytest.mark.slow),
        (0.47, 1e-9, 25_665, 1e-14, "add-remove"),
        (1000.0, 0.999, 100_000, 1e-20, "add-remove"),
    ],
)
def test_far_corners(sigma, rate, count, delta, adjacency):
    """Where nobody trains: still ordered, finite, and not above what no sampling would give."""
    made = spent(steps(sigma, rate, count), delta, adjacency)
    plain = SelfComposed(event=Gaussian(noise_multiplier=sigma), count=count)
    assert 0.0 <= made.lower <= made.estimate <= made.upper < inf
    assert made.lower <= upper(plain, delta, adjacency)
    assert made.upper <= upper(plain, delta, adjacency) * 1.01
