"""The studies of the DP-BNN paper: plans, smoke runs through their kinds, tables, verdicts of planted tables."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace

import matplotlib as mpl
import polars as pl
import pytest

from experiments.papers import bayesian_dp_regression as regression
from experiments.papers.bayesian_dp import TABLE_1
from experiments.papers.bayesian_dp_calibration import TABLE_2
from experiments.papers.bayesian_dp_figures import FIGURES_1_2, FIGURES_3_7
from experiments.papers.bayesian_dp_plans import DELTA, SETTINGS, SIGMA
from experiments.papers.bayesian_dp_regression import REGRESSION
from experiments.papers.runs.bayesian import CNN, BayesRun
from experiments.study import Study
from pacdp import private
from pacdp.cli.config import Runtime
from pacdp.cli.private.algorithms import Public, algorithm
from pacdp.cli.private.methods import DPBBP, DPSGD, DPSGLD, DPMCDropout
from pacdp.cli.serial import from_dict, to_dict

SCALES = ("smoke", "cpu", "paper")
QUICK = Runtime(threads=1)
STUDIES = (TABLE_1, TABLE_2, FIGURES_3_7, FIGURES_1_2, REGRESSION)
NAMES = [study.name for study in STUDIES]
ONE_RUN_LEAVES_OPEN = {"dp-bnn-accuracy": 3, "dp-bnn-calibration": 8, "dp-bnn-reliability": 3, "dp-bnn-tradeoff": 2,
                       "dp-bnn-regression": 6}  # fmt: skip
"""Claims, at most, about which a seed, a simulation or a hundred test digits cannot tell."""


@pytest.fixture(autouse=True)
def _style_of_the_session() -> Iterator[None]:
    with mpl.rc_context():
        yield


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """All jobs of all studies at smoke scale, each once."""
    folder = tmp_path_factory.mktemp("bayesian-dp")
    jobs = {job.key: job for study in STUDIES for job in study.jobs("smoke", 0)}
    for job in jobs.values():
        assert job.kind.carry_out([job.config], [folder / job.key], QUICK) == [None], job.key
    return folder


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("study", STUDIES, ids=NAMES)
def test_jobs_have_keys_and_configurations_of_their_own(study: Study, scale):
    jobs = study.jobs(scale, 7)
    assert len({job.key for job in jobs}) == len(jobs) > 4
    assert study.jobs(scale, 7) == jobs
    assert not {job.key for job in study.jobs(scale, 1000)} & {job.key for job in jobs}
    for job in jobs:
        assert from_dict(type(job.config), json.loads(json.dumps(to_dict(job.config)))) == job.config
        assert job.tags["private"] == job.config.private == job.key.startswith("dp-")


@pytest.mark.parametrize("scale", SCALES)
def test_studies_share_runs(scale):
    first, second, third = (
        {job.key: job.config for job in STUDIES[i].jobs(scale, 0)} for i in range(3)
    )  # fmt: skip
    assert len(first.keys() & second.keys()) == 2 * 4 * SETTINGS[scale].seeds
    assert third.keys() <= first.keys() | second.keys()
    assert all(first[key] == second[key] for key in first.keys() & second.keys())


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("study", [TABLE_1, TABLE_2, REGRESSION], ids=lambda study: study.name)
def test_private_runs_of_a_table_have_one_noise_multiplier_and_rate(study, scale):
    found = set()
    for job in (job for job in study.jobs(scale, 0) if job.config.private):
        config = job.config.config
        size = 250.0 if study is REGRESSION else float(SETTINGS[scale].size)
        settings = algorithm(config, Public(input_shape=(1,), classes=10, size=size))
        network = "regression" if study is REGRESSION else config.architecture
        found.add((network, round(settings.noise_at(0), 12), config.sampling.sample_rate, config.sampling.steps))
    assert len({network for network, *_ in found}) == len(found), "so all have one epsilon"
    assert {sigma for _, sigma, *_ in found} == {regression.SIGMA if study is REGRESSION else SIGMA}


def test_the_twin_of_theorem_1_is_dp_sgd_with_dp_sglds_numbers(smoke):
    jobs = {job.tags["algorithm"]: job for job in TABLE_1.jobs("paper", 0) if job.tags["network"] == "MLP"
            and job.tags["prior"] == "normal" and job.config.private}  # fmt: skip
    public = Public(input_shape=(1, 28, 28), classes=10, size=60_000.0)
    one, other = (algorithm(jobs[name].config.config, public) for name in ("SGLD", "SGD as SGLD"))
    assert math.isclose(one.rate_at(0), other.rate_at(0), rel_tol=1e-12)
    assert math.isclose(one.noise_at(0), other.noise_at(0), rel_tol=1e-12)
    assert one.mechanism.clip_norm == other.mechanism.clip_norm
    claim = TABLE_1.judge(TABLE_1.table(TABLE_1.jobs("smoke", 0), smoke), "smoke").claims[-1]
    assert claim.holds is True, claim


@pytest.mark.parametrize("study", STUDIES, ids=NAMES)
def test_a_smoke_run_makes_table_figures_and_verdict(study: Study, smoke, tmp_path):
    jobs = study.jobs("smoke", 0)
    table = study.table(jobs, smoke)
    rows = table if "part" not in table.columns else table.filter(part="run")
    assert rows["private"].len() >= len(jobs)
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
    assert sum(claim.holds is None for claim in verdict.claims) <= ONE_RUN_LEAVES_OPEN[study.name]
    assert all(comparison.why for comparison in verdict.comparisons)
    assert all(comparison.ours is not None for comparison in verdict.comparisons)
    assert any("moke scale" in note for note in verdict.notes)


@pytest.mark.parametrize("study", STUDIES, ids=NAMES)
def test_unfinished_runs_are_left_out_and_nothing_is_claimed_without_them(study: Study, smoke, tmp_path):
    for table in (study.table(study.jobs("smoke", 0), tmp_path), study.table(study.jobs("smoke", 0)[:1], smoke)):
        for scale in SCALES:
            verdict = study.judge(table, scale)
            assert all(claim.holds is None for claim in verdict.claims), [
                c for c in verdict.claims if c.holds is not None
            ]
        study.draw(table, tmp_path)


def test_epsilon_is_the_accountants_and_covers_all_that_is_released(smoke):
    for job in (job for job in TABLE_1.jobs("smoke", 0) if job.config.private):
        result = json.loads((smoke / job.key / "result.json").read_text())
        sampling = job.config.config.sampling
        plan = private.planned(SIGMA, sample_rate=sampling.sample_rate, steps=sampling.steps)
        expected = private.epsilon(plan, delta=DELTA, adjacency="add-remove")
        assert math.isclose(result["privacy"]["upper"], expected, rel_tol=1e-6)
        assert result["privacy"]["epsilon_clt"] < expected, "the central limit theorem is no bound"
        assert result["privacy"]["epsilon_clt_status"] == "optimistic"
        assert result["members"] == (1 if "SGD" in job.tags["algorithm"] else SETTINGS["smoke"].members)


def test_configurations_that_contradict_themselves_are_refused():
    run = TABLE_1.jobs("smoke", 0)[0].config
    assert isinstance(run.config.method, DPSGLD)
    for bad in ({"members": 3}, {"members": 0}, {"curve": -1}, {"image": -1}):
        with pytest.raises(ValueError, match="expected"):
            replace(run, **bad)
    for method in (DPBBP(), DPMCDropout()):
        with pytest.raises(ValueError, match="leave curve at 0"):
            BayesRun(config=replace(run.config, method=method), curve=2)
    with pytest.raises(ValueError, match="not the configuration"):
        from_dict(BayesRun, {"config": {}})


def test_a_budget_that_would_halt_the_run_is_an_error_not_a_shorter_run(tmp_path):
    run = next(job for job in TABLE_1.jobs("smoke", 0) if isinstance(job.config.config.method, DPSGD)).config
    tight = replace(run, config=replace(run.config, budget=replace(run.config.budget, epsilon=1.0)))
    found = TABLE_1.jobs("smoke", 0)[0].kind.carry_out([tight], [tmp_path / "run"], QUICK)
    assert "halts" in str(found[0])
    assert not (tmp_path / "run" / "result.json").exists()


def test_every_network_of_the_plans_is_known():
    assert {job.config.config.architecture for study in STUDIES for job in study.jobs("paper", 0)} == {"fc", CNN}
