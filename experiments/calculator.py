"""`pacdp bound`: the functions of `bounds` as a calculator for people."""

import inspect
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import bounds

Bound = Callable[..., bounds.Certificate]

# what a person can give on a command line; records of privacy are made from mu, rho, epsilon and delta
_PRIOR = "the prior was fixed before the n examples were seen"
_PRIVATE_PRIOR = "the prior came from a mechanism with this privacy, on the same n independent examples"
_PRIVATE_WEIGHTS = "the weights came from a mechanism with this privacy, on the same n independent examples"
_ASSUMES: dict[str, str] = {
    **dict.fromkeys(("maurer", "mcallester", "quadratic", "thiemann", "linear", "catoni"), _PRIOR),
    **dict.fromkeys(("dp_pac_bayes", "dp_pac_bayes_max_information", "dp_pac_bayes_2018"), _PRIVATE_PRIOR),
    **dict.fromkeys(
        ("dp_kl_chernoff", "dp_chernoff", "dp_hoeffding", "dp_chernoff_2018", "dp_hoeffding_2018"), _PRIVATE_WEIGHTS
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What is known. Which of it a bound needs, `pacdp bound NAME` says when it is missing."""

    risk: float | None = None
    """Empirical risk in [0, 1] on the n examples."""
    kl_nats: float | None = None
    """KL divergence of posterior from prior, in nats."""
    n: int | None = None
    """Independent examples."""
    failure_prob: float = 0.05
    """Probability that the bound fails."""
    epsilon: float | None = None
    """Pure differential privacy, replace-one; with --delta, approximate differential privacy."""
    lam: float | None = None
    """Parameter of the linear and Thiemann bounds."""
    inverse_temperature: float | None = None
    """Catoni's C, fixed before the examples were seen."""

    def arguments(self) -> dict[str, Any]:
        """What was given, by the name of the argument it becomes."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def catalogue() -> dict[str, Bound]:
    """The bounds that this command computes, by name."""
    return {name: getattr(bounds, name) for name in _ASSUMES}


def assumption(name: str) -> str:
    """What must be true of prior or weights for the bound to apply, one sentence."""
    return _ASSUMES[name]


def compute(name: str, given: Given) -> bounds.Certificate:
    """One bound.

    Raises:
        ValueError: no such bound, or something it needs was not given.
    """
    found = catalogue()
    if name not in found:
        raise ValueError(f"no bound is called {name!r}: choose compare, plan or one of {', '.join(found)}")
    missing = _missing(found[name], given)
    if missing:
        flags = ", ".join("--" + argument.replace("_", "-") for argument in missing)
        raise ValueError(f"{name} needs {flags}: give it")
    return _call(found[name], given.arguments())


def compare(given: Given) -> tuple[list[bounds.Certificate], dict[str, list[str]]]:
    """Every bound that what is given suffices for, smallest first; for the others, what they lack."""
    certificates, lacking = [], {}
    for name, bound in catalogue().items():
        missing = _missing(bound, given)
        if missing:
            lacking[name] = missing
        else:
            certificates.append(_call(bound, given.arguments()))
    return sorted(certificates, key=float), lacking


def plan_examples(name: str, given: Given, *, target: float) -> int | None:
    """The fewest examples at which the bound is at most ``target``, all else equal; None if 2^40 do not suffice.

    The bound falls with n, so the answer is found by doubling and bisection.
    """
    bound = catalogue()[name]
    arguments = given.arguments()

    def enough(n: int) -> bool:
        return float(_call(bound, {**arguments, "n": n})) <= target

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


def plan_draws(*, risk: float, slack: float, failure_prob: float) -> int:
    """Independent [0, 1] terms after which the Monte Carlo upper bound on a risk is at most risk + slack.

    kl⁻¹(risk, ln(1/failure_prob)/N) <= risk + slack exactly when N >= ln(1/failure_prob) / kl(risk‖risk + slack).
    """
    if not (slack > 0 and risk + slack < 1):
        raise ValueError(f"expected slack > 0 and risk + slack < 1, got risk={risk} and slack={slack}")
    return math.ceil(-math.log(failure_prob) / float(bounds.binary_kl(risk, risk + slack)) * (1 + 1e-12))


def _missing(bound: Bound, given: Given) -> list[str]:
    known = given.arguments()
    parameters = inspect.signature(bound).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.name not in known]


def _call(bound: Bound, arguments: dict[str, Any]) -> bounds.Certificate:
    accepted = inspect.signature(bound).parameters
    return bound(**{name: value for name, value in arguments.items() if name in accepted})
