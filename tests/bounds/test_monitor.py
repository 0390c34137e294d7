"""The monitor: exact failure probabilities over every stream, 50 digits, and a state that is the same by every way."""

import json
from fractions import Fraction
from itertools import pairwise
from math import fsum, inf, isclose

import monitor_by_mpmath as slow
import mpmath as mp
import numpy as np
import pytest
from cells import read_again, refused
from hypothesis import given
from hypothesis.strategies import integers, lists
from mpmath import mpf
from numpy.random import default_rng

from bounds import Monitor, clopper_pearson_lower, maurer, monitor
from bounds.monitor import running_mean_lower, running_mean_upper

STREAM = default_rng(7).beta(0.5, 6, 60)


def start(promised=0.1, failure_prob=0.05, false_alarm_prob=0.01):
    return Monitor.start(promised, failure_prob=failure_prob, false_alarm_prob=false_alarm_prob)


def test_limits_against_fifty_digits():
    for losses in (STREAM, np.zeros(40), np.ones(7), (np.arange(500) % 9 == 0) * 1.0, 0.3 + 0.001 * STREAM):
        made = start().observe(losses)
        with mp.workdps(50):
            for limit, stream in ((mpf(made.upper), losses), (1 - mpf(made.lower), 1 - losses)):
                assert limit == 1 or slow.mixture(limit, stream) >= 40  # two sides share 0.05
                assert slow.mixture(limit * (1 - mpf("1e-7")), stream) < 40


def test_wealth_against_fifty_digits():
    made, peak, alarm = start(0.03, false_alarm_prob=0.3), 1.0, None
    with mp.workdps(50):
        for t, exact in enumerate(slow.wealth(0.03, STREAM.tolist()), start=1):
            made = made.observe(STREAM[t - 1 : t])
            assert exact * (1 - mpf(t + 40) * mpf("1e-13")) <= made.evidence <= exact
            peak, alarm = (max(peak, made.evidence), alarm or (t if exact >= 1 / mpf("0.3") else None))
            assert made.peak == peak
            assert made.alarm == alarm
    assert alarm is not None
    assert 1 / made.peak <= made.p_value <= 1 / made.peak * (1 + 1e-15)


@pytest.mark.parametrize("risks", [[0.2] * 9, [0.5] * 9, [0.02] * 4 + [0.3] * 5], ids=["rare", "fair", "changing"])
def test_no_stream_of_coins_exceeds_what_was_said_at_any_time(risks):
    """All 2^9 streams with their probabilities, looked at after each loss; the limits are those of the mean risk."""
    outside, alarms, fixed, waiting = (0.0, 0.0, 0.0, [(start(max(risks), 0.4, 0.4), 1.0, 0, False, False)])
    while waiting:
        made, chance, errors, left, alone = waiting.pop()
        if made.n:
            risk = fsum(risks[: made.n]) / made.n
            left = left or not made.lower <= risk <= made.upper
            alone = alone or clopper_pearson_lower(errors, made.n, 0.4) > risk
        if made.n == len(risks):
            alarms += chance * (made.alarm is not None)
            outside, fixed = outside + chance * left, fixed + chance * alone
            continue
        risk = risks[made.n]
        for loss, share in ((1, risk), (0, 1.0 - risk)):
            waiting.append((made.observe([loss]), chance * share, errors + loss, left, alone))
    assert max(outside, alarms) <= 0.4
    if len(set(risks)) == 1:
        assert alarms > 0.05
        assert fixed > 0.4  # a limit for one n, looked at after every loss


def test_a_late_change_raises_the_alarm_soon():
    losses = np.arange(12_000) % np.where(np.arange(12_000) < 10_000, 25, 7) == 0
    made = start(0.05).observe(losses)
    assert 10_000 < made.alarm < 10_400
    assert made.lower < 0.06 < made.upper  # the running risk has hardly moved
    assert made.p_value < 1e-20


@given(integers(0, 99), lists(integers(1, 40), min_size=1, max_size=6))
def test_the_state_is_the_same_by_every_way(seed, sizes):
    rng = default_rng(seed)
    losses = rng.beta(0.5, 4, sum(sizes))
    whole, parts, read = start().observe(losses), start(), start()
    ends = np.cumsum([0, *sizes])
    for low, high in pairwise(ends):
        parts = parts.observe(losses[low:high])
        read = Monitor.from_json(read.observe(losses[low:high]).to_json())
    assert whole == parts == read
    placed, order = start(), rng.permutation(losses.size)
    for low, high in pairwise(ends):
        placed = Monitor.from_json(placed.observe(losses[order[low:high]], positions=order[low:high]).to_json())
    assert json.loads(placed.to_json()) == json.loads(whole.to_json()) | {"ordered": True}
    assert whole.lower <= whole.mean <= whole.upper


def test_losses_wait_for_earlier_ones():
    made = start().observe([0.5, 1.0], positions=[1, 3])
    assert (made.n, made.waiting) == (0, ((1, 0.5), (3, 1.0)))
    assert "yet. 2 more wait for earlier ones, first that at position 0 " in str(made)
    made = made.observe([0.25], positions=[0])
    assert (made.n, made.loss_sum, made.waiting) == (2, 0.75, ((3, 1.0),))
    for positions in ([0], [3], [4, 4], None):  # counted, waiting already, twice, missing
        refused(r"^positions must", made.observe, [0.1] * len(positions or [0]), positions=positions)
    refused(r"^positions must be given always or never", start().observe([0.1]).observe, [0.1], positions=[1])
    assert made.observe([], positions=np.array([], dtype=int)) == made


def test_hypotheses_say_whether_the_order_was_proved():
    came, placed = (start().observe(STREAM), start().observe(STREAM, positions=np.arange(60)).certificate())
    assert came.certificate().hypothesis("order blind to the losses").standing == "declared"
    assert placed.hypothesis("order blind to the losses").standing == "proved"
    assert (placed.value, placed.failure_prob, placed.status) == (came.upper, 0.025, "rigorous")
    assert read_again(placed) == placed
    assert start().certificate().vacuous


def test_what_is_printed_errs_to_the_safe_side():
    certificate = maurer(risk=0.02, kl_nats=10.0, n=1000, failure_prob=0.03)
    made = Monitor.start(certificate, failure_prob=0.05, false_alarm_prob=0.01).observe(np.ones(40))
    assert made.promised == certificate.value
    said = str(made)
    assert f"after {made.alarm} losses" in said
    assert "at most 0.0400" in said
    assert "if they are independent draws of the law" in said  # images of one person are none
    assert f"their mean, without weights, was promised to be at most {made.promised!r}, an" in said  # nor by weight
    lower, upper = said.split("lies between ")[1].split(",")[0].split(" and ")
    assert float(lower) <= made.lower
    assert float(upper) >= made.upper


def test_limits_cost_little_more_than_those_of_one_n_and_see_small_variances():
    at = np.arange(10_000)
    errors, steady = start().observe(at % 20 == 0), start().observe(0.05 + 0.01 * (at % 2))
    assert errors.upper - 0.05 < 2.0 * (0.0545 - 0.05)  # Clopper and Pearson at 0.025
    assert steady.upper - steady.mean < 0.2 * (errors.upper - errors.mean)
    by_level = [running_mean_upper(100, 5.0, 4.0, level) for level in (0.5, 0.05, 1e-6, 1e-300)]
    assert by_level == sorted(by_level)


def test_a_long_stream_is_played_in_parts_without_a_seam():
    losses = np.append(np.zeros(2**16), default_rng(0).random(40))
    made = start(0.03).observe(losses)
    by_parts = start(0.03).observe(losses[:1000]).observe(losses[1000:])
    assert isclose(made.evidence, by_parts.evidence, rel_tol=1e-9)


def test_the_lower_limit_gives_away_the_rounding_of_the_rest(monkeypatch):
    seen = []
    monkeypatch.setattr(monitor, "running_mean_upper", lambda n, rest, *_: seen.append(rest) or 1.0)
    for loss_sum in (0.1, 0.3, 1 / 3, 95.7):
        running_mean_lower(100, loss_sum, 1.0, 0.05)
        assert Fraction(seen[-1]) + Fraction(loss_sum) >= 100


def test_nothing_is_known_before_the_first_loss_and_both_sides_are_alike():
    assert (running_mean_upper(0, 0.0, 0.0, 0.05), running_mean_lower(0, 0.0, 0.0, 0.05)) == (1.0, 0.0)
    assert isclose(1 - running_mean_upper(100, 5.0, 4.0, 0.05), running_mean_lower(100, 95.0, 4.0, 0.05))


def test_impossible_states_damaged_text_and_vacuous_promises_are_refused():
    worn = [(0.0,), (-1.0,) * 8, (*(0.0,) * 7, inf)]
    sums = [{"loss_sum": 1.0}, {"spread": 1.0}, {"evidence": 2.0}, {"peak": inf}]
    for changes in [*sums, *({"wealth": wealth} for wealth in worn)]:
        refused(r"^wealth (and sums )?must", Monitor, promised=0.1, failure_prob=0.05, false_alarm_prob=0.01, **changes)
    text = start().observe(STREAM).to_json()
    for wrong in ("", "[]", "{}", text.replace("pacdp-monitor/1", "pacdp-monitor/0"), text.replace('"n"', '"m"')):
        refused(r"^text ", Monitor.from_json, wrong)
    refused(
        r"^promised must be below 1",
        Monitor.start,
        maurer(risk=1.0, kl_nats=1.0, n=9, failure_prob=0.05),
        failure_prob=0.05,
        false_alarm_prob=0.01,
    )
