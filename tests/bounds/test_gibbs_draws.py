"""Prices of Gibbs draws: numbers, tilts above their definition, and the theorem itself on enumerated worlds.

By Hölder's inequality the largest E exp((1 - 1/α) f - Σ c_i), over all f of ``bounds.prices``, is
Σ_y (E_S [p(y|S)^α e^(-α Σ c_i)])^(1/α). It is at most 1 in every world, and above 1 in some at four fifths.
"""

import math
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from cells import refused
from numpy.random import default_rng

import bounds
from bounds.gibbs_draws import DRAW_ORDERS, gibbs_gradients, gibbs_losses, gibbs_range, pivot_tilt

N = 60_000
ROOT = math.sqrt(N)


def nats(price, n=N, failure_prob=0.05):
    return price.charge(n=n, failure_prob=failure_prob).nats


@pytest.mark.parametrize(
    ("told", "value"),
    [
        ({"tau": ROOT, "loss_range": 4.0}, 9.891225934915624),
        ({"tau": 16 * ROOT, "loss_range": 3.981514553174}, 588.2403096926571),
        ({"tau": ROOT, "loss_range": 4.0, "beta": 2.5}, 27.73446642695807),
        ({"tau": ROOT, "loss_range": 4.0, "beta": 0.5}, 7.457369038755862),
        ({"tau": ROOT, "loss_range": 4.0, "beta": 0.1}, nats(bounds.Sharp(epsilon=0.8 / ROOT))),
        ({"tau": ROOT, "loss_range": 4.0, "draws": 4}, nats(gibbs_range(tau=2 * ROOT, loss_range=4.0, normaliser=N))),
    ],
)
def test_prices_by_range(told, value):
    """The law of the source paper costs 9.89 nats in place of the 20.79 of its privacy."""
    assert nats(gibbs_range(**told, normaliser=N)) == pytest.approx(value, rel=1e-12)
    assert nats(bounds.Sharp(epsilon=8 / ROOT)) == pytest.approx(20.78671959627726, rel=1e-12)


def test_prices_by_losses_and_by_gradients():
    losses = np.repeat([0.05, 3.0], [55_000, 5_000])
    told = {"largest": 4.0, "tau": 6000.0, "normaliser": N}
    found = gibbs_losses(losses=losses, orders=(1.2,), weights=(1 / 12,), **told)
    assert nats(found) == pytest.approx(347.2189960846931, rel=1e-12)
    grid = gibbs_losses(losses=losses, orders=DRAW_ORDERS[:8], **told)
    assert nats(grid) < nats(gibbs_range(tau=6000.0, loss_range=4.0, normaliser=N)) == pytest.approx(1322.910347367208)
    shifted = gibbs_losses(losses=losses + 1.0, pivots=np.ones(N), orders=DRAW_ORDERS[:8], **told)
    assert nats(shifted) == pytest.approx(nats(grid), rel=1e-12)
    convex = {"squared_gradients": [0.02], "strong_convexity": 2.0, "orders": (1.3,)}
    (moment,) = gibbs_gradients(smoothness=0.5, **convex).log_moments
    assert moment / 1.3 == pytest.approx(0.001621621621621622, rel=1e-12)
    (least,) = gibbs_gradients(smoothness=[math.inf], squared_lipschitz=[0.01], **convex).log_moments
    assert least / 1.3 == pytest.approx(0.3 * 0.01 / 4, rel=1e-12)
    (endless,) = gibbs_gradients(smoothness=7.0, **convex).log_moments  # κ ≤ (α-1) M
    assert endless == math.inf


@pytest.mark.parametrize("order", [1.001, 1.05, 1.2, 2.0, 5.0])
def test_tilts_formal_guarantee_above_their_definition_and_close(order):
    """ψ_α(t) from its definition, and the chord (β - 1) t above it, which is what the losses alone would give."""
    end = math.log(order / (order - 1.0))
    for t in (*(-np.logspace(-9, 1, 21)), 0.0, *(end * np.logspace(-9, -1e-6, 21))):
        (found,) = pivot_tilt(order, np.array([t]))
        with mp.workdps(50):
            exact = -mp.mpf(t) - mp.log1p(mp.mpf(order) * mp.expm1(-mp.mpf(t))) / mp.mpf(order)
            assert exact <= found <= exact * (1 + mp.mpf("1e-7")) + 1e-14 * abs(t)
            if 0 < t < 0.9 * end:
                chord = -mp.log1p(mp.mpf(order) * mp.expm1(-0.9 * end)) / (mp.mpf(order) * 0.9 * end) - 1
                assert found <= chord * t * (1 + 1e-9)
    assert pivot_tilt(order, np.array([end * (1 + 1e-12)])) == math.inf


def samples(n, chances):
    """How many records are of each kind, and with what probability."""
    for counts in product(range(n + 1), repeat=len(chances)):
        if sum(counts) == n:
            ways = math.factorial(n) * math.prod(q**k / math.factorial(k) for k, q in zip(counts, chances, strict=True))
            yield np.array(counts), ways


def law(exponent):
    """The probabilities ∝ e^exponent."""
    found = np.exp(exponent - exponent.max())
    return found / found.sum()


def largest(order, n, chances, density, tilts, step=1.0):
    """Σ_y (E_S [p(y|S)^α e^(-α Σ c_i)])^(1/α) for ``density`` of the counts; ``tilts`` by kind of record and y."""
    whole = 0.0
    for counts, chance in samples(n, chances):
        whole = whole + chance * density(counts) ** order * np.exp(-order * np.tensordot(counts, tilts, 1))
    return float((whole ** (1 / order)).sum()) * step


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


def by_range(order, spread, shape, scale=1.0):
    return np.full(shape, scale * (order - 1) * spread**2 / 8)


@pytest.mark.parametrize("order", [1.05, 1.2, 2.0])
@pytest.mark.parametrize("n", [1, 4, 6])
def test_the_price_holds_in_the_worst_worlds_and_four_fifths_of_it_do_not(order, n):
    worlds = (
        (gibbs(SIGNS), by_range(order, 0.05, (2, 2))),
        (gibbs(SIGNS), pivot_tilt(order, SIGNS - 0.025)),
        (entropy(SIGNS, APART, 2.5), by_range(order, 2.5 * 0.05, (2, 2))),
    )
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
    assert largest(order, n, chances, gibbs(losses, base), by_range(order, spread, (3, 4))) <= 1 + 1e-9
    room = 0.99 * math.log(order / (order - 1))
    pivots = np.maximum(spread - room, spread * rng.random((3, 1)))
    first = pivot_tilt(order, losses - pivots)
    assert largest(order, n, chances, gibbs(losses, base), first) <= 1 + 1e-9
    inner = rng.normal(0, 2, (3, 4))
    paid = by_range(order, max(beta, math.sqrt(beta)) * spread, (3, 3))
    assert largest(order, n, chances, entropy(losses, inner, beta), paid) <= 1 + 1e-9
    again, bases = min(spread, room) * rng.random((3, 4, 4)), rng.normal(0, 2, (4, 4))
    joint = lambda counts: (  # noqa: E731
        law(base - counts @ losses)[:, None] * np.stack([law(one) for one in bases - np.tensordot(counts, again, 1)])
    )
    tilts = first[:, :, None] + pivot_tilt(order, again - again[:, :, :1].clip(max=spread))
    assert largest(order, n, chances, joint, tilts) <= 1 + 1e-9


def test_what_the_theorem_does_not_cover_is_above_one():
    """Each was claimed once: half the range, an order chosen afterwards, a base or a normaliser that looks at the
    sample, averaged weights, a stage that nobody paid for."""
    n, order = 6, 1.2
    tilts = by_range(order, 0.05, (2, 2))
    assert largest(order, n, FAIR, gibbs(SIGNS), tilts / 4) > 1  # Δ/2
    seen = lambda counts: law(-2.0 * (counts[0] - n / 2) * np.array([-1.0, 1.0]) - counts @ SIGNS)  # noqa: E731
    assert largest(order, n, FAIR, seen, tilts) > 1
    own = lambda counts: law(-(counts @ SIGNS) * n / (1 + counts[0]))  # noqa: E731
    assert largest(order, n, FAIR, own, tilts) > 1
    # E[w'|S] tells the sample, whatever the temperature
    kinds = 5
    average = lambda counts: np.eye(kinds)[counts[0]]  # noqa: E731
    assert largest(2.0, kinds - 1, FAIR, average, by_range(2.0, 0.1, (2, kinds))) == pytest.approx(2.10, abs=0.01)
    # two stages: y_1 shows the sign of the sample, and y_2 alone is paid for
    strong = 2.0 * SIGNS / 0.05
    joint = lambda counts: np.outer(law(-counts @ strong), law(-counts @ SIGNS))  # noqa: E731
    paid = np.broadcast_to(tilts[:, None, :], (2, 2, 2))
    assert largest(order, n, FAIR, joint, paid) > 1.01
    orders = [1.05 * 1.2**k for k in range(8)]
    whole = [
        nats(gibbs_losses(losses=SIGNS[0], largest=0.05, tau=2.0, normaliser=2, orders=(one,)), 2) for one in orders
    ]
    every = gibbs_losses(losses=SIGNS[0], largest=0.05, tau=2.0, normaliser=2, orders=orders)
    assert nats(every, 2) > min(whole)


def test_the_price_at_the_best_inner_weights_is_not_that_of_the_drawn_ones():
    """Joint draws (w, w') pay c(w') of the w' drawn; for w alone its local mean serves, its local minimum does not."""
    rng, found = default_rng(3), []
    for _ in range(300):
        n, order = int(rng.integers(1, 6)), rng.choice([1.1, 1.5, 2.0])
        spread = min(rng.choice([0.1, 0.5, 1.0]), 0.95 * math.log(order / (order - 1)))
        chances, shape = rng.dirichlet(np.ones(2)), (int(rng.integers(1, 4)), int(rng.integers(2, 5)))
        base = np.log(rng.dirichlet(np.ones(math.prod(shape)) * rng.choice([0.3, 3.0]))).reshape(shape)
        losses = spread * (rng.random((2, shape[1])) < rng.random())
        mean, least = 0.0, 0.0
        for counts, chance in samples(n, chances):
            p = law((base - counts @ losses).ravel()).reshape(shape)
            tilts, alone = counts @ pivot_tilt(order, losses), p.sum(axis=1)
            mean = mean + chance * (alone * np.exp(-(p @ tilts) / alone)) ** order
            least = least + chance * (alone * np.exp(-tilts.min())) ** order
        found.append([(one ** (1 / order)).sum() for one in (mean, least)])
    means, leasts = np.max(found, axis=0)
    assert means <= 1 + 1e-9
    assert leasts > 1.005


LINE = np.linspace(-25.0, 25.0, 2001)


@pytest.mark.parametrize("order", [1.1, 1.5, 2.0])
@pytest.mark.parametrize("smoothness", [0.0, 0.2])
def test_convex_potentials_pay_for_their_gradients_where_the_draw_lies(order, smoothness):
    """By quadrature, F = y²/2 and records (M/2) y² ± 0.1 y: tight for M = 0."""
    step, signs = LINE[1] - LINE[0], np.array([[1.0], [-1.0]])
    losses, slopes = 0.5 * smoothness * LINE**2 + 0.1 * signs * LINE, smoothness * LINE + 0.1 * signs

    def tilt(slope):
        price = gibbs_gradients(
            squared_gradients=slope**2, strong_convexity=1.0, smoothness=smoothness, orders=(order,)
        )
        return price.log_moments[0] / order

    tilts = np.vectorize(tilt)(slopes)
    density = lambda counts: law(-(LINE**2) / 2 - counts @ losses) / step  # noqa: E731
    assert largest(order, 3, FAIR, density, tilts, step) <= 1 + 1e-9
    assert smoothness or largest(order, 3, FAIR, density, 0.8 * tilts, step) > 1 + 1e-4


def test_losses_that_are_not_convex_break_the_price_by_gradients():
    """45 records -0.02 y²/2 take nine tenths of F's curvature away, each at almost no price."""
    order, slope, many, curve = 1.1, 0.3, 45, 0.02
    step, whole = LINE[1] - LINE[0], 0.0
    rest = 1.0 / (order - 1.0)
    for sign in (1, -1):
        density = law(-(1.0 - many * curve) * LINE**2 / 2 - sign * slope * LINE) / step
        tilts = many * (curve * LINE) ** 2 / (2 * (rest + curve)) + slope**2 / (2 * rest)
        whole = whole + 0.5 * density**order * np.exp(-order * tilts)
    assert float((whole ** (1 / order)).sum() * step) > 1.005


@pytest.mark.parametrize(
    ("call", "told", "words"),
    [
        (gibbs_range, {"tau": -1.0, "loss_range": 1.0, "normaliser": 5}, "tau must not be negative"),
        (gibbs_range, {"tau": 1.0, "loss_range": 1.0, "normaliser": 0}, "normaliser must be"),
        (gibbs_range, {"tau": 1.0, "loss_range": 1.0, "normaliser": 5, "beta": math.nan}, "beta must"),
        (gibbs_losses, {"losses": [2.0], "largest": 1.0, "tau": 1.0, "normaliser": 5}, "largest must be at least"),
        (gibbs_losses, {"losses": [1.0], "largest": 9.0, "tau": 5.0, "normaliser": 5}, "orders must be below"),
        (gibbs_losses, {"losses": [[1.0]], "largest": 9.0, "tau": 1.0, "normaliser": 50}, "one for each record"),
        (gibbs_losses, {"losses": [math.nan], "largest": 9.0, "tau": 1.0, "normaliser": 50}, "finite numbers"),
        (gibbs_gradients, {"squared_gradients": [-1.0], "strong_convexity": 1.0}, "squared_gradients must be numbers"),
        (gibbs_gradients, {"squared_gradients": [1.0], "strong_convexity": 0.0}, "strong_convexity must be positive"),
    ],
)  # fmt: skip
def test_refusals(call, told, words):
    refused(words, call, **told)
