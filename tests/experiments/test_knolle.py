"""Knolle et al.'s studies: their runs and the tables made of them."""

import math
from dataclasses import replace
from math import sqrt

import pytest
from cli_tools import read
from tiny_runs import RUNTIME, carried_out

from bounds.accounting import clt_gdp, event_from_dict, gaussian_epsilon, sampled_gaussians
from experiments.papers.knolle import TABLE_2
from experiments.runs.knolle import DIGITS, MNIST, PLAIN, XRAYS, PlainConfig, train_plain
from pacdp import private
from pacdp.errors import Diverged
from tests.marks import at_most, near


@at_most(1, "bench", [MNIST, XRAYS], ids=lambda bench: bench.name)
def test_the_temperatures_use_nearly_all_steps_of_the_budget_and_never_more(bench):
    run, steps = bench.run, bench.decaying
    sizes = [steps.step_size * (1.0 + t / steps.decay_offset) ** -steps.decay for t in range(run.sampling.steps)]
    noises = [sqrt(2.0 * size * steps.temperature) for size in sizes]
    plan = private.planned(lambda t: noises[t], sample_rate=run.sampling.sample_rate, steps=run.sampling.steps)
    most = private.first(plan, math.ceil(0.9 * run.sampling.steps))
    spent, whole = (private.epsilon(one, delta=run.budget.delta, adjacency="add-remove") for one in (most, plan))
    assert spent <= run.budget.epsilon
    assert whole >= 0.97 * run.budget.epsilon


def test_pre_noise_is_half_as_long_as_the_clip_norm():
    for bench, parameters in ((MNIST, 44_506), (XRAYS, 1281 * XRAYS.run.hidden[0] + 3 * (XRAYS.run.hidden[0] + 1))):
        length = bench.pre_noise * sqrt(parameters)
        assert 0.45 < length / bench.run.sampling.clip_norm < 0.55


@pytest.mark.slow
def test_rows_say_what_was_spent_by_both_accountants_and_by_whom(tmp_path):
    jobs = TABLE_2.jobs(True, 0)
    carried_out(jobs, tmp_path)
    rows = {row["procedure"]: row for row in TABLE_2.table(jobs, tmp_path).iter_rows(named=True)}
    assert rows["SGD"]["epsilon"] is None
    for name, row in rows.items():
        if name != "SGD":
            assert 0.9 * row["budget"] < row["epsilon"] <= row["budget"]
    assert rows["DP-SGLD"]["nll_nats"] != rows["DP-SGLD, averaged"]["nll_nats"]
    assert rows["DP-SGD by patient"]["unit"] == "made-up person"
    result = read(next(tmp_path.glob("*dp-sgd-seed*")) / "result.json")
    ((step, steps),) = private.runs_of(event_from_dict(result["privacy"]["event"]))
    noise, rate = step.event.noise_multiplier, step.sample_rate
    event = sampled_gaussians(sample_rate=rate, noise_multipliers=[noise] * steps)
    theirs = gaussian_epsilon(mu=clt_gdp(event=event).mu, delta=rows["DP-SGD"]["delta"])
    assert rows["DP-SGD"]["epsilon_central_limit"] == near(theirs)


def test_the_baseline_learns_repeats_itself_and_says_when_it_diverged(tmp_path):
    config = PlainConfig(run=DIGITS.run, epochs=8)
    one, two = train_plain(config, RUNTIME, tmp_path), train_plain(config, RUNTIME, tmp_path)
    assert one == two
    assert one["test"]["accuracy"] > 0.85
    assert one["steps"] == 8 * 12
    with pytest.raises(Diverged):
        PLAIN.carry_out(replace(config, learning_rate=1e30), tmp_path / "run", RUNTIME)
