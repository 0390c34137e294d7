"""What holds of every study: its runs, its committed table, and the page of results that is made of all of them."""

import csv
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from tiny_runs import carried_out

from experiments.page import render
from experiments.registry import sections, studies, titles
from experiments.runner import RESULTS, read_table, results_of
from pacdp.cli.folder import read_json
from pacdp.cli.serial import from_dict, to_dict
from tests.marks import every_case, slow

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "results.md"
NAMES = list(studies())
# Copied from the papers' texts, column by column, without our own tables.
PRINTED = {
    "papers.knolle": """
        0.984 0.999 0.0020 0.5 0.967 0.996 0.0210 0.5 0.963 0.995 0.0044
        0.857 0.942 0.0526 6.0 0.783 0.910 0.1790 6.0 0.786 0.920 0.0833""",
    "papers.zhang_bu": """
        0.90 0.95 0.89 0.95 0.96 0.90 0.80 0.81 0.97 0.98 0.78 0.77 0.98 0.97 0.77 0.95 0.97 0.99
        0.204 0.641 0.024 0.052 0.167 0.141 0.166 0.166 0.007 0.175 0.035 0.175 0.126 0.465 0.008 0.289
        0.008 0.080 0.030 0.041 0.078 0.225 0.002 0.725 0.013 0.089 0.016 0.139 0.106 0.625 0.005 0.299
        0.510 0.523 1.276 0.562 0.682 0.591""",
    "papers.p3sgd": "95.23 6.97 94.31 7.10 93.57 4.97 94.38 8.48 93.24 5.13 92.15 4.70",
}
"""Tables 1 and 2 of Knolle et al., Tables 1 to 3 of Zhang and Bu but for times and a run that diverged, Table 2 of Wu
et al."""


def _records():
    """All that answers a row of sentences.csv."""
    for section in sections().values():
        for study in section.studies:
            yield from (*study.sentences, *study.numbers)
        for sentences in section.beside.values():
            yield from sentences
        yield from (*section.errata, *section.not_run)


@pytest.mark.parametrize("smoke", [True, False])
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


@pytest.mark.parametrize("name", [slow(name) for name in NAMES])
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


@every_case("name", [name for name in PRINTED if name in sections()])
def test_every_number_of_a_printed_table_is_beside_ours(name):
    lines = [one for study in sections()[name].studies for one in study.numbers]
    found = Counter(
        float(number)
        for one in lines for value, _ in one.numbers.values() for number in re.findall(r"\d*\.?\d+", str(value or ""))
    )  # fmt: skip
    printed = Counter(map(float, PRINTED[name].split()))
    assert {number: count for number, count in printed.items() if found[number] < count} == {}


def test_the_page_of_results_is_made_again_byte_for_byte():
    assert PAGE.read_text(encoding="utf-8") == render(ROOT / RESULTS, PAGE.parent), "run pacdp results"
