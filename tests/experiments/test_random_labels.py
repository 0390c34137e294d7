"""The random-label experiment: its plan, its runs, its table and figure, and the search for broken bounds."""

from dataclasses import replace
from math import isclose, log
from os import listdir

import polars as pl
import pytest
from cli_tools import read
from tiny_runs import EFFORT, RUNTIME

from experiments.papers.gaps import violations
from experiments.papers.random_labels import RANDOM_LABELS as STUDY
from experiments.papers.random_labels import jobs
from experiments.runner import publish, read_table
from pacdp import Architecture
from pacdp.cli.figures.names import CONVERGED, GIBBS_BOUNDS
from pacdp.cli.folder import Folder
from pacdp.cli.sweep.batches import carry_out
from pacdp.cli.sweep.workers import Workers
from tests.oracles.kl_by_mpmath import kl

BOUNDS = [name for name in CONVERGED if name != "test_set_clopper_pearson"]


ERRORS = {"test_error": 0.5, "gibbs_test_error": 0.3}


def _tiny(job):
    problem = replace(job.config.problem, architecture=Architecture(hidden=(8,)))
    run = replace(job.config, problem=problem, epochs=2.0, records=2, track=EFFORT, certify=EFFORT)
    return replace(job, key=run.key, config=run)


@pytest.fixture(scope="module")
def plan():
    """SGD on true labels, Entropy-SGLD and SGLD on random ones."""
    found = jobs("smoke")
    chosen = [("SGD", "true"), ("Entropy-SGLD", "random"), ("SGLD", "random")]
    return [_tiny(next(c for c in found if (c.config.algorithm, c.tags["labels"]) == one)) for one in chosen]


@pytest.fixture(scope="module")
def finished(plan, tmp_path_factory):
    folder = tmp_path_factory.mktemp("random-labels")
    found = carry_out(plan, [folder / job.key for job in plan], RUNTIME, workers=Workers())
    assert dict(found) == dict.fromkeys(range(3))
    return folder


def test_publish_leaves_figure_table_configuration_provenance_verdict_and_summary(plan, finished, tmp_path):
    out = tmp_path / "results"
    publish(STUDY, plan, finished, out, scale="smoke", device="cpu", seed=0, failed={})
    summary = read(out / "summary.json")
    assert {*listdir(out)} == {
        "table.csv", "figure.png", "figure.pdf", "config.json", "provenance.json", "summary.json", "verdict.json"
    }  # fmt: skip
    assert (summary["runs"], summary["rows"]) == (3, 6)
    assert summary["bounds_compared"] == 2 * len(BOUNDS) + 2 * (len(BOUNDS) - len(GIBBS_BOUNDS))
    table = read_table(out)
    assert table.height == 6
    for job in plan:
        last = Folder(finished / job.key).rows()[-1]
        row = table.filter(run=job.key).row(-1, named=True)
        assert row["test_error"] == last["test_error"]
        assert isclose(row["epochs_over_l"], last["epochs"] / 20)
        for name in BOUNDS:
            assert row[name] == last.get("bounds", {}).get(name)


def test_violations_compare_each_bound_with_its_own_classifier(plan, finished):
    table = STUDY.table(plan, finished)
    values = {name: 0.4 if name in GIBBS_BOUNDS else 0.6 for name in BOUNDS}
    one = table.filter(algorithm="Entropy-SGLD")[:1]
    sound = one.with_columns(pl.lit(value).alias(name) for name, value in (values | ERRORS).items())
    assert violations(sound) == []
    for name in BOUNDS:
        (planted,) = violations(sound.with_columns(pl.lit(0.25 if name in GIBBS_BOUNDS else 0.4).alias(name)))
        error = ERRORS["gibbs_test_error" if name in GIBBS_BOUNDS else "test_error"]
        assert (planted["bound"], planted["test_error"], planted["run"]) == (name, error, plan[1].key)
        limit = planted["test_error_at_least"]
        assert isclose(360 * kl(error, limit), log(20), rel_tol=1e-9)
        assert planted["within_test_noise"] == (planted["value"] >= limit)
    assert violations(sound.with_columns(pl.lit(0.3).alias("dp_pac_bayes"))) == [], "equal is not below"
    assert violations(table.filter(algorithm="SGD")) == [], "no bounds, nothing to break"
