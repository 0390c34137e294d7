"""Which route to a certificate, and how many examples, before anything is trained: numbers to plan with.

Every number is what a bound of :mod:`bounds` says when things go exactly as was assumed; none is a certificate.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace

import bounds
from bounds import _check
from bounds.numbers import percent
from pacdp.store.record import Values, record

HELD_OUT, PAC_BAYES, COMPRESSION, NOISY = (
    "held-out count",
    "PAC-Bayes",
    "compression",
    "noisy gradients",
)
ROUTES = (HELD_OUT, PAC_BAYES, COMPRESSION, NOISY)
"""The routes to a certificate, by the names that plans and certified predictors give them."""
EXPECTED_ERROR = 0.05
"""What is assumed where nobody says how often the predictor will err."""
_SHARES = tuple(j / 100 for j in range(10, 100))
_MOST = 2**40
_KL_SHARE, _KEPT_FACTOR, _PRICE_SHARE = 0.001, 2.5, 0.01


@record
class PlannedRoute:
    """What a route would promise at a split, if all that the plan assumes comes true.

    Attributes:
        route: one of ``ROUTES``.
        split: how the split is called, such as "best split" or "80:20".
        train: records that training sees.
        bound: records that the bound rests on.
        expected_error: the error that is assumed of a predictor trained on so many.
        value: the bound on the error, rounded up.
        at_price_zero: the same if divergence, kept records and noise cost nothing: no training makes it smaller.
    """

    route: str
    split: str
    train: int
    bound: int
    expected_error: float
    value: float
    at_price_zero: float


@record
class RoutePlan:
    """What each route would promise, what was assumed, and which one to take.

    Formal guarantee: none; the numbers are forecasts. A certificate that is made later is about what happens then.

    Attributes:
        n: independent records in all: examples, or people.
        failure_prob: of each number by itself.
        routes: the smallest number first.
        refused: why routes cannot beat a held-out count at this n and error, whatever is trained.
        assumed: sentences.
        target: the value that is wanted, or None.
        needed: the fewest records with which a held-out count at its best split reaches the target; None where there is
            no target, or no number of records up to 2**40 is enough.
    """

    n: int
    expected_error: float
    failure_prob: float
    routes: tuple[PlannedRoute, ...]
    assumed: tuple[str, ...]
    refused: tuple[str, ...] = ()
    target: float | None = None
    needed: int | None = None

    def at(self, route: str, split: str | None = None) -> PlannedRoute:
        """The route's smallest number, or that at a split.

        Raises:
            ValueError: the plan has none.
        """
        found = [one for one in self.routes if one.route == route and split in (None, one.split)]
        if not found:
            known = ", ".join(f"{one.route} at {one.split}" for one in self.routes)
            raise ValueError(
                f"route must be one that the plan has, got {route!r} at {split!r}: there are {known}"
            )
        return found[0]

    def recommendation(self) -> str:
        """One sentence: which route, with how many records where, and what it would promise."""
        best, target = self.routes[0], self.target
        if best.value >= 1.0:
            return f"No route says anything with {self.n:,} records: gather more."
        rest = "count errors on the other" if best.route == HELD_OUT else "let the bound rest on"
        said = (
            f"Take the route {best.route!r}: train on {best.train:,} records and {rest} {best.bound:,}; it would "
            f"promise an error of at most {_percent(best.value)}."
        )
        if target is None:
            return said
        if best.value <= target:
            return f"{said} That reaches the target of {_percent(target)}."
        if self.needed is None:
            return f"{said} No number of records makes a held-out count reach the target of {_percent(target)}."
        return (
            f"{said} That misses the target of {_percent(target)}, for which a held-out count would need "
            f"{self.needed:,} records."
        )

    def to_dict(self) -> Values:
        """JSON values."""
        return {**asdict(self), "assumed": [*self.assumed], "recommendation": self.recommendation()}


def plan_routes(
    *,
    n: int,
    expected_error: float = EXPECTED_ERROR,
    target: float | None = None,
    failure_prob: float = 0.05,
) -> RoutePlan:
    """What each route to a certificate would promise, before any training.

    A predictor trained on m of n records is taken to err with probability expected_error · √(n/m), and to make exactly
    so many errors, rounded up.

    - "held-out count": Clopper and Pearson's bound on the records that training did not see, at the best split, at
      50:50 and at 80:20;
    - "PAC-Bayes": ``bounds.maurer`` with a prior from m records and a posterior from all, 0.001 n/m nats apart for each
      record of the bound, at the same splits;
    - "compression": ``bounds.compression`` of all n records, where 2.5 times the expected error is kept;
    - "noisy gradients": ``bounds.maurer`` of all n records at the price of noisy sums with V = n/100 ("Noisy sums" in
      docs/guarantees.md), whose noise is taken to make the error one and a half times as large.

    Args:
        n: independent records in all: examples, or people.
        expected_error: of a predictor that is trained on all n of them.
        target: a value that the certificate should reach.
        failure_prob: of each number.

    Raises:
        ValueError: a number out of range.
    """
    _check.count(n=n)
    _check.open_probability(
        failure_prob=failure_prob, target=failure_prob if target is None else target
    )
    _check.probability(expected_error=expected_error)

    def count(train: int, of: int = n) -> PlannedRoute:
        error = min(1.0, expected_error * (n / train) ** 0.5)
        return _planned(HELD_OUT, train, of - train, error, failure_prob)

    def posterior(train: int) -> PlannedRoute:
        nats = _KL_SHARE * (n - train) * n / train
        return _planned(PAC_BAYES, train, n - train, expected_error, failure_prob, kl_nats=nats)

    kept, noisy = (min(1.0, times * expected_error) for times in (_KEPT_FACTOR, 1.5))
    found = [*_at_splits(count, n), *_at_splits(posterior, n)]
    found.append(_planned(COMPRESSION, n, n, expected_error, failure_prob, kept=kept))
    found.append(_planned(NOISY, n, n, noisy, failure_prob, contributions=_PRICE_SHARE * n))
    needed = None
    if target is not None:
        needed = _fewest(lambda n: any(count(m, n).value <= target for m in _sizes(n)[::5]))
    return RoutePlan(
        n=n,
        expected_error=expected_error,
        failure_prob=failure_prob,
        routes=tuple(sorted(found, key=lambda one: one.value)),
        refused=tuple(_without_hope([*found, *map(posterior, _sizes(n))])),
        assumed=(
            f"A predictor trained on all {n:,} records errs with probability {_percent(expected_error)}, and one "
            f"trained on m of them (n/m)^0.5 times as often.",
            "On the records of the bound it makes exactly that share of errors, rounded up.",
            "PAC-Bayes: the posterior learns from all records, at a divergence of 0.001 n/m nats for each record of "
            "the bound from its prior.",
            f"Compression: the learner needs {_percent(kept)} of the records to be right on all others.",
            f"Noisy gradients: the squared norms of gradients over the variance of the noise add up to {_PRICE_SHARE} "
            "for each record, and the noise makes the error one and a half times as large.",
        ),
        target=target,
        needed=needed,
    )


def _planned(
    route: str, train: int, bound: int, error: float, failure_prob: float, **how: float
) -> PlannedRoute:
    """One line of the plan, at the number of errors that is expected."""
    at: Values = {"n": bound, "failure_prob": failure_prob}

    def share(of: float) -> int:
        return min(bound, math.ceil(of * bound - 1e-9))

    errors = share(error)
    if route == HELD_OUT:
        value = least = bounds.clopper_pearson_upper(errors, bound, failure_prob)
    elif route == COMPRESSION:
        value, least = (bounds.compression(k=k, **at).value for k in (share(how["kept"]), 0))
    else:
        price, risk = bounds.Independent(), errors / bound
        least = bounds.maurer(risk=risk, kl_nats=0.0, **at).value
        if route == NOISY:
            price = bounds.RealisedSum(contributions=how["contributions"], records=bound)
        nats = how.get("kl_nats", 0.0)
        value = bounds.maurer(risk=risk, kl_nats=nats, price=price, **at).value
    named = "all records" if route in (COMPRESSION, NOISY) else ""
    return PlannedRoute(
        route=route, split=named, train=train, bound=bound, expected_error=error, value=float(value),
        at_price_zero=float(least),
    )  # fmt: skip


def _without_hope(found: list[PlannedRoute]) -> Iterator[str]:
    """A sentence on each route whose number at a price of nothing is at no split smaller than a held-out count's."""
    least = {
        route: min((one.at_price_zero for one in found if one.route == route), default=1.0)
        for route in ROUTES
    }
    for route in ROUTES[1:]:
        if least[route] >= least[HELD_OUT] < 1.0:
            yield (
                f"The route {route!r} cannot beat a held-out count here: if it cost nothing it would promise at most "
                f"{_percent(least[route])}, and the count {_percent(least[HELD_OUT])}."
            )


def _at_splits(at: Callable[[int], PlannedRoute], n: int) -> list[PlannedRoute]:
    """The route at its best split, at 50:50 and at 80:20; none where there is nothing to split."""
    if not (sizes := _sizes(n)):
        return []
    named = {"50:50": n // 2, "80:20": min(n - 1, round(0.8 * n))}
    best = min(map(at, sizes), key=lambda one: one.value)
    return [
        replace(best, split="best split"),
        *(replace(at(train), split=name) for name, train in named.items()),
    ]


def _sizes(n: int) -> list[int]:
    """Sizes of the training part that are compared, from a tenth of the records to all but one; none of one record."""
    return sorted({min(n - 1, max(1, round(share * n))) for share in _SHARES if n > 1})


def best_train_size(*, n: int, expected_error: float, failure_prob: float) -> int:
    """How many of n records a held-out count leaves to training at its best split; a function of these numbers alone.

    Raises:
        ValueError: fewer than two records, or a number out of range.
    """
    if n < 2:
        raise ValueError(f"n must be at least 2 to be split, got {n}: gather more")
    plan = plan_routes(n=n, expected_error=expected_error, failure_prob=failure_prob)
    return plan.at(HELD_OUT, "best split").train


def _fewest(enough: Callable[[int], bool]) -> int | None:
    """The fewest records that are enough, by doubling and bisection; rounding makes it a little coarse."""
    high = 2
    while not enough(high):
        high *= 2
        if high > _MOST:
            return None
    low = high // 2
    while high - low > max(1, high // 1000):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _percent(value: float) -> str:
    """A share as a percentage that is no smaller."""
    return f"{float(percent(value)):g}%"
