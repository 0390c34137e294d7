"""`bounds` as a calculator for people: every formula at every price (`pacdp bound`), and its accountant.

`pacdp privacy` asks the accountant for epsilon of a schedule, or for the noise that meets a target.
"""

import functools
import inspect
import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.table import Table

import bounds
from bounds._check import json_value
from bounds.accounting import (
    Composed,
    Gaussian,
    PoissonSampled,
    SelfComposed,
    best_true_positive_rate,
    calibrate_noise,
    privacy_epsilon,
)
from bounds.numbers import down_digits, up_digits
from bounds.prices import called
from pacdp.cli.commands.bounds import Bound, Privacy
from pacdp.cli.reading import bill, cost_name
from pacdp.cli.serial import Values
from pacdp.cli.terminal import nearest, refusing, table
from pacdp.predictions.sentence import headline
from pacdp.selfcert.plan import plan_routes

Known = Mapping[str, Any]
"""What was given, by the name of the argument that it becomes."""

_FORMULAS: tuple[Callable[..., bounds.Certificate], ...] = (
    bounds.maurer,
    bounds.langford_seeger,
    bounds.mcallester,
    bounds.quadratic,
    bounds.thiemann,
    bounds.tolstikhin_seldin,
    bounds.linear,
    bounds.catoni,
    bounds.kl_chernoff,
    bounds.chernoff,
    bounds.hoeffding,
)
_OTHERS: tuple[Callable[..., bounds.Certificate], ...] = (
    bounds.printed.dp_chernoff_2018,
    bounds.printed.dp_hoeffding_2018,
    bounds.printed.hybrid_pac_bayes,
)
_NOTIONS: dict[tuple[str, ...], Callable[..., bounds.PrivacyClaim]] = {
    ("epsilon",): bounds.PureDP,
    ("epsilon", "delta"): bounds.ApproxDP,
    ("mu",): bounds.GaussianDP,
    ("rho",): bounds.ZeroConcentratedDP,
}
"""What a promise of privacy is called, by the numbers that it is given by."""
_PRIVACY = ("epsilon", "delta", "mu", "rho")


Answer = tuple[Any, Sequence[str | Table]]
"""What `pacdp bound` says: JSON values for programs, lines and tables for people."""
_PRICES = (
    bounds.Independent,
    bounds.Sharp,
    bounds.MaxInformation,
    bounds.printed.Printed2018,
    bounds.Accounted,
)
CELLS: dict[str, tuple[Callable[..., Any], ...]] = {
    called(formula.__name__, price.prefix): (formula, price)
    for formula in _FORMULAS
    for price in _PRICES
} | {other.__name__: (other,) for other in _OTHERS}
"""Every bound by the name of its certificates: each formula with its price, and those that have none."""
_parameters = functools.cache(lambda made: inspect.signature(made).parameters)
FALSE_POSITIVE_RATE = 0.01
_LEAST_NOISE, _MOST_NOISE = 1e-100, 1e10  # what the accountant can resolve
_LEAST_RATE, _MOST_STEPS = 1e-9, 10**9


def arguments(given: Bound) -> Values:
    """What was given, by the name of the argument that it becomes.

    Raises:
        ValueError: more than one notion of privacy, or a delta without its epsilon.
    """
    known = _said(given)
    adjacency = known.pop("adjacency")
    told = tuple(name for name in _PRIVACY if name in known)
    if not told:
        if adjacency != "replace-one":
            raise ValueError(
                "--adjacency is that of --epsilon, --mu or --rho: give one of them, or leave it out"
            )
        return known
    if told not in _NOTIONS:
        raise ValueError(
            "give one notion of privacy: --epsilon, --epsilon with --delta, --mu or --rho"
        )
    numbers = {name: known.pop(name) for name in told}
    if told == ("epsilon",):
        if adjacency == "add-remove":  # what the dp_ bounds need is replace-one
            numbers["epsilon"] *= 2.0
        known["epsilon"], adjacency = numbers["epsilon"], "replace-one"
    known["privacy"] = _NOTIONS[told](**numbers, adjacency=adjacency, status="accounted")
    return known


def _said(given: Bound) -> Values:
    return {name: value for name, value in asdict(given).items() if value is not None}


def compute(given: Bound) -> bounds.Certificate:
    """One bound.

    Raises:
        ValueError: no such bound, or something it needs was not given.
    """
    name = given.name
    if name not in CELLS:
        raise ValueError(
            f"no bound is called {name!r}: {nearest(name, ['compare', 'plan', *CELLS])}"
        )
    made = _tried(name, arguments(given))
    if isinstance(made, str):
        raise ValueError(f"{name}: {made}")
    return made


def single(given: Bound) -> Answer:
    """One bound as a sentence, with its costs, terms, hypotheses and source.

    Raises:
        ValueError: see :func:`compute`; or something was given that the bound does not use.
    """
    made = compute(given)
    _require_used(given, *CELLS[given.name])
    paid = [(cost_name(cost.name), cost.nats, cost.per_example) for cost in made.costs]
    if paid:
        paid.append(("in all", made.total_nats, made.total_per_example))
    return made.to_dict(), [
        headline(made),
        f"{made.name}: {made.measures} of {made.of} <= {_value(made)}, failing with probability at most "
        f"{made.failure_prob:g}; {made.status}",
        *(f"  {cost:24} {up_digits(nats, 8)} nats, {up_digits(share, 8)} a record" for cost, nats, share in paid),
        *(f"  {term:24} {value:.8g}" for term, value in made.terms.items()),
        *(f"rests on: {one}" for one in made.hypotheses),
        f"source: {made.reference}",
    ]  # fmt: skip


def compare(given: Bound) -> Answer:
    """Every bound that what is given suffices for, smallest first; what the others lack, or why they refuse."""
    known = arguments(given)
    _require_used(given, *(made for cell in CELLS.values() for made in cell))
    tried = {name: _tried(name, known) for name in CELLS}
    others = {name: made for name, made in tried.items() if isinstance(made, str)}
    certificates = sorted((made for made in tried.values() if not isinstance(made, str)), key=float)
    if not certificates:
        name, reason = next(iter(others.items()))
        raise ValueError(f"no bound applies to what was given; {name}: {reason}")
    needs = [[f"{one.name} ({one.standing})" for one in made.hypotheses] for made in certificates]
    shared = [name for name in dict.fromkeys(needs[0]) if all(name in own for own in needs)]
    rows = [
        (made.name, f"{made.measures}, {made.of}", _value(made), made.status, bill(made),
         "; ".join(name for name in dict.fromkeys(own) if name not in shared))
        for made, own in zip(certificates, needs, strict=True)
    ]  # fmt: skip
    why = dict.fromkeys(others.values())
    return {"certificates": [made.to_dict() for made in certificates], "not_applicable": others}, [
        table("each bound by itself; quoting the smallest of J needs failure_prob / J",
              ("bound", "of", "at most", "status", "pays", "rests also on"), rows, numbers=("at most",)),
        *([f"each rests on: {'; '.join(shared)}; by whoever calls"] if shared else []),
        *(f"not applicable: {', '.join(name for name in others if others[name] == one)}: {one}" for one in why),
    ]  # fmt: skip


def plan(given: Bound) -> Answer:
    """What each route would promise at which split, what that assumes, and which one to take."""
    if given.n is None or given.expected_error is None:
        raise ValueError("plan needs --n and --expected-error: give them")
    _require_used(given, plan_routes)
    made = _made(plan_routes, _said(given))
    names = "route", "split", "trained on", "bound on", "expected error", "at most", "at price zero"
    rows = [
        (one.route, one.split, f"{one.train:,}", f"{one.bound:,}", up_digits(one.expected_error, 3),
         *("1 (vacuous)" if value >= 1.0 else up_digits(value, 4) for value in (one.value, one.at_price_zero)))
        for one in made.routes
    ]  # fmt: skip
    title = "forecasts, not certificates: what each route would promise"
    assumed = (f"assumed: {said}" for said in made.assumed)
    shown = table(title, names, rows, numbers=names[2:])
    return made.to_dict(), [shown, *assumed, *made.refused, made.recommendation()]


def _require_used(given: Bound, *made: Callable[..., Any]) -> None:
    """Refuse an option that none of these functions takes: an answer that leaves it out would say too much."""
    used = {"name", "json"}.union(*map(_parameters, made))
    if {"privacy", "epsilon"} & used:
        used |= {"adjacency", *_PRIVACY}
    others = [
        f"--{one.name.replace('_', '-')}"
        for one in fields(given)
        if one.name not in used and getattr(given, one.name) != one.default
    ]
    if others:
        raise ValueError(f"{given.name} does not use {', '.join(others)}: leave that out")


def _tried(name: str, known: Known) -> bounds.Certificate | str:
    """The bound of that name, or why it cannot be had: the options that it lacks, or its refusal."""
    formula, *prices = CELLS[name]
    asked = {one.name: one for made in CELLS[name] for one in _parameters(made).values()}
    lacking = [
        "one of --epsilon, --mu, --rho" if one == "privacy" else f"--{one.replace('_', '-')}"
        for one, parameter in asked.items()
        if parameter.default is parameter.empty and one not in {*known, "price"}
    ]
    if lacking == ["--epsilon"] and "privacy" in known:
        return "needs --epsilon alone, pure privacy: private_ bounds take --delta, --mu and --rho"
    if lacking:
        return f"needs {', '.join(lacking)}"
    try:
        for price in prices:
            known = {**known, "price": _made(price, known)}
        return _made(formula, known)
    except ValueError as error:
        return str(error)


def _made(of: Callable[..., Any], known: Known) -> Any:
    return of(**{name: known[name] for name in _parameters(of) if name in known})


def _value(made: bounds.Certificate) -> str:
    return "1 (vacuous)" if made.vacuous else up_digits(made.value, 6)


def answered(question: Privacy) -> tuple[Values, list[str]]:
    """The epsilon of the schedule, or of the schedule scaled to the target: as JSON values and in lines.

    Rates below 1e-9 are counted as 1e-9. In lines every number is rounded to its safe side; in JSON null stands for an
    infinite epsilon.

    Raises:
        ValueError: something is missing, given twice or out of range, or no noise meets the target.
    """
    runs, rate, scale = _runs(question), question.sample_rate, None
    counted = max(rate, _LEAST_RATE) if rate > 0.0 else rate
    event = Composed(events=tuple(
        SelfComposed(event=PoissonSampled(sample_rate=counted, event=Gaussian(noise_multiplier=noise)), count=count)
        for noise, count in runs
    ))  # fmt: skip
    privacy = {"delta": question.delta, "adjacency": question.adjacency}
    if question.epsilon is None:
        bound = privacy_epsilon(event=event, **privacy)
    else:
        made = calibrate_noise(event=event, epsilon=question.epsilon, **privacy)
        event, bound, scale = made.event, made.achieved, made.scale
        runs = [(noise * made.scale, count) for noise, count in runs]
    attack = best_true_positive_rate(
        event=event, adjacency=question.adjacency, false_positive_rate=FALSE_POSITIVE_RATE
    )
    steps = sum(count for _, count in runs)
    found = {name: None if value == math.inf else value for name, value in bound.to_dict().items()}
    values: Values = {
        "format": "pacdp-privacy/1", **found, "sample_rate": rate, "steps": steps, "runs": list(map(list, runs)),
        "scale": scale,
        "attack": {"false_positive_rate": FALSE_POSITIVE_RATE, "true_positive_rate": attack},
    }  # fmt: skip
    one, first, last = len(runs) == 1, repr(runs[0][0]), repr(runs[-1][0])
    noise = f"noise multiplier {first}" if one else f"noise multipliers from {first} to {last}"
    scaled = noise if one else f"factor {scale!r} on every noise multiplier of the schedule"
    return values, [
        *([] if scale is None else [scaled]),
        f"epsilon <= {up_digits(bound.upper, 6)} at delta {bound.delta:g}, {bound.adjacency} neighbours",
        f"  lower      {down_digits(bound.lower, 6)}",
        f"  estimate   {up_digits(bound.estimate, 6)}",
        f"  upper      {up_digits(bound.upper, 6)}",
        f"  status     {bound.status} ({bound.method})",
        f"  schedule   {steps} steps on Poisson batches at sample rate {rate:g}, {noise}",
        f"best attacker: finds the record with probability <= {up_digits(attack, 6)} at "
        f"{FALSE_POSITIVE_RATE:.0%} false positives",
    ]


def _runs(question: Privacy) -> list[tuple[float, int]]:
    """(noise multiplier, steps), equal steps in a row counted together."""
    noise, steps = question.noise_multiplier, question.steps
    if question.schedule is not None:
        if noise is not None or steps is not None:
            raise ValueError(
                "--schedule says noise multipliers and steps: leave --noise-multiplier and --steps out"
            )
        values = read_schedule(question.schedule)
        return [(value, len(list(group))) for value, group in groupby(values)]
    if steps is None:
        raise ValueError("give --steps, or --schedule with a file of noise multipliers")
    if not 1 <= steps <= _MOST_STEPS:
        raise ValueError(f"--steps must be at least 1 and at most a thousand million, got {steps}")
    if (noise is None) == (question.epsilon is None):
        raise ValueError(
            "give --noise-multiplier to learn epsilon, or --epsilon to learn the noise multiplier"
        )
    return [(1.0 if noise is None else _noise(noise, "--noise-multiplier"), steps)]


def read_schedule(path: Path) -> list[float]:
    """One noise multiplier a step: a JSON list, or text with a number a line.

    Raises:
        ValueError: the file cannot be read, or holds something else.
    """
    with refusing(f"{path} is no list of noise multipliers that can be read"):
        text = path.read_text(encoding="utf-8-sig").strip()
        values = json_value(text) if text[:1] in ("[", "{") else text.split()
        if not isinstance(values, list):
            raise TypeError("a JSON list was expected")
    if not values:
        raise ValueError(f"{path} holds no noise multiplier: a schedule has at least one step")
    return [_noise(value, f"{path}, step {step}") for step, value in enumerate(values, start=1)]


def _noise(value: Any, where: str) -> float:
    noise = math.nan
    if not isinstance(value, bool):
        with suppress(TypeError, ValueError, OverflowError):
            noise = float(value)
    if not _LEAST_NOISE <= noise <= _MOST_NOISE:
        raise ValueError(
            f"{where}: a noise multiplier must be a number above 0 (up to 1e10), got {reprlib.repr(value)}"
        )
    return noise
