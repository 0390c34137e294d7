"""The studies of the DP-BNN paper: plans, smoke runs through their kinds, tables, verdicts of planted tables."""

import json
from dataclasses import replace
from math import isclose

import polars as pl
import pytest
from cli_tools import read
from tiny_runs import RUNTIME, carried_out

from experiments.papers.bayesian_dp import TABLE_1
from experiments.papers.bayesian_dp_calibration import TABLE_2
from experiments.papers.bayesian_dp_figures import FIGURES_1_2, FIGURES_3_7
from experiments.papers.bayesian_dp_plans import DELTA, SETTINGS, SIGMA
from experiments.papers.bayesian_dp_regression import REGRESSION
from pacdp import private
from pacdp.cli.private.algorithms import Public, algorithm
from pacdp.cli.private.methods import DPSGD
from tests.marks import at_most

STUDIES = (TABLE_1, TABLE_2, FIGURES_3_7, FIGURES_1_2, REGRESSION)
NAMES = [study.name for study in STUDIES]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """The networks with a normal prior that Table 1 has and others share, at smoke scale."""
    folder = tmp_path_factory.mktemp("bayesian-dp")
    jobs = [job for job in TABLE_1.jobs("smoke", 0) if (job.tags["network"], job.tags["prior"]) == ("MLP", "normal")]
    carried_out(jobs, folder)
    return folder


@pytest.mark.slow
def test_the_twin_of_theorem_1_is_dp_sgd_with_dp_sglds_numbers(smoke):
    jobs = {job.tags["algorithm"]: job for job in TABLE_1.jobs("paper", 0) if job.tags["network"] == "MLP"
            and job.tags["prior"] == "normal" and job.config.private}  # fmt: skip
    public = Public(input_shape=(1, 28, 28), classes=10, size=60_000.0)
    one, other = (algorithm(jobs[name].config.config, public) for name in ("SGLD", "SGD as SGLD"))
    assert isclose(one.rate_at(0), other.rate_at(0), rel_tol=1e-12)
    assert isclose(one.noise_at(0), other.noise_at(0), rel_tol=1e-12)
    assert one.mechanism.clip_norm == other.mechanism.clip_norm
    claim = TABLE_1.judge(TABLE_1.table(TABLE_1.jobs("smoke", 0), smoke), "smoke").claims[-1]
    assert claim.holds is True, claim


@pytest.mark.slow
@at_most(1, "study", STUDIES, ids=NAMES)
def test_a_smoke_run_makes_table_figures_and_verdict(study, smoke, tmp_path):
    jobs = study.jobs("smoke", 0)
    carried_out(jobs, smoke)
    table = study.table(jobs, smoke)
    rows = table if "part" not in table.columns else table.filter(part="run")
    assert rows.height
    spent = rows.filter(pl.col("private"))
    if "epsilon" in spent.columns:
        assert spent["epsilon"].is_not_null().all()
        assert (spent["epsilon"] > 0).all()
        assert rows.filter(~pl.col("private"))["epsilon"].is_null().all()
    paths = study.draw(table, tmp_path)
    assert {path.name for path in paths} >= {"figure.png", "figure.pdf"}
    assert all(path.stat().st_size > 5_000 for path in paths)
    verdict = study.judge(table, "smoke")
    assert json.loads(json.dumps(verdict.to_dict(), allow_nan=False))["claims"]


@pytest.mark.slow
def test_epsilon_is_the_accountants_and_covers_all_that_is_released(smoke):
    for job in (job for job in TABLE_1.jobs("smoke", 0) if job.config.private and (smoke / job.key).exists()):
        result = read(smoke / job.key / "result.json")
        sampling = job.config.config.sampling
        plan = private.planned(SIGMA, sample_rate=sampling.sample_rate, steps=sampling.steps)
        expected = private.epsilon(plan, delta=DELTA, adjacency="add-remove")
        assert isclose(result["privacy"]["upper"], expected, rel_tol=1e-6)
        assert result["privacy"]["epsilon_clt"] < expected, "the central limit theorem is no bound"
        assert result["privacy"]["epsilon_clt_status"] == "optimistic"
        assert result["members"] == (1 if "SGD" in job.tags["algorithm"] else SETTINGS["smoke"].members)


def test_a_budget_that_would_halt_the_run_is_an_error_not_a_shorter_run(tmp_path):
    run = next(job for job in TABLE_1.jobs("smoke", 0) if isinstance(job.config.config.method, DPSGD)).config
    tight = replace(run, config=replace(run.config, budget=replace(run.config.budget, epsilon=1.0)))
    found = TABLE_1.jobs("smoke", 0)[0].kind.carry_out([tight], [tmp_path / "run"], RUNTIME)
    assert "halts" in str(found[0])
    assert not (tmp_path / "run" / "result.json").exists()
