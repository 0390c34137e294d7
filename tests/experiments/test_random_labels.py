"""The random-label experiment: its plan, its runs, its table and figure, and the search for broken bounds."""

import math
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from certificates_by_mpmath import kl
from cli_tools import read

from experiments.papers.gaps import violations
from experiments.papers.random_labels import NOISES, jobs
from experiments.papers.random_labels import RANDOM_LABELS as STUDY
from experiments.runner import publish, read_table
from pacdp import Architecture, GibbsSettings
from pacdp.cli.config import Runtime
from pacdp.cli.figures.names import CONVERGED, GIBBS_BOUNDS
from pacdp.cli.folder import Folder
from pacdp.cli.recipes import SIZES, tau_of
from pacdp.cli.sweep.batches import carry_out
from pacdp.cli.sweep.workers import Workers

QUICK = Runtime(threads=1)
COMMITTED = Path(__file__).parents[2] / "experiments" / "results" / "random-labels" / "cpu"
BOUNDS = [name for name in CONVERGED if name != "test_set_clopper_pearson"]


def _tiny(job):
    effort = GibbsSettings(epochs=1.0, prior_draws=2, test_draws=2)
    problem = replace(job.config.problem, architecture=Architecture(hidden=(8,)))
    run = replace(job.config, problem=problem, epochs=2.0, records=2, track=effort, certify=effort)
    return replace(job, key=run.key, config=run)


def _spoilt(job):
    run = replace(job.config, sampler=replace(job.config.sampler, step_size=1e30))
    return replace(job, key=run.key, config=run)


def _conducted(plan, folder, workers=1):
    found = carry_out(plan, [folder / job.key for job in plan], QUICK, workers=Workers(workers=workers))
    return {plan[i].key: error for i, error in found}


def _published(plan, folder, out, failed):
    publish(STUDY, plan, folder, out, scale="smoke", device="cpu", seed=0, failed=failed)
    return read(out / "summary.json")


@pytest.fixture(scope="module")
def plan():
    """SGD on true labels, Entropy-SGLD and SGLD on random ones."""
    found = jobs("smoke")
    chosen = [("SGD", "true"), ("Entropy-SGLD", "random"), ("SGLD", "random")]
    return [_tiny(next(c for c in found if (c.config.algorithm, c.tags["labels"]) == one)) for one in chosen]


@pytest.fixture(scope="module")
def finished(plan, tmp_path_factory):
    folder = tmp_path_factory.mktemp("random-labels")
    assert list(_conducted(plan, folder).values()) == [None] * 3
    return folder


@pytest.mark.parametrize(
    ("scale", "dataset", "runs"), [("smoke", "digits2", 14), ("cpu", "mnist2", 20), ("paper", "mnist2", 28)]
)
def test_the_plan_has_every_algorithm_on_true_and_random_labels(scale, dataset, runs):
    plan, noises = jobs(scale, seed=3), NOISES[scale]
    assert len(plan) == len({job.key for job in plan}) == runs
    for labels, fraction in (("true", 0.0), ("random", 1.0)):
        part = [job for job in plan if job.tags["labels"] == labels]
        assert len(part) == runs / 2
        assert {job.config.algorithm for job in part} == {"SGD", "SGLD", "Entropy-SGD", "Entropy-SGLD"}
        assert {job.config.problem.random_labels for job in part} == {fraction}
        assert {(job.config.problem.dataset, job.config.seed) for job in part} == {(dataset, 3)}
        for name, algorithm in (("sgld", "SGLD"), ("entropy-sgd", "Entropy-SGD")):
            seen = {job.tags["thermal_noise"] for job in part if job.config.algorithm == algorithm}
            assert seen >= set(noises[name])
        private = [job for job in part if getattr(job.config.sampler, "tau", 0.0) == math.sqrt(SIZES[dataset])]
        assert sorted(job.config.algorithm for job in private) == ["Entropy-SGLD", "SGLD"]
        for job in part:
            if job.config.algorithm != "SGD":
                assert math.isclose(job.config.sampler.thermal_noise, job.tags["thermal_noise"], rel_tol=1e-12)
    assert math.isclose(math.sqrt(2 / tau_of(0.03)), 0.03)


def test_true_and_random_runs_differ_in_their_labels_only():
    true, random = (
        next(c.config for c in jobs("smoke") if c.tags["labels"] == labels) for labels in ("true", "random")
    )
    assert replace(random, problem=replace(random.problem, random_labels=0.0)) == true


def test_publish_leaves_figure_table_configuration_provenance_verdict_and_summary(plan, finished, tmp_path):
    out = tmp_path / "results"
    summary = _published(plan, finished, out, {})
    assert {path.name for path in out.iterdir()} == {
        "table.csv", "figure.png", "figure.pdf", "config.json", "provenance.json", "summary.json", "verdict.json"
    }  # fmt: skip
    assert (out / "figure.png").stat().st_size > 50_000
    assert (out / "figure.pdf").read_bytes().startswith(b"%PDF")
    assert (summary["runs"], summary["rows"]) == (3, 6)
    assert summary["bounds_compared"] == 2 * len(BOUNDS) + 2 * (len(BOUNDS) - len(GIBBS_BOUNDS))
    assert [row["algorithm"] for row in summary["final"]] == ["SGD", "Entropy-SGLD", "SGLD"]
    assert read(out / "config.json")["jobs"].keys() == {job.key for job in plan}
    made = read(out / "provenance.json")
    assert made["seed"] == 0
    assert made["jobs"] == {"planned": 3, "finished": 3, "failed": {}}
    table = read_table(out)
    assert table.height == 6
    for job in plan:
        last = Folder(finished / job.key).rows()[-1]
        row = table.filter(run=job.key).row(-1, named=True)
        assert row["test_error"] == last["test_error"]
        assert math.isclose(row["epochs_over_l"], last["epochs"] / 20)
        for name in BOUNDS:
            assert row[name] == last.get("bounds", {}).get(name)


def test_two_workers_fill_the_same_table(plan, finished, tmp_path):
    assert _conducted(plan, tmp_path, workers=2) == dict.fromkeys(job.key for job in plan)
    assert STUDY.table(plan, tmp_path).equals(STUDY.table(plan, finished), null_equal=True)


def test_a_failing_run_is_reported_and_the_others_finish(plan, tmp_path):
    spoilt = [_spoilt(plan[0]), *plan[1:]]
    ended = _conducted(spoilt, tmp_path)
    failed = {key: error for key, error in ended.items() if error}
    assert ended.keys() == {job.key for job in spoilt}
    assert list(failed) == [spoilt[0].key]
    assert "NaN or infinite" in failed[spoilt[0].key]
    table = STUDY.table(spoilt, tmp_path)
    assert table["run"].unique(maintain_order=True).to_list() == [job.key for job in plan[1:]]
    assert _published(spoilt, tmp_path, tmp_path / "out", failed)["rows"] == 4
    assert read(tmp_path / "out" / "provenance.json")["jobs"] == {"planned": 3, "finished": 2, "failed": failed}


def test_violations_compare_each_bound_with_its_own_classifier(plan, finished):
    table = STUDY.table(plan, finished)
    one = table.filter(algorithm="Entropy-SGLD")[:1]
    sound = one.with_columns(test_error=pl.lit(0.5), gibbs_test_error=pl.lit(0.3)).with_columns(
        *(pl.lit(0.4 if name in GIBBS_BOUNDS else 0.6).alias(name) for name in BOUNDS)
    )
    assert violations(sound) == []
    for name in BOUNDS:
        planted = violations(sound.with_columns(pl.lit(0.25 if name in GIBBS_BOUNDS else 0.4).alias(name)))
        assert [row["bound"] for row in planted] == [name]
        assert planted[0]["test_error"] == (0.3 if name in GIBBS_BOUNDS else 0.5)
        assert planted[0]["run"] == plan[1].key
        limit = planted[0]["test_error_at_least"]
        assert math.isclose(360 * kl(planted[0]["test_error"], limit), math.log(20), rel_tol=1e-9)
        assert planted[0]["within_test_noise"] == (planted[0]["value"] >= limit)
    assert violations(sound.with_columns(pl.lit(0.3).alias("dp_pac_bayes"))) == [], "equal is not below"
    assert violations(table.filter(algorithm="SGD")) == [], "no bounds, nothing to break"


def _claim(table, words):
    (found,) = [one for one in STUDY.judge(table, "cpu").claims if words in one.sentence]
    return found


def test_the_committed_table_is_judged_as_it_was_and_planted_rows_turn_the_claims():
    table = read_table(COMMITTED)
    assert table.height == 300
    assert violations(table) == read(COMMITTED / "summary.json")["violations"]
    planted = (
        ("SGD overfits random labels", True, {"train_error": 0.5, "test_error": 0.5}),
        ("On random labels, Entropy-SGLD does not", True, {"gibbs_train_error": 0.0, "gibbs_test_error": 0.5}),
        ("are nonvacuous", True, {"dp_hoeffding_2018": 1.0}),
        ("tighter (bound", None, {"dp_pac_bayes_2018": 0.0}),
        ("tighter (bound", None, {"dp_pac_bayes_2018": 1.0}),
        ("tau = sqrt(n) does not", True, {"train_error": 0.5, "test_error": 0.5}),
        ("violated more frequently", True, {"test_error": 1.0, "gibbs_test_error": 1.0}),
    )
    for words, holds, values in planted:
        assert _claim(table, words).holds is holds
        changed = table.with_columns(pl.when(pl.col(name).is_not_null()).then(value).alias(name)
                                     for name, value in values.items())  # fmt: skip
        assert _claim(changed, words).holds is not holds, words
    none = STUDY.judge(table.filter(algorithm="none"), "cpu")
    assert {one.holds for one in none.claims} == {None}
    assert {one.ours for one in none.comparisons} == {None}


def test_comparisons_are_the_table_s_last_records():
    table = read_table(COMMITTED)
    found = {one.what: one for one in STUDY.judge(table, "cpu").comparisons}
    last = table.filter(algorithm="Entropy-SGLD", labels="true").row(-1, named=True)
    assert [one.ours for what, one in found.items() if "Gibbs classifier" in what] == [last["gibbs_test_error"]]
    assert [one.ours for what, one in found.items() if "thermal noise 0.1" in what] == [None], "cpu does not run it"
    assert all(one.why and one.paper for one in found.values())
