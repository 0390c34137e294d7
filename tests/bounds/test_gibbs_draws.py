"""Prices of Gibbs draws: numbers, tilts above their definition, and the theorem itself on enumerated worlds.

By Hölder's inequality the largest E exp((1 - 1/α) f - Σ c_i), over all f of ``bounds.prices``, is
Σ_y (E_S [p(y|S)^α e^(-α Σ c_i)])^(1/α). It is at most 1 in every world, and above 1 in some at four fifths.
"""

import math
from functools import partial
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from cells import nats, refused, within_rounding
from numpy.random import default_rng
from scipy.stats import multinomial

import bounds
from bounds.gibbs_draws import DRAW_ORDERS, gibbs_gradients, gibbs_losses, gibbs_range, pivot_tilt

N = 60_000
ROOT = math.sqrt(N)


RANGE = partial(gibbs_range, tau=ROOT, loss_range=4.0, normaliser=N)
LOSSES = partial(gibbs_losses, largest=4.0, tau=6000.0, normaliser=N)
CONVEX = partial(gibbs_gradients, squared_gradients=[0.02], strong_convexity=2.0, orders=(1.3,))


@pytest.mark.parametrize(
    ("price", "value"),
    [
        (RANGE(), 9.891225934915624),
        (RANGE(tau=16 * ROOT, loss_range=3.981514553174), 588.2403096926571),
        (RANGE(beta=2.5), 27.73446642695807),
        (RANGE(beta=0.5), 7.457369038755862),
        (RANGE(beta=0.1), nats(bounds.Sharp(epsilon=0.8 / ROOT))),
        (RANGE(draws=4), nats(RANGE(tau=2 * ROOT))),
    ],
)
def test_prices_by_range(price, value):
    """The law of the source paper costs 9.89 nats in place of the 20.79 of its privacy (test_private_priors)."""
    assert nats(price) == within_rounding(value)


def test_prices_by_losses_and_by_gradients():
    grid = bounds.RealisedSum(contributions=40.0, records=N, orders=DRAW_ORDERS)
    assert nats(grid) == within_rounding(43.27229871439141)  # the union of the orders: 46.49433363785193
    losses = np.repeat([0.05, 3.0], [55_000, 5_000])
    assert nats(LOSSES(losses=losses, orders=(1.2,), weights=(1 / 12,))) == within_rounding(347.2189960846931)
    grid = nats(LOSSES(losses=losses, orders=DRAW_ORDERS[:8]))
    assert grid < nats(RANGE(tau=6000.0)) == pytest.approx(1322.910347367208)
    assert nats(LOSSES(losses=losses + 1.0, pivots=np.ones(N), orders=DRAW_ORDERS[:8])) == within_rounding(grid)
    for told, tilt in (
        ({"smoothness": 0.5}, 0.001621621621621622),
        ({"smoothness": [math.inf], "squared_lipschitz": [0.01]}, 0.3 * 0.01 / 4),
        ({"smoothness": 7.0}, math.inf),  # κ ≤ (α-1) M
    ):
        assert CONVEX(**told).log_moments == within_rounding((1.3 * tilt,))


@pytest.mark.parametrize("order", [1.001, 1.05, 1.2, 2.0, 5.0])
@mp.workdps(50)
def test_tilts_formal_guarantee_above_their_definition_and_close(order):
    """ψ_α(t) from its definition, and the chord (β - 1) t above it, which is what the losses alone would give."""

    def exact(t):
        return -mp.mpf(t) - mp.log1p(order * mp.expm1(-mp.mpf(t))) / order

    end = math.log(order / (order - 1.0))
    for t in (*(-np.logspace(-9, 1, 21)), 0.0, *(end * np.logspace(-9, -1e-6, 21))):
        found = float(pivot_tilt(order, t))
        assert exact(t) <= found <= exact(t) * (1 + 1e-7) + 1e-14 * abs(t)
        if 0 < t < 0.9 * end:
            assert found <= exact(0.9 * end) / (0.9 * end) * t * (1 + 1e-9)
    assert pivot_tilt(order, end * (1 + 1e-12)) == math.inf


def law(exponent):
    """The probabilities ∝ e^exponent."""
    found = np.exp(exponent - exponent.max())
    return found / found.sum()


def largest(order, n, chances, density, tilts):
    """Σ_y (E_S [p(y|S)^α e^(-α Σ c_i)])^(1/α): S has so many records of each kind; ``tilts`` by kind and y."""
    whole = 0.0
    for counts in map(np.array, product(range(n + 1), repeat=len(chances))):
        chance = multinomial.pmf(counts, n, chances)
        whole = whole + chance * density(counts) ** order * np.exp(-order * np.tensordot(counts, tilts, 1))
    return (whole ** (1 / order)).sum()


FAIR = (0.5, 0.5)
SIGNS = 0.05 * np.array([[0.0, 1.0], [1.0, 0.0]])
"""Two kinds of records, two values of y, small losses: the price by range is tight."""
APART = np.array([[0.0, -8.0], [-8.0, 0.0]])
"""w and w' are all but equal."""


def gibbs(losses, base=None):
    return lambda counts: law((0.0 if base is None else base) - counts @ losses)


def entropy(losses, inner, beta):
    """The law of w ∝ Z(w)^β, Z(w) = Σ_w' e^(inner - Σ ℓ(w'))."""
    return lambda counts: law(beta * np.log(np.exp(inner - counts @ losses).sum(axis=1)))


def by_range(order, spread, kinds=2):
    return np.full((kinds, 1), (order - 1) * spread**2 / 8)


@pytest.mark.parametrize("order", [1.05, 1.2, 2.0])
@pytest.mark.parametrize("n", [1, 4, 6])
def test_the_price_holds_in_the_worst_worlds_and_four_fifths_of_it_do_not(order, n):
    worlds = (
        (gibbs(SIGNS), by_range(order, 0.05)),
        (gibbs(SIGNS), pivot_tilt(order, SIGNS - 0.025)),
        (entropy(SIGNS, APART, 2.5), by_range(order, 2.5 * 0.05)),
        # two stages
        (lambda counts: np.outer(law(-counts @ SIGNS), law(-counts @ SIGNS)),
         by_range(order, 0.05)[:, :, None] + pivot_tilt(order, SIGNS - 0.025)[:, None, :]),
    )  # fmt: skip
    for density, tilts in worlds:
        assert largest(order, n, FAIR, density, tilts) <= 1 + 1e-12
        assert largest(order, n, FAIR, density, 0.8 * tilts) > 1 + 1e-6


@pytest.mark.parametrize("seed", range(40))
def test_the_price_holds_in_any_world(seed):
    """Ranges, pivots anywhere they may be, Entropy-SGLD at any β, and a second stage that looks at the first."""
    rng = default_rng(seed)
    order, spread, n = rng.choice([1.05, 1.3, 2.0, 3.0]), rng.choice([0.1, 0.6, 2.0]), int(rng.integers(1, 5))
    chances = rng.dirichlet(np.ones(3))
    losses = spread * (rng.random((3, 4)) < rng.random()) if rng.random() < 0.5 else spread * rng.random((3, 4))
    base, beta = rng.normal(0, 2, 4), rng.choice([0.3, 0.7, 1.0, 1.7])
    room = 0.99 * math.log(order / (order - 1))
    first = pivot_tilt(order, losses - np.maximum(spread - room, spread * rng.random((3, 1))))
    inner = rng.normal(0, 2, (3, 4))
    again, bases = min(spread, room) * rng.random((3, 4, 4)), rng.normal(0, 2, (4, 4))
    joint = lambda counts: (  # noqa: E731
        law(base - counts @ losses)[:, None] * np.stack([law(one) for one in bases - np.tensordot(counts, again, 1)])
    )
    for density, tilts in (
        (gibbs(losses, base), by_range(order, spread, 3)),
        (gibbs(losses, base), first),
        (entropy(losses, inner, beta), by_range(order, max(beta, math.sqrt(beta)) * spread, 3)),
        (joint, first[:, :, None] + pivot_tilt(order, again - again[:, :, :1].clip(max=spread))),
    ):
        assert largest(order, n, chances, density, tilts) <= 1 + 1e-9


def test_what_the_theorem_does_not_cover_is_above_one():
    """Each was claimed once: half the range, an order chosen afterwards, a base or a normaliser that looks at the
    sample, averaged weights, a stage that nobody paid for."""
    n, order = 6, 1.2
    tilts = by_range(order, 0.05)
    for density, paid, least in (
        (gibbs(SIGNS), tilts / 4, 1),
        (lambda counts: law(-2.0 * (counts[0] - n / 2) * np.array([-1.0, 1.0]) - counts @ SIGNS), tilts, 1),
        (lambda counts: law(-(counts @ SIGNS) * n / (1 + counts[0])), tilts, 1),
        # two stages: y_1 shows the sign of the sample, and y_2 alone is paid for
        (lambda counts: np.outer(law(-counts @ SIGNS * 40), law(-counts @ SIGNS)), tilts, 1.01),
    ):
        assert largest(order, n, FAIR, density, paid) > least
    # E[w'|S] tells the sample, whatever the temperature
    average = lambda counts: np.eye(5)[counts[0]]  # noqa: E731
    assert largest(2.0, 4, FAIR, average, by_range(2.0, 0.1)) == pytest.approx(2.10, abs=0.01)
    price = partial(LOSSES, losses=SIGNS[0], largest=0.05, tau=2.0, normaliser=2)
    assert nats(price(), 2) > min(nats(price(orders=(one,)), 2) for one in DRAW_ORDERS)


def at_inner_weights(rng):
    """What w alone costs in a world of joint draws (w, w'): by the local mean of c(w'), by -ln of the local mean of
    e^-c(w'), and by the local minimum."""
    n, order = int(rng.integers(1, 6)), rng.choice([1.1, 1.5, 2.0])
    spread = min(rng.choice([0.1, 0.5, 1.0]), 0.95 * math.log(order / (order - 1)))
    chances, shape = rng.dirichlet(np.ones(2)), rng.integers([1, 2], [4, 5])
    base = np.log(rng.gamma(rng.choice([0.3, 3.0]), size=shape))
    losses = spread * (rng.random((2, shape[1])) < rng.random())

    def density(counts, price):
        p = law(base - counts @ losses)
        return p.sum(axis=1) * np.exp(-price(p, counts @ pivot_tilt(order, losses)))

    local = lambda p, values: p @ values / p.sum(axis=1)  # noqa: E731
    prices = (local, lambda p, tilts: -np.log(local(p, np.exp(-tilts))), lambda p, tilts: tilts.min())
    return [largest(order, n, chances, partial(density, price=one), np.zeros((2, 1))) for one in prices]


def test_the_price_at_the_best_inner_weights_is_not_that_of_the_drawn_ones():
    """Joint draws (w, w') pay c(w') of the w' drawn; for w alone local means serve, its local minimum does not."""
    rng = default_rng(3)
    means, logs, leasts = np.max([at_inner_weights(rng) for _ in range(150)], axis=0)
    assert max(means, logs) <= 1 + 1e-9
    assert leasts > 1.005


LINE = np.linspace(-25.0, 25.0, 2001)


ENDS = np.array([[1.0], [-1.0]])
CONVEX_LOSSES = {
    "linear": (0.1 * ENDS * LINE, 0.1 * ENDS + 0.0 * LINE, {}),
    "quadratic": (0.1 * LINE**2 + 0.1 * ENDS * LINE, 0.2 * LINE + 0.1 * ENDS, {"smoothness": 0.2}),
    "logistic": (np.logaddexp(0, ENDS * LINE), ENDS / (1 + np.exp(-ENDS * LINE)), {"smoothness": 0.25}),
    "kinked": (np.abs(LINE - ENDS), np.sign(LINE - ENDS), {"smoothness": math.inf, "squared_lipschitz": 1.0}),
}


@pytest.mark.parametrize("order", [1.1, 1.5, 2.0])
@pytest.mark.parametrize("name", CONVEX_LOSSES)
def test_convex_potentials_pay_for_their_gradients_where_the_draw_lies(order, name):
    """By quadrature, F = y²/2 and records of two signs: tight for linear ones; kinked ones pay by their Lipschitz
    constant."""
    losses, slopes, known = CONVEX_LOSSES[name]
    price = partial(gibbs_gradients, strong_convexity=1.0, orders=(order,), **known)
    tilts = np.vectorize(lambda slope: price(squared_gradients=slope**2).log_moments[0] / order)(slopes)
    density = gibbs(losses, -(LINE**2) / 2)
    assert largest(order, 3, FAIR, density, tilts) <= 1 + 1e-9
    assert name != "linear" or largest(order, 3, FAIR, density, 0.8 * tilts) > 1 + 1e-4


def test_losses_that_are_not_convex_break_the_price_by_gradients():
    """45 records -0.02 y²/2 take nine tenths of F's curvature away, each at almost no price."""
    order, slope, many, curve = 1.5, 0.3, 45, 0.02
    rest = 1.0 / (order - 1.0)
    tilts = many * (curve * LINE) ** 2 / (2 * (rest + curve)) + slope**2 / (2 * rest)
    density = gibbs(slope * ENDS * LINE, -(1.0 - many * curve) * LINE**2 / 2)
    assert largest(order, 1, FAIR, density, [tilts, tilts]) == pytest.approx(1.01592, abs=1e-5)


@pytest.mark.parametrize(
    ("call", "told", "words"),
    [
        (RANGE, {"tau": -1.0}, "tau must not be negative"),
        (RANGE, {"normaliser": 0}, "normaliser must be"),
        (RANGE, {"beta": math.nan}, "beta must"),
        (LOSSES, {"losses": [5.0]}, "largest must be at least"),
        (LOSSES, {"losses": [1.0], "normaliser": 5}, "orders must be below"),
        (LOSSES, {"losses": [[1.0]]}, "flatten it"),
        (LOSSES, {"losses": [math.nan]}, "finite numbers"),
        (CONVEX, {"squared_gradients": [-1.0]}, "squared_gradients must be numbers"),
        (CONVEX, {"strong_convexity": 0.0}, "strong_convexity must be positive"),
    ],
)
def test_refusals(call, told, words):
    refused(words, call, **told)
