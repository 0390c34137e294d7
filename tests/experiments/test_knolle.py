"""Knolle et al.'s studies: their runs, the tables made of them, and verdicts that follow the numbers."""

import json
import math
from dataclasses import replace
from math import sqrt

import polars as pl
import pytest
from cli_tools import read
from experiments.papers.runs.knolle import MNIST, PLAIN, XRAYS, PlainConfig, train_plain
from tiny_runs import RUNTIME, carried_out

from bounds.accounting import clt_gdp, event_from_dict, gaussian_epsilon, sampled_gaussians
from experiments.papers.knolle import STUDIES
from experiments.tables import pooled
from pacdp import Diverged, private
from tests.marks import at_most

BY_NAME = {study.name: study for study in STUDIES}


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


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One seed of the second table at the small scale."""
    out = tmp_path_factory.mktemp("knolle")
    jobs = [job for job in BY_NAME["knolle-table-2"].jobs("smoke", 0) if job.config.seed == 0]
    carried_out(jobs, out)
    return out


@pytest.mark.slow
@at_most(2, "name", BY_NAME)
def test_tables_figures_and_verdicts_are_made_of_the_folders_that_are_there(name, finished, tmp_path):
    study = BY_NAME[name]
    table = study.table(study.jobs("smoke", 0), finished)
    if name == "knolle-table-1":
        assert table.is_empty()
    else:
        assert set(table["data"]) == {"X-rays"}
        assert set(table["stands_for"]) == {"digits"}
    paths = study.draw(table, tmp_path)
    assert [path.name for path in paths] == ["figure.png", "figure.pdf"]
    assert json.loads(json.dumps(study.judge(table, "smoke").to_dict(), allow_nan=False))


@pytest.mark.slow
def test_rows_say_what_was_spent_by_both_accountants_and_by_whom(finished):
    study = BY_NAME["knolle-table-2"]
    rows = {row["procedure"]: row for row in study.table(study.jobs("smoke", 0), finished).iter_rows(named=True)}
    assert list(rows) == ["SGD", "DP-SGD", "DP-SGLD", "DP-SGLD, averaged", "DP-SGD by patient"]
    assert rows["SGD"]["epsilon"] is None
    for name, row in rows.items():
        if name != "SGD":
            assert 0.9 * row["budget"] < row["epsilon"] <= row["budget"]
    last, mean = rows["DP-SGLD"], rows["DP-SGLD, averaged"]
    assert last["nll_nats"] != mean["nll_nats"]
    assert [last[k] for k in ("seed", "epsilon", "steps")] == [mean[k] for k in ("seed", "epsilon", "steps")]
    assert rows["DP-SGD by patient"]["unit"] == "made-up person"
    result = read(next(finished.glob("*dp-sgd-seed*")) / "result.json")
    ((step, steps),) = private.runs_of(event_from_dict(result["privacy"]["event"]))
    noise, rate = step.event.noise_multiplier, step.sample_rate
    event = sampled_gaussians(sample_rate=rate, noise_multipliers=[noise] * steps)
    theirs = gaussian_epsilon(mu=clt_gdp(event=event).mu, delta=rows["DP-SGD"]["delta"])
    assert rows["DP-SGD"]["epsilon_central_limit"] == pytest.approx(theirs)


@pytest.mark.slow
def test_bins_add_up_to_the_score(finished):
    study = BY_NAME["knolle-figure-1"]
    bins = study.table(study.jobs("smoke", 0), finished)
    filled = bins.filter(pl.col("count") > 0)
    gaps = ((filled["confidence"] - filled["accuracy"]).abs() * filled["count"]).alias("gap")
    for (procedure,), part in filled.with_columns(gaps).group_by(["procedure"]):
        assert part["gap"].sum() / part["n_test"][0] == pytest.approx(part["ece"][0]), procedure
    curves = pooled(bins)
    assert curves.height == bins["procedure"].n_unique() * bins["left"].n_unique()
    for total in curves.group_by("procedure").agg(pl.col("share").sum())["share"]:
        assert total == pytest.approx(1.0)


def test_the_baseline_learns_repeats_itself_and_says_when_it_diverged(tmp_path):
    config = PlainConfig(architecture="fc", hidden=(32,), epochs=8)
    one, two = train_plain(config, RUNTIME, tmp_path), train_plain(config, RUNTIME, tmp_path)
    assert one == two
    assert one["test"]["accuracy"] > 0.85
    assert one["steps"] == 8 * 12
    adam = train_plain(replace(config, optimizer="adam", learning_rate=0.003), RUNTIME, tmp_path)
    assert (adam["algorithm"], adam["test"]["accuracy"] > 0.8) == ("Adam", True)
    (error,) = PLAIN.carry_out([replace(config, learning_rate=1e30)], [tmp_path / "run"], RUNTIME)
    assert isinstance(error, Diverged)
