"""Puts every command and every algorithm to every fault, and writes docs/faults.json and docs/faults.md.

python -m tests.fault_table
"""

import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pacdp.cli.folder import provenance, write_json
from pacdp.store.files import replacing
from tests.fault_worlds import KINDS, WORLDS, put_to

DOCS = Path(__file__).parents[1] / "docs"
MARK = "## What was tried\n"
_HEAD = """
Read this page if a run of yours was killed, or if your disk was full. In the test a process counts what it does to
files (opening for writing, writing, flushing, renaming, linking, removing, cutting, making folders) and meets a fault
at the k-th: it is killed; a write arrives by half and it is killed; the disk is full from there on; or the operation
fails once with an I/O error. Lost would be: a file of the user's that is not what it was, a half-written file under its
own name, more than a sentence on standard error, or a next try that does not end as if there had been no fault.
`python -m tests.fault_table` writes this page.

This is every operation of every command, in small runs:

|command|killed|torn|disk full|I/O error|survived|lost|
|---|---|---|---|---|---|---|
"""
_ALGORITHMS = """
These are kills at random operations, whole or torn, over and over until a run has ended. Seeded runs must end with the
weights, rows and numbers of an uninterrupted one, to the bit. Of private runs, every sum that leaves the mechanism is
noted as it leaves, and the ledger must count all of them after every kill; with secret noise one that leaves again
costs again.

|algorithms|noise|kills|runs that ended in between|survived|lost|
|---|---|---|---|---|---|
"""

_END = """
## What can go wrong

A fault that is not in this list can still do harm: a disk that loses what it said it had flushed, a copy of a private
run's folder that goes on beside the original, a clock or memory that is wrong. The noise of a private run that is drawn
twice is paid for twice only where the [ledger](ledger.md) sees both.
"""


def main():
    """Run everything, write both files; 1 if anything was lost, or next to nothing tried."""
    made_by = provenance(device="cpu", seed=0)
    with tempfile.TemporaryDirectory() as root, ThreadPoolExecutor(2) as pool:
        commands = list(pool.map(lambda world: _command(world, Path(root), made_by), WORLDS))
        algorithms = list(pool.map(lambda one: _algorithm(*one, Path(root), made_by), _algorithms()))
    record = {"format": "pacdp-faults/1", "provenance": made_by, "commands": commands, "algorithms": algorithms}
    write_json(DOCS / "faults.json", record)
    page = DOCS / "faults.md"
    text = page.read_text(encoding="utf-8").partition(MARK)[0].rstrip("\n") + "\n\n" + rendered(record)
    with replacing(page) as file:
        file.write(text.encode())
    every = [*commands, *algorithms]
    return int(any(one["lost"] or sum(one["tried"].values()) < 10 for one in every))


def rendered(record):
    """The part of the page."""
    rows = record["commands"]
    text = MARK + _HEAD + "".join(
        _line([one["name"], *(one["tried"].get(kind, 0) for kind in KINDS), *_fate(one)]) for one in rows
    )  # fmt: skip
    sums = [sum(one["tried"].get(kind, 0) for one in rows) for kind in KINDS]
    text += _line(["all", *sums, *_together(rows)]) + _ALGORITHMS
    rows = record["algorithms"]
    for noise in ("seeded", "secret"):
        alike = [one for one in rows if one["noise"] == noise]
        text += _line([", ".join(one["name"] for one in alike), noise, *_kills_and_runs(alike), *_together(alike)])
    return text + _line(["all", "", *_kills_and_runs(rows), *_together(rows)]) + _END


def _kills_and_runs(rows):
    return [sum(one["tried"]["kill"] for one in rows), sum(one["runs"] for one in rows)]


def _command(world, root, made_by):
    found = put_to(world, root / world.name.replace(" ", "-"), choose=lambda kind, all_of: all_of)
    print(json.dumps([world.name, found.tried, found.lost]), flush=True)
    return {"name": world.name, "tried": dict(found.tried), "lost": found.lost, "commit": made_by["commit"]}


def _algorithms():
    from test_killed_runs import CHAINS, PRIVATE

    return [(name, True) for name in (*CHAINS, *PRIVATE)] + [(name, False) for name in PRIVATE]


def _algorithm(name, seeded, root, made_by):
    from test_killed_runs import KILLS, PRIVATE, killed_often

    place = root / f"{name}-{seeded}".replace(" ", "-")
    place.mkdir()
    tried, runs, lost = KILLS, 0, []
    try:
        _, runs = killed_often(name, place, kills=KILLS, seeded=seeded)
    except AssertionError as error:
        lost = [str(error)]
    print(json.dumps([name, seeded, tried, runs, lost]), flush=True)
    noise = "seeded" if seeded or name not in PRIVATE else "secret"
    found = {"name": name, "noise": noise, "tried": {"kill": tried}, "runs": runs, "lost": lost}
    return {**found, "commit": made_by["commit"]}


def _fate(one):
    lost = len(one["lost"])
    return [sum(one["tried"].values()) - lost, lost]


def _together(rows):
    survived, lost = zip(*map(_fate, rows), strict=True)
    return [sum(survived), sum(lost)]


def _line(cells):
    return f"|{'|'.join(map(str, cells))}|\n"


if __name__ == "__main__":
    raise SystemExit(main())
