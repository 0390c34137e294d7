"""What holds of every study: its runs, its committed table, and the page of results that is made of all of them."""

import csv
import json
import re
from collections import Counter
from pathlib import Path

from tiny_runs import carried_out

from experiments.page import render
from experiments.registry import sections, studies, titles
from experiments.runner import RESULTS, read_table, results_of
from pacdp.cli.folder import read_json
from pacdp.cli.serial import from_dict, to_dict
from tests.marks import every_case, parametrize, slow

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "results.md"
NAMES = list(studies())


def _records():
    """All that answers a row of sentences.csv."""
    for section in sections().values():
        for study in section.studies:
            yield from (*study.sentences, *study.numbers)
        for sentences in section.beside.values():
            yield from sentences
        yield from (*section.errata, *section.not_run)


@parametrize("smoke", [True, False])
def test_a_key_tells_runs_apart_and_is_one_configuration_in_all_studies(smoke):
    configs = {}
    assert titles() == {name: (study.title, study.paper) for name, study in studies().items()}
    for name, study in studies().items():
        jobs = study.jobs(smoke, 0)
        assert 0 < len({job.key for job in jobs}) == len(jobs), name
        for job in jobs:
            assert configs.setdefault(job.key, job.config) == job.config, (name, job.key)


@every_case("name", NAMES)
def test_configurations_are_read_back_as_they_were(name):
    for job in (*studies()[name].jobs(True, 3), *studies()[name].jobs(False, 3)):
        assert from_dict(type(job.config), json.loads(json.dumps(to_dict(job.config)))) == job.config


@every_case("name", NAMES)
def test_a_committed_table_is_the_study_s_and_is_read_without_loss(name, tmp_path):
    study, folder = studies()[name], results_of(name, root=ROOT / RESULTS)
    table, made = read_table(folder), read_json(folder / "provenance.json")
    assert table.write_csv() == (folder / "table.csv").read_text(encoding="utf-8")
    assert table.columns == (study.columns.split() or table.columns)
    assert (made["study"], made["smoke"]) == (name, False)
    assert {path.stem for path in folder.glob("*.png")} == set(study.figures)
    said = study.judged(table)
    assert [one.said for one in said if "missing" in one.said or re.search(r"\{[a-z_]|\bnan\b|\binf\b", one.said)] == []
    nothing = study.table([], tmp_path)
    assert {one.holds for one in study.judged(nothing)} <= {None}, "where no run has ended nothing is claimed"


@parametrize("name", [slow(name) for name in NAMES])
def test_smoke_runs_leave_rows_that_are_drawn_and_judged(name, tmp_path):
    study = studies()[name]
    jobs = study.jobs(True, 0)
    carried_out(jobs, tmp_path / "runs")
    study.table(jobs, tmp_path / "runs").write_csv(tmp_path / "table.csv")
    table = read_table(tmp_path)
    assert table.height
    assert table.columns == (study.columns.split() or table.columns)
    assert all(path.is_file() for path in study.draw(table, tmp_path))
    assert len(study.judged(table)) == len(study.sentences)


def test_every_row_of_sentences_that_is_kept_is_answered_once():
    with (ROOT / "experiments" / "sentences.csv").open(encoding="utf-8") as file:
        keep = {row["key"]: row["keep"] for row in csv.DictReader(file)}
    answered = Counter(key for key, _ in {(key, one.place) for one in _records() for key in one.answers})
    assert answered.keys() - keep.keys() == set()
    once = {key for key, kept in keep.items() if kept in ("yes", "line", "add", "errata")}
    assert {key: answered[key] for key in once if answered[key] != 1} == {}
    assert [key for key, kept in keep.items() if kept == "merge" and not answered[key]] == []


def test_the_page_of_results_is_made_again_byte_for_byte():
    assert PAGE.read_text(encoding="utf-8") == render(ROOT / RESULTS, PAGE.parent), "run pacdp results"
