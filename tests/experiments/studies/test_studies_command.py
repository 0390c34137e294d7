"""From a study to its results: carried out, published, drawn again, reported, and on the page of results."""

import json
import shutil
from dataclasses import replace
from os import listdir
from unittest.mock import patch

import polars as pl
import pytest
import tiny_study
from cli_tools import pacdp, read, succeed
from report_pages import page_of
from small_jobs import job, pids

from experiments import page as results_page
from experiments import registry
from experiments.registry import sections, studies
from experiments.runner import read_table
from pacdp.cli.folder import write_json

KEPT = {"table.csv", "figure.png", "figure.pdf", "provenance.json"}


@pytest.fixture(autouse=True)
def tiny(tmp_path, monkeypatch):
    """The study alone, and an empty current folder."""
    monkeypatch.setattr(results_page, "TEN", tiny_study.TEN)
    monkeypatch.setattr(results_page, "HEADLINES", tiny_study.HEADLINES)
    monkeypatch.setattr(registry, "titles", lambda: {"tiny": (tiny_study.STUDY.title, tiny_study.STUDY.paper)})
    monkeypatch.chdir(tmp_path)
    with (
        patch.dict(studies(), {"tiny": tiny_study.STUDY}, clear=True),
        patch.dict(sections(), {"papers.tiny": tiny_study.SECTION}, clear=True),
    ):
        yield tmp_path


def results(tiny):
    return tiny / "experiments" / "results" / "tiny"


def tries(tiny, runs="studies-smoke"):
    return [len(pids(folder)) for folder in (tiny / "runs" / runs).iterdir()]


def test_a_study_is_carried_out_and_published_and_not_run_again(tiny, said):
    for _ in range(2):
        text = said("experiment", "tiny", "--smoke", "--seed", 1)
        assert "3 of 3 runs finished; of its sentences 1 holds, 1 does not hold, 1 is open" in text
        assert "  holds: There are values. The largest value is 3. [top 3]" in text
        assert "  is open: The moon | is made of <b>cheese</b>. Runs are missing. [top 3]" in text
    out = tiny / "runs" / "smoke" / "tiny"
    assert not (tiny / "experiments").exists()
    assert {*listdir(out)} == KEPT
    assert tries(tiny) == [1, 1, 1]
    table, made = read_table(out), read(out / "provenance.json")
    assert table["value"].to_list() == [1 / 3, 4 / 3, 9 / 3], "no digit is lost"
    assert dict(table.schema) == {"way": pl.String, "seed": pl.Int64, "value": pl.Float64, "small": pl.Boolean,
                                  "never": pl.Null, "name": pl.String}  # fmt: skip
    assert made["jobs"] == {"planned": 3, "finished": 3, "failed": {}}
    assert [one["runs"] for one in made["runs"]] == [3]
    assert (made["study"], made["smoke"], made["seed"]) == ("tiny", True, 1)


def test_a_failed_run_is_said_everywhere_and_the_exit_status_is_1(tiny, capsys):
    assert pacdp("experiment", "tiny", "--json") == 1
    said = capsys.readouterr()
    out = results(tiny)
    assert [one["holds"] for one in json.loads(said.out)["sentences"]] == [True, False, None]
    assert "FAILED: KeyError: 'no such thing'" in said.err
    assert "1 of 3 runs of tiny failed" in said.err
    assert read(out / "provenance.json")["jobs"]["failed"] == {"raises-1": "KeyError: 'no such thing'"}
    succeed("report", "tiny")
    assert "Only 2 of 3 runs finished: raises-1: KeyError" in (out / "report.html").read_text().replace("&#39;", "'")
    succeed("results")
    assert "and 1 that failed" in (tiny / "docs" / "results.md").read_text()


def test_all_studies_go_together_and_one_without_results_spoils_no_other(tiny, monkeypatch, capsys):
    lost = replace(tiny_study.STUDY, name="other", jobs=lambda smoke, seed: [job(seed, "raises")])
    monkeypatch.setitem(studies(), "other", lost)
    assert pacdp("experiment", "all", "--smoke", "--out", tiny / "kept", "--runs", tiny / "scratch") == 1
    said = capsys.readouterr()
    assert "1 of 1 runs of other failed; no run in" in said.err
    assert {*listdir(tiny / "kept" / "tiny")} == KEPT
    assert not (tiny / "kept" / "other").exists()


def test_a_job_that_two_studies_need_is_carried_out_once(tiny, monkeypatch, said, refused):
    monkeypatch.setitem(studies(), "twin", tiny_study.TWIN)
    text = said("experiment", "all", "--smoke", "--seed", 1)
    assert "tiny: 3 of 3" in text
    assert "twin: 3 of 3" in text
    assert tries(tiny) == [1, 1, 1]
    other = replace(tiny_study.TWIN, jobs=lambda smoke, seed: [replace(job(4), key="ends-1")])
    monkeypatch.setitem(studies(), "twin", other)
    assert "tiny and twin have jobs of one key, ends-1" in refused("experiment", "all", "--smoke", "--seed", 1)
    monkeypatch.setitem(studies(), "twin", replace(other, jobs=lambda smoke, seed: [job(4), job(4)]))
    assert "two jobs of twin have the same key" in refused("experiment", "twin", "--smoke")


def test_a_dry_run_says_the_runs_and_carries_none_out(tiny, said, refused):
    planned = json.loads(said("experiment", "tiny", "--dry-run", "--seed", 1))
    assert planned["jobs"]["raises-2"] == {"config": {"seed": 2, "way": "raises"}, "tags": {"way": "raises", "seed": 2}}
    assert not (tiny / "runs").exists()
    assert "no experiment is called 'tinny'" in refused("experiment", "tinny", status=(2,))
    assert "tiny  Squares of seeds (Nobody (1900), Table 1)" in said("experiment", "list")


def test_figures_are_drawn_again_from_the_table_alone(tiny):
    succeed("experiment", "tiny", "--smoke", "--out", results(tiny))
    out = results(tiny)
    shutil.rmtree(tiny / "runs")
    for which in ("tiny", out):
        before = {name: (out / name).read_bytes() for name in ("figure.png", "figure.pdf")}
        for name in before:
            (out / name).unlink()
        succeed("plot", which)
        assert {name: (out / name).read_bytes() for name in before} == before


def test_a_folder_that_is_not_a_study_s_is_neither_overwritten_nor_drawn(tiny, refused):
    mine = tiny / "mine"
    mine.mkdir()
    (mine / "table.csv").write_text("mine")
    said = refused("experiment", "tiny", "--smoke", "--out", mine, alone=False)
    assert "does not hold results of tiny: choose another --out" in said
    assert not (tiny / "runs").exists(), "before any work"
    assert "provenance.json names no study: run the experiment again" in refused("report", mine)
    assert {*listdir(mine)} == {"table.csv"}
    assert (mine / "table.csv").read_text() == "mine"
    assert "holds no results of tiny: make them with pacdp experiment tiny" in refused("plot", "tiny")
    write_json(mine / "provenance.json", {"study": "other"})
    assert "does not hold results of tiny" in refused("experiment", "tiny", "--out", mine, alone=False)
    write_json(mine / "provenance.json", {"study": "tiny", "smoke": False})
    assert "smoke runs say nothing" in refused("experiment", "tiny", "--smoke", "--out", mine, alone=False)


def test_a_study_s_page_stands_alone_and_escapes_what_files_say(tiny):
    succeed("experiment", "tiny", "--seed", 1, "--smoke", "--out", results(tiny))
    succeed("report", "tiny", "--out", tiny / "page.html")
    page = page_of(tiny / "page.html")
    assert "script" not in page.tags
    assert "b" not in page.tags
    assert all(reference.startswith("data:image/png;base64,") for reference in page.references)
    assert len(page.references) == 1
    numbers, sentences, table = page.tables
    assert numbers[1:] == [
        ["Table 1, the largest | of them: value", "3.25", "3", "other\nseeds <b>"],
        ["Table 1, the moon: value", "–", "–", ""], ["Table 1, the moon: weight", "7", "3", ""],
    ]  # fmt: skip
    assert [row[2] for row in sentences[1:]] == ["holds", "does not hold", "is open"]
    assert sentences[3][0] == "The moon | is made of <b>cheese</b>."
    assert table[1][-1] == "<1|x>"


def test_the_page_of_results_is_made_of_the_tables(tiny, refused):
    assert "experiments/results is no folder" in refused("results")
    succeed("experiment", "tiny", "--seed", 1, "--smoke", "--out", results(tiny))
    succeed("results")
    text = (tiny / "docs" / "results.md").read_text()
    for line in (
        "|[How large?](#squares-nobody-1900)|3.25 (Nobody)|At most 3.00.||",
        "|the largest &#124; of them|3.25/3|–|",
        "- *All values are above 1* (1): **does not hold**. The largest value is 3. Seeds were ours.",
        "- Nobody, 2: A square is no circle.",
    ):
        assert line in text
    assert "**is open**. Runs are missing." in text
    (results(tiny) / "table.csv").unlink()
    assert "holds no results of tiny" in refused("results")
