"""Certificates on all data: the committed tables follow from the committed reports, and none is below its error."""

import inspect
from dataclasses import fields, replace
from functools import partial
from types import SimpleNamespace

import polars as pl
import pytest
from tiny_runs import carried_out

from experiments.claims import least_risk
from experiments.ours.all_data import COMPRESSION, LEARNT, SECTION, TRAJECTORY, compressions
from experiments.runner import RESULTS, read_table
from experiments.runs import learnt
from experiments.runs.compression import COMPRESSED, COUNT, COUNTED
from experiments.runs.temperature import BRIEF
from experiments.runs.trajectory import TRIED
from pacdp.cli.folder import Folder, read_json
from pacdp.cli.sweep.jobs import Job
from pacdp.features import OrientedGradients, aligned
from tests.marks import parametrize


def done(job, report):
    return SimpleNamespace(job=job, tags=job.tags, result=report)


def tables():
    return {study.name: read_table(RESULTS / study.name) for study in SECTION.studies}


@parametrize("study", [TRAJECTORY, COMPRESSION, LEARNT], ids=lambda study: study.name)
def test_committed_rows_are_what_the_committed_reports_say(study):
    rows = list[dict]()
    for job in study.jobs(False, 0):
        report = read_json(RESULTS / study.name / "certificates" / f"{job.key}.json")
        rows += study.rows(done(job, report | {"details": {"seconds": None} | report["details"]}))
    names = study.columns.split()
    made = pl.DataFrame([{name: row.get(name) for name in names} for row in rows], infer_schema_length=None)
    assert made.equals(tables()[study.name].cast(dict(made.schema)))


def test_no_certificate_is_below_the_risk_that_its_test_error_shows():
    for name, table in tables().items():
        of_one_law = table.filter(pl.col("test_error").is_not_null(), pl.col("dataset") != "xrays")
        assert of_one_law.height > 10, name
        for row in of_one_law.iter_rows(named=True):
            assert row["value"] >= least_risk(row["test_error"], row["n_test"]), (name, row)


def test_random_labels_are_certified_at_chance_or_above():
    own = tables()
    trajectories = own["trajectory"].filter(pl.col("dataset") == "mnist+random", pl.col("status") == "rigorous")
    assert trajectories.height
    assert trajectories["value"].min() >= 0.9
    compressed = own["compression"].filter(pl.col("labels") == "random")
    assert compressed.height
    assert compressed["value"].min() >= 0.5


def test_a_count_takes_the_count_s_certificate_and_a_run_without_one_is_vacuous():
    certificates = [{"name": name, "k": k} for name, k in (("compression", 60), ("test_set_clopper_pearson", 16))]
    report = read_json(RESULTS / "compression/certificates/routes-held-out-500.json")
    assert {one["name"] for one in certificates} <= {one["name"] for one in report["certificates"]}
    row = partial(_row, report)
    assert (row(COUNTED)["k"], row(COMPRESSED)["k"]) == (16, 60)
    assert row(COUNTED)["value"] < row(COMPRESSED)["value"]
    bare = _row(report | {"certificates": [], "measured": []}, COUNTED)
    assert (bare["value"], bare["k"], bare["status"]) == (1.0, None, "nothing certified")


def _row(report, route):
    (row,) = compressions(done(Job(key="one", kind=COUNT, config=None, tags={"route": route}), report))
    return row


def test_settings_of_a_learnt_head_are_in_the_list_that_is_paid_for():
    assert inspect.signature(aligned).parameters["spreads"].default == (0.19, 0.15)
    other = {name: one.default for name, one in inspect.signature(OrientedGradients).parameters.items()}
    for job in LEARNT.jobs(False, 0):
        own = other | {"spread_y": 0.19, "spread_x": 0.15} | settings_of(job.config)
        assert {name for name, values in learnt.TRIED.items() if own[name] not in values} == set()
        assert job.config.compared == 28_576_800


def settings_of(config):
    return {one.name: getattr(config, one.name) for one in fields(config)}


@pytest.mark.slow
def test_a_chain_s_rows_pay_for_the_settings_that_were_tried(tmp_path):
    (job,) = (one for one in TRAJECTORY.jobs(False, 0) if one.key == "langevin-digits-digits")
    short = replace(job, config=replace(job.config, epochs=3.0, track=BRIEF, certify=BRIEF))
    carried_out([short], tmp_path)
    table = TRAJECTORY.table([short], tmp_path)
    assert {"realised_sum_maurer", "test_set_clopper_pearson"} <= set(table["certificate"])
    assert set(table["steps"]) == {3}
    report = Folder(tmp_path / short.key).result
    assert read_json(report)["choices"]["count"] == TRIED
