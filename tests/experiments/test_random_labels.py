"""The random-label experiment: its plan, its runs, its table and figure, and the search for broken bounds."""

import json
import math
from dataclasses import replace

import polars as pl
import pytest
from certificates_by_mpmath import kl
from cli_tools import one_sentence, pacdp, read
from experiments.fleet import Workers

from experiments import random_labels
from experiments.config import Runtime
from experiments.figures.style import CONVERGED, GIBBS_BOUNDS
from experiments.folder import Folder
from experiments.random_labels import cells, collect, conduct, publish, violations
from experiments.recipes import SIZES, tau_of
from pacdp import Architecture, GibbsSettings

QUICK = Runtime(threads=1)
BOUNDS = [name for name in CONVERGED if name != "test_set_clopper_pearson"]


def _tiny(cell: random_labels.Cell) -> random_labels.Cell:
    effort = GibbsSettings(epochs=1.0, prior_draws=2, test_draws=2)
    problem = replace(cell.run.problem, architecture=Architecture(hidden=(8,)))
    run = replace(cell.run, problem=problem, epochs=2.0, records=2, track=effort, certify=effort)
    return replace(cell, run=run)


@pytest.fixture(scope="module")
def plan():
    """SGD on true labels, Entropy-SGLD and SGLD on random ones."""
    found = cells("smoke")
    chosen = [("SGD", "true"), ("Entropy-SGLD", "random"), ("SGLD", "random")]
    return [_tiny(next(c for c in found if (c.run.algorithm, c.labels) == one)) for one in chosen]


@pytest.fixture(scope="module")
def finished(plan, tmp_path_factory):
    folder = tmp_path_factory.mktemp("random-labels")
    assert [error for _, error in conduct(plan, folder, QUICK, workers=Workers())] == [None] * 3
    return folder


@pytest.mark.parametrize(
    ("scale", "dataset", "runs"), [("smoke", "digits2", 14), ("cpu", "mnist2", 20), ("paper", "mnist2", 28)]
)
def test_the_plan_has_every_algorithm_on_true_and_random_labels(scale, dataset, runs):
    plan, noises = cells(scale, seed=3), random_labels.NOISES[scale]
    assert len(plan) == len({cell.run.key for cell in plan}) == runs
    for labels, fraction in (("true", 0.0), ("random", 1.0)):
        part = [cell for cell in plan if cell.labels == labels]
        assert len(part) == runs / 2
        assert {cell.run.algorithm for cell in part} == {"SGD", "SGLD", "Entropy-SGD", "Entropy-SGLD"}
        assert {cell.run.problem.random_labels for cell in part} == {fraction}
        assert {(cell.run.problem.dataset, cell.run.seed) for cell in part} == {(dataset, 3)}
        for name, algorithm in (("sgld", "SGLD"), ("entropy-sgd", "Entropy-SGD")):
            seen = {cell.thermal_noise for cell in part if cell.run.algorithm == algorithm}
            assert seen >= set(noises[name])
        private = [cell for cell in part if getattr(cell.run.sampler, "tau", 0.0) == math.sqrt(SIZES[dataset])]
        assert sorted(cell.run.algorithm for cell in private) == ["Entropy-SGLD", "SGLD"]
        for cell in part:
            if cell.run.algorithm != "SGD":
                assert math.isclose(cell.run.sampler.thermal_noise, cell.thermal_noise, rel_tol=1e-12)
    assert math.isclose(math.sqrt(2 / tau_of(0.03)), 0.03)


def test_true_and_random_runs_differ_in_their_labels_only():
    true, random = (next(c.run for c in cells("smoke") if c.labels == labels) for labels in ("true", "random"))
    assert replace(random, problem=replace(random.problem, random_labels=0.0)) == true


def test_publish_leaves_figure_table_configuration_provenance_and_summary(plan, finished, tmp_path):
    out = tmp_path / "results"
    summary = publish(plan, finished, out, scale="smoke", device="cpu", seed=0)
    assert {path.name for path in out.iterdir()} == {
        "table.csv", "figure.png", "figure.pdf", "config.json", "provenance.json", "summary.json"
    }  # fmt: skip
    assert (out / "figure.png").stat().st_size > 50_000
    assert (out / "figure.pdf").read_bytes().startswith(b"%PDF")
    assert summary == read(out / "summary.json")
    assert (summary["runs"], summary["rows"]) == (3, 6)
    assert summary["bounds_compared"] == 2 * len(BOUNDS) + 2 * (len(BOUNDS) - len(GIBBS_BOUNDS))
    assert [row["algorithm"] for row in summary["final"]] == ["SGD", "Entropy-SGLD", "SGLD"]
    assert read(out / "config.json")["runs"].keys() == {cell.run.key for cell in plan}
    assert read(out / "provenance.json")["seed"] == 0
    table = pl.read_csv(out / "table.csv", infer_schema_length=None)
    assert table.height == 6
    for cell in plan:
        last = Folder(finished / cell.run.key).rows()[-1]
        row = table.filter(run=cell.run.key).row(-1, named=True)
        assert math.isclose(row["test_error"], last["test_error"], abs_tol=1e-8)
        assert math.isclose(row["epochs_over_l"], last["epochs"] / 20, abs_tol=1e-8)
        for name in BOUNDS:
            stated = last.get("bounds", {}).get(name)
            assert (row[name] is None) == (stated is None)
            assert stated is None or math.isclose(row[name], stated, abs_tol=1e-8)


def test_what_is_finished_is_not_run_again(plan, finished):
    files = [finished / cell.run.key / name for cell in plan for name in ("checkpoint.safetensors", "result.json")]
    before = [path.stat().st_mtime_ns for path in files]
    assert [error for _, error in conduct(plan, finished, QUICK, workers=Workers())] == [None] * 3
    assert [path.stat().st_mtime_ns for path in files] == before


def test_two_workers_fill_the_same_table(plan, finished, tmp_path):
    ended = dict.fromkeys(cell.run.key for cell, _ in conduct(plan, tmp_path, QUICK, workers=Workers(workers=2)))
    assert ended.keys() == {cell.run.key for cell in plan}
    assert collect(plan, tmp_path).equals(collect(plan, finished), null_equal=True)


def test_a_failing_run_is_reported_and_the_others_finish(plan, finished, tmp_path):
    bad = replace(plan[0], run=replace(plan[0].run, sampler=replace(plan[0].run.sampler, step_size=1e30)))
    errors = {cell.run.key: error for cell, error in conduct([bad, *plan[1:]], tmp_path, QUICK, workers=Workers())}
    assert "NaN or infinite" in errors.pop(bad.run.key)
    assert list(errors.values()) == [None, None]
    table = collect([bad, *plan[1:]], tmp_path)
    assert table["run"].unique(maintain_order=True).to_list() == [cell.run.key for cell in plan[1:]]
    summary = publish([bad, *plan[1:]], tmp_path, tmp_path / "out", scale="smoke", device="cpu", seed=0)
    assert summary["rows"] == 4


def test_violations_compare_each_bound_with_its_own_classifier(plan, finished):
    table = collect(plan, finished)
    one = table.filter(algorithm="Entropy-SGLD")[:1]
    sound = one.with_columns(test_error=pl.lit(0.5), gibbs_test_error=pl.lit(0.3)).with_columns(
        *(pl.lit(0.4 if name in GIBBS_BOUNDS else 0.6).alias(name) for name in BOUNDS)
    )
    assert violations(sound) == []
    for name in BOUNDS:
        planted = violations(sound.with_columns(pl.lit(0.25 if name in GIBBS_BOUNDS else 0.4).alias(name)))
        assert [row["bound"] for row in planted] == [name]
        assert planted[0]["test_error"] == (0.3 if name in GIBBS_BOUNDS else 0.5)
        assert planted[0]["run"] == plan[1].run.key
        limit = planted[0]["test_error_at_least"]
        assert math.isclose(360 * kl(planted[0]["test_error"], limit), math.log(20), rel_tol=1e-9)
        assert planted[0]["within_test_noise"] == (planted[0]["value"] >= limit)
    assert violations(sound.with_columns(pl.lit(0.3).alias("dp_pac_bayes"))) == [], "equal is not below"
    assert violations(table.filter(algorithm="SGD")) == [], "no bounds, nothing to break"


def test_the_command_carries_it_out(plan, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(random_labels, "cells", lambda scale, seed: plan)
    where = ("--runs", tmp_path / "runs", "--out", tmp_path / "out")
    assert pacdp("experiment", "random-labels", "--json", *where) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == read(tmp_path / "out" / "summary.json")
    assert "[3/3]" in printed.err
    (tmp_path / "out" / "figure.png").unlink()
    assert pacdp("plot", tmp_path / "out") == 0
    assert (tmp_path / "out" / "figure.png").stat().st_size > 50_000
    assert pacdp("experiment", "random-labels", *where) == 0
    assert "bounds compared" in capsys.readouterr().out


@pytest.mark.parametrize("healthy", [2, 0])
def test_the_command_reports_failed_runs_and_exits_1(healthy, plan, tmp_path, monkeypatch, capsys):
    bad = replace(plan[0], run=replace(plan[0].run, sampler=replace(plan[0].run.sampler, step_size=1e30)))
    monkeypatch.setattr(random_labels, "cells", lambda scale, seed: [bad, *plan[1 : 1 + healthy]])
    assert pacdp("experiment", "random-labels", "--runs", tmp_path / "runs", "--out", tmp_path / "out") == 1
    said = capsys.readouterr().err.strip().splitlines()
    assert "FAILED" in said[0]
    assert ("1 of 3 runs failed" if healthy else "nothing to publish") in one_sentence(said[-1])
    assert (tmp_path / "out" / "table.csv").exists() == bool(healthy)
