"""Every formula at the prices of private priors and of noisy sums: the worlds that are worst for the price, with a
prior that is a point.
"""

import bounds
from bounds import Accounted, RealisedSum, Sharp
from tests.coverage import noisy
from tests.coverage.entries import COARSE, FIFTH, HALF, MOST, RESPONSE, THIRD
from tests.coverage.harness import Entry

PRICES = {"Sharp": RESPONSE, "Accounted": COARSE, **noisy.SIGNS}
OF_EVENTS = ("kl_chernoff", "hoeffding", "chernoff")  # no theorem at a price that was measured
_POINT = {"kl_nats": 0.0}
# What a formula is told besides the risk: of a prior that is a point, and of the temperature where Catoni's is best.
TOLD = {
    **dict.fromkeys(OF_EVENTS, lambda risk, best, n: {}),
    **dict.fromkeys(("maurer", "langford_seeger", "mcallester"), lambda risk, best, n: _POINT),
    "catoni": lambda risk, best, n: _POINT | {"inverse_temperature": best},
    "catoni_grid": lambda risk, best, n: _POINT | {"inverse_temperatures": (best / 2, best, 2 * best)},
    "split_kl": lambda risk, best, n: _POINT | {"levels": (0.0, 0.25, 1.0), "shares": (risk, risk)},
    "disintegrated": lambda risk, best, n: {"log_density_ratio": 0.0},
    "disintegrated_renyi": lambda risk, best, n: {"renyi_nats": 0.0},
    **dict.fromkeys(("quadratic", "thiemann", "tolstikhin_seldin"), lambda risk, best, n: _POINT),
    "linear": lambda risk, best, n: _POINT | {"lam": 2 * n / best},
    "unexpected_bernstein": lambda risk, best, n: _POINT | {"second_moment": risk},
}
# Relaxations of kl are tight at small rates; the worst private worlds have rate 1/2.
_HALF = "a relaxation of kl for small rates, of which rate 1/2 uses a half or less"
LOOSE = {
    **dict.fromkeys(("chernoff", "quadratic", "thiemann", "unexpected_bernstein"), (THIRD, _HALF)),
    **dict.fromkeys(("tolstikhin_seldin", "linear"), (FIFTH, _HALF)),
    "disintegrated_renyi": (HALF, "ln(2/failure_prob) for the draw, and the price at less than half of failure_prob"),
}


def _at(formula, price):
    def bound(risk, n, inverse_temperature, failure_prob, privacy=None, price=None, contributions=None):
        told = TOLD[formula](risk, inverse_temperature, n) | ({} if formula == "split_kl" else {"risk": risk})
        paid = _paid(kind, privacy, price, contributions, n)
        return getattr(bounds, formula)(**told, n=n, failure_prob=failure_prob, price=paid)

    kind = price
    return bound


def _paid(kind, privacy, price, contributions, n):
    match kind:
        case "Sharp":
            return Sharp(epsilon=privacy.epsilon)
        case "Accounted":
            return Accounted(privacy=privacy)
        case "RealisedSum":
            return RealisedSum(contributions=contributions, records=n, orders=noisy.AROUND)
        case _:
            return price


def _entry(formula, price):
    caught, why = noisy.LOOSE.get(price, {}).get(formula) or LOOSE.get(formula, (MOST, ""))
    return Entry(f"{formula} at {price}", _at(formula, price), (), PRICES[price], caught=caught, why=why)


PRICED = [
    _entry(formula, price)
    for formula in TOLD
    for price in PRICES
    if not (price.startswith("Realised") and formula in OF_EVENTS)
]
