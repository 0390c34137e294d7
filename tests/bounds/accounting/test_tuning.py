"""The best of a random number of runs: Papernot and Steinke's bounds over enumerated worlds, and their slow twin."""

from decimal import localcontext
from functools import partial
from itertools import islice, product

import numpy as np
import pytest
from events_for_tests import HEADLINE
from mpmath import erfc, exp, log, mpf, sqrt, workdps
from scipy.stats import norm

from bounds.accounting import (
    ORDERS,
    ExponentialMechanism,
    Gaussian,
    NegativeBinomialRuns,
    PoissonRuns,
    renyi_divergences,
    renyi_epsilon,
    tuned_divergences,
    tuned_epsilon,
)
from tests.marks import every_case
from tests.refusals import refuses

ADD = {"adjacency": "add-remove"}
LAWS = [
    *(NegativeBinomialRuns(stopping=g, shape=e) for g, e in [(0.1, 1.0), (0.3, 0.0), (0.02, -0.5), (0.2, 2.5)]),
    *map(lambda mean: PoissonRuns(mean=mean), (0.5, 7.0, 60.0)),
]
AT = np.array([1.1, 1.5, 2.0, 4.0, 16.0, 64.0])
every_law = every_case("law", LAWS, ids=str)


def chances(law, most=4000):
    with localcontext(prec=50):
        return [float(p) for p in islice(law.probabilities(), most)]


def best_of(law, masses):
    """The law of the best of K outcomes, which are in rising order, and of no outcome at all."""
    up_to = np.polynomial.polynomial.polyval(np.concatenate([[0.0], np.cumsum(masses)]), chances(law))
    return np.append(np.diff(up_to), up_to[:1] if up_to[0] else [])


def worlds():
    """Two neighbouring laws of a run that can be enumerated, its event, and either order of the outcomes."""
    for epsilon in (0.1, 1.0, 4.0):
        likely = np.exp(epsilon) / (1 + np.exp(epsilon))
        masses = np.array([likely, 1 - likely])
        yield ExponentialMechanism(epsilon=epsilon, **ADD), masses, masses[::-1]
    for sigma in (0.7, 3.0):
        cells = np.linspace(-4 * sigma, 4 * sigma + 1, 300)
        laws = (np.diff([0.0, *norm(mean, sigma).cdf(cells), 1.0]) for mean in (0.0, 1.0))
        yield Gaussian(noise_multiplier=sigma), *laws


def divergences(p, q):
    logs = AT[:, None] * np.log(p) + (1 - AT[:, None]) * np.log(q)
    return np.logaddexp.reduce(logs, axis=1) / (AT - 1)


@every_law
def test_no_enumerated_world_loses_more(law):
    """And one loses more than a single run, which is what tuning without a price would claim."""
    beyond = []
    for (event, *laws), order in product(worlds(), (1, -1)):
        bound = tuned_divergences(events=[event], runs=law, orders=AT, **ADD)
        best = [best_of(law, masses[::order]) for masses in laws]
        for pair in (best, best[::-1]):
            found = divergences(*pair)
            assert (found <= bound + 1e-9).all()
            beyond.append(max(found - renyi_divergences(event=event, orders=AT, **ADD)))
    assert max(beyond) > 0.1


def in_high_precision(law, sigma, order):
    """The theorem for one Gaussian, with delta by its closed form."""
    a, one = mpf(order), lambda b: mpf(b) / (2 * mpf(sigma) ** 2)
    mean = mpf(law.mean)
    if isinstance(law, PoissonRuns):
        at, mu = log(a / (a - 1)), 1 / mpf(sigma)
        tails = [erfc(x / sqrt(2)) / 2 for x in (at / mu - mu / 2, at / mu + mu / 2)]
        delta = tails[0] - exp(at) * tails[1]
        return log(exp(-mean) + mean * exp((a - 1) * (one(a) + mean * delta))) / (a - 1)
    nats = log(1 / mpf(law.stopping))
    extra = min(nats, *((1 - 1 / mpf(b)) * one(b) + nats / b for b in ORDERS))
    return one(a) + (1 + mpf(law.shape)) * extra + log(mean) / (a - 1)


@every_law
def test_the_price_is_the_theorem_s(law):
    found = tuned_divergences(events=[Gaussian(noise_multiplier=2.0)], runs=law, **ADD)
    with workdps(40):
        for order, value in list(zip(ORDERS, found, strict=True))[::5]:
            exact = in_high_precision(law, 2.0, order)
            assert exact <= value <= exact * (1 + mpf("1e-7"))
    assert sum(chances(law)) == pytest.approx(1.0, abs=1e-12)
    assert law.mean == pytest.approx(sum(k * p for k, p in enumerate(chances(law))), rel=1e-12)


def test_one_run_costs_what_it_costs_and_the_dearest_settings_count():
    ask = {"delta": 1e-5, **ADD}
    spent = partial(tuned_epsilon, runs=NegativeBinomialRuns(stopping=1 - 1e-9), **ask)
    assert spent(events=[HEADLINE]).upper == pytest.approx(renyi_epsilon(event=HEADLINE, **ask).upper, rel=1e-6)
    dear, cheap = (Gaussian(noise_multiplier=z) for z in (2.0, 4.0))
    assert spent(events=[cheap]).upper < spent(events=[dear]).upper == spent(events=[cheap, dear]).upper


tuned = partial(tuned_divergences, runs=LAWS[0], **ADD)
test_what_is_no_law_and_no_run_is_refused = refuses(
    [
        (partial(NegativeBinomialRuns, stopping=1.0), "stopping"),
        (partial(NegativeBinomialRuns, stopping=0.5, shape=-1.0), "shape must be above -1"),
        (partial(NegativeBinomialRuns, stopping=0.5, shape=-1e-58), "0 is the logarithmic law"),
        (partial(PoissonRuns, mean=0.0), "mean"),
        (partial(tuned, events=()), "events must be a list with the event of one run"),
    ]
)
