"""How often each price of privacy is not enough under the mechanisms that are worst for it, exactly."""

from functools import partial
from math import sqrt

import numpy as np

from bounds import GaussianDP, MaxInformation, Sharp
from bounds.printed import Printed2018
from bounds.transfer import transfer_cost
from tests.coverage import mechanisms
from tests.coverage.worlds import DELTA

PURE = {"sharp": Sharp, "max-information": MaxInformation, "2018": Printed2018}
SHARES = np.geomspace(0.002, 0.5, 120)


def exact_prices(fractions):
    """A row for every price and mechanism; ``fractions`` of the price by value, with their names, the first four."""
    n, epsilon = 60_000, 8 / sqrt(60_000)
    how, response = (f"n = {n}, epsilon = {epsilon:.4f}", partial(mechanisms.response_failure, n, epsilon))
    for price, kind in PURE.items():
        charged = kind(epsilon=epsilon).charge(n=n, failure_prob=DELTA).nats
        yield _record(price, f"randomised response, {how}", charged, response, fractions)
    for n, mu in ((60_000, 0.1), (10**6, 0.03)):
        curve = GaussianDP(mu=mu, adjacency="add-remove", **mechanisms.EXACT)
        own, at = mechanisms.own_loss(mu, mu / 500), f"n = {n}, mu = {mu:g}"
        released, coarse = partial(mechanisms.noise_failure, n, mu), partial(worst_share, n, mu)
        for price, privacy, how, failure in (
            ("general, the Gaussian curve", curve, "shared noise", released),
            ("general, its own loss law", own, "shared noise", released),
            ("general, the Gaussian curve", curve, "coarse shared noise", coarse),
        ):
            nats = transfer_cost(privacy=privacy, n=n, failure_prob=DELTA).nats
            yield _record(price, f"{how}, {at}", nats, failure, fractions)


def worst_share(n, mu, nats):
    """The failure probability of coarse shared noise at the level that is worst for this price."""
    return max(mechanisms.noise_failure(n, mu, nats, share) for share in SHARES)


def _record(price, how, nats, failure, fractions):
    rates = {name: failure(fraction * nats) for fraction, name in list(fractions.items())[:4]}
    return {"price": price, "mechanism": how, "nats": nats, "failure": rates}
