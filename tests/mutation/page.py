"""docs/mutation.json and docs/mutation.md: scores and survivors."""

import json
import tomllib
from pathlib import Path

from pacdp.cli.folder import provenance, write_json
from pacdp.store.files import replacing

DOCS = Path(__file__).parents[2] / "docs"
EQUIVALENT = Path(__file__).parent / "equivalent.toml"
HEAD = """# Do the tests of `bounds` notice a change?

Read this page before you change a formula, or if you wonder what the tests of `bounds` are worth.
`python -m tests.mutation` changes one place of one file of `bounds` (a comparison, a sign, a constant, `outward` for
`inward`, `min` for `max`, a range one shorter, a check taken out), runs the tests that mirror the file
(`tests/mutation/targets.py`), and counts the changes that a test notices; a mutant that hangs counts as noticed. Of
every file it tries {each} mutants, chosen by a hash of the changed line (seed {seed}); `--all` tries every one. The
command fails when a score is below the one committed here; `--write` writes this page and
[mutation.json](mutation.json).

The score is the share noticed of those that can be. *Equivalent* mutants change nothing that is promised; each stands
with its reason in [equivalent.toml](../tests/mutation/equivalent.toml), and `--again` tries them again.

At commit {commit}{dirty}, with Python {python}, NumPy {numpy} and Numba {numba}, in {minutes:.0f} minutes of one
processor core, {tried:,} of {mutants:,} mutants of {files} files were tried: {killed} were noticed, {timeout} stopped,
{equivalent} are equivalent and {survived} survived. That is a score of {score}%; those of single files stand in the
record.
"""
END = """
## What can go wrong

A sample of changes says little about a change that is not in it, and a mistake in a formula need not look like a change
of one place. Whether a formula is right is a question for [its proof](guarantees.md) and [its coverage](coverage.md).
"""


def committed():
    """What docs/mutation.json says; nothing if it is not there yet."""
    path = DOCS / "mutation.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def reasons():
    """Why a mutant is equivalent, by its key."""
    found = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))
    return {
        " | ".join((group["file"], group["function"], *change)): group["reason"]
        for group in found.get("because", [])
        for change in group["changes"]
    }


def score(rows):
    """The share noticed of the mutants that are not equivalent; 1 if there are none."""
    noticed = sum(row["killed"] + row["timeout"] for row in rows)
    every = noticed + sum(len(row["survived"]) for row in rows)
    return noticed / every if every else 1.0


def judged(record, before):
    """A line for each survivor, and one for each file whose score is below the committed one, and for all together."""
    lines = [
        f"survived: {row['file']}:{one['line']} {one['before']} -> {one['after']}"
        for row in record["files"]
        for one in row["survived"]
    ]
    least = {row["file"]: row["score"] for row in before.get("files", [])}
    lines += [
        f"{row['file']} scores {row['score']:.4f}, committed {least[row['file']]:.4f}"
        for row in record["files"]
        if row["score"] < least.get(row["file"], 0.0)
    ]
    return lines


def write(record, *, minutes):
    """Both files of docs."""
    made_by = provenance(device="cpu", seed=record["seed"])
    record = {"format": "pacdp-mutation/1", "provenance": made_by, "minutes": round(minutes, 1), **record}
    write_json(DOCS / "mutation.json", record)
    with replacing(DOCS / "mutation.md") as file:
        file.write(rendered(record).encode())


def rendered(record):
    """The page."""
    made_by, rows = record["provenance"], record["files"]
    keys = ("mutants", "tried", "killed", "timeout", "equivalent")
    survivors = [
        f"- `{row['file']}`: `{one['before']}` becomes `{one['after']}`\n" for row in rows for one in row["survived"]
    ]
    text = HEAD.format(
        each=record["each"] or "all",
        seed=record["seed"],
        commit=made_by["commit"],
        dirty=" with changes" if made_by["dirty"] else "",
        minutes=record["minutes"],
        files=len(rows),
        survived=len(survivors),
        score=int(1000 * score(rows)) / 10,  # one that is not 1 is not printed as 1
        **{key: sum(row[key] for row in rows) for key in keys},
        **{name: made_by["versions"][name] for name in ("python", "numpy", "numba")},
    )
    return text + "\n## Survivors\n\n" + ("".join(survivors) or "None.\n") + END
