"""No public function of bounds fails with anything but ValueError, whatever it is called with.

Arguments come from all of float64 (denormals, 1.8e308, infinities, NaN), from whole numbers of any size, and from types
that are no numbers. Warnings are errors. A certificate that comes back is one: a value in [0, 1] that survives JSON.
"""

import inspect
from dataclasses import is_dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import inf, nan

import bounds_by_mpmath as slow
import numpy as np
import pytest
from cells import CELLS, CLOSED
from cells import read_again as reread
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import (
    booleans,
    deferred,
    dictionaries,
    fixed_dictionaries,
    floats,
    integers,
    just,
    lists,
    none,
    one_of,
    sampled_from,
)
from mpmath import mpf

import bounds
from bounds import (
    Accounted,
    ApproxDP,
    Certificate,
    Cost,
    FailureBudget,
    GaussianDP,
    Independent,
    MaxInformation,
    Monitor,
    PoissonSum,
    PureDP,
    RealisedSum,
    Sharp,
    WorstCaseSum,
    ZeroConcentratedDP,
    accounting,
    catoni,
    control_false_negatives,
    exchangeable,
    exponential_mechanism_epsilon,
    linear,
    maurer,
    people_sample,
    thiemann,
)
from bounds.accounting import Composed, ExponentialMechanism, Gaussian, PoissonSampled, SelfComposed
from bounds.partition import log_mean_exp
from bounds.printed import Printed2018
from bounds.refined import ExcessStep
from bounds.reliability import ConfidenceBin
from bounds.transfer import transfer_cost

EXTREMES = (
    5e-324, -5e-324, 1e-310, 2.3e-308, 1e-300, 1e-200, 1e-100, 1e-30, 2.0**-53, 1e-9, 1e-3, 0.05, 0.3, 0.5,
    1.0 - 2.0**-53, 1.0, 1.0 + 2.0**-52, 2.0, 30.0, 745.2, 1e4, 1e9, 2.0**53, 1e100, 1e154, 1e155, 1e200, 1e300,
    1.7976931348623157e308, -1.0, -1e9, -1e300, -1.7976931348623157e308, 0.0, -0.0, inf, -inf, nan,
)  # fmt: skip
WHOLE = (0, 1, 2, 3, 7, 50, 600, 60_000, 10**6, 10**10, 10**11, 2**53, 2**53 + 1, 10**18, 10**400, -1, True)
SCALARS = (
    np.float64(0.3), np.float64(1.7e308), np.float64(5e-324), np.float32(0.1), np.float16(0.5), np.longdouble(0.2),
    np.int64(600), np.int8(7), np.uint8(200), np.uint64(2**63), np.bool_(True),
)  # fmt: skip
NO_NUMBERS = (
    None, "", "0.1", "inf", b"x", 1 + 2j, Decimal("0.1"), Fraction(1, 3), object(), {}, set(), (), [], [None], ["a"],
    [[0.1], [0.2, 0.3]], np.array(0.5), np.array([]), np.array([0.5]), np.array(["a"]), np.array([1j]), float, inf,
)  # fmt: skip

number = sampled_from(EXTREMES) | floats() | floats(0, 1)
count = sampled_from(WHOLE) | integers(1, 10**5)
anything = number | count | sampled_from(SCALARS) | sampled_from(NO_NUMBERS)


def likely(usual):
    """Mostly what is wanted, so that calls get past the first check."""
    return one_of(usual, usual, usual, usual, anything)


def made(kind, **fields):
    """Records of this kind that it does not refuse; something else now and then."""

    def build(values):
        try:
            return kind(**values)
        except ValueError:
            return None

    return likely(fixed_dictionaries(fields).map(build))


sequence = lists(number, max_size=5) | lists(floats(0, 1), min_size=1, max_size=5) | anything
table = sequence | lists(lists(number, min_size=2, max_size=2), min_size=1, max_size=3)
word = sampled_from(("replace-one", "add-remove", "accounted", "assumes stationarity", "kl", "")) | anything
unit = likely(floats(0, 1) | sampled_from((0.0, 5e-324, 1.0, 0.03)))
inside = floats(0, 1, exclude_min=True, exclude_max=True)
failure = likely(inside | sampled_from((0.05, 5e-324, 1e-300, 1 - 2.0**-53)))
nats, size = likely(number), likely(count)
adjacency = likely(sampled_from(("replace-one", "add-remove")))
known = {
    "adjacency": adjacency,
    "status": likely(sampled_from(("accounted", "exact mechanism", "assumes stationarity"))),
}
privacy = one_of(
    made(PureDP, epsilon=nats, **known),
    made(ApproxDP, epsilon=nats, delta=sampled_from((0.0, 5e-324, 1e-12, 1e-3)), **known),
    made(GaussianDP, mu=nats, **known),
    made(ZeroConcentratedDP, rho=nats, **known),
)
price = one_of(
    just(Independent()),
    made(Sharp, epsilon=nats),
    made(MaxInformation, epsilon=nats),
    made(Printed2018, epsilon=nats),
    made(Accounted, privacy=privacy),
    made(WorstCaseSum, mu=nats),
    made(RealisedSum, contributions=nats, records=size),
    made(PoissonSum, event=likely(deferred(lambda: event))),
)
shares = lists(floats(0, 1), min_size=3, max_size=3).map(lambda found: sorted(found, reverse=True))
excess = made(ExcessStep, shares=shares, kl_nats=nats, n=integers(1, 500))
ends = {"low": just(0.25), "high": just(0.75), "mean_confidence": just(0.5)}
one_bin = made(ConfidenceBin, count=size, correct=integers(0, 9), **ends)
certificate = just(maurer(risk=0.1, kl_nats=1.0, n=100, failure_prob=0.01))
ledger = just(FailureBudget(0.05).spend("Monte Carlo", 0.01).spend("PAC step", 0.03))
gaussian = made(Gaussian, noise_multiplier=number)
pure = made(ExponentialMechanism, epsilon=number, adjacency=adjacency)
rate = floats(0, 1) | sampled_from((5e-324, 1e-9, 1.0))
step = made(PoissonSampled, sample_rate=rate, event=gaussian)
event = one_of(
    gaussian,
    pure,
    step,
    made(SelfComposed, event=step, count=size),
    made(Composed, events=lists(one_of(gaussian, pure, step), max_size=3)),
)

UNITS = "promised target risk mean second_moment mean_squared_gap calibration_error share gamma brier"
FAILURES = (
    "failure_prob false_alarm_prob promise_failure_prob log_partition_failure_prob delta alpha tolerance smallest_delta"
)
SIZES = "n n_bound starts records batch_size draws count min_count k ways precision passes examples most_examples seed"
SEQUENCES = (
    "values weights chain confidence correct edges levels shares inverse_temperatures orders epsilons taus mean_losses "
    "type_i noise_multipliers squared_norms log_moments losses thresholds old new wealth "
    "mean_q mean_p std std_q std_p start_log_prior end_log_prior end_loss_nats"
)
# A strategy by the name of the argument; other names get any number, and now and then anything at all.
ARGUMENTS = {
    **dict.fromkeys(UNITS.split(), unit),
    **dict.fromkeys(FAILURES.split(), failure),
    **dict.fromkeys(SIZES.split(), size),
    **dict.fromkeys(SEQUENCES.split(), sequence),
    **dict.fromkeys(("forward_log_densities", "backward_log_densities"), table),
    **dict.fromkeys(("name", "by", "unit", "text", "of", "measures", "reference"), word),
    **known,
    "people": likely(just([1, 2, 2])),
    "steps": likely(lists(excess, max_size=2)),
    "bins": likely(lists(one_bin, max_size=3)),
    "price": likely(price),
    "privacy": likely(privacy),
    "event": likely(event),
    "sample": likely(just(people_sample(losses=[0.0, 1.0, 0.5], people=[1, 1, 2]))),
    "certificate": likely(certificate),
    "certificates": likely(lists(certificate, max_size=3)),
    "budget": likely(ledger | number),
    "bound": likely(just(lambda **at: maurer(**{"failure_prob": 0.1, **at}, kl_nats=1.0, n=9))),
    "resolution": likely(none() | sampled_from((0.05, 0.2))),
    "record": anything,
    "losses": likely(lists(floats(0, 1), min_size=3, max_size=3) | just([[0, 1], [1, 1], [0, 0]])),
    "scores": likely(lists(number, min_size=3, max_size=3) | just([[0.1, 0.9], [0.5, 0.5], [0.8, 0.2]])),
    "confidence": likely(lists(number, min_size=3, max_size=3)),
    "positives": likely(just([True, False, True])),
    "labels": likely(just([0, 1, 1])),
    "groups": likely(just(["a", "b", "a"])),
    "positions": likely(just([2, 0, 1])),
    "waiting": likely(just(((3, 0.5),))),
    "control": likely(just(control_false_negatives)),
    "promised": likely(certificate | inside),
    "alarm": likely(none() | integers(0, 9)),
    "ordered": likely(none() | booleans()),
    "costs": likely(lists(made(Cost, name=word, nats=number, per_example=number), max_size=2)),
    "hypotheses": likely(just(())),
    "terms": likely(dictionaries(st.text(max_size=2), number, max_size=2)),
    "inputs": likely(dictionaries(st.text(max_size=2), anything, max_size=2)),
}
KINDS = [thing for module in (bounds, accounting) for thing in vars(module).values() if is_dataclass(thing)]


def public(module):
    things = {name: thing for name, thing in vars(module).items() if name[0] != "_" and inspect.isfunction(thing)}
    return {f"{module.__name__}.{name}": thing for name, thing in things.items()}


def charged(name, failure_prob, term):
    return maurer(risk=0.1, kl_nats=1.0, n=9, failure_prob=0.01).charged(name, failure_prob, term=term)


def spent(name, amount):
    return FailureBudget(0.05).spend(name, amount)


def shared(ways):
    return FailureBudget(0.05).spend("x", 0.01).share("x", ways)


def split(total, a, b):
    return FailureBudget.split(total, a=a, b=b)


def watched(promised, failure_prob, losses, positions):
    monitor = Monitor.start(promised, failure_prob=failure_prob, false_alarm_prob=0.01)
    return str(monitor.observe(losses, positions=positions).observe(losses, positions=positions))


def read_again(text, losses):
    monitor = Monitor.start(0.1, failure_prob=0.05, false_alarm_prob=0.01).observe(losses)
    return Monitor.from_json(monitor.to_json().replace("null", str(text)))


def alarmed(old, new, failure_prob):
    return exchangeable(old=old, new=new).alarm(failure_prob)


METHODS = (charged, spent, shared, split, log_mean_exp, watched, read_again, alarmed)
READERS = (Certificate.from_dict, Certificate.from_json, Monitor.from_json)
OTHERS = {thing.__qualname__: thing for thing in (*METHODS, *READERS, *KINDS)}
CALLED = {**public(bounds), **public(accounting), **OTHERS}


def arguments(function):
    """A strategy for each argument; one with a default keeps it every other time."""
    fields = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            continue
        strategy = ARGUMENTS.get(name, nats)
        optional = parameter.default is not inspect.Parameter.empty
        fields[name] = just(parameter.default) | strategy if optional else strategy
    return fixed_dictionaries(fields)


def survives(function, values):
    """Call it; only a ValueError with a sentence may come out, and a certificate must be one."""
    try:
        found = function(**values)
    except ValueError as error:
        if not str(error):
            raise AssertionError("a refusal without a sentence") from error
        return
    if isinstance(found, Certificate):
        assert 0.0 <= found.value <= 1.0
        assert reread(found) == found
        assert found.total_nats >= 0.0 <= found.total_per_example
    if isinstance(found, float) and "gives NaN" not in inspect.getmodule(function).__doc__:
        assert found == found


def fuzz(function, calls, **options):
    @settings(
        max_examples=calls, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate], **options
    )
    @given(arguments(function))
    def run(values):
        survives(function, values)

    run()


every_function = pytest.mark.parametrize("name", CALLED)


@pytest.mark.every_case
@every_function
def test_only_value_errors_leave_a_public_function(name):
    fuzz(CALLED[name], 6)


@pytest.mark.slow
@every_function
def test_only_value_errors_in_ten_thousand_calls(name):
    fuzz(CALLED[name], 80, derandomize=False)


def test_a_transfer_at_hardly_any_failure_probability_is_a_number():
    claim = GaussianDP(mu=0.03, adjacency="add-remove", status="accounted")
    found = [transfer_cost(privacy=claim, n=60_000, failure_prob=10.0**-k).nats for k in (11, 12, 13)]
    assert found[0] <= found[1] <= found[2] < 1.2 * found[0]


ENDS = {
    "risk": [5e-324, 1e-308, 1.0 - 2.0**-53],
    "nats": [5e-324, 1e-308, 1e16, 1e308],
    "failure_prob": [5e-324, 1e-308, 0.999],
    "knob": [5e-324, 1e-200, 1e16, 1e308],
}


ENDED = [cell for cell in CELLS if cell.price in CLOSED and (cell.price == "sharp" or cell.formula == "maurer")]


@pytest.mark.every_case
@pytest.mark.parametrize("cell", ENDED, ids=str)
def test_values_at_the_ends_of_float64_are_safe(cell):
    """Never below what 50 digits say, though nothing but 1 may be left to say."""
    for name, values in ENDS.items():
        for value in values:
            if (cell.formula, value, name) == ("recursive", 5e-324, "failure_prob"):
                continue  # half of it is no number: refused
            made = cell(**{name: value})
            price = cell.at(value if name == "knob" else 0.02)
            for paid in made.costs:
                assert slow.cost(paid.name, made, price) <= paid.nats
            assert slow.is_safe(made, cell.formula)


@pytest.mark.parametrize(
    ("bound", "name", "values"),
    [
        (catoni, "inverse_temperature", [5e-324, 1e-300, 1e-280, 1e-20, 1e20, 1e300, 1.7e308]),
        (linear, "lam", [0.5 + 2.0**-53, 0.5 + 1e-12, 1e20, 1e300, 1.7e308]),
        (thiemann, "lam", [5e-324, 1e-300, 1e-20, 2.0 - 2.0**-52]),
    ],
)
def test_parameters_at_the_ends_of_float64_are_safe(bound, name, values):
    for value in values:
        for risk, kl_nats, n in ((0.0, 0.0, 1), (0.03, 5.0, 600), (1.0, 1e308, 2), (5e-324, 5e-324, 600)):
            made = bound(risk=risk, kl_nats=kl_nats, n=n, failure_prob=0.05, **{name: value})
            assert slow.is_safe(made)


def test_floats_that_are_rounded_up_are_not_lost_to_denormals():
    assert exponential_mechanism_epsilon(beta=1e-200, tau=1e-200, loss_range=1e-9, n=1) > 0.0
    for beta, tau, wide in ((5e-324, 3.0, 1e15), (1e-200, 1e-200, 1e300), (1e-320, 1e4, 1e4), (1e300, 1e-300, 1e300)):
        found = exponential_mechanism_epsilon(beta=beta, tau=tau, loss_range=wide, n=7)
        assert found >= 2 * mpf(beta) * mpf(tau) * mpf(wide) / 7
    made = maurer(risk=0.1, kl_nats=5e-324, n=7, failure_prob=0.05)
    assert made.costs[0].per_example >= mpf(5e-324) / 7


def test_whole_numbers_that_no_double_holds_are_kept():
    made = maurer(risk=0.1, kl_nats=1.0, n=2**53, failure_prob=0.05)
    assert made.value < 0.1 + 1e-6
    seeded = replace(made, inputs={"seed": 2**64})
    assert reread(seeded).inputs["seed"] == 2**64
