"""Prices of noisy draws: what a prior, or weights, cost that were drawn from the sample with noise.

Training that adds Gaussian noise to sums over the records, and a draw from a Gibbs law exp(-F(y) - Σ_i ℓ(y; z_i)), are
one thing: a stage, in which each record enters by a potential of its own and pays a tilt c_i(y) for it. Stages follow
each other at one order α, and with probability 1 - failure_prob every f of ``bounds.prices`` is at most

    (α/(α-1)) (Σ_i Σ_t c_ti(Y) + ln(1/failure_prob)),      M = α Σ_i Σ_t c_ti,

with no second failure probability. The tilts of each kind of stage are in ``bounds.noisy_steps`` (noisy sums) and
``bounds.gibbs_draws``. Prices are made from what ran and was kept, never from a promise of privacy. "Noisy draws" in
docs/guarantees.md.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import exp, fsum, inf, log
from typing import Any, Self, TypedDict

from bounds import _check
from bounds._arithmetic import least, log_inverse, outward, total
from bounds._check import count, nonnegative, positive, reals, text
from bounds.accounting.events import Event, event_to_json
from bounds.hypotheses import OF_PRICE, Hypothesis
from bounds.noisy_steps import checked_orders, epochs_cost, record_cost
from bounds.prices import Inputs, Price
from bounds.record import record
from bounds.transfer import Charge, range_nats

ORDERS = tuple(1.0 + 0.02 * 2.0 ** (k / 2) for k in range(17))
"""Orders α of a realised price, from 1.02 to 6.12: a grid that was fixed before any run."""

_ULP = 2.0**-52


class Known(TypedDict, total=False):
    """What the makers of realised prices hand on: the grid of orders, fixed before the run, and what is known of it."""

    orders: Sequence[float]
    weights: Sequence[float]
    hypotheses: Sequence[Hypothesis]


@record
class _Draw(Price):
    """A price that is proved by one exponential moment, so that one step pays for the prior and for one draw.

    Attributes:
        hypotheses: what is known of the run or draw.
    """

    hypotheses: tuple[Hypothesis, ...] = ()

    pays_for_a_draw = True

    @property
    def known(self) -> tuple[Hypothesis, ...]:
        """What is known of the run, in place of the caller's word."""
        return self.hypotheses

    def __post_init__(self) -> None:
        known = _check.records("hypotheses", self.hypotheses, Hypothesis)
        if strange := [
            one.name for one in known if one.standing != "unproved" and one.name not in OF_PRICE[self.prefix]
        ]:
            kind = type(self).__name__
            raise ValueError(f"hypotheses must be among those that {kind} needs, got {strange[0]!r}; leave it out.")
        object.__setattr__(self, "hypotheses", known)


@record
class WorstCaseSum(_Draw):
    """(√ln(1/failure_prob) + mu √(n/2))²: every record adds Σ_t ‖g_t(s)‖²/σ_t² ≤ mu² at most, whatever is released.

    Attributes:
        mu: the root of the most that one record may add; ``noisy_sum_worst_case`` makes it from the event.
        event: what ran, as JSON, for whoever checks it; empty where there is none.
        hypotheses: what is known of the run.
    """

    mu: float
    event: str = ""

    prefix = "noisy_sum_"
    reference = 'docs/guarantees.md, "Noisy sums"'

    def __post_init__(self) -> None:
        _check.fields(self, event=text)
        _Draw.__post_init__(self)

    def _nats(self, n: int, failure_prob: float) -> float:
        return outward(range_nats(2.0 * self.mu, n, failure_prob))

    @property
    def inputs(self) -> Inputs:
        """mu, and the event behind it."""
        return {"sum_mu": self.mu, **({"sum_event": self.event} if self.event else {})}


@record
class GibbsRange(_Draw):
    """(√ln(1/failure_prob) + spread √(n/8))²: a draw with potentials that range over ``spread`` nats at each record.

    Attributes:
        spread: sup_y ℓ_z(y) - inf_y ℓ_z(y) at most, for each z; of several draws the root of the sum of squares.
            ``gibbs_range`` makes it from a temperature.
        hypotheses: what is known of the draw.
    """

    spread: float

    prefix = "gibbs_range_"
    reference = 'docs/guarantees.md, "Gibbs draws"'

    def __post_init__(self) -> None:
        _check.fields(self, spread=nonnegative)
        _Draw.__post_init__(self)

    def _nats(self, n: int, failure_prob: float) -> float:
        return outward(range_nats(self.spread, n, failure_prob))  # c = (α-1) spread²/8

    @property
    def inputs(self) -> Inputs:
        """The range of the potentials."""
        return {"draw_spread": self.spread}


@record
class PoissonSum(_Draw):
    """min_α [n/(α-1) Σ_t ln m_α,t + α/(α-1) ln(1/failure_prob)] for secret Poisson batches of clipped contributions.

    The order is the best of a search that sees the event, n and failure_prob alone. Steps on all records may be among
    the others.

    Attributes:
        event: Gaussian steps, each on a Poisson sample or on all records; noise multipliers in clip norms.
        hypotheses: what is known of the run.
    """

    event: Event

    prefix = "poisson_sum_"
    reference = 'docs/guarantees.md, "Noisy sums on secret batches"'

    cost = staticmethod(record_cost)
    """α - 1 times the most that one record costs at order α."""

    def __post_init__(self) -> None:
        self.cost(self.event, 2.0)
        _Draw.__post_init__(self)

    @property
    def inputs(self) -> Inputs:
        """What ran."""
        return {"sum_event": event_to_json(self.event)}

    def _charge(self, n: int, failure_prob: float) -> Charge:
        nats, order = _least_secret(self.cost, self.event, n, failure_prob)
        return Charge(nats=nats, budget={"bound": failure_prob}, terms={"transfer_alpha": order})


@record
class OnceSum(PoissonSum):
    """min_α [n/(α-1) Σ_e ln m_α,e + α/(α-1) ln(1/failure_prob)] for epochs e with every record in one secret batch.

    Attributes:
        event: ``OnceAnEpoch``, once or composed; noise multipliers in clip norms.
        hypotheses: what is known of the run.
    """

    prefix = "once_sum_"
    reference = 'docs/guarantees.md, "Once an epoch"'
    cost = staticmethod(epochs_cost)


_CANDIDATES = (*(1.0 + 1.25**-k for k in range(60, 0, -1)), 2.0, 2.5, *map(float, range(3, 17)), 24.0, 32.0, 64.0)


@lru_cache(maxsize=1024)
def _least_secret(
    of_record: Callable[[Event, float], float], event: Event, n: int, failure_prob: float
) -> tuple[float, float]:
    """The least price over orders, and its order."""
    spent = log_inverse(failure_prob)

    def cost(order: float) -> float:
        excess = order - 1.0  # exact
        return total(outward(n * of_record(event, order)) / excess, order / excess * spent)

    order = min(_CANDIDATES, key=cost)
    near = [1.0 + (order - 1.0) * 1.25 ** (k / 8) for k in range(-8, 9)]
    return min((cost(order), order) for order in (*near, order))


@record
class _Realised(_Draw):
    """A price that was measured on the sample: Λ is the root of

        Σ_j w_j exp(((α_j - 1)/α_j) Λ - M_j/α_j) = 1/failure_prob

    with M_j = α_j times the sum of the tilts at α_j over all records and stages, as realised. It lies below every
    M_j/(α_j - 1) + α_j/(α_j - 1) ln(1/(w_j failure_prob)), so that the grid of orders is paid for.

    Attributes:
        records: how many records M is the sum of.
        orders, weights: the grid of α and what each order may spend of failure_prob; fixed before the run.
        hypotheses: what is known of the run.
    """

    records: int
    orders: tuple[float, ...] = ORDERS
    weights: tuple[float, ...] = ()

    measured = True

    def __post_init__(self) -> None:
        orders, weights = checked_orders(self.orders), reals("weights", self.weights, positive)
        if weights and (len(weights) != len(orders) or fsum(weights) > 1.0):
            raise ValueError(
                f"weights must be {len(orders)} numbers that sum to at most 1, one for each order, got {weights!r}; "
                f"leave them out for equal ones."
            )
        _check.fields(self, records=count)
        object.__setattr__(self, "orders", orders)
        object.__setattr__(self, "weights", weights)
        _Draw.__post_init__(self)

    def _moments(self) -> tuple[float, ...]:
        raise NotImplementedError

    @property
    def _grid(self) -> dict[str, str]:
        given = {"sum_orders": ", ".join(map(repr, self.orders))}
        return {**given, "sum_weights": ", ".join(map(repr, self.weights))} if self.weights else given

    def _nats(self, n: int, failure_prob: float) -> float:
        if n > self.records:
            raise ValueError(
                f"n must be at most the {self.records} records whose contributions were added up, got {n!r}; add up "
                f"those of all records that are counted."
            )
        weights = self.weights or (1.0 / len(self.orders),) * len(self.orders)
        return mixture_nats(self.orders, weights, self._moments(), failure_prob)


@record
class RealisedSum(_Realised):
    """The price of what was realised: V = Σ_i Σ_t ‖g_t(s_i; Y)‖²/σ_t², M_j = α_j (α_j - 1) V/2, without clipping.

    At one order α it is α V/2 + (α/(α-1)) ln(1/failure_prob).

    Attributes:
        contributions: V, over all records in all the batches that they were in; ``noisy_sum_realised`` adds it up.
        records: how many records V is the sum of.
        orders, weights: the grid of α and what each order may spend of failure_prob; fixed before the run.
        hypotheses: what is known of the run.
    """

    contributions: float

    prefix = "realised_sum_"
    reference = 'docs/guarantees.md, "Noisy sums"'

    def __post_init__(self) -> None:
        _check.fields(self, contributions=nonnegative)
        _Realised.__post_init__(self)

    @property
    def inputs(self) -> Inputs:
        """V and the grid."""
        return {"sum_contributions": self.contributions, **self._grid}

    def _moments(self) -> tuple[float, ...]:
        return tuple(outward(order * (order - 1.0) * (0.5 * self.contributions)) for order in self.orders)


@record
class _Moments(_Realised):
    """A realised price whose M_j were added up by the functions that know the tilts.

    Attributes:
        log_moments: M_j for each order.
        records, orders, weights, hypotheses: as for ``RealisedSum``.
    """

    log_moments: tuple[float, ...]

    called = "sum_log_moments"

    def __post_init__(self) -> None:
        _Realised.__post_init__(self)
        moments = reals("log_moments", self.log_moments, nonnegative)
        if len(moments) != len(self.orders):
            raise ValueError(
                f"log_moments must be {len(self.orders)} numbers, one for each order, got {len(moments)}; pass the "
                f"orders that they were added up for."
            )
        object.__setattr__(self, "log_moments", moments)

    @property
    def inputs(self) -> Inputs:
        """The sums and the grid."""
        return {self.called: ", ".join(map(repr, self.log_moments)), **self._grid}

    def _moments(self) -> tuple[float, ...]:
        return self.log_moments

    @classmethod
    def of(cls, moment: Callable[[float], float], records: int, known: Known, orders: Sequence[float] = ORDERS) -> Self:
        """The price whose M at an order is ``moment`` of it."""
        given: dict[str, Any] = {"orders": orders, **known}
        given["orders"] = checked_orders(given["orders"])
        return cls(log_moments=tuple(map(moment, given["orders"])), records=records, **given)


class RealisedPoissonSum(_Moments):
    """The price of secret Poisson batches: M_j sums ln m_α_j of all records at all steps, sampled or not.

    The M_j are sums of ``poisson_log_moments``, or from ``poisson_sum_realised``.
    """

    __slots__ = ()
    prefix = "realised_poisson_"
    reference = 'docs/guarantees.md, "Noisy sums on secret batches"'


class GibbsLosses(_Moments):
    """The price of a Gibbs draw by the losses that it reached, M_j = α_j Σ_i ψ_α_j(ℓ_i - m_i): see ``gibbs_losses``."""

    __slots__ = ()
    called = "losses_log_moments"
    prefix = "gibbs_losses_"
    reference = 'docs/guarantees.md, "Gibbs draws"'


class GibbsGradients(_Moments):
    """The price of a draw with convex potentials, by their gradients where it lies: see ``gibbs_gradients``."""

    __slots__ = ()
    called = "gradients_log_moments"
    prefix = "gibbs_gradients_"
    reference = 'docs/guarantees.md, "Gibbs draws"'


@lru_cache(maxsize=4096)
def mixture_nats(
    orders: tuple[float, ...], weights: tuple[float, ...], moments: tuple[float, ...], failure_prob: float
) -> float:
    """The root Λ of ``_Realised``, rounded up: a point where the sum is surely at least 1/failure_prob."""
    spent = log_inverse(failure_prob)
    best = min(
        total(moment / (order - 1.0), order / (order - 1.0) * total(spent, log_inverse(weight)))
        for order, weight, moment in zip(orders, weights, moments, strict=True)
    )
    if best == inf:
        return best

    def enough(nats: float) -> bool:
        parts = [
            ((order - 1.0) / order * nats, moment / order, -log(weight))
            for order, weight, moment in zip(orders, weights, moments, strict=True)
        ]
        logs = [gained - paid - grid for gained, paid, grid in parts]
        top = max(logs)
        if not top > -inf:
            return False
        size = max(gained + paid + abs(grid) for gained, paid, grid in parts if paid < inf)
        found = top + log(fsum(exp(one - top) for one in logs))
        return found - (16.0 * size + 32.0) * _ULP >= spent

    return least(enough, 0.0, best, relative=1e-13)
