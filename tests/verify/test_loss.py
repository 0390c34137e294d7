"""The checker's brackets of composed privacy losses: around the truth where it is known, and around each other."""

import json
from collections import Counter
from itertools import product
from math import comb, erfc, exp, expm1, inf, pi, sqrt

import numpy as np
import pytest
from flint import arb

from bounds import Accounted, GaussianDP, kl_chernoff
from bounds.accounting import (
    Composed,
    ExponentialMechanism,
    Gaussian,
    LastAlone,
    NonPrivate,
    PoissonSampled,
    SelfComposed,
    event_to_dict,
    privacy_epsilon,
    privacy_record,
)
from bounds.transfer import transfer_cost
from pacdp.verify import events, loss, loss_of_a_step
from pacdp.verify.arithmetic import ball
from pacdp.verify.certificate import check_certificate
from pacdp.verify.claim import DOES_NOT, Unchecked, Wrong
from pacdp.verify.formulas.transfer import Transfer, excess, gaussian
from tests.marks import every_case, near, parametrize, refusal


def _phi(z):
    return 0.5 * erfc(-z / sqrt(2.0))


def _stick(mu, epsilon):
    return _phi(mu / 2 - epsilon / mu) - exp(epsilon) * _phi(-mu / 2 - epsilon / mu)


def _ran(rate, noise, times):
    return frozenset({(events.Step(rate, noise), times)})


@parametrize("mu", [0.05, 0.5, 2.0])
def test_full_batches_are_one_gaussian(mu):
    for resolution, epsilon in product((0.1, 0.02), (0.0, mu / 2, 2 * mu)):
        made, exact = (loss.compose(_ran(1.0, sqrt(50) / mu, 50), False, resolution), _stick(mu, epsilon))
        for added in (False, True):
            low, high = made.stick(epsilon, added=added)
            assert low <= exact * (1 + 1e-12)
            assert high >= exact * (1 - 1e-12)
            assert resolution > 0.02 or high - low <= 0.01 * exact + 1e-9, (epsilon, low, high)
    replaced = loss.compose(_ran(1.0, sqrt(50) / mu, 50), True, 0.02)
    low, high = replaced.stick(mu)
    assert low <= _stick(2 * mu, mu) <= high


def _sampled(rate, times, *inner):
    return SelfComposed(event=PoissonSampled(sample_rate=rate, event=Composed(events=inner)), count=times)


def _noise(multiplier):
    return Gaussian(noise_multiplier=multiplier)


CHOICE = ExponentialMechanism(epsilon=sqrt(0.1), adjacency="add-remove")
EVENTS = (_sampled(0.01, 300, _noise(1.1)), _sampled(0.002, 5000, _noise(12.0)), _sampled(0.3, 40, _noise(4.0)))
P3SGD = _sampled(0.1, 100, _noise(0.95), CHOICE), "add-remove"


@every_case(("event", "adjacency"), [P3SGD, *product(EVENTS, ["add-remove", "replace-one"])])
def test_epsilon_lies_in_both_accountants_brackets(event, adjacency):
    theirs = privacy_epsilon(event=event, delta=1e-5, adjacency=adjacency)
    replaced = adjacency == "replace-one"
    steps = Counter(events.steps_of(event_to_dict(event), replaced))
    made = loss.compose(frozenset(steps.items()), replaced, 0.01)
    ends = [[made.stick(epsilon, added=added) for added in (False, True)] for epsilon in (theirs.lower, theirs.upper)]
    assert max(high for _, high in ends[0]) >= 1e-5  # no mechanism of this description has less than lower
    assert max(low for low, _ in ends[1]) <= 1e-5
    assert max(high for _, high in ends[1]) <= 1.01e-5
    assert loss.private(steps, theirs.upper, 1e-5, replaced)
    assert loss.private(steps, 0.98 * theirs.upper, 1e-5, replaced) is False
    fewer = Counter({step: 9 * times // 10 for step, times in steps.items()})
    assert loss.private(fewer, 0.98 * theirs.upper, 1e-5, replaced)


def test_divergence_of_a_gaussian_by_closed_form_and_by_composition():
    mu, e, a = 0.05, 0.1, 0.002
    t = Transfer(1, ball(e), ball(a), arb(1), arb(1), ball(1e-12))
    exact = float(gaussian(ball(mu), t))
    assert exact == near(4.969694939521e-4, rel=1e-9)  # docs of the theory, H_gdp(.002, .05, 1.1)
    made = loss.compose(_ran(1.0, sqrt(50) / mu, 50), False, 0.02)
    low, high = excess(made, t)
    assert low <= exact <= high
    assert high - low < 0.02 * exact


def test_what_is_too_cheap_does_not_follow_and_a_little_more_does():
    cost = transfer_cost(privacy=GaussianDP(mu=0.1, adjacency="add-remove", status="accounted"), n=60_000,
                         failure_prob=0.05)  # fmt: skip
    alpha, a, *split = map(ball, cost.terms.values())
    t = Transfer(60_000, alpha - 1, a, *split, arb(0))
    exact = t.nats(gaussian(arb(0.1), t))
    assert exact <= cost.nats <= exact * (1 + 1e-9)


def test_events_that_are_not_covered_say_so():
    step = _noise(2.0)
    sample = PoissonSampled(sample_rate=0.1, event=step)
    other = ExponentialMechanism(epsilon=0.1, adjacency="replace-one")
    choice = ExponentialMechanism(epsilon=0.1, adjacency="add-remove")

    def steps(event, replaced=False):
        return events.steps_of(event_to_dict(event), replaced)

    again = {"event": "PoissonSampled", "sample_rate": 0.5, "inner": event_to_dict(sample)}
    assert events.steps_of(again) == [events.Step(0.05, 2.0)]  # a sample of a sample
    assert steps(_sampled(0.1, 1, step, choice)) == [events.Step(0.1, 2.0, (0.1,))]
    assert steps(choice, True) == [events.Step(1.0, inf, (0.2,))]
    two = {**again, "inner": {"event": "Composed", "inner": [again["inner"], event_to_dict(step)]}}
    with pytest.raises(Unchecked):
        events.steps_of(two)
    for event, replaced in ((_sampled(0.1, 1, step, choice), True), (other, False)):
        with pytest.raises(Unchecked):
            steps(event, replaced)
    bare = Composed(events=(sample, NonPrivate()))
    with refusal("without any protection", Wrong):
        loss.private(steps(bare), 5.0, 1e-5, False)
    last = LastAlone(steps=3, contraction=0.5, event=step)
    for event in (step, sample, choice, bare, last, _sampled(0.1, 2, step), Composed(events=(sample, last))):
        whole = event_to_dict(event)
        for kind in ("Gaussian", whole["event"]):  # in an export a word beside would tell of the data
            noted = json.loads(json.dumps(whole).replace(f'"{kind}"', f'"{kind}", "note": "the third record is a 7"'))
            if noted != whole:
                with refusal("has note too", Wrong):
                    events.steps_of(noted)


@every_case(
    ("rate", "noise", "times", "epsilon", "replaced"),
    [(0.01, 0.0574, 1, 200.0, True), (1e-4, 0.0877, 1000, 200.0, True), (1.0, 1e-3, 1, 6e5, False)],
)
def test_so_little_noise_that_arithmetic_fails_cannot_be_checked(rate, noise, times, epsilon, replaced):
    """Runs at budgets such as 200 and 1000, which stand for training without privacy, are as honest as others."""
    ran = [events.Step(rate, noise)] * times
    with np.errstate(all="ignore"), refusal("too large for this checker", Unchecked):
        loss.private(ran, epsilon, 1e-5, replaced)
    # but what more noise would cost refutes
    assert loss.private(ran, 0.1, 1e-5, replaced) is False


@every_case(("noise", "times"), [(0.1654, 40), (0.2, 30)])
def test_little_noise_on_all_records_is_judged_by_its_closed_form(noise, times):
    event = SelfComposed(event=_noise(noise), count=times)
    exact = privacy_epsilon(event=event, delta=1e-5, adjacency="add-remove").upper
    for share, due in ((0.9, False), (1.2, True)):
        assert loss.private([events.Step(1.0, noise)] * times, share * exact, 1e-5, False) is due


def test_a_price_of_little_noise_is_refuted_by_what_more_noise_costs():
    """Numbers that leave double precision decide nothing, and hide no price that is too small."""
    event = _sampled(0.1, 6, _noise(1e-3))
    claim = privacy_record(event=_sampled(0.1, 6, _noise(2.0)), adjacency="add-remove")
    made = kl_chernoff(price=Accounted(privacy=claim), risk=0.1, n=2000, failure_prob=0.05).to_dict()
    made["inputs"]["privacy_event"] = json.dumps(event_to_dict(event))
    (said,) = [one for one in check_certificate(made) if one.claim == "costs"]
    assert said.verdict == DOES_NOT
    assert "and what ran costs" in said.why


def test_numbers_of_an_event_are_no_words():
    for noise in ("2.0", True):
        told = {"event": "Gaussian", "noise_multiplier": noise}
        with refusal("is no number", Wrong):
            events.steps_of(told)
    with refusal("is no number", Wrong):
        events.steps_of({"event": "ExponentialMechanism", "epsilon": "0.1", "adjacency": "replace-one"}, True)


@parametrize("rate", [0.3, 1.0])
def test_noise_and_a_choice_on_a_sample_are_one_step_also_where_all_records_are_in_it(rate):
    """P3SGD on everybody: as many steps as ran, at the epsilon of the accountant."""
    event = _sampled(rate, 3, _noise(2.0), ExponentialMechanism(epsilon=0.3, adjacency="add-remove"))
    made = events.steps_of(event_to_dict(event))
    assert made == [events.Step(rate, 2.0, (0.3,))] * 3
    most = privacy_epsilon(event=event, delta=1e-3, adjacency="add-remove").upper
    for times, delta in ((1, 1e-3), (2, 1e-3 * (1 + exp(most)))):  # a record replaced is two of one more or less
        assert loss.private(made, times * most, delta, times == 2) is True
        assert loss.private(made, 0.95 * times * most, delta, times == 2) is not True
    with pytest.raises(Unchecked):
        events.steps_of(event_to_dict(event), True)
    with refusal("7 pure mechanisms", Unchecked):  # two to that power of responses
        events.steps_of(
            event_to_dict(_sampled(rate, 3, *[ExponentialMechanism(epsilon=0.3, adjacency="add-remove")] * 7))
        )


@parametrize("epsilon", [0.01, 0.05, 0.5])
@parametrize("adjacency", ["add-remove", "replace-one"])
def test_pure_mechanisms_are_randomised_responses(epsilon, adjacency):
    """Ten of them: the loss is epsilon times (2 Bin(10, p) - 10), P has p = 1/(1 + e^-epsilon)."""
    event = {"event": "SelfComposed", "count": 10, "inner": {
        "event": "ExponentialMechanism", "epsilon": epsilon, "adjacency": adjacency}}  # fmt: skip
    for resolution in (0.04, 0.013):
        replaced = adjacency == "replace-one"
        made = loss.compose(frozenset(Counter(events.steps_of(event, replaced)).items()), replaced, resolution)
        for at in (0.0, 0.5 * epsilon, 3.7 * epsilon, 9.5 * epsilon):
            p = 1 / (1 + exp(-epsilon))
            exact = sum(
                comb(10, k) * p**k * (1 - p) ** (10 - k) * max(0.0, -expm1(at - epsilon * (2 * k - 10)))
                for k in range(11)
            )
            for added in (False, True):
                low, high = made.stick(at, added=added)
                assert low <= exact * (1 + 1e-9)
                assert high >= exact * (1 - 1e-9)
                assert at > 4 * epsilon or high - low < 0.25 * exact, (resolution, at, low, exact, high)


@parametrize(("rate", "noise", "choices"), [(0.02, 0.9, ()), (0.05, 1.3, (0.4,)), (1.0, 1.3, (0.4,))], ids=str)
def test_one_step_is_bracketed_against_quadrature(rate, noise, choices):
    """Noise and at most one response: u = 1 - q + q e^(±epsilon + z s - s²/2)."""
    outer, inner = loss_of_a_step.atoms(events.Step(rate, noise, choices), False, 1e-3, 1, 0.005)
    z = np.linspace(-9.0, 11.0, 400_001)
    q = np.exp(-0.5 * z**2) / sqrt(2 * pi) * (z[1] - z[0])
    signed = {sign * e: 1 / (1 + exp(sign * e)) for e in choices for sign in (1, -1)} or {0.0: 1.0}
    parts = [(p * q, 1 - rate + rate * np.exp(r + z / noise - 0.5 / noise**2)) for r, p in signed.items()]
    for g in (0.7, 0.97, 1.0, 1.02, 1.5, 5.0):
        for sign, beyond in ((1, outer.at_infinity), (-1, outer.at_zero)):
            gains = [(u - g) if sign > 0 else (1 - g * u) for _, u in parts]
            exact = sum(float(np.sum(p * np.maximum(gain, 0.0))) for (p, _), gain in zip(parts, gains, strict=True))
            high, low = (
                float(np.sum(np.maximum((one.p - g * one.q) if sign > 0 else (one.q - g * one.p), 0.0)))
                for one in (outer, inner)
            )
            assert low <= exact + 1e-7, g
            assert exact <= high + beyond + 1e-7, g
            assert high - low < 0.01
    for masses in (inner.p, inner.q):
        assert 1.0 - 1e-10 <= masses.sum() <= 1.0
