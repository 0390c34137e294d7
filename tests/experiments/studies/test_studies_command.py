"""From a study to its results: carried out, published, drawn and judged again, reported, and on the page of results."""

import json
import shutil
from dataclasses import replace
from os import listdir

import polars as pl
import pytest
import tiny_study
from cli_tools import pacdp, read, succeed
from report_pages import page_of
from small_jobs import pids

from experiments.registry import studies, study
from experiments.runner import judge, read_table
from tests.marks import at_most, slow

KEPT = {"table.csv", "figure.png", "figure.pdf", "config.json", "provenance.json", "verdict.json"}


@pytest.fixture(autouse=True)
def tiny(tmp_path, monkeypatch):
    """The study beside random-labels, and an empty current folder."""
    monkeypatch.setitem(studies(), "tiny", tiny_study.STUDY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def alone(tiny, monkeypatch):
    """No other studies beside it."""
    for name in [name for name in studies() if name != "tiny"]:
        monkeypatch.delitem(studies(), name)


def results(tiny, scale="smoke"):
    return tiny / "experiments" / "results" / "tiny" / scale


def tries(tiny):
    return [len(pids(folder)) for folder in (tiny / "runs" / "studies-smoke").iterdir()]


def test_a_study_is_carried_out_and_published_and_not_run_again(tiny, said):
    for _ in range(2):
        text = said("experiment", "tiny", "--seed", 1)
        assert "3 of 3 runs finished; 1 claims hold, 1 do not hold, 1 cannot be told" in text
    out = results(tiny)
    assert {*listdir(out)} == KEPT
    assert tries(tiny) == [1, 1, 1]
    table, made = read_table(out), read(out / "provenance.json")
    assert table["value"].to_list() == [1 / 3, 4 / 3, 9 / 3], "no digit is lost"
    assert dict(table.schema) == {"way": pl.String, "seed": pl.Int64, "value": pl.Float64, "small": pl.Boolean,
                                  "never": pl.Null, "name": pl.String}  # fmt: skip
    assert made["jobs"] == {"planned": 3, "finished": 3, "failed": {}}
    assert [one["runs"] for one in made["runs"]] == [3]
    assert read(out / "config.json")["jobs"]["ends-2"] == {
        "config": {"seed": 2, "way": "ends"}, "tags": {"way": "ends", "seed": 2}
    }  # fmt: skip


def test_a_failed_run_is_said_everywhere_and_the_exit_status_is_1(tiny, capsys):
    assert pacdp("experiment", "tiny", "--scale", "cpu", "--json") == 1
    said = capsys.readouterr()
    out = results(tiny, "cpu")
    assert json.loads(said.out) == read(out / "verdict.json")
    assert "FAILED: KeyError: 'no such thing'" in said.err
    assert read(out / "provenance.json")["jobs"]["failed"] == {"raises-1": "KeyError: 'no such thing'"}
    for command, page in ((("results",), tiny / "docs" / "results.md"), (("report", "tiny"), out / "report.html")):
        succeed(*command)
        assert "Only 2 of 3 runs finished: raises-1: KeyError" in page.read_text().replace("&#39;", "'")


def test_all_studies_go_together_and_one_without_results_spoils_no_other(tiny, alone, monkeypatch, capsys):
    paper = replace(tiny_study.STUDY, name="other", jobs=lambda scale, seed: tiny_study.STUDY.jobs("paper", seed))
    monkeypatch.setitem(studies(), "other", paper)
    assert pacdp("experiment", "all", "--out", tiny / "kept", "--runs", tiny / "scratch") == 1
    said = capsys.readouterr()
    assert "1 of 1 runs of other failed; no run in" in said.err
    assert {*listdir(tiny / "kept" / "tiny" / "smoke")} == KEPT
    assert not (tiny / "experiments").exists()
    assert not (tiny / "kept" / "other").exists()


@at_most(2, "scale", ["smoke", "cpu", "gpu", slow("paper")])
def test_a_key_that_two_studies_share_is_one_configuration(scale):
    configs = {}
    for name in (name for name in studies() if scale in study(name).scales):
        for job in study(name).jobs(scale, 0):
            assert configs.setdefault(job.key, job.config) == job.config, (name, job.key)


def test_a_job_that_two_studies_need_is_carried_out_once(tiny, alone, monkeypatch, said):
    monkeypatch.setitem(studies(), "twin", tiny_study.TWIN)
    text = said("experiment", "all", "--seed", 1)
    assert "tiny (smoke): 3 of 3" in text
    assert "twin (smoke): 3 of 3" in text
    assert tries(tiny) == [1, 1, 1]


def test_a_study_refuses_a_scale_without_a_plan_and_a_dry_run_carries_nothing_out(tiny, said, refused):
    no_plan = "tiny has no plan at scale gpu: choose one of smoke, cpu, paper"
    assert no_plan in refused("experiment", "tiny", "--scale", "gpu")
    assert "tiny (smoke): 3 runs, whose cost is not known beforehand" in said("experiment", "tiny", "--dry-run")
    assert not (tiny / "runs").exists()


def test_figures_are_drawn_and_verdicts_judged_again_from_the_table_alone(tiny):
    succeed("experiment", "tiny")
    out = results(tiny)
    shutil.rmtree(tiny / "runs")
    for which in (("tiny",), ("tiny", "--scale", "smoke"), (out,)):
        before = {name: (out / name).read_bytes() for name in ("figure.png", "figure.pdf")}
        for name in before:
            (out / name).unlink()
        succeed("plot", *which)
        assert {name: (out / name).read_bytes() for name in before} == before
    verdict = read(out / "verdict.json")
    (out / "verdict.json").unlink()
    assert judge(tiny_study.STUDY, out, "smoke") == verdict == read(out / "verdict.json")


def test_a_study_s_page_stands_alone_and_escapes_what_files_say(tiny):
    succeed("experiment", "tiny", "--seed", 1)
    succeed("report", "tiny", "--out", tiny / "page.html")
    page = page_of(tiny / "page.html")
    assert "script" not in page.tags
    assert "b" not in page.tags
    assert all(reference.startswith("data:image/png;base64,") for reference in page.references)
    assert len(page.references) == 1
    comparisons, claims, table, _ = page.tables
    assert comparisons[1] == ["the largest | of them", "3.25", "3", "other\nseeds <b>"]
    assert [row[1] for row in claims[1:]] == ["holds", "DOES NOT HOLD", "cannot tell"]
    assert table[1][-1] == "<1|x>"
