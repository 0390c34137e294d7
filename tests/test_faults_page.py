"""docs/faults.md names, for every fault, tests that exist in the files that it names; the rest follows from a run."""

import json
import re
from pathlib import Path

import pytest

from tests.fault_table import DOCS, MARK, rendered
from tests.fault_worlds import WORLDS

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "faults.md").read_text(encoding="utf-8").partition(MARK)[0]
ROWS = [line.split("|")[1:-1] for line in PAGE.splitlines() if line.startswith("| ")][2:]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1].strip()[:40])
def test_every_fault_has_tests_that_exist(row):
    named = [(file, name) for part in row[3].split(";")
             for file in re.findall(r"`([\w/]+\.py)`", part) for name in re.findall(r"`(test_\w+)`", part)]  # fmt: skip
    assert named
    for file, name in named:
        assert f"def {name}(" in (TESTS / file).read_text(encoding="utf-8"), f"{name} is not in {file}"


def test_no_fault_is_missing():
    assert {row[0].strip() for row in ROWS} - {""} == {"B1", "B2", "B3", "B4", "G2", "P2", "P3", "P4", "U1"}
    assert len(ROWS) >= 16


def test_the_faults_that_were_tried_are_those_of_the_run_and_nothing_was_lost():
    record = json.loads((DOCS / "faults.json").read_text(encoding="utf-8"))
    assert (DOCS / "faults.md").read_text(encoding="utf-8").endswith("\n\n" + rendered(record))
    rows = [*record["commands"], *record["algorithms"]]
    assert [one["name"] for one in record["commands"]] == [world.name for world in WORLDS]
    assert all(one["lost"] == [] for one in rows)
    assert sum(one["tried"]["kill"] for one in record["algorithms"]) >= 200
