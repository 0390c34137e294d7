"""Writes docs/coverage.md and docs/coverage.json: ``python -m tests.coverage.table``, minutes on one core."""

import math
import sys
import time
from pathlib import Path

from experiments.folder import provenance, write_json
from tests.coverage.entries import BROKEN, ENTRIES
from tests.coverage.harness import LEVEL, SEED, run, worst

DATASETS = 20_000
DOCS = Path(__file__).parents[2] / "docs"
HEAD = """# Coverage

How often each bound fails on data sets whose truth is known exactly: finite hypothesis classes, exact Gibbs posteriors,
exactly private priors and weights (exponential and Gaussian mechanisms), exact draws. For every bound the world of
several in which it fails most often, relative to what it may. {datasets} data sets in each world, seed {seed}; the
interval is Clopper and Pearson's at 99%. `slack` is the mean distance to the truth in the world where that is smallest
(for ln Z in nats).

A bound passes when the observed failures are compatible with the nominal probability (one-sided binomial test at level
{level:g}). Zeros are right for bounds with room to spare: the PAC-Bayes constants ξ(n) and the privacy transfers are
worst cases. Bounds marked * must also reach a stated share of the nominal probability in some world. Written by
`python -m tests.coverage.table`; the default test suite does the same on 2,000 data sets.

| bound | nominal | observed | interval | slack | worst of its worlds |
| --- | --- | --- | --- | --- | --- |
"""
BROKEN_HEAD = """
## Broken bounds, all caught by the same test

| fault | nominal | observed | interval | p-value | world |
| --- | --- | --- | --- | --- | --- |
"""


def main() -> int:
    """Run every entry, write both files; 1 if a bound fails too often or a broken one is not caught."""
    began, made_by, rows, wrong = time.perf_counter(), provenance(device="cpu", seed=SEED), [], []
    text = HEAD.format(datasets=f"{DATASETS:,}", seed=SEED, level=LEVEL)
    for broken, entries in ((False, ENTRIES), (True, BROKEN)):
        text += BROKEN_HEAD if broken else ""
        for entry in entries:
            outcomes = run(entry, DATASETS)
            row = _row(entry, outcomes, broken)
            if row["caught"] != broken:
                wrong.append(entry.name)
            rows.append(row)
            text += _line(entry, row, broken)
            print(f"{entry.name}: {row['observed']:.4f} of {row['nominal']:g}", flush=True)
    (DOCS / "coverage.md").write_text(text, encoding="utf-8")
    record = {
        "format": "pacdp-coverage/1",
        "datasets_in_each_world": DATASETS,
        "seconds": round(time.perf_counter() - began, 1),
        "provenance": made_by,
        "rows": rows,
    }
    write_json(DOCS / "coverage.json", record)
    print(f"wrong: {wrong}" if wrong else "every bound covers, every broken bound is caught")
    return 1 if wrong else 0


def _row(entry, outcomes, broken):
    least = worst(outcomes)
    low, high = least.interval
    return {
        "bound": entry.name,
        "broken_on_purpose": broken,
        "caught": min(outcome.p_value for outcome in outcomes) < LEVEL,
        "nominal": least.nominal,
        "observed": least.observed,
        "interval_99": [low, high],
        "p_value": least.p_value,
        "mean_slack": min(outcome.slack for outcome in outcomes),
        "world": least.world,
        "worlds": [
            {
                "world": each.world,
                "failures": each.failures,
                "datasets": each.datasets,
                "mean_slack": each.slack if each.slack < math.inf else "inf",
            }
            for each in outcomes
        ],
        "seed": SEED,
    }


def _line(entry, row, broken):
    low, high = row["interval_99"]
    last = _digits(row["p_value"]) if broken else f"{row['mean_slack']:.3f}"
    name = entry.name if broken else f"{entry.name}{' *' if entry.share else ''}"
    interval = f"{low:.4f} to {high:.4f}"
    return f"| {name} | {row['nominal']:g} | {row['observed']:.4f} | {interval} | {last} | {row['world']} |\n"


def _digits(p_value):
    return f"{p_value:.0e}" if p_value > 1e-300 else "below 1e-300"


if __name__ == "__main__":
    sys.exit(main())
