"""docs/faults.md follows from the committed record of a run of every fault, and nothing was lost in it."""

import json

from tests.fault_table import DOCS, rendered
from tests.fault_worlds import WORLDS


def test_the_faults_that_were_tried_are_those_of_the_run_and_nothing_was_lost():
    record = json.loads((DOCS / "faults.json").read_text(encoding="utf-8"))
    assert (DOCS / "faults.md").read_text(encoding="utf-8").endswith("\n\n" + rendered(record))
    rows = [*record["commands"], *record["algorithms"]]
    assert [one["name"] for one in record["commands"]] == [world.name for world in WORLDS]
    assert all(one["lost"] == [] for one in rows)
    assert sum(one["tried"]["kill"] for one in record["algorithms"]) >= 200
