"""`pacdp bound`: every formula of `bounds` at every price, as a calculator for people."""

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import bounds
from bounds._assemble import called
from bounds.prices import Charge
from pacdp.cli.parsing import nearest
from pacdp.selfcert.plan import RoutePlan, plan_routes

Bound = Callable[..., bounds.Certificate]

_POSTERIOR: tuple[Bound, ...] = (
    bounds.maurer,
    bounds.langford_seeger,
    bounds.mcallester,
    bounds.quadratic,
    bounds.thiemann,
    bounds.tolstikhin_seldin,
    bounds.linear,
    bounds.catoni,
)
_WEIGHTS: tuple[Bound, ...] = (bounds.kl_chernoff, bounds.chernoff, bounds.hoeffding)
_OTHERS: tuple[Bound, ...] = (
    bounds.printed.dp_chernoff_2018,
    bounds.printed.dp_hoeffding_2018,
    bounds.printed.hybrid_pac_bayes,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What is known. What a bound needs and was not given, it says."""

    risk: float | None = None
    """Empirical risk in [0, 1]."""
    kl_nats: float | None = None
    """KL divergence of posterior from prior, in nats."""
    n: int | None = None
    """Independent records: examples, or people where the risk is a mean over people."""
    n_bound: int | None = None
    """For a prior that saw other examples freely: the examples that the bound uses."""
    failure_prob: float = 0.05
    """Probability that the bound fails."""
    epsilon: float | None = None
    """Pure differential privacy of what the records told prior or weights; with --delta, approximate."""
    delta: float | None = None
    adjacency: Literal["replace-one", "add-remove"] = "replace-one"
    """The adjacency of epsilon, mu and rho."""
    mu: float | None = None
    """Gaussian differential privacy."""
    rho: float | None = None
    """Zero-concentrated differential privacy."""
    lam: float | None = None
    """Lambda of the linear and Thiemann bounds."""
    inverse_temperature: float | None = None
    """Catoni's C, fixed before the examples were seen."""

    def arguments(self) -> dict[str, Any]:
        """What was given, by the name of the argument that it becomes.

        Raises:
            ValueError: more than one notion of privacy, or a delta without its epsilon.
        """
        known = {name: value for name, value in asdict(self).items() if value is not None}
        adjacency = known.pop("adjacency")
        notions = [name for name in ("epsilon", "mu", "rho") if name in known]
        if len(notions) > 1 or ("delta" in known and notions != ["epsilon"]):
            raise ValueError(
                "give one notion of privacy: --epsilon, --epsilon with --delta, --mu or --rho"
            )
        promise: dict[str, Any] = {"adjacency": adjacency, "status": "accounted"}
        match notions:
            case ["epsilon"] if "delta" in known:
                pair = {"epsilon": known.pop("epsilon"), "delta": known.pop("delta")}
                known["privacy"] = bounds.ApproxDP(**pair, **promise)
            case ["epsilon"]:
                if adjacency == "add-remove":
                    known["epsilon"] *= 2.0  # what the dp_ bounds need is replace-one
                known["privacy"] = bounds.PureDP(
                    epsilon=known["epsilon"], adjacency="replace-one", status="accounted"
                )
            case ["mu"]:
                known["privacy"] = bounds.GaussianDP(mu=known.pop("mu"), **promise)
            case ["rho"]:
                known["privacy"] = bounds.ZeroConcentratedDP(rho=known.pop("rho"), **promise)
            case _:
                pass
        return known


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal(Given):
    """What is known, and what is wanted.

    With --n and --expected-error in place of these: which route to a certificate to take, and how to split the records,
    before anything is trained.
    """

    target: float
    """The value that a bound should reach; for draws, the Monte Carlo upper bound on the empirical risk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteQuestion:
    """Which route to a certificate to take, and how many records go where, before anything is trained."""

    n: int
    """Independent records in all: examples, or people."""
    expected_error: float
    """How often a predictor that is trained on all n of them is expected to err, in [0, 1]."""
    target: float | None = None
    """The value that the certificate should reach."""
    failure_prob: float = 0.05
    """Probability that the bound fails."""
    exponent: float = 0.5
    """The error is taken to fall with this power of the number of training records; 0: not at all."""
    kl_nats: float | None = None
    """Divergence of a PAC-Bayes posterior from its prior, in nats; by default in proportion to the bound's records."""
    kept_share: float | None = None
    """The share of the records that compression keeps; by default 2.5 times the expected error."""
    price_share: float = 0.01
    """For noisy gradients: V/n, squared norms of gradients over the variance of the noise, a record."""

    def plan(self) -> RoutePlan:
        """What each route would promise."""
        return plan_routes(**asdict(self))


def _priced(formula: Bound, price: type[bounds.Price]) -> Bound:
    """A formula at a kind of price, as a function of the arguments of both."""
    own = [p for p in inspect.signature(formula).parameters.values() if p.name != "price"]
    asked = [p.replace(kind=p.KEYWORD_ONLY) for p in inspect.signature(price).parameters.values()]

    def bound(**given: Any) -> bounds.Certificate:
        paid = price(**{p.name: given.pop(p.name) for p in asked})
        return formula(**given, price=paid)

    needed = sorted([*own, *asked], key=lambda p: p.default is not p.empty)
    bound.__signature__ = inspect.Signature(needed)  # type: ignore[attr-defined]
    return bound


class _Accounted(bounds.Accounted):
    """``Accounted``, which remembers what it charged: a comparison and a plan ask for the same n many times."""

    def charge(self, *, n: int, failure_prob: float) -> Charge:
        """See :class:`bounds.Price`."""
        return _charge(self.privacy, n, failure_prob)


@functools.lru_cache(maxsize=4096)
def _charge(privacy: bounds.PrivacyClaim, n: int, failure_prob: float) -> Charge:
    return bounds.Accounted(privacy=privacy).charge(n=n, failure_prob=failure_prob)


_PRICES = (
    bounds.Independent,
    bounds.Sharp,
    bounds.MaxInformation,
    bounds.printed.Printed2018,
    _Accounted,
)


@functools.cache
def cells() -> dict[str, Bound]:
    """Every bound by the name of its certificates: each formula at each price, and those that are none of these."""
    found: dict[str, Bound] = {}
    for formula in (*_POSTERIOR, *_WEIGHTS):
        for price in _PRICES:
            found[called(formula.__name__, price.prefix)] = _priced(formula, price)
    return found | {other.__name__: other for other in _OTHERS}


def compute(name: str, given: Given) -> bounds.Certificate:
    """One bound.

    Raises:
        ValueError: no such bound, or something it needs was not given.
    """
    if name not in cells():
        raise ValueError(
            f"no bound is called {name!r}: {nearest(name, ['compare', 'plan', *cells()])}"
        )
    arguments = given.arguments()
    missing = _missing(name, arguments)
    if missing:
        raise ValueError(
            f"{name} needs {', '.join(_flag(argument) for argument in missing)}: give it"
        )
    return _call(name, arguments)


def compare(given: Given) -> tuple[list[bounds.Certificate], dict[str, str]]:
    """Every bound that what is given suffices for, smallest first; what the others lack, or why they refuse."""
    arguments = given.arguments()
    certificates: list[bounds.Certificate] = []
    others: dict[str, str] = {}
    for name in cells():
        missing = _missing(name, arguments)
        if missing:
            others[name] = "needs " + ", ".join(_flag(argument) for argument in missing)
            continue
        try:
            certificates.append(_call(name, arguments))
        except ValueError as error:
            others[name] = str(error)
    return sorted(certificates, key=float), others


def plan_examples(goal: Goal) -> dict[str, int | None]:
    """For each bound, the fewest records at which it reaches the target, all else equal; None beyond 2^40.

    The bounds fall with n, so doubling and bisection find it. (Bounds that need a parameter fixed for one n are left
    out unless it is given.)
    """
    arguments = {**goal.arguments(), "n": goal.n or 1}
    return {
        name: _fewest(name, arguments, goal.target)
        for name in cells()
        if not _missing(name, arguments)
    }


def plan_draws(*, risk: float, target: float, failure_prob: float) -> int:
    """Independent [0, 1] terms after which the Monte Carlo upper bound on a mean of ``risk`` is at most ``target``.

    kl⁻¹(risk, ln(1/failure_prob)/N) <= target exactly when N >= ln(1/failure_prob) / kl(risk‖target).
    """
    if not 0 <= risk < target < 1:
        raise ValueError(f"expected 0 <= risk < target < 1, got risk={risk} and target={target}")
    return math.ceil(-math.log(failure_prob) / float(bounds.binary_kl(risk, target)) * (1 + 1e-12))


def _fewest(name: str, arguments: dict[str, Any], target: float) -> int | None:
    def enough(n: int) -> bool:
        return float(_call(name, {**arguments, "n": n})) <= target

    high = 1
    while not enough(high):
        high *= 2
        if high > 2**40:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _missing(name: str, arguments: dict[str, Any]) -> list[str]:
    parameters = inspect.signature(cells()[name]).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.name not in arguments]


def _call(name: str, arguments: dict[str, Any]) -> bounds.Certificate:
    bound = cells()[name]
    accepted = inspect.signature(bound).parameters
    return bound(
        **{argument: value for argument, value in arguments.items() if argument in accepted}
    )


def _flag(argument: str) -> str:
    if argument == "privacy":
        return "one of --epsilon, --mu, --rho"
    return "--" + argument.replace("_", "-")
