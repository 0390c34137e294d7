"""The studies of the DP-BNN paper: Theorem 1's twin, what a run costs, and that searched rates are the best ones."""

from dataclasses import replace
from math import inf, isclose
from statistics import geometric_mean

import polars as pl
import pytest
from tiny_runs import RUNTIME

from experiments.papers.zhang_bu import TABLE_1
from experiments.runner import read_table, results_of
from experiments.runs.bayesian_plans import CHOSEN, CURVE_RATES, DELTA, DRAWN, IMAGE_RATES, SEARCHED, SIGMA, TWIN
from experiments.tables import part
from pacdp import private
from pacdp.cli.private.algorithms import Public, mechanism
from pacdp.cli.private.config import DPSGD
from tests.marks import near, parametrize


def _job(name, prior="normal", **tags):
    wanted = {"algorithm": name, "prior": prior, "network": "MLP", "private": True, "seed": 0, **tags}
    return next(job for job in TABLE_1.jobs(False, 0) if wanted.items() <= job.tags.items())


def test_the_twin_of_theorem_1_is_dp_sgd_with_dp_sglds_numbers():
    public = Public(input_shape=(1, 28, 28), classes=10, size=60_000.0)
    configs = [_job(name).config.config for name in ("SGLD", TWIN[0])]
    (one, of_one), (other, of_other) = ((config.method, mechanism(config, public)) for config in configs)
    assert isclose(one.rate_at(0, of_one), other.rate_at(0, of_other), rel_tol=1e-12)
    assert isclose(one.noise_at(0, of_one), other.noise_at(0, of_other), rel_tol=1e-12)
    assert of_one.clip_norm == of_other.clip_norm


def test_every_private_network_of_table_1_costs_what_the_accountant_says():
    table = read_table(results_of("dp-bnn-accuracy")).filter(pl.col("private"), network="MLP", held_out=0)
    sampling = _job("SGLD").config.config.sampling
    plan = private.planned(SIGMA, sample_rate=sampling.sample_rate, steps=sampling.steps)
    expected = private.epsilon(plan, delta=DELTA, adjacency="add-remove")
    assert table["epsilon"].to_list() == near([expected] * table.height, rel=1e-6)
    assert (table["epsilon_clt_optimistic"] < expected).all(), "the central limit theorem is no bound"


def test_a_budget_that_would_halt_the_run_is_an_error_not_a_shorter_run(tmp_path):
    job = TABLE_1.jobs(True, 0)[0]
    config = replace(job.config.config, method=DPSGD(learning_rate=0.25))
    config = replace(config, budget=replace(config.budget, epsilon=1.0),
                     sampling=replace(config.sampling, noise_multiplier=1.3))  # fmt: skip
    with pytest.raises((ValueError, RuntimeError), match="halts"):
        job.kind.carry_out(replace(job.config, config=config, curve=0), tmp_path / "run", RUNTIME)
    assert not (tmp_path / "run" / "result.json").exists()


def _best(table, rates, score, **where):
    """The rate with the least mean score; a rate at which a run left nothing is none."""
    runs = {rate: part(table, rate=rate, **where)[score].drop_nulls().to_list() for rate in rates}
    most = max(map(len, runs.values()))
    return min(rates, key=lambda rate: geometric_mean(runs[rate]) if len(runs[rate]) == most else inf)


@parametrize("name", CHOSEN)
@parametrize("private", [True, False])
def test_the_rates_of_the_regression_are_the_best_where_they_were_chosen(name, private):
    table = read_table(results_of("dp-bnn-regression"))
    found = _best(table, CURVE_RATES, "test_mse", part="run", judges=False, algorithm=name, private=private)
    assert found == CHOSEN[name][not private]
    judging = part(table, part="run", judges=True, algorithm=name, private=private)
    assert judging["rate"].unique().to_list() == [found]
    assert not set(judging["seed"]) & set(part(table, part="run", judges=False)["seed"])


def test_the_simulation_that_is_drawn_is_the_median():
    errors = part(read_table(results_of("dp-bnn-regression")), part="run", judges=True)
    means = errors.group_by("seed").agg(pl.col("test_mse").log().mean()).sort("test_mse")
    assert means["seed"][means.height // 2] == DRAWN


@parametrize("cell", SEARCHED)
def test_the_rates_of_table_1_are_the_best_where_they_were_chosen(cell):
    table = read_table(results_of("dp-bnn-accuracy"))
    where = dict(zip(("algorithm", "network"), cell, strict=True), private=True)
    errors = table.with_columns(error=1.0 - pl.col("accuracy"))
    assert _best(errors, IMAGE_RATES, "error", held_out=10_000, **where) == SEARCHED[cell]
    assert part(table, held_out=0, **where)["rate"].unique().to_list() == [SEARCHED[cell]]
